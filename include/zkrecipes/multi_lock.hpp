#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>
#include <zkrecipes/lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/unfair_mutex.hpp>
#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

/// The leases of a MultiLock, in the order in which its locks were added. Move-only; the destructor gives all back
/// without waiting.
///
/// Thread safety: const members from any thread; moving and releasing like any other object.
class ZKRECIPES_API [[nodiscard]] MultiLease {
 public:
  MultiLease() noexcept;
  explicit MultiLease(std::vector<Lease> leases);
  MultiLease(MultiLease&&) noexcept;
  MultiLease& operator=(MultiLease&&) noexcept;
  ~MultiLease();

  /// True while all of them are; false for an empty one.
  bool valid() const noexcept;
  /// Fires once, when the first of them is lost. The others are still held: give them back.
  std::stop_token lost() const noexcept;
  /// The earliest of all; in the past when not valid().
  zkclient::BootClock::time_point valid_until() const noexcept;
  const std::vector<Lease>& leases() const noexcept;
  /// Adds all guards to `transaction`, which then fails unless all are held. Errors: not_held (empty).
  void guard(zkclient::Transaction& transaction) const;
  /// Gives all back, last acquired first, and waits. All are given back whatever happens. Errors: of the first one that
  /// failed, see Lease::release().
  void release(const zkclient::CallOptions& call = {});
  void async_release(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Several locks at once, of any kind, and permits of semaphores: all or none, under one deadline.
/// Source: Apache Curator's InterProcessMultiLock; there each lock waits for the whole time anew, and in the order
/// given.
///
///   MultiLock both;
///   both.add(accounts).add_shared(rates);   // a Mutex, a SharedMutex to read
///   auto leases = both.try_acquire_for(5s);
///
/// Invariant: the locks are acquired one after the other in the order of their full paths, their clients' prefixes
/// included. So two MultiLocks never wait for each other, whatever locks they have in common, by whatever clients, and
/// in which order they were added.
///
/// Guaranteed: what each lock guarantees; the deadline of a call covers the whole (without one, try_acquire() and
/// release() give each lock the time of an operation); if one cannot be had, those before it are given back. If one of
/// those before it is lost while the next one is waited for, the whole ends with not_held. Not guaranteed: freedom from
/// deadlock for a thread that holds one of the locks by other means, or that adds one lock twice (refused, as far as
/// paths tell).
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// a lock cannot be had in time             nullopt, or deadline_exceeded; the others are given back
/// a lock fails while others are held       its error; the others are given back
/// create lost while others are held        nothing: the node is found by its id, or created again
/// one is lost while others are waited for  not_held; the others are given back
/// session lost while others are waited for session_lost, or not_held if the lock that is waited for is of another
///                                          client; no node stays
/// one is lost while all are held           MultiLease::lost() fires, valid() is false
/// session lost while all are held          MultiLease::lost() fires, once for all; valid() is false
/// connection breaks while all are held     valid() stays true, but not beyond valid_until(): MultiLease::lost() fires
///                                          then, before another client has one of them
/// stop request while others are waited for cancelled; the others are given back
/// client closed                            closed, or not_held as above; leases are lost; the nodes vanish
///
/// The objects that were added may go before this one: it shares their part.
/// Thread safety: acquiring from any thread; not add().
class ZKRECIPES_API MultiLock {
 public:
  MultiLock() = default;

  /// `lock`: any lock, or one permit of a Semaphore. A SharedMutex to write. Errors: invalid_argument (its full path
  /// was added already).
  MultiLock& add(const Acquirable& lock);
  MultiLock& add_shared(const SharedMutex& mutex);  ///< To read.

  /// Waits for all, for ever unless `call` has a deadline or a stop token. Errors: see the table, those of the locks,
  /// and invalid_argument (there are none).
  MultiLease acquire(const zkclient::CallOptions& call = {});
  /// Takes all if they are free now; nullopt when one is not.
  [[nodiscard]] std::optional<MultiLease> try_acquire(const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`, or until `deadline`, for all together; nullopt when that passed. A time that is over
  /// already means one try.
  [[nodiscard]] std::optional<MultiLease> try_acquire_for(Timeout timeout, WaitOptions options = {});
  [[nodiscard]] std::optional<MultiLease> try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                            WaitOptions options = {});

  /// The same; `handler` is called exactly once, on a callback executor. This object need not stay until
  /// then.
  void async_acquire(zkclient::Handler<MultiLease> handler, const zkclient::CallOptions& call = {});
  void async_try_acquire(zkclient::Handler<std::optional<MultiLease>> handler, const zkclient::CallOptions& call = {});

 private:
  class Run;
  using Member = std::shared_ptr<const detail::Acquirer>;
  MultiLock& add_member(Member member);

  std::vector<Member> members_;  // As they were added.
};

}  // namespace zkrecipes
