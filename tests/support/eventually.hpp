#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace testkit {

/// Waits until `condition` holds, for facts that only the server or the operating system knows, of which nobody is
/// told. The limit is longer than a session that a busy machine did not close in time.
[[nodiscard]] inline bool eventually(const std::function<bool()>& condition,
                                     std::chrono::milliseconds limit = std::chrono::seconds(120)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::mutex mutex;
  std::condition_variable never;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::unique_lock lock(mutex);
    never.wait_for(lock, std::chrono::milliseconds(2));
  }
  return true;
}

/// Lets `age` pass, for what a recipe decides by the age of something it knows: never to wait for something to happen.
inline void let_age(std::chrono::milliseconds age) {
  const auto old = std::chrono::steady_clock::now() + age;
  (void)eventually([old] { return std::chrono::steady_clock::now() > old; });
}

}  // namespace testkit
