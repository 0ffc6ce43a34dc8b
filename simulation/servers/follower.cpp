#include "simulation/servers/follower.hpp"

#include <string>
#include <utility>

#include "simulation/servers/leader.hpp"
#include "simulation/servers/server.hpp"

namespace zktesting::simulated {

using namespace std::chrono_literals;

namespace {
constexpr int most_attempts = 5;
constexpr Nanos retry_delay = 100ms;
}  // namespace

Follower::Follower(Machine& machine, Host leader, LinkId first_link, RoleHooks hooks)
    : machine_(machine),
      leader_(leader),
      link_(first_link),
      hooks_(std::move(hooks)),
      retry_(machine.process, lane::main),
      silence_(machine.process, lane::peer(leader)) {
  silence_.expect(machine.options.ticks(machine.options.init_limit), [this] { hooks_.leave(); });
}

void Follower::connect() {
  ++attempts_;
  const auto answer_refused = [self = machine_.host, link = link_](Server& leader) { leader.refuse(self, link); };
  machine_.peers.send(
      machine_.host, leader_,
      [self = machine_.host, link = link_, accepted = machine_.disk.accepted_epoch, answer_refused](Server& server) {
        if (Leader* leader = server.leading())
          leader->join(self, link, accepted);
        else
          answer_refused(server);
      },
      answer_refused);
}

void Follower::refused() {
  if (attempts_ >= most_attempts) return hooks_.leave();
  ++link_;
  retry_.set(retry_delay, [this] { connect(); });
}

void Follower::end() {
  tell([](Leader& leader, Learner& learner) { leader.broken(learner); });
}

void Follower::tell(std::function<void(Leader&, Learner&)> message) {
  machine_.peers.send(machine_.host, leader_, [link = link_, message = std::move(message)](Server& server) {
    if (Leader* leader = server.leading()) leader->hear(link, message);
  });
}

void Follower::hear(const std::function<void(Follower&)>& message) {
  silence_.heard();
  message(*this);
}

// Joining.

void Follower::new_epoch(std::int64_t epoch) {
  Disk& disk = machine_.disk;
  if (epoch < disk.accepted_epoch) return hooks_.leave();
  if (epoch > disk.accepted_epoch && machine_.log.refusing()) return hooks_.leave();
  disk.accepted_epoch = epoch_ = epoch;
  const History history{disk.current_epoch, disk.last_zxid(), disk.snapshot_zxid()};
  tell([history](Leader& leader, Learner& learner) { leader.acknowledge_epoch(learner, history); });
}

void Follower::truncate(Zxid zxid) {
  machine_.disk.truncate_after(zxid);
  machine_.memory.tree = machine_.disk.load();
}

void Follower::snapshot(const Tree& tree, Zxid zxid) {
  machine_.disk.replace(tree, zxid);
  machine_.memory.tree = machine_.disk.load();
}

void Follower::new_leader(std::int64_t epoch) {
  machine_.log.then(life_.guarded([this, epoch] {
    if (machine_.log.refusing()) return hooks_.leave();
    machine_.disk.current_epoch = epoch;
    tell([](Leader& leader, Learner& learner) { leader.acknowledge_leader(learner); });
  }));
}

void Follower::up_to_date() {
  silence_.expect(machine_.options.ticks(machine_.options.sync_limit), [this] { hooks_.leave(); });
  hooks_.epoch_begun(epoch_);
  machine_.clients.serve(*this);
  machine_.options.say(machine_.host, [this] { return "follows s" + std::to_string(leader_ - 1); });
}

// Transactions.

void Follower::propose(const EntryPtr& entry) {
  proposed_.push_back(entry);
  machine_.log.append(entry->txn, life_.guarded([this, zxid = entry->txn->zxid] {
    tell([zxid](Leader& leader, Learner& learner) { leader.acknowledge(learner, zxid); });
  }));
}

void Follower::commit(Zxid zxid) {
  // A real follower ends when it is told to commit what was not proposed to it.
  if (proposed_.empty() || proposed_.front()->txn->zxid != zxid) return hooks_.leave();
  const EntryPtr entry = std::move(proposed_.front());
  proposed_.pop_front();
  machine_.clients.commit(*entry);
}

void Follower::ping() {
  tell([touched = std::exchange(touched_, {})](Leader& leader, Learner&) {
    for (const auto& [session, timeout] : touched)
      leader.touch(session, timeout);
  });
}

// For the clients.

bool Follower::touch(SessionId session, Millis timeout) {
  touched_[session] = timeout;
  return true;
}

bool Follower::needs_leader(Op op) const {
  return is_write(op) || op == Op::create_session || op == Op::close_session || op == Op::sync;
}

void Follower::submit(const JobPtr& job) {
  tell([job](Leader& leader, Learner& learner) { leader.request(learner, job); });
}

void Follower::revalidate(SessionId session, Millis timeout, ConnectionId connection) {
  tell([session, timeout, connection](Leader& leader, Learner& learner) {
    leader.revalidate_for(learner, session, timeout, connection);
  });
}

}  // namespace zktesting::simulated
