#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zkr {

/// RFC 4648, with padding.
std::string to_base64(std::string_view bytes);
/// Nothing: it is no such text.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace zkr
