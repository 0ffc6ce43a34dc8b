#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <zkrecipes/replica_group.hpp>

#include "recipes/kernel/words.hpp"

/// The witnesses of a group's members: see kept_node.hpp. The version of a member's node is also that of a member that is
/// gone and back with an empty disk. The witness that was made with the node is not.
namespace zkrecipes::detail {

using WitnessNames = std::map<std::int64_t, std::string>;  ///< By czxid, which is also that of the member's node.

/// Where the witnesses of the members of `group` are.
inline Path witnesses_of(const Path& group) { return group / "members-presence"; }

/// All of them, read at once, one after the list. `directory`: the full path of witnesses_of(); `shown`: as the user knows
/// it. A session that has seen a member's node sees its witness, if both are there still. Errors: foreign_node (there are
/// far more than a group has), and what the server refuses.
Awaitable<Result<WitnessNames>> look_for_witnesses(std::shared_ptr<zk::ClientCore> client, std::string directory,
                                                   const char* operation, std::string shown, Call call);

/// A member, and what a transaction checks that may name this one only, and no later one of its id.
struct StandingMember {
  ReplicaMember member;
  zkclient::Check node;
  zkclient::Check witness;
};

/// The member `id` of `group`, as a majority knows it. Errors: no_node (it is not there), foreign_node, and what the
/// server refuses.
Awaitable<Result<StandingMember>> find_standing_member(std::shared_ptr<zk::ClientCore> client, Path group,
                                                       std::string id, const char* operation, Call call);

}  // namespace zkrecipes::detail
