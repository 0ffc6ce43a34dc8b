#include "recipes/commit/commit_record.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <zkclient/error.hpp>
#include <zkclient/path.hpp>

namespace zkrecipes::detail {
namespace {

constexpr std::string_view transaction_magic = "2pc/1 ";
constexpr std::string_view committed = "commit";
constexpr std::string_view aborted = "abort ";

/// The number that stands before `end`, and is taken off; nullopt for anything but plain digits.
std::optional<std::int64_t> take_number(std::string_view& text, char end) {
  const std::size_t length = text.find(end);
  if (length == std::string_view::npos || length == 0 || text[0] == '-') return std::nullopt;
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + length, value);
  if (error != std::errc() || stop != text.data() + length) return std::nullopt;
  text.remove_prefix(length + 1);
  return value;
}

}  // namespace

std::string encode(const TransactionHeader& header) {
  std::string text = fmt::format("{}{} {} {} {}\n", transaction_magic,
                                 header.variant == CommitVariant::mediated ? "mediated" : "all-to-all",
                                 header.timeout.count(), header.retention.count(), header.participants.size());
  for (const std::string& name : header.participants)
    text += name + '\n';
  text += header.payload;
  return text;
}

std::optional<TransactionHeader> decode_transaction(std::string_view text) {
  if (!text.starts_with(transaction_magic)) return std::nullopt;
  text.remove_prefix(transaction_magic.size());
  TransactionHeader header;
  const std::size_t word = text.find(' ');
  if (word == std::string_view::npos) return std::nullopt;
  const std::string_view variant = text.substr(0, word);
  if (variant != "mediated" && variant != "all-to-all") return std::nullopt;
  header.variant = variant == "mediated" ? CommitVariant::mediated : CommitVariant::all_to_all;
  text.remove_prefix(word + 1);
  const auto timeout = take_number(text, ' ');
  const auto retention = timeout ? take_number(text, ' ') : std::nullopt;
  const auto count = retention ? take_number(text, '\n') : std::nullopt;
  constexpr std::int64_t century_ms = 3'155'760'000'000;
  if (!count || *timeout > century_ms || *retention > century_ms) return std::nullopt;
  if (*count < 1 || *count > static_cast<std::int64_t>(max_commit_participants)) return std::nullopt;
  header.timeout = std::chrono::milliseconds(*timeout);
  header.retention = std::chrono::milliseconds(*retention);
  for (std::int64_t i = 0; i < *count; ++i) {
    const std::size_t length = text.find('\n');
    if (length == std::string_view::npos || name_defect(text.substr(0, length)) != nullptr) return std::nullopt;
    header.participants.emplace_back(text.substr(0, length));
    text.remove_prefix(length + 1);
  }
  header.payload = text;
  return header;
}

std::string encode(const Decision& decision) {
  if (decision.committed) return std::string(committed);
  return std::string(aborted) + decision.reason.substr(0, max_reason);
}

std::optional<Decision> decode_decision(std::string_view text) {
  if (text == committed) return Decision{true, {}};
  if (!text.starts_with(aborted)) return std::nullopt;
  return Decision{false, std::string(text.substr(aborted.size()))};
}

std::string encode(const LoggedData& data) { return fmt::format("{} {}", data.tree, data.payload); }

std::optional<LoggedData> decode_logged(std::string_view text) {
  const auto tree = take_number(text, ' ');
  if (!tree) return std::nullopt;
  return LoggedData{*tree, std::string(text)};
}

Ballot sort_out(const std::vector<std::string>& children) {
  Ballot ballot;
  for (const std::string& name : children) {
    if (name == decision_node) ballot.decided = true;
    if (name == coordinator_node) ballot.coordinated = true;
    if (name.starts_with(vote_prefix)) ballot.voted.insert(name.substr(vote_prefix.size()));
    if (name.starts_with(ack_prefix)) ballot.acknowledged.insert(name.substr(ack_prefix.size()));
  }
  return ballot;
}

const char* name_defect(std::string_view name) noexcept {
  if (name.empty()) return "a participant has no name";
  if (name.size() > max_commit_name) return "a participant's name is too long";
  if (name.find('/') != std::string_view::npos) return "a participant's name has a slash";
  try {
    (void)(zkclient::Path() / name);
  } catch (const zkclient::Error&) {
    return "a participant's name cannot be the name of a node";
  }
  return nullptr;
}

}  // namespace zkrecipes::detail
