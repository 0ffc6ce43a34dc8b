#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/layout.hpp>

#include "recipes/kernel/lease_core.hpp"
#include "recipes/kernel/wait_order.hpp"

namespace zkrecipes::detail {

/// For so long a list that told of the own node spares a waiter another look for it, right before its grant. (A lease that
/// has just begun is not looked after any closer: if somebody deletes its node by hand, that is noticed when it settles.)
constexpr auto young_list = std::chrono::milliseconds(5);

/// What makes a recipe out of the contender kernel.
struct ContendSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;       ///< The recipe's, as the user wrote it.
  std::string directory;  ///< The same, full.
  Layout layout = Layout::curator();
  std::string_view kind;  ///< "lock", "latch", ...: see Layout::name.
  ContenderNames names;   ///< Who counts.
  zkclient::AclList acl;
  std::string operation;                 ///< For error texts.
  bool requeue_on_session_loss = false;  ///< Queue again with the next session instead of ending with session_lost.
  bool watch_at_once = false;            ///< See LeaseCore::Grant.
  bool lists_foreign = false;            ///< Listing shows contenders of other libraries as well.
  std::chrono::nanoseconds trusts_list = young_list;  ///< At what age no more; 0: no grant without another look.
  bool look_ahead = false;                            ///< Watch the one before the nearest as well: see MutexOptions.
  /// In a long queue, or after a long wait, a holder that goes writes its name into the directory's node, in the same
  /// transaction. Whoever waits for it reads that, instead of a list as long as the queue: if the record names the one
  /// it waited for, nobody is before it, for only the first in the queue can write it. Whatever else is found there
  /// means: read the list. It takes exclusive contenders only, and is not done where the node has data of another kind.
  bool hands_over = false;
};

/// Shared, because every call needs it until its end.
using ContendSpecPtr = std::shared_ptr<const ContendSpec>;

enum class Patience { wait, try_once };

using LeasePtr = std::shared_ptr<LeaseCore>;

/// The kernel of every recipe in which contenders queue up: makes a sequential ephemeral node, waits for the nearest
/// one before it, and returns the lease; null when `patience` is try_once and somebody is before us. Whatever else
/// happens (deadline, cancellation, error), the node is removed.
zk::Awaitable<zkclient::Result<LeasePtr>> contend(ContendSpecPtr spec, std::string data, Patience patience,
                                                  zk::Call call);

/// Everybody in the queue, first to last. `operation` goes into error texts.
zk::Awaitable<zkclient::Result<std::vector<Contender>>> list_contenders(ContendSpecPtr spec, std::string operation,
                                                                        zk::Call call);

/// The same as a coroutine that waits for its limits.
zk::Work<std::vector<Contender>> contenders_work(ContendSpecPtr spec, const char* operation);
/// How a call of this recipe gets to its coroutine.
zk::CallForm form_of(const ContendSpecPtr& spec, const char* operation);

/// "host=... pid=... since=...", for operators.
std::string describe_process(const std::string& id);
/// "host:pid"
std::string process_name();

}  // namespace zkrecipes::detail
