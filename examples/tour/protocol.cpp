#include "protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace tour {
namespace {

constexpr std::size_t max_text_size = 300;

// In the order of the enumerators.
constexpr std::array<std::string_view, 16> event_words{"joined", "leads", "deposed", "resigned", "queues",   "holds",
                                                       "dwells", "wrote", "refused", "releases", "released", "lost",
                                                       "rests",  "left",  "retries", "fails"};
constexpr std::array<std::string_view, 5> command_words{"work", "rest", "dwell", "write", "leave"};

template <typename Enum, std::size_t size>
std::optional<Enum> find_word(const std::array<std::string_view, size>& words, std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) {
    return std::nullopt;
  }
  return static_cast<Enum>(found - words.begin());
}

std::string_view take_word(std::string_view& rest) {
  const auto end = std::min(rest.find(' '), rest.size());
  const auto word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

std::optional<std::int64_t> take_number(std::string_view& rest) {
  const auto word = take_word(rest);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::string to_line(const Event& event) {
  std::string text = event.text.substr(0, max_text_size);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format("{} {} {} {} {}\n", event.at.time_since_epoch().count(),
                     event_words.at(static_cast<std::size_t>(event.kind)), event.token, event.number, text);
}

std::optional<Event> parse_event(std::string_view line) {
  const auto at = take_number(line);
  const auto kind = find_word<EventKind>(event_words, take_word(line));
  const auto token = take_number(line);
  const auto number = take_number(line);
  if (!at || !kind || !token || !number) {
    return std::nullopt;
  }
  return Event{.kind = *kind,
               .token = *token,
               .number = *number,
               .text = std::string(line),
               .at = Clock::time_point(Clock::duration(*at))};
}

std::string to_line(Command command) { return std::string(command_words.at(static_cast<std::size_t>(command))) + '\n'; }

std::optional<Command> parse_command(std::string_view line) { return find_word<Command>(command_words, line); }

std::optional<std::string> LineBuffer::next() {
  const auto end = text_.find('\n');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  auto line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return line;
}

}  // namespace tour
