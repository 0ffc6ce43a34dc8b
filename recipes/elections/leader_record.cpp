#include "recipes/elections/leader_record.hpp"

#include <charconv>

#include <fmt/format.h>

namespace zkrecipes::detail {
namespace {

constexpr std::string_view magic = "leader/1 ";

}  // namespace

std::string encode(const LeaderRecord& record) {
  return fmt::format("{}{} {} {}\n{}", magic, record.term, record.ready ? 1 : 0, record.value ? 1 : 0,
                     record.value.value_or(std::string()));
}

std::optional<LeaderRecord> decode_leader_record(std::string_view text) {
  if (!text.starts_with(magic)) return std::nullopt;
  text.remove_prefix(magic.size());
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos) return std::nullopt;
  const std::string_view header = text.substr(0, line);
  LeaderRecord record;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), record.term);
  if (error != std::errc()) return std::nullopt;
  const std::string_view flags = header.substr(static_cast<std::size_t>(end - header.data()));
  const auto is_flag = [](char c) { return c == '0' || c == '1'; };
  if (flags.size() != 4 || flags[0] != ' ' || !is_flag(flags[1]) || flags[2] != ' ' || !is_flag(flags[3])) {
    return std::nullopt;
  }
  record.ready = flags[1] == '1';
  const std::string_view value = text.substr(line + 1);
  if (flags[3] == '1') {
    record.value = std::string(value);
  } else if (!value.empty()) {
    return std::nullopt;
  }
  return record;
}

}  // namespace zkrecipes::detail
