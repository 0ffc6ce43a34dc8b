#pragma once

#include <cstdint>
#include <string>

#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes::detail {

/// What a look for an item's claim has found.
struct ClaimLook {
  /// ok: it is claimed. no_node: it is not. bad_version: it is not the node that was read, or is gone.
  zk::Reply reply;
  std::string place;  ///< Of the claim.
};

/// Looks wherever a claim of the item may stand (see claim_place()). `version` and `czxid`: of the item, as it was read.
/// After no_node the item was not claimed while it had that version, and whoever claims it gives it another one.
zk::Awaitable<ClaimLook> look_for_claim(QueueSpecPtr spec, ItemKey key, std::int32_t version, std::int64_t czxid,
                                        zk::Call call);

}  // namespace zkrecipes::detail
