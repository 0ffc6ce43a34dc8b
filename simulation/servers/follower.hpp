#pragma once

#include <deque>
#include <functional>
#include <map>

#include "simulation/servers/machine.hpp"

namespace zktesting::simulated {

class Leader;
struct Learner;

/// A server that follows a leader: it takes over the leader's history, logs and acknowledges what is proposed, applies what
/// is committed, and serves clients, whose writes it hands on.
class Follower : public Coordinator {
 public:
  Follower(Machine& machine, Host leader, LinkId first_link, RoleHooks hooks);

  void begin() { connect(); }
  /// Closes the connection to the leader.
  void end();
  [[nodiscard]] Host leader() const { return leader_; }
  [[nodiscard]] LinkId link() const { return link_; }

  /// A message of the leader's. Each of the following is one.
  void hear(const std::function<void(Follower&)>& message);
  void refused();
  void broken() { hooks_.leave(); }
  void new_epoch(std::int64_t epoch);
  void truncate(Zxid zxid);
  void snapshot(const Tree& tree, Zxid zxid);
  void propose(const EntryPtr& entry);
  void commit(Zxid zxid);
  void new_leader(std::int64_t epoch);
  void up_to_date();
  void ping();
  void revalidated(ConnectionId connection, bool valid) { machine_.clients.admit(connection, valid); }
  void synced(const JobPtr& sync) { machine_.clients.synced(*sync); }

  bool touch(SessionId session, Millis timeout) override;
  void track(SessionId, Millis) override {}
  void submit(const JobPtr& job) override;
  [[nodiscard]] bool needs_leader(Op op) const override;
  std::int32_t check(SessionId) override { return code::ok; }
  void revalidate(SessionId session, Millis timeout, ConnectionId connection) override;
  void session_closed(SessionId session) override { touched_.erase(session); }

 private:
  void connect();
  void tell(std::function<void(Leader&, Learner&)> message);

  Machine& machine_;
  const Host leader_;
  LinkId link_;
  RoleHooks hooks_;
  RoleLife life_;
  int attempts_ = 0;
  std::int64_t epoch_ = 0;
  Timer retry_;
  Silence silence_;
  std::deque<EntryPtr> proposed_;
  std::map<SessionId, Millis> touched_;  // Since the leader's last ping.
};

}  // namespace zktesting::simulated
