#include "recipes/kernel/error_backlog.hpp"

#include <utility>

namespace zkrecipes::detail {

ErrorBacklog::ErrorBacklog(const std::shared_ptr<zk::CallbackGroup>& callbacks, OnError on_error)
    : on_error_(std::move(on_error)), queue_(std::make_shared<zk::SerialQueue>(callbacks)) {}

void ErrorBacklog::report(std::exception_ptr error) {
  if (!on_error_) return;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    untold_.push_back(std::move(error));
  }
  queue_->post([self = shared_from_this()] { self->tell(); });
}

// One after the other. If another thread is at it, it tells the rest as well.
void ErrorBacklog::tell() {
  std::unique_lock lock(mutex_);
  if (teller_ != std::thread::id()) return;
  teller_ = std::this_thread::get_id();
  struct End {  // Also when on_error throws: the executor may go on after that.
    ErrorBacklog& backlog;
    std::unique_lock<std::mutex>& lock;
    ~End() {
      if (!lock.owns_lock()) lock.lock();
      backlog.teller_ = {};
      backlog.changed_.notify_all();
    }
  } const end{*this, lock};
  while (!untold_.empty()) {
    std::exception_ptr error = std::move(untold_.front());
    untold_.pop_front();
    lock.unlock();
    on_error_(error);
    error = nullptr;
    lock.lock();
  }
}

bool ErrorBacklog::tell_all(const zkclient::CallOptions& call, std::chrono::steady_clock::time_point deadline) {
  tell();
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, call.stop, deadline, [this] { return told(); })) return false;
  }
  queue_->close();  // Without what it holds of this object; nothing in there takes time any more.
  return true;
}

void ErrorBacklog::end() {
  tell();
  std::deque<std::exception_ptr> rest;  // If on_error ends the recipe.
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return told(); });
    ended_ = true;
    rest.swap(untold_);
  }
  queue_->close();
}

}  // namespace zkrecipes::detail
