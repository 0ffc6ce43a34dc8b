#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// Whether another library made a change of a node. `change`: its transaction, that was the node's mzxid. A transaction
/// of ours also writes the slot of its writer. So if no slot of the node's writers was written in this one or later, it
/// is not ours. `slots`: their folder; `family`: how the names of those writers' slots begin. False when that cannot be
/// found out, or when there are too many slots to look at. A writer whose slot stands elsewhere, for want of room under
/// a quota, passes for another library. Two round trips. Loop thread only.
zk::Awaitable<bool> is_foreign_change(std::shared_ptr<zk::ClientCore> client, std::string slots, std::string family,
                                      std::int64_t change, zk::Call call);

}  // namespace zkrecipes::detail
