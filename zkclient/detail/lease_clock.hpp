#pragma once

#include <algorithm>
#include <chrono>

#include <zkclient/clock.hpp>

namespace zkclient::detail {

/// How long a session is certainly alive at the server: a pure function of when its quorum-committed writes were sent
/// and acknowledged. (Reads and pings prove nothing: a follower that is cut off from its leader goes on answering
/// them after the leader has expired the session.)
///
/// The leader learns of a session's life only from its followers' answers to its own pings, every half tick, each of
/// which tells who was heard of since the one before. With writes spaced s apart, a write sent at S and acknowledged
/// proves that the leader heard of the session not earlier than S - s - max(s', tick/2), s' being the spacing before
/// that: the newest answer may be older than the newest write, and that write's acknowledgement may have been the late
/// one. The tick is unknown, but a session timeout T is at least two of them. So
///
///   valid until = S + T - s - max(s', T/4) - margin,    margin = max(50 ms, T/40)
///
/// Heartbeats are h = T/6 apart, so the usual value is S + 7/12 T - margin. Writes that are closer together make no
/// steps of this chain: two of them may fall between the same two answers. A gap of more than T/3 breaks it. What is
/// left then is what holds of every write that is acknowledged within T/6: the C client would have given up a
/// connection on which nothing came for 2/3 T, so the write is good for S + T/3 - margin. The second write of a chain
/// still remembers the pause before the first, and is good for no more; the third makes it a chain. When the first
/// acknowledgement comes late, something is or was wrong on the way to the leader: then nothing is a proof until the
/// leader has had the time for another ping, T/4.
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
  /// When to send the next heartbeat; one that is sent earlier proves little or nothing.
  BootClock::time_point next() const noexcept { return std::max(next_, not_before_); }

  /// Writes that are sent earlier prove nothing.
  BootClock::time_point not_before() const noexcept { return not_before_; }

 private:
  std::chrono::nanoseconds timeout_;
  BootClock::time_point last_sent_{};  // The last step of the chain.
  BootClock::time_point last_acknowledged_{};
  std::chrono::nanoseconds reach_{};  // How long before it the leader may have heard of the session last.
  BootClock::time_point next_{};
  BootClock::time_point not_before_{};  // What is sent earlier is no proof.
  BootClock::time_point valid_until_{};
};

}  // namespace zkclient::detail
