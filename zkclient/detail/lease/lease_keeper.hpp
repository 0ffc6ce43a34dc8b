#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <zkclient/export.hpp>

#include "zkclient/detail/lease/check_budget.hpp"
#include "zkclient/detail/lease/lease_clock.hpp"
#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/requests/request.hpp"

namespace zkclient::detail {

/// Keeps the leases of one session: while there are any, it sends heartbeats (a transaction of nothing but checks
/// of the held nodes: committed by the quorum, changes nothing, fails when a node is gone), and declares all of them
/// lost the instant its lease clock runs out. The session goes on: what is acquired later rests on a proof of its own.
/// Lives on the loop thread.
class ZKRECIPES_INTERNAL_API LeaseKeeper : public std::enable_shared_from_this<LeaseKeeper> {
 public:
  using HoldId = std::uint64_t;
  using TimePoint = BootClock::time_point;
  /// Sends a transaction of checks on this session; `done` is called once.
  using Send = std::function<void(Request request, Op::Done done)>;

  /// The calls to the holder of a node. Each is called once at most, never inside a call of this object that
  /// the holder made, apart from `expired`.
  struct Holder {
    /// A heartbeat's check of the node is refused: it does not exist (or may not be read any more).
    std::function<void()> gone;
    /// The lease clock ran out; the argument says how that came. Nothing of this holder is known here any more.
    std::function<void(const std::string& cause)> expired;
    /// The node has been held for longer than a short critical section. May be empty.
    std::function<void()> settled = {};
  };
  /// Why no lease can live on this session.
  struct Obstacle {
    Errc code;
    std::string detail;
  };

  /// A heartbeat that ended. No error: it was answered, and all that it checked was there. `validity_left`: for how long
  /// the leases were certain without it; zero if there are none.
  struct Heartbeat {
    TimePoint sent;
    std::optional<Errc> error;
    std::chrono::nanoseconds validity_left;
  };

  /// `tick`: the server's; nothing if it is not known.
  LeaseKeeper(EventLoop& events, std::shared_ptr<SessionState> session, std::optional<std::chrono::milliseconds> tick,
              Send send);

  /// `report` is called at the end of each heartbeat, on the loop thread.
  void report_heartbeats(std::function<void(const Heartbeat&)> report) { report_ = std::move(report); }
  /// The session was granted, or the connection came back, by an attempt that had begun at `begun`.
  void connected(TimePoint begun);
  /// A request sent at `sent`, or later, was answered just now.
  void heard(TimePoint sent);
  /// A watch has fired: a grant that is due to that may need a proof of its own.
  void woken();
  /// The quickest answer on this connection; zero before the first one.
  std::chrono::nanoseconds round_trip() const noexcept;
  /// Ends everything; nothing is called afterwards.
  void stop();

  /// The write that was sent at `sent` was acknowledged just now. Call it for the writes that grants rest on.
  void acknowledged(TimePoint sent);
  /// False when a grant needs one more write to rest on.
  bool proven() const noexcept;
  /// How long to wait before that write is worth sending, after one that was not enough.
  std::chrono::nanoseconds pause_before_proof() const noexcept;
  /// Nothing if a lease can live, as far as is known now.
  std::optional<Obstacle> obstacle() const;
  /// Whether there is one unless the next writes are answered more quickly than those before.
  bool seems_too_slow() const noexcept;

  /// Counts the node at `path` as held.
  HoldId hold(const std::string& path, Holder holder);
  /// Sends heartbeats as if `path`, which exists, were held: for waiters, so that their lease begins with a proof
  /// that is as good as it gets. However many wait at one path, it is checked once.
  HoldId stay_proven(const std::string& path);
  void drop(HoldId id);
  /// Declares the leases lost if their clock has run out, before the timer does.
  void notice_end();
  bool holding() const noexcept { return holders_ > 0; }
  std::size_t size() const noexcept { return holders_; }

 private:
  struct Held {
    std::string path;
    std::optional<Holder> holder;
    int waiters = 0;  // If there is no holder.
  };

  void on_time();
  void settle(TimePoint now);
  TimePoint next_date() const;
  void beat();
  void on_beat(const std::vector<HoldId>& ids, const Reply& reply);
  void arm(TimePoint due);
  bool ran_out(TimePoint now) const noexcept;
  void expire();
  Held take(std::map<HoldId, Held>::iterator place);

  const std::shared_ptr<SessionState> session_;
  const std::optional<std::chrono::milliseconds> tick_;
  Send send_;
  std::function<void(const Heartbeat&)> report_;
  std::optional<LeaseClock> clock_;
  std::chrono::milliseconds clock_timeout_{0};
  std::map<HoldId, Held> held_;
  std::size_t holders_ = 0;                           // Of those: the others only wait.
  std::unordered_map<std::string, HoldId> waits_at_;  // By path: those others.
  std::deque<std::pair<TimePoint, HoldId>> unsettled_;
  HoldId next_id_ = 1;
  HoldId cursor_ = 0;  // The last node that was checked; the next heartbeat goes on behind it.
  CheckBudget budget_;
  std::size_t beat_bytes_ = 0;  // In the last heartbeat.
  bool beating_ = false;
  bool stopped_ = false;
  TimePoint beat_sent_{};
  TimePoint next_beat_{};
  BootTimer timer_;
};

}  // namespace zkclient::detail
