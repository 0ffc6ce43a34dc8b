#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

namespace detail {

class Acquirer;
struct LockState;

}  // namespace detail

/// The part that all locks and the semaphore have in common: a caller acquires a Lease. Made by the classes derived
/// from it, whose tables say what goes wrong.
///
/// Thread safety: all members. Each acquisition is a contender of its own, also within one object or session. The
/// object keeps its client open; a Lease does not, and is lost when the last Client and the last object that uses it
/// go. A moved-from object may only be destroyed or assigned to. After an outage that cost sessions, an acquisition
/// waits for the end of those that had a place: the client of each closes it as soon as it is connected again.
class ZKRECIPES_API Acquirable {
 public:
  /// Waits for a lease, for ever unless `call` has a deadline or a stop token. Errors: see the table of the derived
  /// class, and those common to all operations of Client.
  Lease acquire(const zkclient::CallOptions& call = {});
  /// Takes a lease if one is free now; nullopt when it is not. That takes a few round trips, and waits for a connection
  /// like any operation: for at most the client's operation_timeout, unless `call` has a deadline. Errors: as
  /// acquire().
  [[nodiscard]] std::optional<Lease> try_acquire(const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`, or until `deadline`; nullopt when that passed, also when there was no connection.
  /// A time that is over already means one try, as try_acquire(). Errors: as acquire(), without deadline_exceeded.
  [[nodiscard]] std::optional<Lease> try_acquire_for(Timeout timeout, WaitOptions options = {});
  [[nodiscard]] std::optional<Lease> try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                       WaitOptions options = {});

  /// The same; `handler` is called exactly once, on the callback executor.
  void async_acquire(zkclient::Handler<Lease> handler, const zkclient::CallOptions& call = {});
  void async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const zkclient::CallOptions& call = {});

  /// The holders and the waiters, first to last, as far as the recipe has them on record; it disturbs none of them.
  /// Blocks for two round trips. Errors: those common to all operations of Client.
  std::vector<Contender> contenders(const zkclient::CallOptions& call = {}) const;
  void async_contenders(zkclient::Handler<std::vector<Contender>> handler,
                        const zkclient::CallOptions& call = {}) const;

  const zkclient::Path& path() const noexcept;

 protected:
  explicit Acquirable(std::unique_ptr<detail::LockState> state) noexcept;
  ~Acquirable();
  Acquirable(Acquirable&&) noexcept;
  Acquirable& operator=(Acquirable&&) noexcept;

  detail::LockState& state() const noexcept { return *state_; }

 private:
  friend class MultiLock;
  std::unique_ptr<detail::LockState> state_;
};

/// The part that all locks have in common: besides acquire(), they are Lockable and TimedLockable, for std::unique_lock
/// and std::scoped_lock. The lease is then kept for the thread that locked. The destructor gives back what is locked.
///
/// Errors of lock() and its relatives, in all locks alike: as the acquire forms; for a thread that has not unlocked yet
/// would_deadlock, or not_held if its lease was lost meanwhile: it must unlock first. (A RecursiveMutex counts instead
/// of would_deadlock.)
class ZKRECIPES_API Lock : public Acquirable {
 public:
  void lock();
  /// False when it is not free, as try_acquire().
  [[nodiscard]] bool try_lock();
  /// Waits for any duration, or until a point in time of any clock; false when that passed.
  template <typename Time>
  [[nodiscard]] bool try_lock_for(const Time& timeout) {
    return lock_within(detail::to_timeout(timeout));
  }
  template <typename Time>
  [[nodiscard]] bool try_lock_until(const Time& deadline) {
    return lock_within(detail::to_timeout(deadline));
  }
  /// Gives the lease back without waiting. It never throws: for a thread that has not locked, it does nothing but log a
  /// warning.
  void unlock() noexcept;
  /// The lease behind the calling thread's lock(), until its unlock(), also when it was lost. Errors: not_held (this
  /// thread has not locked).
  const Lease& lease() const;

 protected:
  using Acquirable::Acquirable;
  ~Lock() = default;
  Lock(Lock&&) noexcept = default;
  Lock& operator=(Lock&&) noexcept = default;

 private:
  bool lock_within(std::chrono::nanoseconds timeout);
};

}  // namespace zkrecipes
