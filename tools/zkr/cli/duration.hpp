#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace zkr {

/// "1500ms", "2s", "2.5m", "1h", "1d"; without a unit: seconds. Nothing: it is none of these, or negative.
std::optional<std::chrono::nanoseconds> parse_duration(const std::string& text);
/// The largest units that say it: "4m12s", "1h05m", "350ms".
std::string to_text(std::chrono::nanoseconds duration);

/// An option that takes a duration. `value` must live as long as `app`.
CLI::Option* add_duration(CLI::App& app, const std::string& names, std::optional<std::chrono::nanoseconds>& value,
                          const std::string& help);

}  // namespace zkr
