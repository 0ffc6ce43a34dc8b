#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/layout.hpp>
#include <zkrecipes/lock.hpp>

namespace zkrecipes {

struct SharedMutexOptions {
  Layout layout = Layout::curator();
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the node's data; default: host and pid only.
};

/// A fair shared mutex (read/write lock) for all processes that name the same path: readers share it, a writer has it
/// alone, and each waits only for those that came before.
/// Source: "Shared Locks" in ZooKeeper's recipes; node names as in Apache Curator's InterProcessReadWriteLock.
///
///   path (container)
///    |-- _c_<uuid>-__READ__0000000004   ephemeral: a reader, holds
///    |-- _c_<uuid>-__READ__0000000005   a reader, holds
///    |-- _c_<uuid>-__WRIT__0000000006   a writer, watches ...05 only (and then ...04)
///    '-- _c_<uuid>-__READ__0000000007   a reader, watches ...06, the nearest WRITER before it, only
///
/// Invariant: a reader holds when no writer is before it, a writer when no contender is, among the nodes that exist.
///
/// Guaranteed: while a writer's lease is valid(), as told by its own clock, no other lease of the path is, unless nodes
/// are deleted by hand; order of arrival, so neither side starves; no node stays behind. Not guaranteed: that a holder
/// that was paused stops in time (use Lease::token() or guard()); a place in the queue across the loss of a session.
///
/// A writer may become a reader in its place (downgrade()). A reader may not become a writer: two readers who want that
/// would wait for each other for ever. So lock() throws would_deadlock for a thread that has lock_shared(), and a
/// program that holds a shared lease must give it back before it acquires an exclusive one.
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
/// session lost while holding               Lease::lost() fires, state() is lost
/// own node deleted by hand while holding   Lease::lost() fires as soon as that is seen, state() is lost
/// connection breaks while holding          state() is uncertain, then held again, or lost at valid_until()
/// downgrade: request or reply lost         nothing: one of the two nodes is there, and tells what happened
/// downgrade: refused by the server         its error; the lease is unchanged
/// session lost while downgrading           downgrade throws not_held; Lease::lost() fires
/// deadline, stop request while downgrading downgrade throws in_doubt, once it was sent; Lease::lost() fires; neither
///                                          node stays
/// client closed while downgrading          downgrade throws closed, in_doubt or not_held; Lease::lost() fires
/// given back while downgrading             async_downgrade ends with not_held; neither node stays
/// release: request or reply lost           nothing: the deletion is repeated until the node is gone
/// deadline, stop request while waiting     deadline_exceeded, cancelled; the node is removed in the background
/// client closed                            acquire throws closed; leases are lost; the nodes vanish
/// foreign child in the directory           ignored
///
/// A path belongs to one recipe. Curator up to 5.4 lets a writer in between the former and the new node of a
/// downgraded holder of ITS OWN: so do not use Curator's own downgrade there.
///
/// Thread safety: all members.
class ZKRECIPES_API SharedMutex : public Lock {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()).
  SharedMutex(zkclient::Client client, zkclient::Path path, SharedMutexOptions options = {});
  /// Gives back what lock() and lock_shared() hold.
  ~SharedMutex();
  SharedMutex(SharedMutex&&) noexcept;
  SharedMutex& operator=(SharedMutex&&) noexcept;

  // To write: acquire() and its relatives of Acquirable, lock() and its relatives of Lock.

  /// To read. As the forms without `_shared`.
  Lease acquire_shared(const zkclient::CallOptions& call = {});
  [[nodiscard]] std::optional<Lease> try_acquire_shared(const zkclient::CallOptions& call = {});
  [[nodiscard]] std::optional<Lease> try_acquire_shared_for(Timeout timeout, WaitOptions options = {});
  [[nodiscard]] std::optional<Lease> try_acquire_shared_until(std::chrono::steady_clock::time_point deadline,
                                                              WaitOptions options = {});
  void async_acquire_shared(zkclient::Handler<Lease> handler, const zkclient::CallOptions& call = {});
  void async_try_acquire_shared(zkclient::Handler<std::optional<Lease>> handler,
                                const zkclient::CallOptions& call = {});

  /// Turns a lease to write into one to read, in its place and without a gap: the readers behind it come in, none
  /// overtakes. `lease` has a new node and guard() afterwards; token(), lost() and revoke_requested() go on. Blocks for
  /// a round trip. Errors: not_held, invalid_argument (not a lease to write of this path), in_doubt (ended by deadline
  /// or stop request after it was sent: `lease` is lost), and those common to all operations of Client, after which
  /// `lease` is unchanged.
  void downgrade(Lease& lease, const zkclient::CallOptions& call = {});
  /// The same; `handler` gets the lease that goes on, and `lease` is released by then. It may be moved meanwhile; if it
  /// is given back, nothing stays, and `handler` gets not_held.
  void async_downgrade(const Lease& lease, zkclient::Handler<Lease> handler, const zkclient::CallOptions& call = {});

  /// SharedTimedLockable, for std::shared_lock. A thread has either lock() or lock_shared(), not both: see Lock.
  void lock_shared();
  [[nodiscard]] bool try_lock_shared();
  void unlock_shared() noexcept;
  template <typename Time>  // A duration.
  [[nodiscard]] bool try_lock_shared_for(const Time& timeout) {
    return lock_shared_within(detail::to_timeout(timeout));
  }
  template <typename Time>  // A point in time, on any clock.
  [[nodiscard]] bool try_lock_shared_until(const Time& deadline) {
    return lock_shared_within(detail::to_timeout(deadline));
  }

 private:
  friend class MultiLock;
  struct Readers;
  const std::shared_ptr<const detail::Acquirer>& reader() const noexcept;
  bool lock_shared_within(std::chrono::nanoseconds timeout);
  std::unique_ptr<Readers> readers_;
};

}  // namespace zkrecipes
