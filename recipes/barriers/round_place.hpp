#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/lease.hpp>

#include "recipes/kernel/attempt.hpp"

namespace zkrecipes::detail {

/// The constants of one double barrier.
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
  Lease lease = {};  ///< On its node; empty: not inside. A place that nobody takes is given back with it.
};

/// Comes in with a new node. Whatever else happens (deadline, cancellation, error), the node is withdrawn; as if the
/// time were over where `patience` is try_once and others are waited for.
zk::Awaitable<zkclient::Result<RoundPlace>> enter_round(RoundSpecPtr spec, Patience patience, zk::Call call);

/// Removes the node, and waits until the others have gone; try_once: looks whether they have. `was_inside`: the place
/// had not been lost before.
zk::Awaitable<zkclient::Result<void>> leave_round(RoundSpecPtr spec, RoundPlace place, bool was_inside,
                                                  Patience patience, zk::Call call);

}  // namespace zkrecipes::detail
