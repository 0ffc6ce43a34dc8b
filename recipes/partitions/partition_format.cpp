#include "recipes/partitions/partition_format.hpp"

#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <zkrecipes/hashing.hpp>

namespace zkrecipes::detail {

namespace {

constexpr std::string_view weight_word = "weight=";
constexpr std::string_view set_word = " set=";
constexpr int hexadecimal = 16;

/// The number at the beginning of `text`, which loses it; nullopt: there is none.
template <typename Number>
std::optional<Number> take_number(std::string_view& text, int base) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::string share_text(const MemberShare& share) {
  return fmt::format("{}{}{}{:016x}", weight_word, share.weight, set_word, share.set);
}

// More may follow: what later versions tell.
std::optional<MemberShare> parse_share(std::string_view text) {
  if (!text.starts_with(weight_word)) return std::nullopt;
  text.remove_prefix(weight_word.size());
  const auto weight = take_number<std::uint32_t>(text, 10);
  if (!weight || *weight > max_weight || !text.starts_with(set_word)) return std::nullopt;
  text.remove_prefix(set_word.size());
  const auto set = take_number<std::uint64_t>(text, hexadecimal);
  if (!set || (!text.empty() && text.front() != ' ')) return std::nullopt;
  return MemberShare{*weight, *set};
}

std::uint64_t set_of(const PartitionSource& source, const std::string& parent, double max_load) {
  std::string all = fmt::format("{}\n{}", std::ceil(max_load * 1'000), parent);
  for (const std::string& name : source.names())
    all.append("\n").append(name);
  return hash_of(all);
}

std::string owner_text(std::string_view id, std::string_view data) {
  std::string text(id);
  if (!data.empty()) text.append("\n").append(data);
  return text;
}

PartitionOwner parse_owner(std::string_view text) {
  const std::size_t end = text.find('\n');
  PartitionOwner owner;
  owner.id = text.substr(0, end);
  if (end != std::string_view::npos) owner.data = text.substr(end + 1);
  return owner;
}

}  // namespace zkrecipes::detail
