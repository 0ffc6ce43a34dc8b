#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zkr {

/// The words of a line that was read: what blanks divide. A word in double quotes is a JSON text, so it may have blanks,
/// quotes and line breaks. No words: the line is empty, or a comment, which begins with "#"; no other word
/// without quotes does. Errors: Failure (exit_format), which begins with `where`.
std::vector<std::string> words_of_line(std::string_view line, const std::string& where);

}  // namespace zkr
