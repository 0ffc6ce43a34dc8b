#include "recipes/coherent/coherent_format.hpp"

#include <charconv>

#include <fmt/format.h>

namespace zkrecipes::detail {
namespace {

constexpr std::size_t uuid_size = 36;
constexpr std::uint32_t most_shards = 65536;
constexpr std::int64_t longest_term_ms = 24LL * 60 * 60 * 1000;

/// Digits only, without leading zeros: one number has one spelling.
std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number <= 0 || number > most || text.front() == '0') return std::nullopt;
  return number;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool is_id(std::string_view text) { return !text.empty() && text.find(' ') == std::string_view::npos; }

}  // namespace

std::int32_t next_version(std::int32_t version) noexcept {
  const auto next = static_cast<std::int32_t>(static_cast<std::uint32_t>(version) + 1U);
  return next == -1 ? 0 : next;
}

std::string format_gate(bool open, std::string_view id) {
  const std::string_view word = open ? "open" : "closed";
  return id.empty() ? std::string(word) : fmt::format("{} {}", word, id);
}

std::optional<Gate> parse_gate(std::string_view data, std::int32_t version) {
  Gate gate;
  gate.version = version;
  if (data == "open") return gate;
  gate.open = take_prefix(data, "open ");
  if (!gate.open && !take_prefix(data, "closed ")) return std::nullopt;
  if (!is_id(data)) return std::nullopt;
  gate.id = data;
  return gate;
}

std::string registration_name(std::string_view uuid, std::chrono::milliseconds term) {
  return fmt::format("{}-{}", uuid, term.count());
}

std::optional<Registration> parse_registration(std::string_view name) {
  if (name.size() <= uuid_size + 1 || name[uuid_size] != '-') return std::nullopt;
  const auto term = parse_number(name.substr(uuid_size + 1), longest_term_ms);
  if (!term) return std::nullopt;
  return Registration{std::string(name), std::chrono::milliseconds(*term)};
}

std::string format_directory(std::uint32_t shards) { return fmt::format("coherent 1 shards={}", shards); }

std::optional<std::uint32_t> parse_directory(std::string_view data) {
  if (!take_prefix(data, "coherent 1 shards=")) return std::nullopt;
  const auto shards = parse_number(data, most_shards);
  if (!shards) return std::nullopt;
  return static_cast<std::uint32_t>(*shards);
}

std::uint32_t shard_of(std::string_view item, std::uint32_t shards) noexcept {
  return static_cast<std::uint32_t>(item_hash(item) % shards);
}

}  // namespace zkrecipes::detail
