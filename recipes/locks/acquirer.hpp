#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <zkrecipes/lease.hpp>

#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/timed.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

/// The forms in which a lock can be asked for, over whatever coroutine gets it.
class Acquirer {
 public:
  /// Runs on the loop thread; null when `patience` is try_once and the lock is not free.
  using Contend = std::function<zk::Awaitable<zkclient::Result<LeasePtr>>(Patience patience, zk::Call call)>;

  /// `operation` goes into error texts and is not copied.
  Acquirer(std::shared_ptr<zk::ClientCore> client, std::string path, const char* operation, Contend contend);

  Lease acquire(const zkclient::CallOptions& call) const;
  std::optional<Lease> try_acquire(const zkclient::CallOptions& call) const;
  /// As std::timed_mutex: a time that is over already means one try.
  std::optional<Lease> try_acquire_for(std::chrono::nanoseconds timeout, const WaitOptions& options) const;
  std::optional<Lease> try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                         const WaitOptions& options) const;
  void async_acquire(zkclient::Handler<Lease> handler, const zkclient::CallOptions& call) const;
  void async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const zkclient::CallOptions& call) const;

 private:
  zk::CallForm form(Patience patience) const;
  zk::Work<std::optional<Lease>> work(Patience patience) const;
  zkclient::Result<std::optional<Lease>> run(Patience patience, const zkclient::CallOptions& call) const;

  std::shared_ptr<zk::ClientCore> client_;
  std::string path_;
  const char* operation_;
  Contend contend_;
};

/// The leases behind lock(), by the thread that locked.
class ThreadLeases {
 public:
  /// Locks for the calling thread; false when `timeout` passed. Throws std::system_error
  /// (resource_deadlock_would_occur) when it holds the lock already; `operation` goes into its text.
  bool lock_within(const Acquirer& acquirer, std::chrono::nanoseconds timeout, const char* operation);
  /// For a thread that holds nothing it does nothing.
  void unlock();
  /// Errors: not_held.
  const Lease& own(const char* operation, const std::string& path) const;
  /// True while the calling thread's lease is valid.
  bool holds() const;
  /// True until the calling thread unlocks, also when its lease was lost.
  bool has() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Lease> locked_;  // By this_thread_number().
};

}  // namespace zkrecipes::detail
