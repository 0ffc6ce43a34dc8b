#pragma once

#include <chrono>
#include <system_error>
#include <utility>

#include <zkclient/stop.hpp>

namespace zkrecipes {

namespace detail {

/// Any duration as nanoseconds: rounded up, and cut off at 0 and at "for ever".
template <typename Rep, typename Period>
std::chrono::nanoseconds to_timeout(const std::chrono::duration<Rep, Period>& timeout) {
  const std::chrono::duration<double> seconds(timeout);
  constexpr std::chrono::duration<double> for_ever(1e9);
  if (seconds >= for_ever) return std::chrono::nanoseconds::max();
  if (seconds.count() <= 0) return std::chrono::nanoseconds::zero();
  return std::chrono::ceil<std::chrono::nanoseconds>(timeout);
}

/// The time that is left until `deadline`, on any clock.
template <typename Clock, typename Duration>
std::chrono::nanoseconds to_timeout(const std::chrono::time_point<Clock, Duration>& deadline) {
  const auto now = Clock::now();
  return deadline > now ? to_timeout(deadline - now) : std::chrono::nanoseconds::zero();
}

}  // namespace detail

/// How long a timed form (`..._for`) waits: any duration. One that is too long for a clock, such as
/// `std::chrono::milliseconds::max()`, means for ever; a negative one means zero.
class Timeout {
 public:
  template <typename Rep, typename Period>
  Timeout(const std::chrono::duration<Rep, Period>& time) : time_(detail::to_timeout(time)) {}

  std::chrono::nanoseconds get() const noexcept { return time_; }  ///< From zero to the longest there is.

 private:
  std::chrono::nanoseconds time_;
};

/// What a timed form (`..._for`, `..._until`) takes besides the time: a stop token, or an error code, or both in
/// braces.
///
///   std::error_code why;
///   if (!mutex.try_acquire_for(5s, why) && why == zkclient::Errc::deadline_exceeded) complain(client.trouble());
class WaitOptions {
 public:
  WaitOptions() noexcept = default;
  WaitOptions(zkclient::AnyStop token) noexcept : stop(std::move(token)) {}
  WaitOptions(const std::stop_token& token) noexcept : stop(token) {}
  /// Set when the time was over: Errc::not_available if what was waited for did not come (others held the lock, the
  /// queue was empty, the barrier stayed up), Errc::deadline_exceeded if there was no connection to a server in the
  /// end; then Client::trouble() says more. Cleared otherwise. Must stay until the call returns.
  WaitOptions(std::error_code& reason, zkclient::AnyStop token = {}) noexcept : stop(std::move(token)), why(&reason) {}

  /// What the constructors have taken.
  zkclient::AnyStop stop = {};
  std::error_code* why = nullptr;  ///< Null: the reason is not asked for.
};

}  // namespace zkrecipes
