#pragma once

#include <chrono>

namespace zkrecipes::detail {

/// Any duration as nanoseconds: rounded up, and cut off at 0 and at "for ever".
template <typename Rep, typename Period>
std::chrono::nanoseconds to_timeout(const std::chrono::duration<Rep, Period>& timeout) {
  const std::chrono::duration<double> seconds(timeout);
  constexpr std::chrono::duration<double> for_ever(1e9);
  if (seconds >= for_ever) return std::chrono::nanoseconds::max();
  if (seconds.count() <= 0) return std::chrono::nanoseconds::zero();
  return std::chrono::ceil<std::chrono::nanoseconds>(timeout);
}

/// What is left until `deadline`, on whatever clock that is.
template <typename Clock, typename Duration>
std::chrono::nanoseconds to_timeout(const std::chrono::time_point<Clock, Duration>& deadline) {
  const auto now = Clock::now();
  return deadline > now ? to_timeout(deadline - now) : std::chrono::nanoseconds::zero();
}

}  // namespace zkrecipes::detail
