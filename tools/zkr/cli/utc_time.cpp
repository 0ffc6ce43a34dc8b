#include "tools/zkr/cli/utc_time.hpp"

#include <charconv>
#include <string_view>

#include <CLI/CLI.hpp>

namespace zkr {
namespace {

/// Takes `digits` digits from the front, and the character behind them.
std::optional<int> take_number(std::string_view& text, std::size_t digits, char behind) {
  if (text.size() <= digits || text[digits] != behind || text.front() == '-') return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, number);
  if (error != std::errc() || end != text.data() + digits) return std::nullopt;
  text.remove_prefix(digits + 1);
  return number;
}

/// "11Z", "11.25Z"
std::optional<std::chrono::nanoseconds> seconds_of(std::string_view text) {
  const std::size_t point = text.find('.');
  const auto whole = take_number(text, 2, point == std::string_view::npos ? 'Z' : '.');
  if (!whole || *whole > 59) return std::nullopt;
  std::chrono::nanoseconds time = std::chrono::seconds(*whole);
  if (point == std::string_view::npos) return text.empty() ? std::optional(time) : std::nullopt;
  if (text.size() < 2 || text.size() > 10 || text.back() != 'Z') return std::nullopt;
  std::chrono::nanoseconds digit = std::chrono::milliseconds(100);
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    time += (c - '0') * digit;
    digit /= 10;
  }
  return time;
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> parse_utc(const std::string& text) {
  std::string_view rest = text;
  const auto year = take_number(rest, 4, '-');
  const auto month = year ? take_number(rest, 2, '-') : std::nullopt;
  const auto day = month ? take_number(rest, 2, 'T') : std::nullopt;
  const auto hour = day ? take_number(rest, 2, ':') : std::nullopt;
  const auto minute = hour ? take_number(rest, 2, ':') : std::nullopt;
  const auto seconds = minute ? seconds_of(rest) : std::nullopt;
  if (!seconds || *hour > 23 || *minute > 59) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  // What a clock of nanoseconds can show.
  if (!date.ok() || *year < 1970 || *year > 2261) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) + *seconds;
}

CLI::Option* add_utc_time(CLI::App& app, const std::string& names,
                          std::optional<std::chrono::system_clock::time_point>& value, const std::string& help) {
  const auto read = [&value, names](const std::string& text) {
    value = parse_utc(text);
    if (!value) throw CLI::ValidationError(names, "\"" + text + "\" is no time: 2026-01-31T12:03:04Z");
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("TIME");
}

}  // namespace zkr
