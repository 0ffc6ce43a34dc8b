#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/placement.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/growing_pause.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/replication/group_views.hpp"
#include "recipes/replication/member_witnesses.hpp"
#include "recipes/replication/placement_decider.hpp"
#include "recipes/replication/placement_format.hpp"
#include "recipes/replication/replica_format.hpp"

namespace zkrecipes {

using namespace words;

namespace {

constexpr const char* placer_name = "placer";
constexpr auto longest_rest = std::chrono::seconds(30);
// A move to a host that has not joined the group for so long holds up no other one.
constexpr auto longest_join = std::chrono::seconds(30);
// After a failure: what it rests on may have changed, or a right may be granted some day.
constexpr auto first_placer_pause = std::chrono::milliseconds(20);
constexpr auto longest_placer_pause = std::chrono::milliseconds(500);

std::vector<ReplicaHost> hosts_in(const Snapshot& nodes) {
  std::vector<ReplicaHost> hosts;
  for (const CachedNodePtr& node : nodes.children()) {
    if (!detail::is_ephemeral(node->stat)) continue;
    if (auto host = detail::decode_host(node->name, node->data)) hosts.push_back(std::move(*host));
  }
  return hosts;
}

/// What a step rested on has changed, or it may have been written: another look tells.
bool asks_for_another_look(Errc why) {
  return why == Errc::bad_version || why == Errc::no_node || why == Errc::node_exists || why == Errc::in_doubt;
}

/// Says whether the connection has held since a certain moment.
class Connectedness {
 public:
  /// The token is stopped when the connection breaks.
  std::stop_token from_now_on() {
    const std::lock_guard lock(mutex_);
    broken_ = std::stop_source();
    return broken_.get_token();
  }
  void see(zkclient::ConnectionState state) {
    if (state == zkclient::ConnectionState::connected) return;
    std::stop_source broken(std::nostopstate);
    {
      const std::lock_guard lock(mutex_);
      broken = broken_;
    }
    broken.request_stop();
  }

 private:
  std::mutex mutex_;
  std::stop_source broken_;  // Guarded by mutex_.
};

}  // namespace

/// What a placer does while it leads, on its selector's thread.
class detail::PlacerCore {
 public:
  PlacerCore(zkclient::Client client, Path path, std::vector<std::string> partitions, PlacerOptions options)
      : client_(std::move(client)),
        path_(std::move(path)),
        partitions_(std::move(partitions)),
        options_(std::move(options)),
        selector_(
            client_, path_ / "placer",
            [this](const std::stop_token& stop, SelectedLeadership& leadership) { lead(stop, leadership); },
            selector_options()) {}

