#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/zkr/cli/json.hpp"

namespace zkr {

/// Standard output, which carries data only. Errors: Failure (exit_system): what was written did not get there.
void write_bytes(std::string_view bytes);
/// With a line break behind it. Written at once, for those who read line by line.
void write_line(std::string_view line);
void write_line(const json::value& value);
inline void write_line(const char* line) { write_line(std::string_view(line)); }

/// A line for people, on standard error.
void say(std::string_view text);

/// All of standard input. Errors: Failure (exit_system).
std::string read_input();

/// Columns as wide as their widest cell; the last one ends where it ends.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// The bytes as one word of a line: control characters, and what is no UTF-8, as \xNN.
std::string printable(std::string_view bytes);

}  // namespace zkr
