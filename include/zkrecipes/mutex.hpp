#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/layout.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/timed_lock.hpp>
#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

struct MutexOptions {
  Layout layout = Layout::curator();
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the node's data; default: host and pid only.
  /// Watches the one before the predecessor as well, and reads the list while the predecessor still holds, so that a
  /// hand-over between several contenders does not wait for that. Costs one more watch, and one more wake-up, per waiter.
  bool look_ahead = false;
};

/// A fair mutex for all processes that name the same path: first come, first served.
/// Source: "Locks" in ZooKeeper's recipes; node names as in Apache Curator's InterProcessMutex.
///
///   path (container)
///    |-- _c_<uuid>-lock-0000000007   ephemeral: the holder
///    |-- _c_<uuid>-lock-0000000008   watches ...07 only
///    '-- _c_<uuid>-lock-0000000009   watches ...08 only; data: who waits, from where, since when
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
/// or more wait, or if it has waited for more than 50 ms itself and is not alone, whoever gives the lock back writes its
/// name into the path's node, unless that holds data of another kind: so the next one need not read a list as long as
/// the queue. Where the server refuses that (no right to write there, or somebody else just has), the node goes one
/// round trip later, and a try_acquire() right after a lease was dropped may still find it.
///
/// Thread safety: all members. Each acquisition is a contender of its own, also within one object or session.
/// The object keeps its client open; a Lease does not, and is lost when the last Client (or Mutex) goes.
class ZKRECIPES_API Mutex {
 public:
  /// No I/O. Errors: invalid_acl (the list is empty).
  Mutex(zkclient::Client client, zkclient::Path path, MutexOptions options = {});
  /// Gives back what lock() holds. If it was the last user of its client, that is closed, and pending asynchronous
  /// acquisitions end with Errc::closed.
  ~Mutex();
  Mutex(Mutex&&) noexcept;
  Mutex& operator=(Mutex&&) noexcept;

  /// Waits for the lock, for ever unless `call` has a deadline or a stop token. Errors: see the table, and those common
  /// to all operations of Client.
  Lease acquire(const zkclient::CallOptions& call = {});
  /// Takes the lock if it is free now; nullopt when it is not. That takes a few round trips, and waits for a connection
  /// like any operation: for at most the client's operation_timeout, unless `call` has a deadline. Errors: as acquire().
  [[nodiscard]] std::optional<Lease> try_acquire(const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`, or until `deadline`; nullopt when that passed, also when there was no connection.
  /// A time that is over already means one try, as try_acquire(). Errors: as acquire(), without deadline_exceeded.
  [[nodiscard]] std::optional<Lease> try_acquire_for(std::chrono::nanoseconds timeout, WaitOptions options = {});
  [[nodiscard]] std::optional<Lease> try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                       WaitOptions options = {});

  /// The same; `handler` is called exactly once, on the callback executor.
  void async_acquire(zkclient::Handler<Lease> handler, const zkclient::CallOptions& call = {});
  void async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const zkclient::CallOptions& call = {});

  /// Everybody in the queue, first to last, without disturbing anybody. Blocks for two round trips. Errors: those
  /// common to all operations of Client.
  std::vector<Contender> contenders(const zkclient::CallOptions& call = {}) const;
  void async_contenders(zkclient::Handler<std::vector<Contender>> handler,
                        const zkclient::CallOptions& call = {}) const;

  // Lockable and TimedLockable, for std::unique_lock and std::scoped_lock. The lease is kept for the thread that
  // locked. Errors: as the acquire forms; locking twice from one thread throws std::system_error
  // (resource_deadlock_would_occur). unlock() does not wait; for a thread that holds nothing it does nothing.
  void lock();
  [[nodiscard]] bool try_lock();
  template <typename Rep, typename Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout) {
    return lock_within(detail::to_timeout(timeout));
  }
  template <typename Clock, typename Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return lock_within(detail::to_timeout(deadline));
  }
  void unlock();
  /// The lease behind the calling thread's lock(), until its unlock(). Errors: not_held.
  const Lease& lease() const;

  const zkclient::Path& path() const noexcept;

 private:
  friend class MultiLock;
  struct State;
  const std::string& full_path() const noexcept;  // With the client's prefix.
  bool connected() const;
  bool lock_within(std::chrono::nanoseconds timeout);
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
