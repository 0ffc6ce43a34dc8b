#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <zkrecipes/double_barrier.hpp>

#include "recipes/kernel/lease_core.hpp"

namespace zkrecipes::detail {

/// What makes a double barrier.
struct RoundSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;       ///< As the user wrote it.
  std::string directory;  ///< The same, full.
  std::size_t count = 0;
  zkclient::AclList acl;
  std::string id;
  bool refuse_extra = false;
};
using RoundSpecPtr = std::shared_ptr<const RoundSpec>;

/// A member's place in a round.
struct RoundPlace {
  Round round;
  std::shared_ptr<LeaseCore> lease = {};  ///< On its node; null: not inside.
};

/// Comes in with a new node. Whatever else happens (deadline, cancellation, error), the node is withdrawn.
zk::Awaitable<zkclient::Result<RoundPlace>> enter_round(RoundSpecPtr spec, zk::Call call);

/// Removes the node, and waits until the others have gone. `was_inside`: it had not been lost before.
zk::Awaitable<zkclient::Result<void>> leave_round(RoundSpecPtr spec, RoundPlace membership, bool was_inside,
                                                  zk::Call call);

}  // namespace zkrecipes::detail
