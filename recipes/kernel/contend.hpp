#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/layout.hpp>

#include "recipes/kernel/attempt.hpp"
#include "recipes/kernel/wait_order.hpp"

namespace zkrecipes::detail {

/// A list younger than this proves that our node exists, so the grant needs no second read. (A lease that has just
/// begun is not looked after any closer: an operator's delete of its node is noticed when the lease settles.)
constexpr auto young_list = std::chrono::milliseconds(5);

/// The constants of a recipe whose contenders queue up.
struct ContendSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;       ///< The recipe's, as the user wrote it.
  std::string directory;  ///< The same, full.
  Layout layout = Layout::curator();
  std::string_view kind;  ///< "lock", "latch", ...: see Layout::name.
  ContenderNames names;   ///< The names that count.
  zkclient::AclList acl;
  std::string operation;                 ///< For error texts.
  bool requeue_on_session_loss = false;  ///< Contend again with the next session instead of ending with session_lost.
  bool watch_at_once = false;            ///< See LeaseCore::Grant.
  bool internal = false;                 ///< See LeaseCore::Grant.
  bool lists_foreign = false;            ///< Listing shows contenders of other libraries as well.
  std::chrono::nanoseconds trusts_list = young_list;  ///< At what age no more; 0: no grant without another look.
  bool look_ahead = false;                            ///< Watch the one before the nearest as well: see MutexOptions.
  /// With many contenders, or after a long wait, a holder that goes writes its name into the directory's node, in the
  /// same transaction. Its successor reads that instead of a list of all contenders: if the record names the
  /// successor's predecessor, no contender is before it, for only the first contender can write it. Any other content
  /// means: read the list. It takes exclusive contenders only, and is not done where the node has data of another kind.
  bool hands_over = false;
};

/// Shared, because every call needs it until its end.
using ContendSpecPtr = std::shared_ptr<const ContendSpec>;

/// The kernel of every recipe with a wait order: makes a sequential ephemeral node, waits for the nearest
/// one before it, and returns the lease; null when `patience` is try_once and another contender is before us.
/// After a deadline, a cancellation or an error the node is removed.
zk::Awaitable<zkclient::Result<LeasePtr>> contend(ContendSpecPtr spec, std::string data, Patience patience,
                                                  zk::Call call);

/// All contenders, first to last. `operation` goes into error texts.
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
