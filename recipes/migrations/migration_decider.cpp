#include "recipes/migrations/migration_decider.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "recipes/migrations/sha256.hpp"

namespace zkrecipes::detail {
namespace {

using zkclient::Check;
using zkclient::Transaction;

constexpr std::string_view record_prefix = "meta-";

// --- The text that Curator digests: jute's toString() of a request ------------------------------------------------

std::string jute_text(std::string_view text) {
  constexpr std::string_view escaped = std::string_view("\0\n\r,}%", 6);
  std::string all = "'";
  for (const char c : text) {
    if (escaped.find(c) == std::string_view::npos) {
      all += c;
    } else {
      all += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return all;
}

// A byte is written as the hexadecimal digits of an int: without a leading zero, and a negative one with its sign.
std::string jute_bytes(const std::optional<std::string>& data) {
  if (!data || data->empty()) return {};
  std::string all = "#";
  for (const char c : *data)
    all += fmt::format("{:x}", static_cast<std::uint32_t>(static_cast<signed char>(c)));
  return all;
}

std::string jute_acl(const zkclient::AclList& acl) {
  std::string all;
  for (const zkclient::Acl& entry : acl) {
    if (!all.empty()) all += ',';
    const std::string scheme = jute_text(entry.scheme);
    const std::string id = jute_text(entry.id);
    all += fmt::format("s{{{},s{{{},{}}}}}", entry.permissions, scheme, id);
  }
  return all;
}

/// The type of the request as the protocol numbers it, and its content behind the path.
struct DigestedOperation {
  int type;
  std::string content;
};

DigestedOperation digested(const Transaction::Create& create) {
  const bool numbered = create.mode == zkclient::CreateMode::persistent_sequential;
  return {1, fmt::format(",{},v{{{}}},{}", jute_bytes(create.data), jute_acl(create.acl), numbered ? 2 : 0)};
}
DigestedOperation digested(const Transaction::Remove& remove) { return {2, fmt::format(",{}", remove.version)}; }
DigestedOperation digested(const Transaction::Set& set) {
  return {5, fmt::format(",{},{}", jute_bytes(set.data), set.version)};
}
DigestedOperation digested(const Check& check) { return {13, fmt::format(",{}", check.version)}; }

/// The number of a record, if it has one that a server may have given.
std::optional<std::int64_t> number_of_record(std::string_view node) {
  constexpr std::size_t most_digits = 10;
  if (!node.starts_with(record_prefix)) return std::nullopt;
  node.remove_prefix(record_prefix.size());
  if (node.size() > most_digits) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(node.data(), node.data() + node.size(), number);
  if (error != std::errc() || end != node.data() + node.size()) return std::nullopt;
  return number;
}

const char* word_for(const Transaction::Create&) { return "create"; }
const char* word_for(const Transaction::Set&) { return "set"; }
const char* word_for(const Transaction::Remove&) { return "remove"; }
const char* word_for(const Check&) { return "check"; }

}  // namespace

bool is_record_name(std::string_view node) { return node.starts_with(record_prefix); }

std::string describe_change(const Transaction::Operation& operation) {
  return std::visit([](const auto& one) { return fmt::format("{} {}", word_for(one), one.path.str()); }, operation);
}

std::string digest_of(const MigrationStep& step) {
  if (step.function) return sha256(step.name);
  std::string all;
  const auto append = [&](const auto& one) {
    const std::string& path = one.path.str();
    const DigestedOperation content = digested(one);
    all += fmt::format("{}{}{}{}\n", path, content.type, jute_text(path), content.content);
  };
  for (const Transaction::Operation& operation : step.changes.operations())
    std::visit(append, operation);
  return sha256(all);
}

MigrationVerdict judge_history(const MigrationSet& set, const std::vector<std::string>& digests,
                               const std::vector<MigrationRecord>& records) {
  MigrationVerdict verdict;
  for (const MigrationRecord& record : records) {
    if (verdict.applied == digests.size()) {
      verdict.why = fmt::format(
          "set \"{}\" has {} steps, and {} were applied: from {} on by a newer program, by another set, or by hand",
          set.name(), digests.size(), records.size(), record.node);
      break;
    }
    if (record.digest != digests[verdict.applied]) {
      verdict.why = fmt::format("set \"{}\", step {} \"{}\" is not the one that was applied: {} has another digest",
                                set.name(), verdict.applied + 1, set.steps()[verdict.applied].name, record.node);
      break;
    }
    ++verdict.applied;
  }
  return verdict;
}

std::string next_record(const std::vector<MigrationRecord>& records) {
  auto next = static_cast<std::int64_t>(records.size());
  for (const MigrationRecord& record : records)
    next = std::max(next, number_of_record(record.node).value_or(-1) + 1);
  return fmt::format("{}{:010}", record_prefix, next);
}

}  // namespace zkrecipes::detail
