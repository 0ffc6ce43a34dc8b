#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

#include "zktesting/detail/posix.hpp"
#include "zktesting/proxy.hpp"

namespace zktesting::detail {

enum class FaultKind { drop_reply, drop_request, hold_reply, forge_session, drop_event };

/// The state that a test's handle and the relay share.
struct FaultState {
  FaultState(FaultKind what, RequestType which) : kind(what), type(which) {}

  const FaultKind kind;
  const RequestType type;
  std::size_t passed = 0;  ///< Events that are to be delivered first. On the loop's thread.

  std::mutex mutex;
  std::condition_variable changed;
  bool happened = false;
  bool finished = false;         ///< Cancelled or released: must not strike any more.
  std::function<void()> resume;  ///< Of a held connection.

  /// What `strike` does and the mark are one for those who ask: a client sees the end of its connection at once, and the
  /// test asks then whether the fault has happened. `strike` must not look at the fault.
  template <typename Strike>
  void happen(Strike strike) {
    const std::lock_guard lock(mutex);
    strike();
    happened = true;
    changed.notify_all();
  }
  bool is_finished() {
    const std::lock_guard lock(mutex);
    return finished;
  }
  bool is_happened() {
    const std::lock_guard lock(mutex);
    return happened;
  }
  bool wait(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, timeout, [this] { return happened; });
  }
  void finish() {
    std::function<void()> go_on;
    {
      const std::lock_guard lock(mutex);
      finished = true;
      go_on.swap(resume);
    }
    if (go_on) {
      go_on();
    }
  }
};

}  // namespace zktesting::detail
