#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace zkrecipes::detail {

// Times as the names of a DelayQueue's items have them: milliseconds since the beginning of 1970, by the clock of the
// process that wrote them or reads them.

using WallTime = std::chrono::system_clock::time_point;

/// Of an item that no consumer is to have before `time`.
inline std::int64_t to_due_ms(WallTime time) {
  return std::chrono::ceil<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

/// The latest time there is for one that no clock can show.
inline WallTime from_due_ms(std::int64_t due_ms) {
  constexpr std::int64_t latest =
      std::chrono::floor<std::chrono::milliseconds>(WallTime::max().time_since_epoch()).count();
  return WallTime(std::chrono::milliseconds(std::min(due_ms, latest)));
}

/// What is due now.
inline std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::milliseconds>(now).count();
}

/// How long to wait until the clock is looked at again, for an item that is not due. A timer does not notice that the
/// clock is set, or that it stood still while the host slept.
inline std::chrono::milliseconds pause_until_due(std::int64_t due_ms, std::int64_t now_ms) {
  constexpr std::chrono::milliseconds longest = std::chrono::minutes(1);
  return std::min(std::chrono::milliseconds(due_ms - now_ms), longest);
}

}  // namespace zkrecipes::detail