  void start() { selector_.start(); }
  bool leads() const noexcept { return selector_.is_leader(); }
  const Path& path() const noexcept { return path_; }
  bool forked() const { return client_.impl()->loop()->forked(); }
  std::optional<Error> problem() const {
    if (forked()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return problem_;
  }

 private:
  struct Refusal {
    Error why;
    HostBook::Time since;
  };
  /// What one term knows.
  struct Term {
    explicit Term(const PlacerCore& core)
        : hosts(core.client_, core.hosts_path()),
          placements(core.client_, core.placement_path()),
          groups(core.client_, core.groups_path(), viewing_groups(core.groups_path(), GroupViewer::placer)),
          book(core.options_.settle) {}

    const ChildrenCache hosts;
    const ChildrenCache placements;
    const TreeCache groups;
    HostBook book;
    JoinBook joins{longest_join};
    PlacementGoal goal;
    std::map<std::string, Refusal> refused;  // By partition: the step that the server refuses.
    Connectedness connectedness;
  };
  struct NodeOfPlacement {
    PlacementNode now;
    std::int32_t version = 0;
  };
  /// What a decision rests on.
  struct Facts {
    std::vector<PartitionFacts> partitions;
    std::map<std::string, NodeOfPlacement> nodes;
    std::map<std::string, GroupView> groups;
    Snapshot hosts;
    std::vector<std::string> assigned;  // All hosts that have replicas, ordered.
    std::optional<Error> problem;       // A partition's, which has no step.
  };
  LeaderSelectorOptions selector_options() {
    LeaderSelectorOptions selector;
    selector.acl = options_.acl;
    selector.id = options_.id;
    selector.on_error = [this](const std::exception_ptr& error) { note_failure(error); };
    return selector;
  }
  Path hosts_path() const { return path_ / "hosts"; }
  Path placement_path() const { return path_ / "placement"; }
  Path groups_path() const { return path_ / "groups"; }

  void lead(const std::stop_token& stop, SelectedLeadership& leadership) {
    Term term(*this);
    const auto news = [this](const auto&, const auto&) { tell(); };
    const auto of_hosts = term.hosts.on_change(news);
    const auto of_placements = term.placements.on_change(news);
    const auto of_groups = term.groups.on_change(news);
    const auto of_states =
        client_.on_state_change([&term](const zkclient::StateChange& change) { term.connectedness.see(change.state); });
    GrowingPause pauses(first_placer_pause, longest_placer_pause);
    HostBook::Time rest{0};
    while (wait(stop, rest)) {
      try {
        const bool written = decide(term, leadership, {.stop = stop});
        rest = std::min<HostBook::Time>(longest_rest, term.book.until_settled(now()).value_or(longest_rest));
        rest = std::min(rest, term.joins.until_late(now()).value_or(rest));
        if (written) {
          pauses.reset();
        } else {
          rest = pauses.next();
        }
      } catch (...) {
        if (stop.stop_requested() || !leadership.valid()) return;
        note_failure(std::current_exception());
        rest = pauses.next();
      }
    }
  }

  /// False: it must look again, because a step was refused, or the connection broke.
  bool decide(Term& term, SelectedLeadership& leadership, const CallOptions& call) {
    const std::stop_token broken = term.connectedness.from_now_on();
    std::erase_if(term.refused, [](const auto& entry) { return now() - entry.second.since >= longest_rest; });
    Facts facts = look(term, call);
    const HostIds hanging = term.joins.see(facts.partitions, now());
    if (!facts.problem) facts.problem = late_move(facts.partitions);
    bool written = true;
    for (const PlacementStep& step : steps(term, facts, hanging))
      written = write(step, facts, term, leadership, call, broken) && written;
    note(facts, term);
    return written;
  }
  std::vector<PlacementStep> steps(Term& term, const Facts& facts, const HostIds& hanging) const {
    term.book.see(hosts_in(facts.hosts), now());
    const auto counting = term.book.counting(facts.assigned, now());
    if (!counting) return {};
    const Placement& goal = term.goal.reach(*counting, facts.partitions, options_.replicas);
    return decide_placement(facts.partitions, goal, {options_.replicas, options_.minimum, options_.max_moving},
                            hanging);
  }

  /// Behind a sync: a server that lags behind would have this decide what was decided before.
  Facts look(const Term& term, const CallOptions& call) {
    Facts facts;
    facts.hosts = all_hosts(term, call);
    const Snapshot placements = term.placements.refresh(ReadBarrier::sync, call);
    if (placements.root() == nullptr) make_directory(call);
    const Snapshot groups = term.groups.refresh(ReadBarrier::sync, call);
    if (!groups.complete()) facts.problem = missing(term.groups, groups_path());
    std::set<std::string> assigned;
    for (const std::string& name : partitions_) {
      PartitionFacts partition{name};
      partition.refused = term.refused.contains(name);
      if (const CachedNode* node = placements.find(name)) {
        partition.node = node->has_data ? decode_placement(node->data) : std::nullopt;
        if (!partition.node) {
          facts.problem = foreign(name);
          continue;
        }
        facts.nodes[name] = {*partition.node, node->stat.version};
        assigned.insert(partition.node->assigned.begin(), partition.node->assigned.end());
      }
      std::optional<GroupView> seen = group_view(groups, name);
      // A node without members that cannot be seen would close their replicas.
      if (!partition.node && !groups.complete()) seen = read_group(name, call);
      if (!seen) continue;
      const GroupView& group = facts.groups[name] = std::move(*seen);
      if (group.foreign_state) facts.problem = foreign_state(name);
      // It would leave out those in sync that are away, and they would erase what they have.
      if (group.foreign_state && !partition.node) continue;
      if (group.state) partition.in_sync = in_sync_of(*group.state);
      for (const std::string& id : partition.in_sync.value_or(HostIds())) {
        if (group.ready(id) != nullptr) partition.ready.push_back(id);
      }
      for (const GroupMemberNode& node : group.members)
        partition.members.push_back(node.member.id);
      facts.partitions.push_back(std::move(partition));
    }
    facts.assigned.assign(assigned.begin(), assigned.end());
    return facts;
  }
  /// Behind the sync of the view, which lacks something: perhaps nothing of this group. nullopt: something of this one.
  std::optional<GroupView> read_group(const std::string& partition, const CallOptions& call) const {
    const Path group = groups_path() / partition;
    GroupView view;
    std::error_code error;
    const auto state = client_.get(group / "state", call, error);
    if (!error) note_state(view, state.data, state.stat);
    if (!is_seen(error, group)) return std::nullopt;
    auto members = client_.children(group / "members", call, error).names;
    if (!is_seen(error, group)) return std::nullopt;
    std::sort(members.begin(), members.end());
    for (const std::string& id : members) {
      if (detail::replica_id_defect(id) != nullptr) continue;
      const auto member = client_.get(group / "members" / id, call, error);
      if (!error) note_member(view, id, member.data, member.stat);
      if (!is_seen(error, group)) return std::nullopt;
    }
    return view;
  }
  /// What was read, or is not there. False: the server refuses it.
  static bool is_seen(const std::error_code& error, const Path& group) {
    if (!error || error == Errc::no_node) return true;
    if (error == Errc::no_auth) return false;
    throw Error(static_cast<Errc>(error.value()), placer_name, group.str());
  }
  /// A host that cannot be read must not pass for one that has gone.
  Snapshot all_hosts(const Term& term, const CallOptions& call) const {
    Snapshot hosts = term.hosts.refresh(ReadBarrier::sync, call);
    if (!hosts.complete()) throw missing(term.hosts, hosts_path());
    return hosts;
  }
  static Error missing(const Cache& view, const Path& path) {
    return view.problem().value_or(Error(Errc::in_doubt, placer_name, path.str(), "not all of it could be read"));
  }
  Error foreign(const std::string& partition) const {
    return {Errc::foreign_node, placer_name, (placement_path() / partition).str(),
            "it is no placement, or cannot be read"};
  }
  Error foreign_state(const std::string& partition) const {
    return {Errc::foreign_node, placer_name, (groups_path() / partition / "state").str(), "it is no state of a group"};
  }
  std::optional<Error> late_move(const std::vector<PartitionFacts>& partitions) const {
    const auto late = std::find_if(partitions.begin(), partitions.end(), [](const auto& one) { return one.late; });
    if (late == partitions.end()) return std::nullopt;
    return Error(Errc::not_available, placer_name, (groups_path() / late->name).str(),
                 late->nobody_serves() ? "no replica that is in sync is there"
                                       : "a host that shall have a replica does not join the group");
  }
  static HostIds in_sync_of(const ReplicaState& state) {
    HostIds ids;
    for (const InSyncReplica& replica : state.in_sync)
      ids.push_back(replica.id);
    return ids;
  }

  /// False: it must look again. A step that the server will not have is not tried again for a while. `broken`: the
  /// connection broke. What was read of members before that is too old: one that is back has a node of the same version.
  bool write(const PlacementStep& step, const Facts& facts, Term& term, SelectedLeadership& leadership,
             const CallOptions& call, const std::stop_token& broken) const try {
    Transaction transaction = leadership.transaction();
    if (!check_hosts(transaction, step, facts)) return true;
    const Path node = placement_path() / step.partition;
    const Path path = groups_path() / step.partition;
    const GroupView& group = facts.groups.at(step.partition);
    if (step.rests_on_state) transaction.check(path / "state", group.version);
    if (!check_members(transaction, step.rests_on_ready, group, path, call)) return false;
    if (const auto found = facts.nodes.find(step.partition); found != facts.nodes.end()) {
      transaction.set(node, encode(step.next), found->second.version);
    } else {
      transaction.create(node, encode(step.next), {.acl = options_.acl});
    }
    const bool rests_on_members = !step.rests_on_ready.empty();
    client_.commit(transaction,
                   {.deadline = call.deadline, .stop = {call.stop, rests_on_members ? broken : std::stop_token()}});
    return true;
  } catch (const Error& error) {
    if (error.errc() == Errc::cancelled && broken.stop_requested()) return false;
    const auto refused = error.refused();
    const Errc reason = refused ? refused->reason : error.errc();
    if (asks_for_another_look(reason)) return false;
    const bool is_of_partition = refused || reason == Errc::no_auth || reason == Errc::foreign_node;
    if (!is_of_partition) throw;
    const Error why(reason, placer_name, (placement_path() / step.partition).str(), error.detail());
    term.refused.insert_or_assign(step.partition, Refusal{why, now()});
    return false;
  }
  /// Of each member that is ready: its node, and the witness that was made with it (see member_witnesses.hpp). False: one
  /// of them is gone by now.
  bool check_members(Transaction& transaction, const HostIds& ready, const GroupView& group, const Path& path,
                     const CallOptions& call) const {
    if (ready.empty()) return true;
    const Path members = path / "members";
    const Path presence = witnesses_of(path);
    const auto look = [core = client_.impl(), full = client_.impl()->full(presence),
                       shown = presence.str()](Call limits) {
      return look_for_witnesses(core, full, placer_name, shown, std::move(limits));
    };
    const WitnessNames witnesses = CallForm(client_.impl(), placer_name, presence.str()).wait(call, look);
    for (const std::string& id : ready) {
      const GroupMemberNode& member = *group.ready(id);
      const auto witness = witnesses.find(member.czxid);
      if (witness == witnesses.end()) return false;
      transaction.check(members / id, member.version).check(presence / witness->second);
    }
    return true;
  }
  /// A host that gets a replica is there, and is still what it was: one that is drained gets no more. False: one of them
  /// is away, so the step waits until it is back, or counts no more.
  bool check_hosts(Transaction& transaction, const PlacementStep& step, const Facts& facts) const {
    const auto found = facts.nodes.find(step.partition);
    const HostIds before = found == facts.nodes.end() ? HostIds() : found->second.now.wanted;
    for (const std::string& id : step.next.wanted) {
      if (std::binary_search(before.begin(), before.end(), id)) continue;
      const CachedNode* host = facts.hosts.find(id);
      if (host == nullptr) return false;
      transaction.check(hosts_path() / id, host->stat.version);
    }
    return true;
  }

  void make_directory(const CallOptions& call) {
    std::error_code error;
    client_.create(placement_path(), "", {.acl = options_.acl, .parents = true}, call, error);
    if (error && error != Errc::node_exists)
      throw Error(static_cast<Errc>(error.value()), placer_name, placement_path().str());
  }

  static HostBook::Time now() { return BootClock::now().time_since_epoch(); }
  void tell() {
    const std::lock_guard lock(mutex_);
    news_ = true;
    changed_.notify_all();
  }
  bool wait(const std::stop_token& stop, HostBook::Time limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, limit, [this] { return news_; });
    news_ = false;
    return !stop.stop_requested();
  }
  void note(const Facts& facts, const Term& term) {
    const std::lock_guard lock(mutex_);
    problem_ = facts.problem;
    if (!term.refused.empty()) problem_ = term.refused.begin()->second.why;
  }
  void note_failure(const std::exception_ptr& failure) {
    std::optional<Error> problem;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      problem.emplace(error);
    } catch (const std::exception& error) {
      problem.emplace(Errc::in_doubt, placer_name, path_.str(), error.what());
    }
    const std::lock_guard lock(mutex_);
    problem_ = std::move(problem);
  }

