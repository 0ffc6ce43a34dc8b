#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <zkclient/error.hpp>
#include <zkclient/types.hpp>

#include <zkrecipes/wait_options.hpp>

#include "zkclient/detail/recipe_api.hpp"

/// The rules of all timed forms: a time that is over is no error, and a time that is over already means one try.
namespace zkrecipes::detail {

constexpr auto for_ever = std::chrono::steady_clock::time_point::max();

/// `time` after `start`; for ever if the clock does not reach that far. An option of the user's is added to a point in
/// time by this alone: milliseconds::max(), which means "never", is more than a point in time holds.
template <typename Rep, typename Period>
std::chrono::steady_clock::time_point after(std::chrono::steady_clock::time_point start,
                                            std::chrono::duration<Rep, Period> time) {
  using Time = std::chrono::duration<Rep, Period>;
  return time > std::chrono::floor<Time>(for_ever - start) ? for_ever : start + time;
}

template <typename Rep, typename Period>
std::chrono::steady_clock::time_point from_now(std::chrono::duration<Rep, Period> time) {
  return after(std::chrono::steady_clock::now(), time);
}

/// How a call goes that waits until a deadline: with that as its limit or, if the time was over when it began, once.
struct TimedCall {
  bool once = false;
  zkclient::CallOptions limits;
};

/// For a `now` that was read once: a call whose deadline passes in the next moment has a deadline, and does not wait
/// for ever.
inline TimedCall timed_call(std::chrono::steady_clock::time_point deadline, const WaitOptions& options,
                            std::chrono::steady_clock::time_point now) {
  TimedCall call;
  call.once = deadline <= now;
  call.limits.stop = options.stop;
  if (!call.once && deadline != for_ever) call.limits.deadline = deadline;
  return call;
}

/// The clock is read in here, after the deadline was made of it: so no time at all is over, and means one try.
inline TimedCall timed_call(std::chrono::steady_clock::time_point deadline, const WaitOptions& options) {
  return timed_call(deadline, options, std::chrono::steady_clock::now());
}

inline bool is_connected(const std::shared_ptr<zkclient::detail::ClientCore>& client) {
  return client->session()->state() == zkclient::ConnectionState::connected;
}

/// The value of WaitOptions::why after a call that was late, or was not.
template <typename Connected>
void tell_why(Connected connected, const WaitOptions& options, bool late) {
  if (options.why == nullptr) return;
  options.why->clear();
  if (late) *options.why = connected() ? zkclient::Errc::not_available : zkclient::Errc::deadline_exceeded;
}

/// The result of `call`; none if it throws because the time was over.
template <typename Connected, typename Call>
auto unless_late(Connected connected, const WaitOptions& options, Call call) -> std::optional<decltype(call())> {
  try {
    std::optional<decltype(call())> result(call());
    tell_why(connected, options, false);
    return result;
  } catch (const zkclient::Error& error) {
    if (error.errc() != zkclient::Errc::deadline_exceeded) throw;
    tell_why(connected, options, true);
    return std::nullopt;
  }
}

/// The same for one that returns nothing when it tried once, in vain.
template <typename Connected, typename Call>
auto unless_late_or_busy(Connected connected, const WaitOptions& options, Call call) -> decltype(call()) {
  auto result = unless_late(connected, options, std::move(call));
  if (!result) return std::nullopt;
  if (!*result) tell_why(connected, options, true);
  return std::move(*result);
}

}  // namespace zkrecipes::detail
