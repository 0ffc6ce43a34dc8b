#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// What a recipe with a thread of its own tells its user's on_error. One call at a time, on the callback executor; what
/// that has not begun when the recipe ends is told by the thread that ends it. Any thread.
class ErrorBacklog : public std::enable_shared_from_this<ErrorBacklog> {
 public:
  using OnError = std::function<void(const std::exception_ptr&)>;

  /// `on_error` may be empty.
  ErrorBacklog(const std::shared_ptr<zk::CallbackGroup>& callbacks, OnError on_error);

  void report(std::exception_ptr error);
  /// Until all errors have been told, here those that no other thread has begun. False when the limits of the call came
  /// first. Does not wait for on_error if that calls it.
  bool tell_all(const zkclient::CallOptions& call, std::chrono::steady_clock::time_point deadline);
  /// The same without limits. From when it returns, on_error is not called any more, unless that calls it.
  void end();

 private:
  void tell();
  bool told() const { return teller_ == std::thread::id() || teller_ == std::this_thread::get_id(); }

  const OnError on_error_;
  const std::shared_ptr<zk::SerialQueue> queue_;  // On which on_error runs.

  std::mutex mutex_;
  // Guarded by mutex_.
  std::condition_variable_any changed_;
  std::deque<std::exception_ptr> untold_;
  std::thread::id teller_;  // The one thread that calls on_error.
  bool ended_ = false;
};

}  // namespace zkrecipes::detail
