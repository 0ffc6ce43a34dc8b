#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "zkclient/detail/request.hpp"

/// What coroutines on the loop thread wait with. Nothing here is for other threads.
namespace zkclient::detail {

namespace asio = boost::asio;
template <typename T>
using Awaitable = asio::awaitable<T, asio::io_context::executor_type>;
inline constexpr asio::use_awaitable_t<asio::io_context::executor_type> use_awaitable;

/// A flag that one coroutine waits for. Set it before or during the wait; clear it before the read that re-checks.
class Signal {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  explicit Signal(asio::io_context& context) : timer_(context) {}

  void set() {
    set_ = true;
    timer_.cancel();
  }
  void clear() noexcept { set_ = false; }
  bool is_set() const noexcept { return set_; }

  /// Returns when the flag is set or the deadline has passed.
  Awaitable<void> wait(std::optional<TimePoint> deadline) {
    while (!set_ && (!deadline || std::chrono::steady_clock::now() < *deadline)) {
      timer_.expires_at(deadline.value_or(TimePoint::max()));
      boost::system::error_code ignored;
      auto token = asio::redirect_error(use_awaitable, ignored);
      co_await timer_.async_wait(token);
    }
  }

 private:
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                             asio::io_context::executor_type>
      timer_;
  bool set_ = false;
};

/// A reply that is on its way; requests that are to go out in one flight are launched first and awaited afterwards.
class PendingReply {
 public:
  PendingReply() : state_(std::make_shared<State>()) {}

  Op::Done handler() const {
    return [state = state_](Reply reply) {
      if (state->waiter) {
        Op::Done waiter = std::move(state->waiter);
        waiter(std::move(reply));
      } else {
        state->reply = std::move(reply);
      }
    };
  }

  Awaitable<Reply> get() const {
    const std::shared_ptr<State> state = state_;
    if (state->reply) co_return std::move(*state->reply);
    auto token = use_awaitable;
    auto initiation = [state](auto handler) { state->waiter = std::move(handler); };
    Reply reply = co_await asio::async_initiate<decltype(token), void(Reply)>(std::move(initiation), token);
    co_return reply;
  }

 private:
  struct State {
    std::optional<Reply> reply;
    Op::Done waiter;
  };
  std::shared_ptr<State> state_;
};

}  // namespace zkclient::detail
