#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <zkclient/result.hpp>
#include <zkclient/stop.hpp>
#include <zkclient/types.hpp>

/// Part of <zkclient/asio.hpp>, which says how operations behave.
namespace zkclient {

namespace detail {

/// The value that a handler gets with an error.
template <typename T>
T nothing() {
  if constexpr (std::is_default_constructible_v<T>) {
    return T();
  } else {
    return T(nullptr);  // Session
  }
}

/// One operation under way, from its start until its handler was called.
template <typename T, typename CompletionHandler>
class AsioOperation : public std::enable_shared_from_this<AsioOperation<T, CompletionHandler>> {
 public:
  explicit AsioOperation(CompletionHandler handler)
      : handler_(std::move(handler)), work_(boost::asio::get_associated_executor(*handler_)) {}

  template <typename Start>
  void run(Start start, CallOptions call, boost::asio::cancellation_type accepts) {
    connect_slot(call, accepts);
    const auto self = this->shared_from_this();
    try {
      start(Handler<T>([self](Result<T> result) {
              self->forget_stops();
              self->dispatch(Completion{self, std::move(result)});
            }),
            std::as_const(call));
    } catch (...) {  // Refused: nothing was started. The handler must not run inside this call.
      forget_stops();
      const Executor executor = work_->get_executor();
      dispatched_ = true;
      boost::asio::post(executor, Refusal{self, std::current_exception()});
    }
  }

 private:
  struct Completion {
    std::shared_ptr<AsioOperation> operation;
    Result<T> result;
    void operator()() {
      std::exception_ptr error;
      if (!result) error = std::make_exception_ptr(result.error());
      if constexpr (std::is_void_v<T>) {
        std::exchange(operation, nullptr)->finish(error);
      } else {
        std::exchange(operation, nullptr)->finish(error, result ? std::move(*result) : nothing<T>());
      }
    }
  };
  struct Refusal {
    std::shared_ptr<AsioOperation> operation;
    std::exception_ptr error;
    void operator()() {
      if constexpr (std::is_void_v<T>) {
        std::exchange(operation, nullptr)->finish(error);
      } else {
        std::exchange(operation, nullptr)->finish(error, nothing<T>());
      }
    }
  };
  struct RequestStop {
    std::stop_source source;
    void operator()() { source.request_stop(); }
  };
  using Slot = boost::asio::associated_cancellation_slot_t<CompletionHandler>;
  using Executor = boost::asio::associated_executor_t<CompletionHandler>;

  // The handler's executor may go as soon as the handler has run, so that nothing of it may be left here by then.
  void dispatch(Completion completion) {
    dispatcher_ = std::this_thread::get_id();
    {
      const Executor executor = work_->get_executor();
      if constexpr (boost::asio::can_query_v<const Executor&, boost::asio::execution::blocking_t>) {
        const boost::asio::execution::blocking_t blocking =
            boost::asio::query(executor, boost::asio::execution::blocking);
        // The hand-over ends when the handler has returned: that one cannot wait for it.
        if (blocking == boost::asio::execution::blocking_t::always) dispatched_ = true;
      }
      boost::asio::dispatch(executor, std::move(completion));
    }
    dispatched_ = true;
    dispatched_.notify_one();
  }

  void connect_slot(CallOptions& call, boost::asio::cancellation_type accepts) {
    Slot slot = boost::asio::get_associated_cancellation_slot(*handler_);
    if (!slot.is_connected()) return;
    std::stop_source source;
    slot.assign([source, accepts](boost::asio::cancellation_type type) mutable {
      if ((type & accepts) != boost::asio::cancellation_type::none) source.request_stop();
    });
    if (call.stop.stop_possible()) {  // The caller's own token counts, too.
      callers_stop_ = call.stop;
      stop_.emplace(callers_stop_, RequestStop{source});
    }
    call.stop = source.get_token();
  }
  void forget_stops() noexcept {
    stop_.reset();
    callers_stop_ = AnyStop();
  }

