#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace zkrecipes::detail {

/// A recursive mutex that can be waited for until a time. Not std::recursive_timed_mutex: ThreadSanitizer of clang++ 14
/// does not see that being locked.
class ConsiderLock {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    free_.wait(guard, [this] { return is_free(); });
    take();
  }
  bool try_lock_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock guard(mutex_);
    if (!free_.wait_until(guard, deadline, [this] { return is_free(); })) return false;
    take();
    return true;
  }
  void unlock() {
    const std::lock_guard guard(mutex_);
    if (--depth_ == 0) free_.notify_one();
  }

 private:
  bool is_free() const { return depth_ == 0 || owner_ == std::this_thread::get_id(); }
  void take() {
    owner_ = std::this_thread::get_id();
    ++depth_;
  }

  std::mutex mutex_;
  std::condition_variable free_;
  // Guarded by mutex_.
  std::thread::id owner_;
  int depth_ = 0;
};

}  // namespace zkrecipes::detail
