#include "tools/zkr/commands/line_words.hpp"

#include <algorithm>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/json.hpp"

namespace zkr {
namespace {

constexpr std::string_view blanks = " \t\r";

// Where the quoted word at the beginning ends. npos: nowhere.
std::size_t end_of_quoted(std::string_view text) {
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '"') return at + 1;
    if (text[at] == '\\') ++at;
  }
  return std::string_view::npos;
}

}  // namespace

std::vector<std::string> words_of_line(std::string_view line, const std::string& where) {
  std::vector<std::string> words;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    if (line.empty() || (words.empty() && line.front() == '#')) return words;
    if (line.front() == '#') {
      throw Failure(exit_format, where + ": a comment has a line of its own, and data that begins with # has quotes");
    }
    const bool quoted = line.front() == '"';
    const std::size_t end = quoted ? end_of_quoted(line) : std::min(line.find_first_of(blanks), line.size());
    if (end == std::string_view::npos) throw Failure(exit_format, where + ": a quote has no end");
    if (quoted && end < line.size() && blanks.find(line[end]) == std::string_view::npos) {
      throw Failure(exit_format, where + ": a blank is missing behind a quote");
    }
    const std::string_view word = line.substr(0, end);
    words.emplace_back(quoted ? std::string(parse_json(word, where).get_string()) : std::string(word));
    line.remove_prefix(end);
  }
}

}  // namespace zkr
