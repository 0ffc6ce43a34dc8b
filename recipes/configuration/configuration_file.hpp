#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace zkrecipes::detail {

/// The text of the file; nullopt and `error`: it cannot be read; nullopt alone: there is none.
std::optional<std::string> read_whole_file(const std::filesystem::path& file, std::error_code& error);
/// Puts a new file of mode 0600 in the place of `file`: a reader, or a start after a crash, sees the old text or the new
/// one.
std::error_code replace_file(const std::filesystem::path& file, std::string_view text);

}  // namespace zkrecipes::detail
