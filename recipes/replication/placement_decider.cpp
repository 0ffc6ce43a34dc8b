#include "recipes/replication/placement_decider.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace zkrecipes::detail {

namespace {

bool includes(const HostIds& all, const HostIds& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

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

void JoinBook::see(std::vector<PartitionFacts>& partitions, Time now) {
  for (PartitionFacts& partition : partitions) {
    const auto& node = partition.node;
    partition.late = false;
    const bool moves = node && node->moving();
    if (!moves || (!partition.nobody_serves() && includes(partition.members, node->wanted))) {
      waiting_.erase(partition.name);
      continue;
    }
    Waiting& waiting = waiting_.try_emplace(partition.name, Waiting{node->wanted, now}).first->second;
    if (waiting.wanted != node->wanted) waiting = {node->wanted, now};
    partition.late = now - waiting.since >= patience_;
  }
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

bool contains(const HostIds& all, const std::string& id) { return std::binary_search(all.begin(), all.end(), id); }

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

}  // namespace

std::vector<PlacementStep> decide_placement(const std::vector<PartitionFacts>& partitions, const Placement& goal,
                                            const PlacementRules& rules) {
  std::vector<PlacementStep> steps;
  std::vector<const PartitionFacts*> waiting;
  std::size_t moving = 0;
  for (const PartitionFacts& partition : partitions) {
    if (partition.refused) continue;
    const HostIds& wanted = goal.at(partition.name);
    const bool can_change = wanted.size() >= rules.minimum;
    if (!partition.node) {
      if (can_change) steps.push_back(beginning(wanted, partition));
      continue;
    }
    if (is_stranded(partition)) {
      ++moving;
      steps.push_back(call_back(partition));
      continue;
    }
    const bool changes = can_change && partition.node->wanted != wanted && !still_closes(wanted, partition);
    if (!partition.node->moving()) {
      if (changes) waiting.push_back(&partition);
      continue;
    }
    if (!partition.late) ++moving;  // Also if it ends now: that may be refused.
    const auto step = changes ? way_to(wanted, partition, rules.minimum) : end_of_move(partition, rules.minimum);
    if (step) steps.push_back(*step);
  }
  std::stable_sort(waiting.begin(), waiting.end(), goes_first);
  for (const PartitionFacts* partition : waiting) {
    if (moving >= rules.max_moving) break;
    steps.push_back(way_to(goal.at(partition->name), *partition, rules.minimum));
    ++moving;
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
  const bool others_have_all = !node.wanted.empty() && includes(*facts.in_sync, node.wanted);
  return others_have_all && !contains(node.assigned, id) && !contains(*facts.in_sync, id);
}

}  // namespace zkrecipes::detail
