#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include <zkclient/clock.hpp>

namespace zkclient::detail {

/// How long a session is certainly alive at the server: a pure function of when its quorum-committed writes were sent
/// and acknowledged. (Reads and pings prove nothing: a follower that is cut off from its leader goes on answering
/// them after the leader has expired the session.)
///
/// The leader learns of a session's life only from its followers' answers to its own pings. It sends one every half
/// tick, and each answer names the sessions that were heard of since the one before. It expires a session that it has
/// not heard of for the timeout T. So the question at each acknowledged write, sent at S, is: what is the latest time
/// at which the leader has certainly heard of the session? Let q be half a tick. The link between leader and follower
/// worked at S, so the last answer P came at S - q or later. It told of the session if the follower had heard of it
/// since the answer before, that is within q. Three rules follow, and the best one counts. One write is on its way at a
/// time.
///
///   chain    Writes have gone on since before S - q, and none of the gaps between their arrivals at the follower that
///            reach into [S - q, S] is longer than q: then the leader heard of the session at S - q or later. A longer gap
///            counts from the write before it.   valid until = S + T - max(q, gap) - T/6 - margin
///            T/6 is for an acknowledgement that was slow: one that was slower than the quickest by more than T/6 is
///            late, and proves only what the write before it proves without the T/6.
///   contact  Something arrived at the follower every 5/12 T at the latest (the C client pings every T/3), for q + 5/12 T
///            at least, or since the connection was made; S is not late:      valid until = S + T - q - 5/12 T - margin
///            So the first write after a pause is a proof, and a session that begins to hold needs no other. Only an
///            answer shows that, and it says that the request arrived between then and when it was sent: what the server
///            sends of its own accord, events of watches, says nothing.
///   connect  A connection is granted by the leader, which hears of the session then: valid until = begun + T - margin
///
///   margin = max(50 ms, T/40)
///
/// A leader that was stopped, and goes on, ends the sessions that it takes for silent one after the other, and meanwhile
/// grants connections and commits writes of those whose turn has not come. So a connection or an answer that was waited for
/// when the session may have been silent for too long proves nothing, and neither does what is sent within a margin of it.
/// Nor does what is sent within a margin of an event that a waiter was woken by, if the leader is not known to have acted
/// for so long that a stop could have ended the session: such a leader also commits what the waiter has waited for.
///
/// The tick is the server's secret. With the tick that ClientOptions::server_tick says, or else with the largest one
/// that a server is likely to have (assumed_tick), all of this is arithmetic: see round_trip_limit().
class LeaseClock {
 public:
  using TimePoint = BootClock::time_point;
  using Duration = std::chrono::nanoseconds;

  LeaseClock(Duration timeout, Duration tick) : timeout_(timeout), half_tick_(tick / 2) {}

  /// Of a server of which nothing is known but the timeout that it granted. A server without an option of its own
  /// grants two ticks at least, so the tick is T/2 at most. A T below 4 s was granted by one with `minSessionTimeout`,
  /// whose tick may be the 2 s of the sample configuration.
  static Duration assumed_tick(Duration timeout) noexcept {
    return std::max<Duration>(timeout / 2, std::chrono::seconds(2));
  }
  /// The shortest timeout, in steps of 100 ms, with which leases live at a round trip; `tick` as in the constructor, or
  /// nothing if it is not known.
  static std::chrono::milliseconds least_timeout(Duration round_trip, std::optional<Duration> tick) noexcept;

  /// Between heartbeats, from one's sending to the next one's.
  Duration interval() const noexcept { return timeout_ / 6; }
  Duration margin() const noexcept;
  /// The longest round trip of a quorum-committed write with which leases live; not positive: none do. Each heartbeat
  /// must be answered before what the one before it has proven runs out, with T/30 to spare.
  Duration round_trip_limit() const noexcept;

  /// A connection was granted; the attempt had begun at `begun`.
  void connected(TimePoint begun, TimePoint now) noexcept;
  /// A request sent at `sent`, a ping, a read or a write, is answered now.
  void heard(TimePoint sent, TimePoint now) noexcept;
  /// The quickest of those on this connection; zero before the first one.
  Duration quickest_answer() const noexcept {
    return quickest_answer_ == Duration::max() ? Duration::zero() : quickest_answer_;
  }
  /// A watch has fired, and what is sent now may be sent because of that.
  void woken(TimePoint now) noexcept;
  /// A write sent at `sent` was acknowledged, now. Returns true when that moved valid_until() forward. A write that
  /// was sent before the previous one was acknowledged is no proof: only one at a time counts.
  bool acknowledged(TimePoint sent, TimePoint now) noexcept;

  TimePoint valid_until() const noexcept { return valid_until_; }
  /// When to send the next heartbeat.
  TimePoint next() const noexcept { return next_; }
  /// Whether a lease that begins now will live, if nothing gets slower: each heartbeat is answered in time.
  /// `on_its_way`: when the one was sent whose answer has not come.
  bool will_last(TimePoint now, std::optional<TimePoint> on_its_way = {}) const noexcept;
  /// The quickest of the last three round trips; nothing before there were three.
  std::optional<Duration> round_trip() const noexcept;
  /// Whether one of those, however few, was within the limit, or there was none.
  bool quick_enough() const noexcept;

 private:
  struct Write {
    TimePoint sent;
    TimePoint acknowledged;
  };

  void distrust_until(TimePoint time) noexcept;
  Duration reach(Duration spacing) const noexcept;
  Duration quickest() const noexcept;
  std::pair<Duration, Duration> last_round_trips() const noexcept;  // The quickest and the slowest of three.
  Duration slowest() const noexcept;
  Duration contact_silence() const noexcept { return timeout_ * 5 / 12; }
  /// The proof of a write by contact, from when it was sent.
  Duration contact_reach() const noexcept { return timeout_ - half_tick_ - contact_silence() - margin(); }
  Duration allowance() const noexcept { return timeout_ / 30; }
  std::optional<TimePoint> heard_by_chain(TimePoint sent) const noexcept;
  std::optional<TimePoint> heard_by_contact(TimePoint sent) const noexcept;
  void remember(const Write& write) noexcept;

  Duration timeout_;
  Duration half_tick_;

  TimePoint connect_begun_{};
  TimePoint contact_since_{};  // From here on there was no silence.
  TimePoint contact_begun_{};  // Of the connection: when it was granted.
  TimePoint last_arrival_{};   // When the last thing that was answered arrived at the follower, at the earliest.
  Duration quickest_answer_ = Duration::max();  // On this connection.

  static constexpr std::size_t round_trips_kept = 8;
  static constexpr std::size_t few_round_trips = 3;  // With fewer it is not known what is usual.
  std::array<Duration, round_trips_kept> round_trips_{};
  std::size_t round_trips_seen_ = 0;  // On this connection.

  // The chain: its first write and the newest ones, T/24 apart at least, so that they reach back over more than q.
  static constexpr std::size_t writes_kept = 20;
  std::array<Write, writes_kept> writes_{};
  std::size_t writes_size_ = 0;
  std::optional<TimePoint> last_sent_;  // Of the newest write of the chain, kept or not.
  TimePoint last_acknowledged_{};

  bool slow_ = false;         // The last write was answered much later than the quickest request.
  TimePoint trusted_from_{};  // What is sent before proves nothing.
  TimePoint leader_acted_{};  // The leader did something for this session then, or later.
  TimePoint next_{};
  TimePoint valid_until_{};
};

}  // namespace zkclient::detail
