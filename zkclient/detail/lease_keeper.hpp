#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "zkclient/detail/lease_clock.hpp"
#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/request.hpp"

namespace zkclient::detail {

/// Keeps the leases of one session: while there are any, it sends heartbeats (a transaction of nothing but checks
/// of the held nodes: committed by the quorum, changes nothing, fails when a node is gone) and declares the session
/// lost the instant its lease clock runs out. Lives on the loop thread.
class LeaseKeeper : public std::enable_shared_from_this<LeaseKeeper> {
 public:
  using HoldId = std::uint64_t;
  struct Hooks {
    /// Sends a transaction of checks on this session; `done` is called once.
    std::function<void(Request request, Op::Done done)> send;
    /// The lease clock ran out.
    std::function<void()> lose;
  };

  LeaseKeeper(EventLoop& events, std::shared_ptr<SessionState> session, Hooks hooks);

  /// The session was granted, or the connection came back.
  void connected();
  /// Ends everything; nothing is called afterwards.
  void stop();

  /// The write that was sent at `sent` was acknowledged just now. Call it for the writes that grants rest on.
  void acknowledged(BootClock::time_point sent);
  /// False when a grant needs one more write to rest on.
  bool proven() const noexcept;
  /// How long to wait before that write is worth sending, after one that was not enough.
  std::chrono::nanoseconds pause_before_proof() const noexcept;

  /// Counts the node at `path` as held. `gone` is called once if a heartbeat's check of it is refused: it does not exist
  /// (or may not be read any more).
  /// `settled` (may be empty) is called once, when the node has been held for longer than a short critical section.
  HoldId hold(const std::string& path, std::function<void()> gone, std::function<void()> settled);
  void drop(HoldId id);
  bool holding() const noexcept { return !held_.empty(); }
  std::size_t size() const noexcept { return held_.size(); }

 private:
  struct Held {
    std::string path;
    std::function<void()> gone;
    std::function<void()> settled;
  };
  using TimePoint = BootClock::time_point;

  void on_time();
  void settle(TimePoint now);
  TimePoint next_date() const;
  void beat();
  void on_beat(const std::vector<HoldId>& ids, const Reply& reply);
  void arm(TimePoint due);

  std::shared_ptr<SessionState> session_;
  Hooks hooks_;
  std::unique_ptr<LeaseClock> clock_;
  std::chrono::milliseconds clock_timeout_{0};
  std::map<HoldId, Held> held_;
  std::deque<std::pair<TimePoint, HoldId>> unsettled_;
  HoldId next_id_ = 1;
  HoldId cursor_ = 0;  // The last node that was checked; the next heartbeat goes on behind it.
  bool beating_ = false;
  bool stopped_ = false;
  TimePoint next_beat_{};
  BootTimer timer_;
};

}  // namespace zkclient::detail
