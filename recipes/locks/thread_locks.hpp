#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include <zkclient/path.hpp>

#include <zkrecipes/lease.hpp>

#include "recipes/kernel/acquirer.hpp"

namespace zkrecipes::detail {

enum class Way { exclusive, shared };
enum class Relock { refused, counted };

/// The leases behind lock(), by the thread that locked. From any thread.
class ThreadLocks {
 public:
  /// `recipe` ("mutex") and `path` go into error texts.
  ThreadLocks(std::string recipe, zkclient::Path path, Relock relock);

  /// Locks for the calling thread; false when `timeout` passed. Errors: those of Lock.
  bool lock_within(const Acquirer& acquirer, Way way, std::chrono::nanoseconds timeout);
  void unlock(Way way) noexcept;
  /// Errors: not_held.
  const Lease& lease() const;
  /// How often the calling thread has locked.
  int depth() const;

 private:
  struct Held {
    Lease lease;
    Way way = Way::exclusive;
    int depth = 1;
  };
  bool count_up(Way way);
  zkclient::Error error(zkclient::Errc code, std::string_view operation, std::string_view detail) const;

  const std::string recipe_;
  const zkclient::Path path_;
  const Relock relock_;
  const zk::ProcessGeneration process_;  // A thread that a forked child lacks may have the lock.
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Held> held_;  // By this_thread_number(); an entry is changed by its thread only.
};

}  // namespace zkrecipes::detail
