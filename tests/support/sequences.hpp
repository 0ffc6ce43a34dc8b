#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

namespace testkit {

inline constexpr std::int32_t lowest_sequence = std::numeric_limits<std::int32_t>::min();
inline constexpr std::int32_t highest_sequence = std::numeric_limits<std::int32_t>::max();

/// A sequential node's number as the server prints it.
inline std::string printed(std::int32_t sequence) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%010d", sequence);
  return text.data();
}

}  // namespace testkit
