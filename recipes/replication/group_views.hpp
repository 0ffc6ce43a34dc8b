#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/replica_group.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "recipes/kernel/words.hpp"

/// What a view of many replica groups tells, one below the other: groups/<partition>. Pure, but for the options.
namespace zkrecipes::detail {

/// A member of a group, as its node says.
struct GroupMemberNode {
  ReplicaMember member;
  std::int32_t version = 0;  ///< Of its node.
  std::int64_t czxid = 0;    ///< Likewise.
};

struct GroupView {
  std::optional<ReplicaState> state = {};
  bool foreign_state = false;                 ///< Its node is there, but is no state: who is in sync is not known.
  std::int32_t version = 0;                   ///< Of the state.
  std::optional<FencingToken> primary = {};   ///< Somebody has the primary's node.
  std::vector<GroupMemberNode> members = {};  ///< Ordered by id.

  /// Null: it is not there, or its storage is not the one that is in sync.
  const GroupMemberNode* ready(const std::string& id) const;
};

/// Whether a ReplicaGroup can be made there. A node may have a name that fits below `placement`, while those of a group
/// below it do not: then no handler could make one, and one that throws ends the process. `groups`: the full path.
bool can_have_group(const std::string& groups, const std::string& partition);

/// Of a view of `groups`: for routers, or for a placer. That needs no primaries, and decides once for many changes.
enum class GroupViewer { router, placer };
TreeCacheOptions viewing_groups(const Path& groups, GroupViewer viewer);
GroupView group_view(const Snapshot& groups, const std::string& partition);

/// What a node of a group tells, wherever it was read.
void note_state(GroupView& view, std::string_view data, const zkclient::Stat& stat);
void note_member(GroupView& view, std::string_view id, std::string_view data, const zkclient::Stat& stat);

}  // namespace zkrecipes::detail
