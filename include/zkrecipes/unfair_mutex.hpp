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
#include <zkrecipes/lease.hpp>
#include <zkrecipes/timed_lock.hpp>
#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

struct UnfairMutexOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the node's data; default: host and pid only.
};

/// A mutex for all processes that name the same path, without an order: when it is released, all who wait try to take it,
/// and one of them succeeds. The quickest lock for few contenders; with many of them use Mutex, which wakes one.
/// Source: the lock file of every system with exclusive creation; in ZooKeeper an ephemeral node.
///
///   path (container)
///    |-- lock                  ephemeral, data: who holds it, from where, since when; watched by all who wait
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
/// Thread safety: all members. Each acquisition is a contender of its own, also within one object or session.
/// The object keeps its client open; a Lease does not, and is lost when the last Client (or UnfairMutex) goes.
class ZKRECIPES_API UnfairMutex {
 public:
  /// No I/O. Errors: invalid_acl (the list is empty).
  UnfairMutex(zkclient::Client client, zkclient::Path path, UnfairMutexOptions options = {});
  /// Gives back what lock() holds.
  ~UnfairMutex();
  UnfairMutex(UnfairMutex&&) noexcept;
  UnfairMutex& operator=(UnfairMutex&&) noexcept;

  /// Waits for the lock, for ever unless `call` has a deadline or a stop token. Errors: see the table, and those common
  /// to all operations of Client.
  Lease acquire(const zkclient::CallOptions& call = {});
  /// Takes the lock if it is free now; nullopt when it is not. Blocks for a few round trips. Errors: as acquire().
  [[nodiscard]] std::optional<Lease> try_acquire(const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`, or until `deadline`; nullopt when that passed, also when there was no connection.
  /// A time that is over already means one try, as try_acquire(). Errors: as acquire(), without deadline_exceeded.
  [[nodiscard]] std::optional<Lease> try_acquire_for(std::chrono::nanoseconds timeout, WaitOptions options = {});
  [[nodiscard]] std::optional<Lease> try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                       WaitOptions options = {});

  /// The same; `handler` is called exactly once, on the callback executor.
  void async_acquire(zkclient::Handler<Lease> handler, const zkclient::CallOptions& call = {});
  void async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const zkclient::CallOptions& call = {});

  /// Who holds it now; who waits is not on record. Blocks for two round trips. Errors: those common to all operations
  /// of Client.
  std::optional<Contender> holder(const zkclient::CallOptions& call = {}) const;
  void async_holder(zkclient::Handler<std::optional<Contender>> handler, const zkclient::CallOptions& call = {}) const;

  // Lockable and TimedLockable, as Mutex.
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
