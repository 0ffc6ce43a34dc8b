#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include <zkclient/asio/initiate.hpp>
#include <zkclient/error.hpp>
#include <zkclient/function.hpp>
#include <zkclient/result.hpp>
#include <zkclient/stop.hpp>
#include <zkclient/watch.hpp>

/// Part of <zkclient/asio.hpp>: the event of a watch as something to await.
namespace zkclient {

/// The event of one watch, for coroutines:
///
///   zkclient::AwaitableEvent changed;
///   auto config = co_await zkclient::async_get_and_watch(client, "/config", changed.handler(), use_awaitable);
///   const zkclient::WatchEvent event = co_await changed.async_wait(use_awaitable);
///
/// Thread safety: all members.
class AwaitableEvent {
 public:
  AwaitableEvent() : state_(std::make_shared<State>()) {}

  /// For the operation that arms the watch; once. A watch that is dropped, or was never armed, ends the wait with
  /// Errc::cancelled.
  WatchHandler handler() const {
    return [source = std::make_unique<Source>(state_)](const WatchEvent& event) { source->state->arrive(event); };
  }

  /// Completes with the event, at once if it came before. Cancellation of any type ends it with Errc::cancelled; then
  /// it may be called again. One wait at a time. This object may go meanwhile.
  template <boost::asio::completion_token_for<void(std::exception_ptr, WatchEvent)> Token>
  auto async_wait(Token&& token) const {
    auto start = [state = state_](Handler<WatchEvent> handler, const CallOptions& limits) {
      state->wait(std::move(handler), limits.stop);
    };
    return detail::begin_operation<WatchEvent>(std::move(start), CallOptions(), std::forward<Token>(token),
                                               boost::asio::cancellation_type::all);
  }

 private:
  struct State : std::enable_shared_from_this<State> {
    void arrive(Result<WatchEvent> result) {
      Handler<WatchEvent> told;
      {
        const std::lock_guard lock(mutex);
        if (outcome) return;
        outcome = std::move(result);
        told = std::exchange(waiter, {});
        if (!told) return;
      }
      told(*outcome);  // It does not change any more.
    }
    void wait(Handler<WatchEvent> handler, const AnyStop& stop) {
      cancellation.reset();  // Of a wait that is over.
      {
        const std::lock_guard lock(mutex);
        if (!outcome) waiter = std::exchange(handler, {});
      }
      if (handler) return handler(*outcome);
      if (stop.stop_requested()) return give_up();
      if (!stop.stop_possible()) return;
      auto cancelling = std::make_unique<Stop>(stop, [weak = this->weak_from_this()] {
        if (const auto alive = weak.lock()) alive->give_up();
      });
      const std::lock_guard lock(mutex);
      if (waiter) cancellation = std::move(cancelling);
    }
    void give_up() {
      Handler<WatchEvent> told;
      {
        const std::lock_guard lock(mutex);
        told = std::exchange(waiter, {});
      }
      if (told) told(Error(Errc::cancelled, "watch event", "", "the wait was cancelled"));
    }

    using Stop = std::stop_callback<std::function<void()>>;
    std::mutex mutex;
    std::optional<Result<WatchEvent>> outcome;
    Handler<WatchEvent> waiter;
    std::unique_ptr<Stop> cancellation;
  };
  /// Goes with the watch.
  struct Source {
    explicit Source(std::shared_ptr<State> told) : state(std::move(told)) {}
    ~Source() { state->arrive(Error(Errc::cancelled, "watch event", "", "the watch was dropped")); }
    const std::shared_ptr<State> state;
  };

  std::shared_ptr<State> state_;
};

}  // namespace zkclient
