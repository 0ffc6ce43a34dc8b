#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "recipes/inspection/look.hpp"
#include "recipes/inspection/recognition.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/replication/placement_format.hpp"
#include "recipes/replication/replica_format.hpp"

namespace zkrecipes {

bool InspectedPartition::moving() const noexcept {
  const auto is_in_sync = [this](const std::string& host) {
    return std::find(in_sync.begin(), in_sync.end(), host) != in_sync.end();
  };
  return !leaving.empty() || !std::all_of(wanted.begin(), wanted.end(), is_in_sync);
}

namespace detail {
namespace {

/// What the nodes of a group say, as they were read.
struct GroupNodes {
  Reply state;
  Reply owner;
  NodeNames members = {};
};

Awaitable<Result<void>> read_hosts(LookPtr look, InspectedPlacement& placement) {
  const std::string folder = look->child("hosts");
  Result<NodeNames> names = co_await list_folder(look, folder);
  if (!names) co_return names.error();
  Result<Contenders> nodes = co_await read_nodes(look, folder, std::move(*names));
  if (!nodes) co_return nodes.error();
  for (Contender& node : *nodes) {
    auto host = decode_host(node.node, node.data);
    if (!host || !is_ephemeral({.ephemeral_owner = node.session_id})) {
      placement.foreign_hosts.push_back(std::move(node.node));
      continue;
    }
    placement.hosts.push_back({std::move(*host), node.session_id, node.since});
  }
  co_return Result<void>();
}

// With what placers have written; of those that have a group alone, no more than the name.
Awaitable<Result<void>> read_partitions(LookPtr look, InspectedPlacement& placement) {
  const std::string folder = look->child("placement");
  Result<NodeNames> placed = co_await list_folder(look, folder);
  if (!placed) co_return placed.error();
  Result<NodeNames> groups = co_await list_folder(look, look->child("groups"));
  if (!groups) co_return groups.error();
  Result<Contenders> nodes = co_await read_nodes(look, folder, std::move(*placed));
  if (!nodes) co_return nodes.error();
  std::map<std::string, InspectedPartition> all;
  for (std::string& name : *groups)
    all[name].problem = "it has no placement";
  for (const Contender& node : *nodes) {
    InspectedPartition& partition = all[node.node];
    std::optional<PlacementNode> hosts = decode_placement(node.data);
    partition.problem = hosts ? "" : "its placement is none of this library";
    if (!hosts) continue;
    std::set_difference(hosts->assigned.begin(), hosts->assigned.end(), hosts->wanted.begin(), hosts->wanted.end(),
                        std::back_inserter(partition.leaving));
    partition.wanted = std::move(hosts->wanted);
  }
  for (auto& [name, partition] : all) {
    partition.name = name;
    placement.partitions.push_back(std::move(partition));
  }
  co_return Result<void>();
}

Awaitable<Result<std::vector<GroupNodes>>> read_groups(LookPtr look, NodeNames partitions) {
  NodeNames states;
  NodeNames owners;
  NodeNames lists;
  const std::string groups = look->child("groups");
  for (const std::string& name : partitions) {
    const std::string group = zk::child_path(groups, name);
    states.push_back(zk::child_path(group, "state"));
    owners.push_back(zk::child_path(zk::child_path(group, "primary"), "owner"));
    lists.push_back(zk::child_path(group, "members"));
  }
  Result<std::vector<Reply>> state = co_await read_replies(look, OpType::get, std::move(states));
  if (!state) co_return state.error();
  Result<std::vector<Reply>> owner = co_await read_replies(look, OpType::exists, std::move(owners));
  if (!owner) co_return owner.error();
  Result<std::vector<Reply>> list = co_await read_replies(look, OpType::children, std::move(lists));
  if (!list) co_return list.error();
  std::vector<GroupNodes> nodes(partitions.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].state = std::move((*state)[i]);
    nodes[i].owner = std::move((*owner)[i]);
    nodes[i].members = std::move((*list)[i].names);
  }
  co_return nodes;
}

/// Those of the members that are there, by partition and id.
using MemberNodes = std::set<std::pair<std::size_t, std::pair<std::string, std::string>>>;  // With the storage.

Awaitable<Result<MemberNodes>> read_members(LookPtr look, NodeNames partitions, const std::vector<GroupNodes>& groups) {
  NodeNames paths;
  std::vector<std::pair<std::size_t, std::string>> whose;
  const std::string folder = look->child("groups");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string members = zk::child_path(zk::child_path(folder, partitions[i]), "members");
    for (const std::string& id : groups[i].members) {
      paths.push_back(zk::child_path(members, id));
      whose.emplace_back(i, id);
    }
  }
  Result<std::vector<Reply>> replies = co_await read_replies(std::move(look), OpType::get, std::move(paths));
  if (!replies) co_return replies.error();
  MemberNodes members;
  for (std::size_t i = 0; i < whose.size(); ++i) {
    const Reply& node = (*replies)[i];
    if (!node.ok() || !is_ephemeral(node.stat)) continue;
    if (auto member = decode_replica_member(whose[i].second, node.data))
      members.insert({whose[i].first, {std::move(member->id), std::move(member->storage)}});
  }
  co_return members;
}

/// A member with another storage than the one that is in sync has an emptied disk.
void take_group(const GroupNodes& nodes, const MemberNodes& members, std::size_t which, InspectedPartition& partition) {
  if (!nodes.state.ok()) return;
  ReplicaDefect defect = ReplicaDefect::none;
  const auto state = read_replica_state(nodes.state.data, nodes.state.stat.version, defect);
  if (!state) {
    if (partition.problem.empty()) partition.problem = "the state of its group is none of this library";
    return;
  }
  partition.minimum = state->minimum;
  for (const InSyncReplica& replica : state->in_sync) {
    if (members.contains({which, {replica.id, replica.storage}})) partition.in_sync.push_back(replica.id);
  }
  const bool is_there = nodes.owner.ok() && is_ephemeral(nodes.owner.stat);
  if (is_there && !state->primary.empty()) partition.primary = state->primary;
}

void count_replicas(InspectedPlacement& placement) {
  std::map<std::string, InspectedHost*> hosts;
  for (InspectedHost& one : placement.hosts)
    hosts[one.host.id] = &one;
  for (const InspectedPartition& partition : placement.partitions) {
    for (const std::string& id : partition.wanted) {
      if (const auto host = hosts.find(id); host != hosts.end()) ++host->second->replicas;
    }
    for (const std::string& id : partition.leaving) {
      if (const auto host = hosts.find(id); host != hosts.end()) ++host->second->leaving;
    }
  }
}

}  // namespace

