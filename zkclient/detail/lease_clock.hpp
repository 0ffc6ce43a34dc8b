#pragma once

#include <chrono>

#include <zkclient/clock.hpp>

namespace zkclient::detail {

/// How long a session is certainly alive at the server: a pure function of when its quorum-committed writes were sent
/// and acknowledged. (Reads and pings prove nothing: a follower that is cut off from its leader goes on answering
/// them after the leader has expired the session.)
///
/// The leader learns of a session's life only from its followers' answers to its own pings, every half tick. With
/// writes spaced s apart, a write sent at S and acknowledged proves that the leader heard of the session not earlier
/// than S - s - max(s, tick/2): once because the newest answer may be older than the newest write, once because that
/// write's acknowledgement may have been the late one. The tick is unknown, but a session timeout T is at least two
/// of them. So
///
///   valid until = S + T - s - max(s, T/4) - margin,    margin = max(50 ms, T/40)
///
/// Heartbeats are h = T/6 apart, so the usual value is S + 7/12 T - margin. The first write after a pause counts with
/// s = T/3, the spacing of the C client's own pings, and is no proof at all if its acknowledgement came late: then
/// the next one decides.
class LeaseClock {
 public:
  explicit LeaseClock(std::chrono::nanoseconds timeout) : timeout_(timeout) {}

  /// Time from an acknowledgement to the next heartbeat.
  std::chrono::nanoseconds interval() const noexcept { return timeout_ / 6; }
  std::chrono::nanoseconds margin() const noexcept;

  /// A write sent at `sent` was acknowledged, now. Returns true when that moved valid_until() forward. A write that
  /// was sent before the previous one was acknowledged is no proof: only one at a time counts.
  bool acknowledged(BootClock::time_point sent, BootClock::time_point now) noexcept;
  BootClock::time_point valid_until() const noexcept { return valid_until_; }

 private:
  std::chrono::nanoseconds timeout_;
  BootClock::time_point last_sent_{};
  BootClock::time_point last_acknowledged_{};
  BootClock::time_point valid_until_{};
};

}  // namespace zkclient::detail
