#pragma once

#include <optional>
#include <string>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/lock.hpp>

namespace zkrecipes {

struct UnfairMutexOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the node's data; default: host and pid only.
};

/// A mutex for all processes that name the same path, without an order: when it is released, all waiters try to take
/// it, and one of them succeeds. The quickest lock for few contenders; with many of them use Mutex, which wakes one.
/// Source: the lock file of every system with exclusive creation; in ZooKeeper an ephemeral node.
///
///   path (container)
///    |-- lock                  ephemeral, data: the holder, its host, since when; watched by all waiters
///    '-- _c_<uuid>-lock        ephemeral, made and deleted together with it: this holding's alone
///
/// Invariant: the holder is the one whose session created the node `lock` that exists.
///
/// Guaranteed: at any time at most one lease of a path is valid(), as told by its own clock, unless nodes are deleted
/// by hand; a guard() or release of a former holder never takes its successor's node for its own. Not guaranteed: any
/// order, nor that a contender ever gets it (starvation); that a holder that was paused stops in time (use
/// Lease::token() or guard()). The herd: each release wakes all n waiters, which send n creates, so handing the lock
/// through n waiters costs n * n / 2 creates.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// create: request or reply lost            nothing: the node is found by its id, or created again
/// parent missing or removed                nothing: created again
/// connection breaks while waiting          nothing
/// a read lost too often (RetryPolicy)      acquire throws connection_loss; nothing stays behind
/// session lost while waiting               acquire throws session_lost
/// holder vanishes before it is watched     nothing: the create is repeated
/// session lost while holding               Lease::lost() fires, state() is lost
/// node deleted by hand while holding       Lease::lost() fires as soon as that is seen, state() is lost
/// connection breaks while holding          state() is uncertain, then held again, or lost at valid_until()
/// release: request or reply lost           nothing: the deletion is repeated until the nodes are gone
/// release after the node was deleted       the successor's node stays
/// deadline, stop request while waiting     deadline_exceeded, cancelled; nothing stays behind
/// client closed                            acquire throws closed; leases are lost; the nodes vanish
/// foreign child in the directory           ignored, unless it is named `lock`: that is waited for
///
/// A path belongs to one recipe.
///
/// Thread safety: all members.
class ZKRECIPES_API UnfairMutex : public Lock {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()).
  UnfairMutex(zkclient::Client client, zkclient::Path path, UnfairMutexOptions options = {});

  /// The holder as it is now; waiters are not on record, so contenders() has no more. Blocks for two round trips.
  /// Errors: those common to all operations of Client.
  std::optional<Contender> holder(const zkclient::CallOptions& call = {}) const;
  void async_holder(zkclient::Handler<std::optional<Contender>> handler, const zkclient::CallOptions& call = {}) const;
};

}  // namespace zkrecipes
