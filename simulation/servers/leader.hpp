#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "simulation/servers/machine.hpp"
#include "simulation/servers/session_tracker.hpp"

namespace zktesting::simulated {

class Follower;

/// How much a server knows: who has more may not follow who has less.
struct History {
  std::int64_t epoch = 0;
  Zxid last = 0;
  Zxid snapshot = 0;  // Its log reaches back to here.
};

/// A follower's connection, at the leader.
struct Learner {
  Learner(Process& process, LinkId its_link, Host its_host)
      : link(its_link), host(its_host), silence(process, lane::peer(its_host)) {}

  const LinkId link;
  const Host host;
  Silence silence;
  History history;
  bool knows_epoch = false;
  bool synchronised = false;  // It has, or is being sent, all of the history, and gets what is proposed.
  bool follows = false;       // It has acknowledged that.
  Zxid acknowledged = 0;
  std::int64_t deadline = 0;                       // The tick until which it counts as there.
  std::deque<std::pair<Zxid, Nanos>> unconfirmed;  // What was proposed to it, and when.
};

/// The server that gives transactions their order. A standalone server is a leader without learners.
class Leader : public Coordinator {
 public:
  Leader(Machine& machine, RoleHooks hooks);

  void begin();
  /// Closes the connections of the learners.
  void end();
  [[nodiscard]] bool serving() const { return stage_ == Stage::serving; }
  [[nodiscard]] std::size_t followers() const { return learners_.size(); }
  [[nodiscard]] std::size_t followers_in_sync() const;
  [[nodiscard]] std::size_t sessions() const { return tracker_.size(); }

  /// Messages of followers.
  void join(Host host, LinkId link, std::int64_t accepted_epoch);
  void hear(LinkId link, const std::function<void(Leader&, Learner&)>& message);
  void acknowledge_epoch(Learner& learner, const History& history);
  void acknowledge_leader(Learner& learner);
  void acknowledge(Learner& learner, Zxid zxid);
  void request(Learner& learner, const JobPtr& job);
  void revalidate_for(Learner& learner, SessionId session, Millis timeout, ConnectionId connection);
  void broken(Learner& learner) { learners_.erase(learner.link); }
  /// The process on that host has ended.
  void gone(Host host);

  bool touch(SessionId session, Millis timeout) override { return tracker_.touch(session, timeout); }
  void track(SessionId session, Millis timeout) override { tracker_.track(session, timeout); }
  void submit(const JobPtr& job) override { prepare(job, own_clients); }
  [[nodiscard]] bool needs_leader(Op op) const override;
  std::int32_t check(SessionId session) override { return tracker_.check(session, own_clients); }
  void revalidate(SessionId session, Millis timeout, ConnectionId connection) override;
  void read_in_turn(std::function<void()> act) override;
  [[nodiscard]] bool reads_wait_for_the_log() const override { return standalone(); }
  void session_closed(SessionId session) override { tracker_.remove(session); }

 private:
  enum class Stage : std::int8_t { finding_epoch, epoch_known, synchronising, serving };
  static constexpr Owner own_clients = 0;
  struct Proposal {
    EntryPtr entry;
    std::set<Host> confirmed;
  };

  [[nodiscard]] bool standalone() const { return machine_.options.servers == 1; }
  void tell(const Learner& learner, std::function<void(Follower&)> message);
  void drop(Learner& learner);
  void begin_epoch();
  void send_epoch(Learner& learner);
  void synchronise(Learner& learner);
  void send_history(Learner& learner);
  void send_outstanding(Learner& learner);
  void forward(Learner& learner, const EntryPtr& entry);
  void confirm(Host host, Zxid up_to);
  void serve();

  void prepare(const JobPtr& job, Owner owner);
  [[nodiscard]] Txn transaction(const Job& job, Owner owner, Zxid zxid);
  void propose(Txn txn, std::int32_t xid, Op asked);
  void commit_ready();
  void commit(const EntryPtr& entry);
  void apply_soon(const EntryPtr& entry);
  void apply_next();
  [[nodiscard]] Tree committed_tree() const;
  void sync(Learner& learner, const JobPtr& job);

  void expire(SessionId session);
  void sleep_half_a_tick();
  void half_a_tick();
  [[nodiscard]] bool has_quorum() const;
  void ping(Learner& learner);
  void reap();

  Machine& machine_;
  RoleHooks hooks_;
  RoleLife life_;
  Stage stage_ = Stage::finding_epoch;
  Timer limit_;
  Timer loop_;
  Timer reaper_;
  std::int64_t epoch_;
  std::map<LinkId, std::unique_ptr<Learner>> learners_;

  Tree proposed_;  // To which everything proposed has been applied.
  Zxid last_proposed_ = 0;
  Zxid committed_;
  std::deque<Proposal> outstanding_;
  std::deque<EntryPtr> unapplied_;  // Committed, but the leader's own clients do not see it yet.
  std::map<Zxid, std::vector<std::pair<LinkId, JobPtr>>> syncs_;

  SessionTracker tracker_;
  std::int64_t tick_ = 0;
  bool between_ticks_ = true;
};

}  // namespace zktesting::simulated