Awaitable<Result<Inspection>> find_placement(LookPtr look) {
  Inspection found;
  found.kind = RecipeKind::placement;
  found.naming = NodeNaming::own;
  InspectedPlacement& placement = found.placement.emplace();
  const Result<void> hosts = co_await read_hosts(look, placement);
  if (!hosts) co_return hosts.error();
  const Result<void> partitions = co_await read_partitions(look, placement);
  if (!partitions) co_return partitions.error();
  NodeNames names;
  for (const InspectedPartition& one : placement.partitions)
    names.push_back(one.name);
  Result<std::vector<GroupNodes>> groups = co_await read_groups(look, names);
  if (!groups) co_return groups.error();
  Result<MemberNodes> members = co_await read_members(look, std::move(names), *groups);
  if (!members) co_return members.error();
  for (std::size_t i = 0; i < placement.partitions.size(); ++i)
    take_group((*groups)[i], *members, i, placement.partitions[i]);
  count_replicas(placement);
  std::string operation = inspecting;
  auto listing = list_contenders(contenders_in(*look, "placer", contending_names()), std::move(operation), look->call);
  Result<Contenders> placers = co_await std::move(listing);
  if (!placers) co_return placers.error();
  found.contenders = std::move(*placers);
  co_return found;
}

}  // namespace detail
}  // namespace zkrecipes
