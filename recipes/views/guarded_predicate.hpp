#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

/// A predicate of the user's, which may be stopped while it is called. It may own what owns this, so it is released as
/// soon as it is not to be called any more. The caller of a member keeps this alive meanwhile. Any thread; not in a forked
/// child.
template <typename Argument>
class GuardedPredicate {
 public:
  using Predicate = std::function<bool(const Argument& argument)>;

  explicit GuardedPredicate(Predicate predicate) : predicate_(std::move(predicate)) {}

  /// Calls it, unless it was stopped. One call at a time.
  bool holds(const Argument& argument) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return false;
      runner_ = std::this_thread::get_id();
    }
    struct Done {
      GuardedPredicate& predicate;
      ~Done() {
        Predicate gone;
        std::unique_lock lock(predicate.mutex_);
        if (predicate.stopped_) {
          gone.swap(predicate.predicate_);
          lock.unlock();
          gone = nullptr;  // It still runs here: its end may close what it owned.
          lock.lock();
        }
        predicate.runner_ = {};
        predicate.idle_.notify_all();
      }
    } done{*this};
    return predicate_(argument);
  }
  /// It is not called from now on.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  bool stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  /// This thread is in a call of it.
  bool runs_here() const {
    const std::lock_guard lock(mutex_);
    return runner_ == std::this_thread::get_id();
  }
  /// As stop(); and it is destroyed, by this thread, or by the one that runs it. Does not wait for that.
  void release() {
    Predicate gone;  // Destroyed without the lock.
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (runner_ == std::thread::id()) gone.swap(predicate_);
  }
  /// As release(); and it is not running any more (unless this thread runs it), and is destroyed.
  void end() {
    release();
    if (runs_here()) return;
    std::unique_lock lock(mutex_);
    if (runner_ == std::thread::id()) return;
    lock.unlock();
    zkclient::detail::CallbackPool::about_to_wait();
    lock.lock();
    idle_.wait(lock, [this] { return runner_ == std::thread::id(); });
  }

 private:
  Predicate predicate_;
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  // Guarded by mutex_.
  bool stopped_ = false;
  std::thread::id runner_;
};

}  // namespace zkrecipes::detail
