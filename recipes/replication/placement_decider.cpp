#include "recipes/replication/placement_decider.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace zkrecipes::detail {

namespace {

bool includes(const HostIds& all, const HostIds& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

/// Those of `all` that are not among `some`.
HostIds without(const HostIds& all, const HostIds& some) {
  HostIds others;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(others));
  return others;
}

bool contains(const HostIds& all, const std::string& id) { return std::binary_search(all.begin(), all.end(), id); }

}  // namespace

// --- Hosts -----------------------------------------------------------------------------------------------------------

void HostBook::see(const std::vector<ReplicaHost>& present, Time now) {
  if (!began_) began_ = now;
  for (auto& entry : known_) {
    const auto is_it = [&entry](const ReplicaHost& host) { return host.id == entry.first; };
    const bool there = std::any_of(present.begin(), present.end(), is_it);
    if (!there && std::exchange(entry.second.present, false)) entry.second.since = now;
  }
  for (const ReplicaHost& host : present) {
    const auto [place, fresh] = known_.try_emplace(host.id, Known{host, true, now});
    Known& known = place->second;
    known.host = host;
    if (!std::exchange(known.present, true)) known.since = now;
  }
  std::erase_if(known_, [&](const auto& entry) { return !entry.second.present && settled(entry.second.since, now); });
}

std::optional<std::vector<ReplicaHost>> HostBook::counting(const std::vector<std::string>& assigned, Time now) const {
  const auto has_replicas = [&assigned](const std::string& id) {
    return std::binary_search(assigned.begin(), assigned.end(), id);
  };
  const bool began_long_ago = began_ && settled(*began_, now);
  for (const std::string& id : assigned) {
    if (!known_.contains(id) && !began_long_ago) return std::nullopt;
  }
  std::vector<ReplicaHost> hosts;
  for (const auto& [id, known] : known_) {
    const bool counts =
        has_replicas(id) ? known.present || !settled(known.since, now) : known.present && settled(known.since, now);
    if (counts) hosts.push_back(known.host);
  }
  return hosts;
}

std::optional<HostBook::Time> HostBook::until_settled(Time now) const {
  std::optional<Time> soonest;
  const auto consider = [&](Time since) {
    const Time left = since + settle_ - now;
    if (left > Time::zero() && (!soonest || left < *soonest)) soonest = left;
  };
  if (began_) consider(*began_);
  for (const auto& [id, known] : known_)
    consider(known.since);
  return soonest;
}

// --- Who joins -------------------------------------------------------------------------------------------------------

HostIds JoinBook::see(std::vector<PartitionFacts>& partitions, Time now) {
  std::map<std::string, Waiting> before = std::exchange(waiting_, {});
  std::set<std::string> hanging;
  for (PartitionFacts& partition : partitions) {
    partition.late = false;
    Waiting& former = before[partition.name];
    note_joins(partition.members, former, now);
    const auto& node = partition.node;
    if (!node || !node->moving()) continue;
    const HostIds missing = without(node->wanted, partition.members);
    if (missing.empty() && !partition.nobody_serves()) continue;
    const bool goes_on = former.wanted == node->wanted;
    Waiting& waiting = waiting_[partition.name] = {node->wanted, goes_on ? former.since : now};
    for (const std::string& id : missing) {
      const auto found = former.missing.find(id);
      waiting.missing.emplace(id, found == former.missing.end() ? now : found->second);
    }
    partition.late = now - waiting.since >= patience_;
  }
  std::erase_if(joined_, [&](const auto& entry) { return now - entry.second >= patience_; });
  for (const auto& [name, waiting] : waiting_) {
    for (const auto& host : waiting.missing) {
      if (now - waits_since(host) >= patience_) hanging.insert(host.first);
    }
  }
  return {hanging.begin(), hanging.end()};
}

void JoinBook::note_joins(const HostIds& members, const Waiting& before, Time now) {
  for (const auto& [id, since] : before.missing) {
    if (contains(members, id)) joined_[id] = now;
  }
}

