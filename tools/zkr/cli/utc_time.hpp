#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace zkr {

/// "2026-11-29T08:10:11Z", also with a fraction of a second, as utc_text() writes it. Nothing: it is none.
std::optional<std::chrono::system_clock::time_point> parse_utc(const std::string& text);

/// An option that takes such a time. `value` must live as long as `app`.
CLI::Option* add_utc_time(CLI::App& app, const std::string& names,
                          std::optional<std::chrono::system_clock::time_point>& value, const std::string& help);

}  // namespace zkr
