#pragma once

#include <memory>
#include <optional>
#include <string>

#include <zkrecipes/contender.hpp>

#include "recipes/kernel/contend.hpp"

namespace zkrecipes::detail {

/// What makes a recipe out of the kernel for one node that everybody wants.
///
///   directory
///    |-- <name>                 ephemeral: who creates it, holds; everybody who waits watches it; data: free
///    '-- _c_<uuid>-<name>       ephemeral, made and deleted in the same transactions: this holding's alone
///
/// The second node is what the name of a sequential node is in a queue: unique. By it the holder finds out whether a
/// create took place whose reply was lost; guards of transactions check it, and releases delete it, so that neither can
/// take somebody else's <name> for their own when the holder was robbed of its node and does not know it yet. The new
/// holder deletes what is left of its predecessor before it gets its lease. Both nodes have one czxid: the token.
struct SingleNodeSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;       ///< The recipe's, as the user wrote it.
  std::string directory;  ///< The same, full.
  std::string name;       ///< "lock", "leader", ...
  zkclient::CreateMode parent_mode = zkclient::CreateMode::container;
  zkclient::AclList acl;
  std::string operation;                 ///< For error texts.
  bool requeue_on_session_loss = false;  ///< Try again with the next session instead of ending with session_lost.
  bool watch_at_once = false;            ///< See LeaseCore::Grant.

  std::string node() const;  ///< Full path of <name>.
};

/// Shared, because every call needs it until its end.
using SingleNodePtr = std::shared_ptr<const SingleNodeSpec>;

/// Gets the node and returns the lease; null when `patience` is try_once and somebody has it. `data` is written into it.
/// Whatever else happens (deadline, cancellation, error), nothing stays behind.
zk::Awaitable<zkclient::Result<LeasePtr>> contend_for_node(SingleNodePtr spec, std::string data, Patience patience,
                                                           zk::Call call);

/// Who has it; nullopt when nobody does. Contender::node is the node whose name is the holding's alone, if it is there.
zk::Awaitable<zkclient::Result<std::optional<Contender>>> read_holder(SingleNodePtr spec, std::string operation,
                                                                      zk::Call call);

}  // namespace zkrecipes::detail