  const zkclient::Client client_;  // Stays open for as long as it is used here.
  const Path path_;
  const std::vector<std::string> partitions_;  // Ordered.
  const PlacerOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  bool news_ = false;
  std::optional<Error> problem_;
  LeaderSelector selector_;  // The first to go: its thread uses the others.
};

Placer::Placer(zkclient::Client client, Path path, std::vector<std::string> partitions, PlacerOptions options) {
  detail::require_acl(placer_name, path, options.acl);
  const auto refuse = [&path](std::string_view why) {
    throw Error(Errc::invalid_argument, placer_name, path.str(), why);
  };
  if (options.replicas < 1 || options.replicas > max_replicas) refuse("the number of replicas must be from 1 to 64");
  if (options.minimum < 1 || options.minimum > options.replicas)
    refuse("the minimum must be from 1 to the number of replicas");
  if (options.max_moving == 0) refuse("max_moving must be 1 at least");
  if (options.settle.count() < 0 || options.settle > std::chrono::hours(24)) refuse("settle must be from 0 to a day");
  std::sort(partitions.begin(), partitions.end());
  const auto twice = std::adjacent_find(partitions.begin(), partitions.end());
  if (twice != partitions.end()) refuse(fmt::format("partition {:?} is there twice", *twice));
  for (const std::string& name : partitions) {
    if (!detail::can_have_group(client.impl()->full(path / "groups"), name))
      refuse(fmt::format("partition {:?}: no node can have this name, or it leaves no room for its group", name));
  }
  core_ = std::make_shared<detail::PlacerCore>(std::move(client), std::move(path), std::move(partitions),
                                               std::move(options));
}

Placer::~Placer() {
  if (core_->forked()) zk::keep_for_ever(std::move(core_));
}

void Placer::start() { core_->start(); }
bool Placer::leads() const noexcept { return core_->leads(); }
std::optional<Error> Placer::problem() const { return core_->problem(); }
const Path& Placer::path() const noexcept { return core_->path(); }

}  // namespace zkrecipes
