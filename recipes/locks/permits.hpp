#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recipes/kernel/contend.hpp"

namespace zkrecipes::detail {

/// The constants of a semaphore: an inner mutex, whose holder may create leases, and the directory of the leases.
struct PermitSpec {
  ContendSpecPtr turn;    ///< Of the inner mutex.
  std::string directory;  ///< Of the leases, full.
  int fixed_limit = 0;    ///< 0: the limit stands in a node.
  std::string limit_node = {};
  std::optional<int> initial_limit = {};  ///< Written into the node with the limit if that is missing.
  std::string operation;
};
using PermitSpecPtr = std::shared_ptr<const PermitSpec>;

/// Gets `count` leases; none when `patience` is try_once and they are not free.
zk::Awaitable<zkclient::Result<std::vector<LeasePtr>>> take_leases(PermitSpecPtr spec, std::string data, int count,
                                                                   Patience patience, zk::Call call);

/// Those who hold a lease, one entry for each, oldest first; then those who wait for their turn. `leases` says where the
/// former are listed, as `turn` does for the inner mutex. `operation` goes into error texts.
zk::Awaitable<zkclient::Result<std::vector<Contender>>> list_permits(ContendSpecPtr leases, ContendSpecPtr turn,
                                                                     std::string operation, zk::Call call);

}  // namespace zkrecipes::detail
