#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

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

}  // namespace zkrecipes::detail
