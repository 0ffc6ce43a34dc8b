#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <zkclient/function.hpp>

#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

namespace zk = zkclient::detail;

/// A listener that is told of states, one at a time, on the callback executor. What leads back to a state that it has
/// not been told yet is left out. Any thread.
template <typename State>
class StateWatcher : public std::enable_shared_from_this<StateWatcher<State>> {
 public:
  using Listener = zkclient::UniqueFunction<void(State state)>;

  StateWatcher(Listener call, std::shared_ptr<zk::SerialQueue> queue)
      : call_(std::move(call)), queue_(std::move(queue)) {}

  /// Under the lock that orders the states. True: then schedule(), without that lock, as a closed queue runs it at once.
  bool note(State state) {
    const std::lock_guard lock(mutex_);
    const std::size_t count = waiting_.size();
    if (count >= 2 && waiting_[count - 2] == state) {
      waiting_.pop_back();
    } else {
      waiting_.push_back(state);
    }
    return !std::exchange(scheduled_, true);
  }
  void schedule() {
    queue_->post([self = this->shared_from_this()] { self->run(); });
  }
  void close() { queue_->close(); }

 private:
  // Goes on when the listener throws: the executor decides what becomes of that.
  struct Next {
    StateWatcher& watcher;
    ~Next() {
      if (watcher.has_more()) watcher.schedule();
    }
  };

  bool has_more() {
    const std::lock_guard lock(mutex_);
    scheduled_ = !waiting_.empty();
    return scheduled_;
  }

  State take() {
    const std::lock_guard lock(mutex_);
    const State state = waiting_.front();
    waiting_.erase(waiting_.begin());
    return state;
  }

  void run() {
    const Next next{*this};
    call_(take());
  }

  Listener call_;
  const std::shared_ptr<zk::SerialQueue> queue_;
  std::mutex mutex_;
  std::vector<State> waiting_;  // Guarded by mutex_.
  bool scheduled_ = false;      // The same.
};

}  // namespace zkrecipes::detail
