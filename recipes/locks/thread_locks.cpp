#include "recipes/locks/thread_locks.hpp"

#include <optional>

#include <fmt/format.h>

#include "recipes/kernel/words.hpp"
#include "recipes/locks/thread_number.hpp"

namespace zkrecipes::detail {

ThreadLocks::ThreadLocks(std::string recipe, zkclient::Path path, Relock relock)
    : recipe_(std::move(recipe)), path_(std::move(path)), relock_(relock) {}

bool ThreadLocks::lock_within(const Acquirer& acquirer, Way way, std::chrono::nanoseconds timeout) {
  if (count_up(way)) return true;
  std::optional<Lease> lease = acquirer.try_acquire_for(timeout, {});
  if (!lease) return false;
  const std::lock_guard guard(mutex_);
  held_.emplace(this_thread_number(), Held{std::move(*lease), way});
  return true;
}

// False for a thread that has not locked yet.
bool ThreadLocks::count_up(Way way) {
  if (process_.forked()) return false;  // The acquirer refuses the call.
  const char* operation = way == Way::shared ? "lock_shared" : "lock";
  const std::lock_guard guard(mutex_);
  const auto found = held_.find(this_thread_number());
  if (found == held_.end()) return false;
  Held& held = found->second;
  if (!held.lease.valid()) {
    throw error(Errc::not_held, operation, "it was lost while this thread had it locked, which must unlock it first");
  }
  if (relock_ == Relock::refused) {
    throw error(Errc::would_deadlock, operation,
                held.way == Way::shared ? "this thread has locked it shared; a shared lock cannot be upgraded"
                                        : "this thread has locked it");
  }
  ++held.depth;
  return true;
}

void ThreadLocks::unlock(Way way) noexcept {
  if (process_.forked()) return;
  {
    const std::lock_guard guard(mutex_);
    const auto found = held_.find(this_thread_number());
    if (found != held_.end() && found->second.way == way) {
      if (--found->second.depth == 0) held_.erase(found);  // The lease's destructor gives it back.
      return;
    }
  }
  if (!zk::log_enabled(zkclient::LogLevel::warning)) return;
  try {
    zk::log(zkclient::LogLevel::warning,
            fmt::format("{} unlock {}: this thread has not locked it", recipe_, path_.str()),
            {.path = path_.str(), .source = "zkrecipes"});
  } catch (const std::bad_alloc&) {
    return;  // A warning that cannot be written is no reason to end the process.
  }
}

const Lease& ThreadLocks::lease() const {
  if (process_.forked()) throw error(Errc::forked, "lease", "");
  const std::lock_guard guard(mutex_);
  const auto found = held_.find(this_thread_number());
  if (found == held_.end()) throw error(Errc::not_held, "lease", "not locked by this thread");
  return found->second.lease;
}

int ThreadLocks::depth() const {
  if (process_.forked()) return 0;
  const std::lock_guard guard(mutex_);
  const auto found = held_.find(this_thread_number());
  return found != held_.end() ? found->second.depth : 0;
}

Error ThreadLocks::error(Errc code, std::string_view operation, std::string_view detail) const {
  return Error(code, fmt::format("{} {}", recipe_, operation), path_.str(), detail);
}

}  // namespace zkrecipes::detail
