#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <zkclient/client.hpp>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/layout.hpp>
#include <zkrecipes/lease.hpp>

namespace zkrecipes {

struct MutexOptions {
  Layout layout = Layout::curator();
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the node's data; default: host and pid only.
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
/// Guaranteed: at any time at most one lease of a path is valid(), as told by its own clock; order of arrival; one
/// waiter is woken per release; no node stays behind. Not guaranteed: that a holder that was paused stops in time
/// (use Lease::token() or guard()); a place in the queue across the loss of a session.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// create: request or reply lost            nothing: the node is found by its id, or created again
/// parent missing or removed                nothing: created again
/// connection breaks while waiting          nothing: the place is kept
/// session lost while waiting               acquire throws session_lost
/// own node deleted by hand while waiting   nothing: queued again, at the end
/// predecessor vanishes before it is watched nothing: the list is read again
/// session lost while holding               Lease::lost() fires, state() is lost
/// own node deleted by hand while holding   Lease::lost() fires, state() is lost
/// connection breaks while holding          state() is uncertain, then held again, or lost at valid_until()
/// release: request or reply lost           nothing: the deletion is repeated until the node is gone
/// deadline, stop request while waiting     deadline_exceeded, cancelled; the node is removed in the background
/// client closed                            acquire throws closed; leases are lost; the nodes vanish
/// foreign child in the directory           ignored
///
/// Thread safety: all members. Each acquisition is a contender of its own, also within one object or session.
class Mutex {
 public:
  /// No I/O. Errors: invalid_acl.
  Mutex(zkclient::Client client, zkclient::Path path, MutexOptions options = {});
  ~Mutex();
  Mutex(Mutex&&) noexcept;
  Mutex& operator=(Mutex&&) noexcept;

  /// Waits for the lock, for ever unless `call` has a deadline or a stop token. Errors: see the table.
  Lease acquire(const zkclient::CallOptions& call = {});
  /// Takes the lock if it is free now. `call` limits the round trips.
  std::optional<Lease> try_acquire(const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`, or until `deadline`; nullopt when that passed. Errors: cancelled, session_lost, ...
  std::optional<Lease> try_acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop = {});
  std::optional<Lease> try_acquire_until(std::chrono::steady_clock::time_point deadline, std::stop_token stop = {});

  void async_acquire(zkclient::Handler<Lease> handler, const zkclient::CallOptions& call = {});
  void async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const zkclient::CallOptions& call = {});

  /// Everybody in the queue, first to last, without disturbing anybody.
  std::vector<Contender> contenders(const zkclient::CallOptions& call = {}) const;

  // Lockable and TimedLockable, for std::unique_lock and std::scoped_lock. The lease is kept for the thread that
  // locked. unlock() does not wait and does not throw. Locking twice from one thread throws std::system_error
  // (resource_deadlock_would_occur).
  void lock();
  bool try_lock();
  template <typename Rep, typename Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout) {
    return try_lock_until(std::chrono::steady_clock::now() + timeout);
  }
  template <typename Clock, typename Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    const auto remaining = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
    return lock_within(remaining);
  }
  void unlock();
  /// The lease behind the calling thread's lock(). Errors: not_held.
  const Lease& lease() const;

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  bool lock_within(std::chrono::nanoseconds timeout);
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
