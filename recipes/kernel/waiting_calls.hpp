#pragma once

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <optional>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The calls that wait for news of an object that lives on the loop thread: each looks at it, waits, and looks again.
class WaitingCalls {
 public:
  class Waiting;

  /// One of them. Destroyed by any thread, when its coroutine has ended.
  class Waiter {
   public:
    Waiter(zk::EventLoop& events, const zk::Call& call) : call_(call), signal_(events) {}

    void wake() { signal_.set(); }
    void clear() { signal_.clear(); }
    /// Why the wait is over without success; `closed`: there will be no more news.
    std::optional<zkclient::Errc> failure(bool closed) const {
      if (closed) return zkclient::Errc::closed;
      if (call_.cancel != nullptr && call_.cancel->requested()) return zkclient::Errc::cancelled;
      const bool late = call_.deadline && std::chrono::steady_clock::now() >= *call_.deadline;
      return late ? std::optional(zkclient::Errc::deadline_exceeded) : std::nullopt;
    }
    zk::Awaitable<void> wait() { return signal_.wait(call_.deadline); }

   private:
    friend class Waiting;

    const zk::Call call_;
    zk::Signal signal_;
    zk::CancelScope::Guard cancelled_;
  };

  /// What a call's coroutine holds of its Waiter. The object with the news outlives it.
  class Waiting {
   public:
    Waiting(WaitingCalls& calls, zk::EventLoop& events, const zk::Call& call)
        : calls_(calls),
          waiter_(std::make_shared<Waiter>(events, call)),
          place_(calls.waiters_.insert(calls.waiters_.end(), waiter_)) {
      if (call.cancel == nullptr || call.cancel->requested()) return;
      waiter_->cancelled_ = zk::CancelScope::Guard(call.cancel, [raw = waiter_.get()] { raw->wake(); });
    }
    // On the loop thread, unlike the waiter's.
    ~Waiting() {
      waiter_->cancelled_.reset();
      calls_.waiters_.erase(place_);
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    Waiter* operator->() const noexcept { return waiter_.get(); }
    const std::shared_ptr<Waiter>& get() const noexcept { return waiter_; }

   private:
    WaitingCalls& calls_;
    const std::shared_ptr<Waiter> waiter_;
    const std::list<std::weak_ptr<Waiter>>::iterator place_;
  };

  void wake_all() {
    for (const std::weak_ptr<Waiter>& weak : waiters_) {
      if (const auto waiter = weak.lock()) waiter->wake();
    }
  }

 private:
  std::list<std::weak_ptr<Waiter>> waiters_;
};

}  // namespace zkrecipes::detail
