#include "recipes/replication/group_views.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include <zkrecipes/replica_group.hpp>

#include "zkclient/detail/recipe_names.hpp"

#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/replication/replica_format.hpp"

namespace zkrecipes::detail {
namespace {

constexpr int depth_of_group_members = 3;
constexpr auto between_decisions = std::chrono::milliseconds(20);
constexpr const char* state_name = "state";
constexpr const char* members_name = "members";
constexpr const char* primary_name = "primary";
constexpr const char* owner_name = "owner";

std::string below(const std::string& partition, const char* name) { return partition + "/" + name; }

}  // namespace

const GroupMemberNode* GroupView::ready(const std::string& id) const {
  const InSyncReplica* replica = state ? state->find(id) : nullptr;
  if (replica == nullptr) return nullptr;
  const auto found =
      std::find_if(members.begin(), members.end(), [&id](const auto& node) { return node.member.id == id; });
  return found == members.end() || found->member.storage != replica->storage ? nullptr : &*found;
}

bool can_have_group(const std::string& groups, const std::string& partition) {
  constexpr std::size_t below = 256;  // What a group has there takes fewer bytes.
  return zk::is_usable_name(groups, partition, below);
}

TreeCacheOptions viewing_groups(const Path& groups, GroupViewer viewer) {
  const bool primaries = viewer == GroupViewer::router;
  TreeCacheOptions options;
  if (viewer == GroupViewer::placer) options.quiet = between_decisions;
  options.max_depth = depth_of_group_members;
  options.include = [groups, primaries](const std::string& text) {
    const Path path(text);
    const Path above = path.parent();
    const std::string_view name = path.name();
    if (above == groups) return true;
    if (above.parent() == groups)
      return name == state_name || name == members_name || (primaries && name == primary_name);
    return above.name() == members_name || name == owner_name;
  };
  return options;
}

void note_state(GroupView& view, std::string_view data, const zkclient::Stat& stat) {
  ReplicaDefect defect = ReplicaDefect::none;
  view.state = read_replica_state(data, stat.version, defect);
  view.foreign_state = defect != ReplicaDefect::none;
  view.version = stat.version;
}

void note_member(GroupView& view, std::string_view id, std::string_view data, const zkclient::Stat& stat) {
  if (!is_ephemeral(stat)) return;
  if (auto member = decode_replica_member(id, data))
    view.members.push_back({std::move(*member), stat.version, stat.czxid});
}

GroupView group_view(const Snapshot& groups, const std::string& partition) {
  GroupView view;
  if (const CachedNode* node = groups.find(below(partition, state_name)); node != nullptr && node->has_data)
    note_state(view, node->data, node->stat);
  const CachedNode* owner = groups.find(below(partition, primary_name) + "/" + owner_name);
  if (owner != nullptr && is_ephemeral(owner->stat)) view.primary = FencingToken{owner->stat.czxid};
  for (const CachedNodePtr& node : groups.children(below(partition, members_name))) {
    if (node->has_data) note_member(view, node->name, node->data, node->stat);
  }
  return view;
}

}  // namespace zkrecipes::detail
