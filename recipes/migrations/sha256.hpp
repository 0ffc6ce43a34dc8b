#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace zkrecipes::detail {

/// SHA-256 as in FIPS 180-4: the digest's 32 bytes.
std::string sha256(std::string_view message);

}  // namespace zkrecipes::detail