/// A host that joins one group after the other does not hang, though it may have many before it.
JoinBook::Time JoinBook::waits_since(const ByHost::value_type& missing) const {
  const auto joined = joined_.find(missing.first);
  return joined == joined_.end() ? missing.second : std::max(missing.second, joined->second);
}

std::optional<JoinBook::Time> JoinBook::until_late(Time now) const {
  std::optional<Time> soonest;
  const auto consider = [&](Time since) {
    const Time left = since + patience_ - now;
    if (left > Time::zero() && (!soonest || left < *soonest)) soonest = left;
  };
  for (const auto& [name, waiting] : waiting_) {
    consider(waiting.since);
    for (const auto& host : waiting.missing)
      consider(waits_since(host));
  }
  return soonest;
}

// --- The goal --------------------------------------------------------------------------------------------------------

const Placement& PlacementGoal::reach(const std::vector<ReplicaHost>& hosts,
                                      const std::vector<PartitionFacts>& partitions, std::size_t replicas) {
  std::vector<std::string> names;
  for (const PartitionFacts& partition : partitions)
    names.push_back(partition.name);
  if (hosts_ == hosts && names_ == names) return goal_;
  Placement before;
  for (const PartitionFacts& partition : partitions) {
    before[partition.name] = partition.node ? partition.node->wanted : partition.in_sync.value_or(HostIds());
  }
  goal_ = place_replicas(names, hosts, replicas, before);
  hosts_ = hosts;
  names_ = std::move(names);
  return goal_;
}

// --- Steps -----------------------------------------------------------------------------------------------------------

