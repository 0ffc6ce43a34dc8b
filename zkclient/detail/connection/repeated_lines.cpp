#include "zkclient/detail/connection/repeated_lines.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace zkclient::detail {
namespace {

constexpr auto longest_silence = std::chrono::minutes(1);
constexpr std::size_t most_sources = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Without date and process, and without the numbers of milliseconds, which differ each time.
std::string meaning_of(std::string_view line) {
  std::string meaning;
  for (std::size_t i = 0; i < line.size();) {
    std::size_t end = i;
    while (end < line.size() && is_digit(line[end]))
      ++end;
    const bool milliseconds = end > i && line.substr(end).starts_with("ms");
    end = std::max(end, i + 1);
    meaning += milliseconds ? std::string_view("#") : line.substr(i, end - i);
    i = end;
  }
  return meaning;
}

// "...: Socket 127.0.0.1:2181 zk retcode=..."
std::string_view server_in(std::string_view text) {
  constexpr std::string_view before = ": Socket ";
  const std::size_t begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + before.size());
  return text.substr(0, text.find(' '));
}

}  // namespace

std::vector<std::string> RepeatedLines::add(std::string_view line, Clock::time_point now) {
  const bool error = line.find(":ZOO_ERROR@") != std::string_view::npos;
  if (!error && line.find(":ZOO_WARN@") == std::string_view::npos) return {std::string(line)};
  const std::string_view text = line.substr(line.find(":ZOO_"));
  std::string meaning = meaning_of(text);
  std::string who(server_in(text));
  if (who.empty()) who = meaning;
  std::vector<std::string> told;
  if (const auto known = sources_.find(who); known != sources_.end()) {
    Source& source = known->second;
    if (source.meaning == meaning) {
      ++source.left_out;
      source.line = line;
      if (now - source.told < longest_silence) return {};
      source.told = now;
      return {counted(source)};
    }
    if (source.left_out > 0) told.push_back(counted(source));
  } else if (sources_.size() >= most_sources) {
    told = finish();
  }
  sources_.insert_or_assign(std::move(who), Source{std::string(line), std::move(meaning), now});
  told.emplace_back(line);
  return told;
}

std::vector<std::string> RepeatedLines::finish() {
  std::vector<std::string> told;
  for (auto& [who, source] : sources_) {
    if (source.left_out > 0) told.push_back(counted(source));
  }
  sources_.clear();
  return told;
}

std::string RepeatedLines::counted(Source& source) {
  const std::size_t end = source.line.find_last_not_of('\n');
  return fmt::format("{} ({} more of these)", std::string_view(source.line).substr(0, end + 1),
                     std::exchange(source.left_out, 0));
}

}  // namespace zkclient::detail
