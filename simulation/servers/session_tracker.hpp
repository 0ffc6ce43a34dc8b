#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "simulation/servers/process.hpp"
#include "simulation/servers/tree.hpp"

namespace zktesting::simulated {

/// Who brought a session to the leader: one of its learners' connections, or, as 0, the leader's own clients.
using Owner = std::uint64_t;

/// The leader's view of who is alive, as the real SessionTrackerImpl keeps it: a session that was heard of lives until the
/// end of the tick in which its timeout ends, and a thread of its own closes those of a tick that is over.
class SessionTracker {
 public:
  using Expire = std::function<void(SessionId)>;

  /// `phase`: where the ticks of this server's clock lie.
  SessionTracker(Process& process, Nanos tick, Nanos phase, Expire expire);

  void begin();
  void track(SessionId session, Millis timeout);
  /// False: unknown, or being closed.
  bool touch(SessionId session, Millis timeout);
  void closing(SessionId session);
  void remove(SessionId session);
  void set_owner(SessionId session, Owner owner);
  /// ok, session_expired or session_moved.
  std::int32_t check(SessionId session, Owner owner);
  [[nodiscard]] std::size_t size() const { return sessions_.size(); }

 private:
  struct Session {
    bool closing = false;
    std::optional<Owner> owner;
    Nanos bucket{};
  };

  [[nodiscard]] Nanos next_tick(Nanos time) const;
  void move(SessionId session, Session& state, Millis timeout);
  void sleep();
  void wake();
  void expire_next();

  Process& process_;
  const Nanos tick_;
  const Nanos phase_;
  Expire expire_;
  Timer thread_;
  Nanos due_{};
  std::map<SessionId, Session> sessions_;
  std::map<Nanos, std::deque<SessionId>> buckets_;
  std::deque<SessionId> polled_;
};

}  // namespace zktesting::simulated
