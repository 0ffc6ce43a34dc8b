#include "tools/zkr/cli/duration.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::pair<std::string_view, std::chrono::nanoseconds>, 7> units{
    {{"ms", 1ms}, {"us", 1us}, {"s", 1s}, {"", 1s}, {"m", 1min}, {"h", 1h}, {"d", 24h}}};
constexpr double longest = 1e9;  // Of seconds: 30 years.

std::optional<std::chrono::nanoseconds> unit(std::string_view name) {
  for (const auto& [known, length] : units) {
    if (known == name) return length;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_duration(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const auto length = unit(std::string_view(end, static_cast<std::size_t>(text.data() + text.size() - end)));
  if (error != std::errc() || !length || !(number >= 0)) return std::nullopt;
  const double seconds = number * std::chrono::duration<double>(*length).count();
  if (seconds > longest) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

std::string to_text(std::chrono::nanoseconds duration) {
  if (duration < 1s) return fmt::format("{}ms", duration / 1ms);
  const auto seconds = duration / 1s;
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 24 * 3600) return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}d{:02}h", seconds / (24 * 3600), seconds / 3600 % 24);
}

CLI::Option* add_duration(CLI::App& app, const std::string& names, std::optional<std::chrono::nanoseconds>& value,
                          const std::string& help) {
  const auto read = [&value, names](const std::string& text) {
    value = parse_duration(text);
    if (!value) throw CLI::ValidationError(names, "\"" + text + "\" is no duration: 500ms, 30s, 5m, 2h");
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("DURATION");
}

}  // namespace zkr
