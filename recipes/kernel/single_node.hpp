#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/contender.hpp>

#include "recipes/kernel/contend.hpp"

namespace zkrecipes::detail {

/// The constants of a recipe whose contenders all want one node.
///
///   directory
///    |-- <name>                 ephemeral: its creator holds; all waiters watch it; data: free, see `revocable`
///    '-- _c_<uuid>-<name>       ephemeral, made and deleted in the same transactions: this holding's alone
///
/// The second node is unique, as the name of a sequential node is. By it the holder finds out whether a
/// create took place whose reply was lost; guards of transactions check it, and releases delete it, so that neither can
/// take another holder's <name> for their own when the holder's node was deleted and the holder does not know it yet.
/// The new holder deletes what is left of its predecessor before it gets its lease. Both nodes have one czxid: the
/// token.
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
  bool revocable = true;                 ///< See LeaseCore::Grant.
  std::string holding_data = {};         ///< Of the second node, for operators; "": the same as that of <name>.
  /// The recipe's own operations in the transaction that makes both nodes: checks that stand before the creates, and
  /// changes that stand behind. Paths are full ones. If the server refuses one of them, the attempt fails: see
  /// was_refused(). A condition is judged first, so a node that is taken does not hide it. The nodes prove the
  /// changes: who gets the lease has made them, whatever became of the reply. An attempt that fails for any other
  /// reason may have made them, too: read again what they were about.
  std::vector<zkclient::Transaction::Operation> conditions = {};
  std::vector<zkclient::Transaction::Operation> changes = {};

  std::string node() const;  ///< Full path of <name>.
};

/// Shared, because every call needs it until its end.
using SingleNodeSpecPtr = std::shared_ptr<const SingleNodeSpec>;

/// Gets the node and returns the lease; null when `patience` is try_once and another holder has it. `data` is written
/// into it. Whatever else happens (deadline, cancellation, error), nothing stays behind.
zk::Awaitable<zkclient::Result<LeasePtr>> contend_for_node(SingleNodeSpecPtr spec, std::string data, Patience patience,
                                                           zk::Call call);

/// True if `error`, of contend_for_node(), is that of a condition or a change: errc() says why (bad_version, no_node,
/// ...), node() the node that it is about, without the client's prefix.
bool was_refused(const zkclient::Error& error) noexcept;

/// The holder; nullopt if there is none. Contender::node is the node whose name is the holding's alone, if it is there.
zk::Awaitable<zkclient::Result<std::optional<Contender>>> read_holder(SingleNodeSpecPtr spec, std::string operation,
                                                                      zk::Call call);

}  // namespace zkrecipes::detail
