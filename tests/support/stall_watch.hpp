#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace testkit {

/// Notes whether the machine kept this process from running for longer than a second. A holder is told of its loss by a
/// thread, seconds before the server ends its session. If the machine stops for those seconds, both are due at once,
/// and the waiter may be the quicker one. `valid()` asks the clock and holds even then; `lost()` holds unless `seen()`.
class StallWatch {
 public:
  StallWatch() : thread_([this](const std::stop_token& stop) { watch(stop); }) {}
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  /// A stall that lasts until now counts as well.
  bool seen() const { return seen_ || std::chrono::steady_clock::now() - last_turn_.load() > limit; }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr auto interval = std::chrono::milliseconds(50);
  static constexpr auto limit = std::chrono::seconds(1);

  void watch(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    while (!stop.stop_requested()) {
      std::unique_lock lock(mutex);
      never.wait_for(lock, stop, interval, [] { return false; });
      const TimePoint now = std::chrono::steady_clock::now();
      if (now - last_turn_.load() > limit) seen_ = true;
      last_turn_ = now;
    }
  }

  std::atomic<TimePoint> last_turn_{std::chrono::steady_clock::now()};
  std::atomic<bool> seen_{false};
  std::jthread thread_;
};

}  // namespace testkit