namespace {

HostIds united(const HostIds& a, const HostIds& b) {
  HostIds all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

HostIds shared(const HostIds& a, const HostIds& b) {
  HostIds both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

PlacementStep beginning(const HostIds& goal, const PartitionFacts& partition) {
  const HostIds there = united(partition.in_sync.value_or(HostIds()), partition.members);
  return {partition.name, {goal, united(goal, there)}, partition.in_sync.has_value()};
}

/// All wanted replicas have all that was acknowledged, so the other ones can go. A node that wants fewer than `minimum`
/// was written by hand, or by a placer with other rules.
std::optional<PlacementStep> end_of_move(const PartitionFacts& partition, std::size_t minimum) {
  const HostIds& wanted = partition.node->wanted;
  if (wanted.size() < minimum || !partition.in_sync || !includes(partition.ready, wanted)) return std::nullopt;
  return PlacementStep{partition.name, {wanted, wanted}, true, wanted};
}

/// The replicas of the goal are added. Those stay that may have acknowledged writes. That is all, if there is no state, or
/// if fewer than `minimum` are ready: those in sync may be lost, and then an operator needs the best of the other ones.
PlacementStep way_to(const HostIds& goal, const PartitionFacts& partition, std::size_t minimum) {
  const HostIds& assigned = partition.node->assigned;
  const HostIds ready = shared(assigned, partition.ready);
  PlacementStep step{partition.name, {goal, united(assigned, goal)}};
  if (!partition.in_sync || ready.size() < minimum) return step;
  const HostIds staying = shared(assigned, united(*partition.in_sync, goal));
  if (staying == assigned) return step;
  return {partition.name, {goal, united(staying, goal)}, true, ready};
}

/// All that are in sync and there have been told to close their replicas. Their copies are the only ones of what was
/// acknowledged: those have to serve again, until the wanted ones have it.
bool is_stranded(const PartitionFacts& partition) {
  const HostIds& assigned = partition.node->assigned;
  return partition.in_sync && shared(assigned, partition.ready).empty() && !includes(assigned, *partition.in_sync);
}

PlacementStep call_back(const PartitionFacts& partition) {
  const PlacementNode& node = *partition.node;
  return {partition.name, {node.wanted, united(node.assigned, *partition.in_sync)}};
}

/// Somebody of the goal still closes the replica that was taken from it: it is a member without a place. It would pass for
/// one that is ready, another replica would go for its sake, and then it would leave.
bool still_closes(const HostIds& goal, const PartitionFacts& partition) {
  const HostIds& assigned = partition.node->assigned;
  const HostIds coming = shared(goal, partition.members);
  return std::any_of(coming.begin(), coming.end(), [&](const std::string& id) { return !contains(assigned, id); });
}

/// A move of a partition that nobody serves cannot end, so it helps nobody to begin it before the others.
bool goes_first(const PartitionFacts* a, const PartitionFacts* b) {
  return std::pair(a->nobody_serves(), a->ready.size()) < std::pair(b->nobody_serves(), b->ready.size());
}

/// How many moves are on their way: those that hosts work at, and those that wait for no hosts but some that hang. A host
/// that comes to itself finds only so many begun.
class MovingCount {
 public:
  MovingCount(const HostIds& hanging, std::size_t most) : hanging_(hanging), most_(most) {}

  bool has_room(const HostIds& wanted, const PartitionFacts& partition) const {
    return (waits(wanted, partition) ? waiting_ : working_) < most_;
  }
  void add(const HostIds& wanted, const PartitionFacts& partition) {
    ++(waits(wanted, partition) ? waiting_ : working_);
  }

 private:
  bool waits(const HostIds& wanted, const PartitionFacts& partition) const {
    const HostIds missing = without(wanted, partition.members);
    return !missing.empty() && includes(hanging_, missing);
  }

  const HostIds& hanging_;
  const std::size_t most_;
  std::size_t working_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace

std::vector<PlacementStep> decide_placement(const std::vector<PartitionFacts>& partitions, const Placement& goal,
                                            const PlacementRules& rules, const HostIds& hanging) {
  std::vector<PlacementStep> steps;
  std::vector<const PartitionFacts*> waiting;
  MovingCount moving(hanging, rules.max_moving);
  for (const PartitionFacts& partition : partitions) {
    if (partition.refused) continue;
    const HostIds& wanted = goal.at(partition.name);
    const bool can_change = wanted.size() >= rules.minimum;
    if (!partition.node) {
      if (can_change) steps.push_back(beginning(wanted, partition));
      continue;
    }
    if (is_stranded(partition)) {
      moving.add(partition.node->wanted, partition);
      steps.push_back(call_back(partition));
      continue;
    }
    const bool changes = can_change && partition.node->wanted != wanted && !still_closes(wanted, partition);
    if (!partition.node->moving()) {
      if (changes) waiting.push_back(&partition);
      continue;
    }
    if (!partition.late) moving.add(partition.node->wanted, partition);  // Also if it ends now: that may be refused.
    const auto step = changes ? way_to(wanted, partition, rules.minimum) : end_of_move(partition, rules.minimum);
    if (step) steps.push_back(*step);
  }
  std::stable_sort(waiting.begin(), waiting.end(), goes_first);
  for (const PartitionFacts* partition : waiting) {
    const HostIds& wanted = goal.at(partition->name);
    if (!moving.has_room(wanted, *partition)) continue;
    moving.add(wanted, *partition);
    steps.push_back(way_to(wanted, *partition, rules.minimum));
  }
  return steps;
}

// --- A host ----------------------------------------------------------------------------------------------------------

HostedStep decide_hosted(HostedStage stage, std::optional<bool> placed, bool present) {
  if (!placed) return HostedStep::nothing;
  if (*placed) return present && stage != HostedStage::open ? HostedStep::open : HostedStep::nothing;
  return stage == HostedStage::open ? HostedStep::close : HostedStep::nothing;
}

bool may_erase(const std::string& id, const ErasureFacts& facts) {
  if (facts.member || !facts.node || !facts.in_sync) return false;
  const PlacementNode& node = *facts.node;
  const bool others_have_all = !node.wanted.empty() && includes(facts.ready, node.wanted);
  return others_have_all && !contains(node.assigned, id) && !contains(*facts.in_sync, id);
}

}  // namespace zkrecipes::detail
