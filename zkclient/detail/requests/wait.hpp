#pragma once

#include <cassert>
#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

#include "zkclient/detail/loop/awaitable.hpp"
#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/requests/request.hpp"

/// The means by which coroutines on the loop thread wait. Nothing here is for other threads.
namespace zkclient::detail {

/// A flag that one coroutine waits for. Set it before or during the wait; clear it before the read that re-checks.
class Signal {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  explicit Signal(EventLoop& loop) : timer_(loop) {}

  void set() {
    set_ = true;
    wake();
  }
  void clear() noexcept { set_ = false; }
  bool is_set() const noexcept { return set_; }

  /// Returns when the flag is set or the deadline has passed.
  Awaitable<void> wait(std::optional<TimePoint> deadline) {
    while (!set_ && (!deadline || std::chrono::steady_clock::now() < *deadline)) {
      if (deadline) timer_.set(*deadline, [this] { wake(); });
      Parking parking{this};
      co_await parking;
      timer_.cancel();
    }
  }

 private:
  struct Parking {
    Signal* signal;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const noexcept {
      assert(!signal->waiting_);
      signal->waiting_ = waiting;
    }
    void await_resume() const noexcept {}
  };

  void wake() {
    if (waiting_) coroutine::resume_later(std::exchange(waiting_, {}));
  }

  Timer timer_;
  std::coroutine_handle<> waiting_;
  bool set_ = false;
};

/// For as long as it lives, the end of a session sets a signal. Both outlive it. A session that is over already sets
/// nothing: ask it first.
class SessionEnd {
 public:
  SessionEnd(std::shared_ptr<SessionState> session, Signal& signal)
      : session_(std::move(session)), observer_(session_->observe([&signal, raw = session_.get()] {
          if (raw->over()) signal.set();
        })) {}
  ~SessionEnd() { session_->forget(observer_); }
  SessionEnd(const SessionEnd&) = delete;
  SessionEnd& operator=(const SessionEnd&) = delete;

 private:
  const std::shared_ptr<SessionState> session_;
  const SessionState::ObserverId observer_;
};

/// Waits, but not longer than the session lives.
inline Awaitable<void> pause_for(std::chrono::milliseconds pause, EventLoop& loop,
                                 std::shared_ptr<SessionState> session) {
  if (session->over()) co_return;
  Signal ended(loop);
  const SessionEnd end(std::move(session), ended);
  co_await ended.wait(std::chrono::steady_clock::now() + pause);
}

/// A value that is on its way to one coroutine. Copies stand for the same one.
template <typename T>
class Pending {
 public:
  Pending() : state_(std::make_shared<State>()) {}

  /// Once.
  void arrive(T value) const {
    state_->value.emplace(std::move(value));
    if (state_->waiting) coroutine::resume_later(std::exchange(state_->waiting, {}));
  }
  UniqueFunction<void(T)> handler() const {
    return [self = *this](T value) { self.arrive(std::move(value)); };
  }

  class Arrival;
  /// To be awaited, once.
  Arrival get() const { return Arrival(state_); }
  Arrival operator co_await() const { return get(); }

 private:
  struct State {
    std::optional<T> value;
    std::coroutine_handle<> waiting;
  };
  std::shared_ptr<State> state_;
};

template <typename T>
class Pending<T>::Arrival {
 public:
  explicit Arrival(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  bool await_ready() const noexcept { return state_->value.has_value(); }
  void await_suspend(std::coroutine_handle<> waiting) const noexcept { state_->waiting = waiting; }
  T await_resume() const { return std::move(*state_->value); }

 private:
  std::shared_ptr<State> state_;
};

/// A reply that is on its way; requests that are to go out in one flight are launched first and awaited afterwards.
using PendingReply = Pending<Reply>;

}  // namespace zkclient::detail
