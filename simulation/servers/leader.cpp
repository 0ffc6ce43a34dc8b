#include "simulation/servers/leader.hpp"

#include <algorithm>
#include <string>

#include "simulation/servers/sentences.hpp"
#include "simulation/servers/server.hpp"

namespace zktesting::simulated {

using namespace std::chrono_literals;

namespace {
/// A learner that is further behind gets the whole state.
constexpr std::size_t longest_diff = 500;
/// The thread that applies what is committed is late, by as much as this, once in a while.
constexpr std::uint64_t applied_late_one_in = 100;
constexpr Nanos latest_to_apply = 3ms;
}  // namespace

Leader::Leader(Machine& machine, RoleHooks hooks)
    : machine_(machine),
      hooks_(std::move(hooks)),
      limit_(machine.process, lane::main),
      loop_(machine.process, lane::leader_loop),
      reaper_(machine.process, lane::reaper),
      epoch_(machine.disk.accepted_epoch + 1),
      committed_(machine.disk.last_zxid()),
      tracker_(machine.process, machine.options.ticks(1), machine.clock_phase,
               [this](SessionId session) { expire(session); }) {}

void Leader::begin() {
  if (standalone()) return serve();
  limit_.set(machine_.options.ticks(machine_.options.init_limit), [this] { hooks_.leave(); });
}

void Leader::end() {
  for (const auto& [link, learner] : learners_)
    tell(*learner, [](Follower& follower) { follower.broken(); });
}

void Leader::tell(const Learner& learner, std::function<void(Follower&)> message) {
  machine_.peers.send(machine_.host, learner.host, [link = learner.link, message = std::move(message)](Server& server) {
    Follower* follower = server.following();
    if (follower != nullptr && follower->link() == link) follower->hear(message);
  });
}

void Leader::drop(Learner& learner) {
  tell(learner, [](Follower& follower) { follower.broken(); });
  broken(learner);
}

void Leader::gone(Host host) {
  std::erase_if(learners_, [host](const auto& entry) { return entry.second->host == host; });
}

// A new epoch: a quorum has to promise to follow it, then to have the leader's history.

void Leader::join(Host host, LinkId link, std::int64_t accepted_epoch) {
  gone(host);
  auto& learner = *learners_.emplace(link, std::make_unique<Learner>(machine_.process, link, host)).first->second;
  learner.silence.expect(machine_.options.ticks(machine_.options.init_limit), [this, &learner] { drop(learner); });
  if (stage_ != Stage::finding_epoch) return send_epoch(learner);
  epoch_ = std::max(epoch_, accepted_epoch + 1);
  if (static_cast<int>(learners_.size()) + 1 >= machine_.majority()) begin_epoch();
}

void Leader::begin_epoch() {
  if (machine_.log.refusing()) return hooks_.leave();
  stage_ = Stage::epoch_known;
  machine_.disk.accepted_epoch = epoch_;
  for (const auto& [link, learner] : learners_)
    send_epoch(*learner);
}

void Leader::send_epoch(Learner& learner) {
  tell(learner, [epoch = epoch_](Follower& follower) { follower.new_epoch(epoch); });
}

void Leader::acknowledge_epoch(Learner& learner, const History& history) {
  learner.history = history;
  learner.knows_epoch = true;
  if (stage_ != Stage::epoch_known) return synchronise(learner);
  const Disk& disk = machine_.disk;
  if (std::pair(history.epoch, history.last) > std::pair(disk.current_epoch, disk.last_zxid())) return hooks_.leave();
  const auto ready =
      std::count_if(learners_.begin(), learners_.end(), [](const auto& entry) { return entry.second->knows_epoch; });
  if (ready + 1 < machine_.majority()) return;
  if (machine_.log.refusing()) return hooks_.leave();
  stage_ = Stage::synchronising;
  machine_.disk.current_epoch = epoch_;
  for (const auto& [link, other] : learners_) {
    if (other->knows_epoch) synchronise(*other);
  }
}

void Leader::synchronise(Learner& learner) {
  // What it acknowledged on an earlier connection may be cut off now.
  for (Proposal& proposal : outstanding_)
    proposal.confirmed.erase(learner.host);
  send_history(learner);
  send_outstanding(learner);
  learner.synchronised = true;
  tell(learner, [epoch = epoch_](Follower& follower) { follower.new_leader(epoch); });
}

void Leader::send_history(Learner& learner) {
  const History& its = learner.history;
  const Zxid common = machine_.disk.last_up_to(std::min(its.last, committed_));
  std::vector<TxnPtr> missing = machine_.disk.after(common);
  std::erase_if(missing, [this](const TxnPtr& txn) { return txn->zxid > committed_; });
  if (common > its.last || common < its.snapshot || missing.size() > longest_diff) {
    const auto snapshot = std::make_shared<const Tree>(committed_tree());
    return tell(learner, [snapshot, zxid = committed_](Follower& follower) { follower.snapshot(*snapshot, zxid); });
  }
  if (common < its.last) tell(learner, [common](Follower& follower) { follower.truncate(common); });
  for (TxnPtr& txn : missing) {
    const Zxid zxid = txn->zxid;
    const Op op = txn->op;
    forward(learner, std::make_shared<const Entry>(Entry{std::move(txn), 0, op}));
    tell(learner, [zxid](Follower& follower) { follower.commit(zxid); });
  }
}

void Leader::send_outstanding(Learner& learner) {
  for (const Proposal& proposal : outstanding_)
    forward(learner, proposal.entry);
}

void Leader::forward(Learner& learner, const EntryPtr& entry) {
  learner.unconfirmed.emplace_back(entry->txn->zxid, machine_.process.now());
  tell(learner, [entry](Follower& follower) { follower.propose(entry); });
}

void Leader::acknowledge_leader(Learner& learner) {
  learner.follows = true;
  learner.silence.expect(machine_.options.ticks(machine_.options.sync_limit), [this, &learner] { drop(learner); });
  if (stage_ == Stage::serving) {
    confirm(learner.host, learner.acknowledged);
    return tell(learner, [](Follower& follower) { follower.up_to_date(); });
  }
  if (static_cast<int>(followers_in_sync()) + 1 >= machine_.majority()) serve();
}

std::size_t Leader::followers_in_sync() const {
  return static_cast<std::size_t>(
      std::count_if(learners_.begin(), learners_.end(), [](const auto& entry) { return entry.second->follows; }));
}

void Leader::serve() {
  stage_ = Stage::serving;
  limit_.stop();
  last_proposed_ = standalone() ? machine_.disk.last_zxid() : epoch_ << 32;
  machine_.memory.tree.set_last_zxid(last_proposed_);
  proposed_ = machine_.memory.tree;
  for (const auto& [session, timeout] : proposed_.sessions())
    tracker_.track(session, timeout);
  tracker_.begin();
  hooks_.epoch_begun(epoch_);
  machine_.clients.serve(*this);
  machine_.options.say(machine_.host, [this] { return "leads, epoch " + std::to_string(epoch_); });
  for (const auto& [link, learner] : learners_) {
    if (learner->follows) tell(*learner, [](Follower& follower) { follower.up_to_date(); });
  }
  if (!standalone()) sleep_half_a_tick();
  reap();
}

// Messages of followers that follow.

void Leader::hear(LinkId link, const std::function<void(Leader&, Learner&)>& message) {
  const auto learner = learners_.find(link);
  if (learner == learners_.end()) return;
  learner->second->silence.heard();
  learner->second->deadline = tick_ + machine_.options.sync_limit;
  message(*this, *learner->second);
}

void Leader::acknowledge(Learner& learner, Zxid zxid) {
  learner.acknowledged = zxid;
  while (!learner.unconfirmed.empty() && learner.unconfirmed.front().first <= zxid)
    learner.unconfirmed.pop_front();
  if (learner.follows) confirm(learner.host, zxid);
}

void Leader::request(Learner& learner, const JobPtr& job) {
  if (job->request.op == Op::sync) return sync(learner, job);
  machine_.clients.expect(*job);
  prepare(job, learner.link);
}

void Leader::sync(Learner& learner, const JobPtr& job) {
  if (!outstanding_.empty()) {
    syncs_[last_proposed_].emplace_back(learner.link, job);
    return;
  }
  tell(learner, [job](Follower& follower) { follower.synced(job); });
}

void Leader::revalidate_for(Learner& learner, SessionId session, Millis timeout, ConnectionId connection) {
  const bool valid = tracker_.touch(session, timeout);
  if (valid) tracker_.set_owner(session, learner.link);
  tell(learner, [connection, valid](Follower& follower) { follower.revalidated(connection, valid); });
}

void Leader::revalidate(SessionId session, Millis timeout, ConnectionId connection) {
  const bool valid = tracker_.touch(session, timeout);
  if (valid) tracker_.set_owner(session, own_clients);
  machine_.clients.admit(connection, valid);
}

bool Leader::needs_leader(Op op) const { return is_write(op) || op == Op::create_session || op == Op::close_session; }

void Leader::read_in_turn(std::function<void()> act) { machine_.log.then(life_.guarded(std::move(act))); }

// From a request to a committed transaction.

void Leader::prepare(const JobPtr& job, Owner owner) {
  propose(transaction(*job, owner, last_proposed_ + 1), job->request.xid, job->request.op);
}

Txn Leader::transaction(const Job& job, Owner owner, Zxid zxid) {
  const SessionId session = job.caller.session;
  const Millis date = machine_.date();
  if (job.request.op == Op::create_session) {
    tracker_.track(session, job.timeout);
    tracker_.set_owner(session, owner);
    return proposed_.prepare_create_session(session, job.timeout, zxid, date);
  }
  if (job.request.op == Op::close_session) {
    tracker_.closing(session);
    return proposed_.prepare_close_session(session, zxid, date);
  }
  Caller caller = job.caller;
  caller.session_error = tracker_.check(session, owner);
  return proposed_.prepare(job.request, caller, zxid, date);
}

void Leader::propose(Txn txn, std::int32_t xid, Op asked) {
  last_proposed_ = txn.zxid;
  proposed_.apply(txn);
  const Zxid zxid = txn.zxid;
  const auto entry = std::make_shared<const Entry>(Entry{std::make_shared<const Txn>(std::move(txn)), xid, asked});
  outstanding_.push_back({entry, {}});
  for (const auto& [link, learner] : learners_) {
    if (learner->synchronised) forward(*learner, entry);
  }
  machine_.log.append(entry->txn, life_.guarded([this, zxid] { confirm(machine_.host, zxid); }));
}

void Leader::confirm(Host host, Zxid up_to) {
  for (Proposal& proposal : outstanding_) {
    if (proposal.entry->txn->zxid > up_to) break;
    proposal.confirmed.insert(host);
  }
  commit_ready();
}

void Leader::commit_ready() {
  while (!outstanding_.empty() && static_cast<int>(outstanding_.front().confirmed.size()) >= machine_.majority()) {
    const EntryPtr entry = std::move(outstanding_.front().entry);
    outstanding_.pop_front();
    commit(entry);
  }
}

void Leader::commit(const EntryPtr& entry) {
  const Zxid zxid = entry->txn->zxid;
  committed_ = zxid;
  for (const auto& [link, learner] : learners_) {
    if (learner->synchronised) tell(*learner, [zxid](Follower& follower) { follower.commit(zxid); });
  }
  apply_soon(entry);
  const auto waiting = syncs_.extract(zxid);
  if (waiting.empty()) return;
  for (const auto& [link, job] : waiting.mapped()) {
    const auto learner = learners_.find(link);
    if (learner != learners_.end()) tell(*learner->second, [job = job](Follower& follower) { follower.synced(job); });
  }
}

// The leader tells the others first. A thread of its own then applies what is committed for its own clients, and neither
// their reads nor their syncs wait for that, as long as their own session has nothing outstanding. So a client of the
// leader may read, behind a sync, what a client of a follower has already replaced: real servers did that after 19 of
// 5,000 writes.
void Leader::apply_soon(const EntryPtr& entry) {
  if (standalone()) return machine_.clients.commit(*entry);
  unapplied_.push_back(entry);
  if (unapplied_.size() == 1) apply_next();
}

void Leader::apply_next() {
  Random& random = machine_.process.events().random();
  const Nanos late = random.one_in(applied_late_one_in) ? Nanos(random.between(0, latest_to_apply.count())) : Nanos(0);
  machine_.process.after(lane::applying, machine_.process.hesitation() + late, life_.guarded([this] {
    const EntryPtr entry = std::move(unapplied_.front());
    unapplied_.pop_front();
    if (!unapplied_.empty()) apply_next();
    machine_.clients.commit(*entry);
  }));
}

Tree Leader::committed_tree() const {
  Tree tree = machine_.memory.tree;
  for (const EntryPtr& entry : unapplied_)
    tree.apply(*entry->txn);
  return tree;
}

// Time.

void Leader::expire(SessionId session) {
  machine_.options.say(machine_.host, [session] { return told(session) + " is over"; });
  Job job;
  job.caller.session = session;
  job.request.op = Op::close_session;
  prepare(std::make_shared<const Job>(std::move(job)), own_clients);
}

void Leader::sleep_half_a_tick() {
  const Nanos late(machine_.process.events().random().between(0, Nanos(1ms).count()));
  loop_.set(machine_.options.ticks(0.5) + late, [this] { half_a_tick(); });
}

void Leader::half_a_tick() {
  if (!between_ticks_) {
    ++tick_;
    if (!has_quorum()) return hooks_.leave();
  }
  between_ticks_ = !between_ticks_;
  std::vector<Learner*> learners;
  for (const auto& [link, learner] : learners_)
    learners.push_back(learner.get());
  for (Learner* learner : learners)
    ping(*learner);
  sleep_half_a_tick();
}

bool Leader::has_quorum() const {
  const auto there = std::count_if(learners_.begin(), learners_.end(), [this](const auto& entry) {
    return entry.second->follows && tick_ <= entry.second->deadline;
  });
  return there + 1 >= machine_.majority();
}

void Leader::ping(Learner& learner) {
  if (!learner.synchronised) return;
  const auto& waiting = learner.unconfirmed;
  const Nanos limit = machine_.options.ticks(machine_.options.sync_limit);
  if (!waiting.empty() && machine_.process.now() - waiting.front().second >= limit) return drop(learner);
  tell(learner, [](Follower& follower) { follower.ping(); });
}

void Leader::reap() {
  reaper_.set(std::chrono::milliseconds(machine_.options.container_check), [this] {
    for (const std::string& path : machine_.memory.tree.due_for_reaper(machine_.date()))
      propose(proposed_.prepare_delete_container(path, last_proposed_ + 1, machine_.date()), 0, Op::delete_container);
    reap();
  });
}

}  // namespace zktesting::simulated
