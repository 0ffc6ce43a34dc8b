#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/timed_lock.hpp>

namespace zkrecipes {

/// A Mutex that the thread which has it may lock again, like std::recursive_timed_mutex, and must unlock as often.
/// Source: Apache Curator's InterProcessMutex, which is re-entrant by thread; same nodes, so the two exclude each other,
/// and a Mutex as well.
///
///   path (container)
///    '-- _c_<uuid>-lock-0000000007   ephemeral: one node, however often the thread has locked
///
/// Invariant: that of Mutex; and a thread holds from its first lock() until it has unlocked as often as locked.
///
/// Guaranteed: what Mutex guarantees; the inner lock() and unlock() of a thread send nothing and do not wait. Not
/// guaranteed: that tasks of one thread exclude each other (they are one holder); what Mutex does not guarantee.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// unlock by a thread that holds nothing    unlock throws not_held; the holder is untouched
/// lost while held                          lease().lost() fires; lock() and try_lock...() throw not_held until all is unlocked
/// thread ends without unlocking            held until this object goes
/// everything else                          as in Mutex
///
/// Thread safety: all members.
class ZKRECIPES_API RecursiveMutex {
 public:
  /// No I/O. Errors: invalid_acl (the list is empty).
  RecursiveMutex(zkclient::Client client, zkclient::Path path, MutexOptions options = {});
  /// Gives back what is locked.
  ~RecursiveMutex();
  RecursiveMutex(RecursiveMutex&&) noexcept;
  RecursiveMutex& operator=(RecursiveMutex&&) noexcept;

  /// Locks for the calling thread, or counts up. Waits as Mutex::acquire(). Errors: as that, and not_held when the
  /// thread still has locks to undo of a lease that was lost.
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
  /// Undoes one lock() of the calling thread; the last one gives the lease back, without waiting. Errors: not_held.
  void unlock();

  /// How often the calling thread has locked.
  int depth() const;
  /// The lease behind the calling thread's locks, until the last unlock(). Errors: not_held.
  const Lease& lease() const;

  /// Everybody in the queue, as Mutex::contenders().
  std::vector<Contender> contenders(const zkclient::CallOptions& call = {}) const;
  void async_contenders(zkclient::Handler<std::vector<Contender>> handler,
                        const zkclient::CallOptions& call = {}) const;

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  bool lock_within(std::chrono::nanoseconds timeout);
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