  // On the handler's executor. Everything of the operation is gone when the handler runs: it may start the next one.
  template <typename... Values>
  static void finish_with(std::shared_ptr<AsioOperation> self, Values... values) {
    if (self->dispatcher_ != std::this_thread::get_id()) self->dispatched_.wait(false);
    Slot slot = boost::asio::get_associated_cancellation_slot(*self->handler_);
    if (slot.is_connected()) slot.clear();
    CompletionHandler handler = std::move(*self->handler_);
    const boost::asio::executor_work_guard<Executor> work = std::move(*self->work_);
    self->handler_.reset();
    self->work_.reset();
    self = nullptr;
    std::move(handler)(std::move(values)...);
  }
  template <typename... Values>
  void finish(Values... values) {
    finish_with(this->shared_from_this(), std::move(values)...);
  }

  std::optional<CompletionHandler> handler_;
  std::optional<boost::asio::executor_work_guard<Executor>> work_;
  std::thread::id dispatcher_;
  std::atomic<bool> dispatched_ = false;
  AnyStop callers_stop_;  // Two joined tokens are passed on only while a copy of what joins them is there.
  std::optional<std::stop_callback<RequestStop>> stop_;
};

template <typename T>
struct AsioSignature {
  using type = void(std::exception_ptr, T);
};
template <>
struct AsioSignature<void> {
  using type = void(std::exception_ptr);
};

template <typename T, typename Start, typename Token>
auto begin_operation(Start start, CallOptions call, Token&& token, boost::asio::cancellation_type accepts) {
  auto initiation = [](auto handler, Start begin, CallOptions limits, boost::asio::cancellation_type accepted) {
    using Operation = detail::AsioOperation<T, std::decay_t<decltype(handler)>>;
    std::make_shared<Operation>(std::move(handler))->run(std::move(begin), std::move(limits), accepted);
  };
  return boost::asio::async_initiate<Token, typename detail::AsioSignature<T>::type>(
      std::move(initiation), token, std::move(start), std::move(call), accepts);
}

/// The result of an operation that is to be awaited.
template <typename Result>
inline constexpr bool is_awaited = boost::asio::is_deferred<Result>::value;
template <typename T, typename Executor>
inline constexpr bool is_awaited<boost::asio::awaitable<T, Executor>> = true;

/// A function that g++ 12 may have destroyed twice when its operation is awaited: a temporary that owns something, as
/// lambdas do that capture it by value. `Safe` is a type of ours that withstands it.
template <typename Function, typename Safe, typename Result>
inline constexpr bool breaks_when_awaited =
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
    !std::is_lvalue_reference_v<Function> && !std::is_trivially_destructible_v<std::remove_reference_t<Function>> &&
    !std::is_same_v<std::remove_cvref_t<Function>, Safe> && is_awaited<Result>;
#else
    false;
#endif

}  // namespace detail

/// Any asynchronous form of this library as an Asio operation: `start(Handler<T>, const CallOptions&)` begins it. It is
/// copied and may run later than this call.
template <typename T, typename Start, typename Token>
auto initiate(Start&& start, CallOptions call, Token&& token,
              boost::asio::cancellation_type accepts = boost::asio::cancellation_type::all) {
  using Begun = decltype(detail::begin_operation<T>(std::decay_t<Start>(std::forward<Start>(start)), std::move(call),
                                                    std::forward<Token>(token), accepts));
  static_assert(!detail::breaks_when_awaited<Start, void, Begun>,
                "g++ 12 destroys what a lambda owns twice when it stands in a co_await expression. "
                "Make it a variable first: `const auto start = [...](...) {...};`, and pass `start`.");
  return detail::begin_operation<T>(std::decay_t<Start>(std::forward<Start>(start)), std::move(call),
                                    std::forward<Token>(token), accepts);
}

}  // namespace zkclient
