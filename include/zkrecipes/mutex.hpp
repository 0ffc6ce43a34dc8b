#pragma once

#include <string>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/layout.hpp>
#include <zkrecipes/lock.hpp>

namespace zkrecipes {

struct MutexOptions {
  Layout layout = Layout::curator();
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the node's data; default: host and pid only.
  /// Watches the one before the predecessor as well, and reads the list while the predecessor still holds, so that a
  /// hand-over between several contenders does not wait for that. Costs one more watch, and one more wake-up, per
  /// waiter.
  bool look_ahead = false;
};

/// A fair mutex for all processes that name the same path: first come, first served.
/// Source: "Locks" in ZooKeeper's recipes; node names as in Apache Curator's InterProcessMutex.
///
///   path (container)
///    |-- _c_<uuid>-lock-0000000007   ephemeral: the holder
///    |-- _c_<uuid>-lock-0000000008   watches ...07 only
///    '-- _c_<uuid>-lock-0000000009   watches ...08 only; data: the waiter, its host, since when
///
/// Invariant: the holder is the one with the lowest sequence number among the nodes that exist.
///
/// Guaranteed: at any time at most one lease of a path is valid(), as told by its own clock, unless nodes are deleted
/// by hand; order of arrival; one waiter is woken per release; no node stays behind. Not guaranteed: that a holder that
/// was paused stops in time (use Lease::token() or guard()); a place in the queue across the loss of a session.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// create: request or reply lost            nothing: the node is found by its id, or created again
/// parent missing or removed                nothing: created again
/// connection breaks while waiting          nothing: the place is kept
/// a read lost too often (RetryPolicy)      acquire throws connection_loss; the node is removed in the background
/// session lost while waiting               acquire throws session_lost
/// own node deleted by hand while waiting   nothing: queued again, at the end; if that was within milliseconds of the
///                                          grant: as while holding
/// predecessor vanishes before it is watched nothing: that is the same as if it went later
/// session lost while holding               Lease::lost() fires, state() is lost
/// own node deleted by hand while holding   Lease::lost() fires as soon as that is seen, state() is lost
/// connection breaks while holding          state() is uncertain, then held again, or lost at valid_until()
/// release: request or reply lost           nothing: the deletion is repeated until the node is gone
/// deadline, stop request while waiting     deadline_exceeded, cancelled; the node is removed in the background
/// client closed                            acquire throws closed; leases are lost; the nodes vanish
/// foreign child in the directory           ignored
///
/// A path belongs to one recipe: other recipes ignore the mutex's nodes there, or take them for their own. If a hundred
/// or more wait, or if it has waited for more than 50 ms itself and is not alone, the holder that gives the lock back
/// writes its name into the path's node, unless that holds data of another kind: so the next one need not read a list
/// as long as the queue. Where the server refuses that (no right to write there, or another client just has), the node
/// goes one round trip later, and a try_acquire() right after a lease was dropped may still find it.
///
/// Thread safety: all members.
class ZKRECIPES_API Mutex : public Lock {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()).
  Mutex(zkclient::Client client, zkclient::Path path, MutexOptions options = {});
};

}  // namespace zkrecipes
