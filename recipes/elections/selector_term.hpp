#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "recipes/kernel/lease_core.hpp"

namespace zkrecipes::detail {

/// One term of a LeaderSelector: the leadership, the token that tells the task to stop, and the watchdog that gives the
/// leadership up when the task has stalled, or does not stop though it was told to.
class SelectorTerm : public std::enable_shared_from_this<SelectorTerm> {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    std::chrono::milliseconds progress_timeout{0};  ///< Zero: may be silent for ever.
    std::chrono::milliseconds stop_grace{0};
  };

  /// `on_stall` is called on the loop thread, at most once.
  SelectorTerm(std::shared_ptr<LeaseCore> lease, Limits limits, std::function<void()> on_stall);

  // --- From any thread ---
  void begin();
  /// The task has returned. Nothing else happens in this term.
  void end();
  const std::shared_ptr<LeaseCore>& lease() const noexcept { return lease_; }
  std::stop_token stop() const noexcept { return stop_.get_token(); }
  bool leads() const noexcept;
  void alive() noexcept { last_alive_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed); }
  /// Tells the task; runs its stop callbacks. It has until the end of its grace.
  void tell_to_stop();
  /// The end of the grace.
  void give_up();

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  static zk::Awaitable<void> watch(std::shared_ptr<SelectorTerm> self);
  std::optional<Clock::time_point> due() const noexcept;
  zk::Awaitable<void> stop_and_wait();

  const std::shared_ptr<LeaseCore> lease_;
  const Limits limits_;
  const std::function<void()> on_stall_;
  std::stop_source stop_;
  std::optional<StopCallback> lost_;  // Of the lease: stops the task.
  std::atomic<Clock::rep> last_alive_{0};
  std::atomic<Clock::rep> told_{0};  // When the task was told to stop; 0: it was not.

  // Loop thread only.
  std::shared_ptr<zk::Signal> wake_;
  bool ended_ = false;
};

}  // namespace zkrecipes::detail
