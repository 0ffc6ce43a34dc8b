#pragma once

#include <memory>
#include <string>
#include <utility>

#include <zkclient/export.hpp>
#include <zkclient/function.hpp>

namespace zkclient {

namespace detail {
class WatchState;
class SubscriptionState;
}  // namespace detail

/// What ended a watch.
enum class WatchEventType {
  created,           ///< The node appeared.
  deleted,           ///< The node went.
  data_changed,      ///< Its data was written.
  children_changed,  ///< A child came or went.
  session_lost,      ///< The watch ended with its session; nothing more is known about the node.
  closed,            ///< The client was closed.
};

ZKRECIPES_API const char* to_string(WatchEventType type) noexcept;

/// How a watch ended.
struct WatchEvent {
  WatchEventType type = WatchEventType::closed;  ///< What ended it.
  std::string path;                              ///< Without the client's prefix.
};

/// Called exactly once, unless the Watch was dropped before; on the callback executor.
using WatchHandler = UniqueFunction<void(const WatchEvent&)>;

/// A one-shot watch, armed in the same instant in which the value it came with was read. It survives
/// reconnections; connection trouble alone never ends it. Dropping the object removes the watch (others on the
/// same node stay): its handler is not called afterwards, except when it is already running. When no watch
/// of the node is left, the server is told about a second later.
///
/// Thread safety: distinct objects are independent; the handler may drop its own watch.
class ZKRECIPES_API [[nodiscard]] Watch {
 public:
  Watch() noexcept = default;
  explicit Watch(std::shared_ptr<detail::WatchState> state) noexcept : state_(std::move(state)) {}
  Watch(Watch&&) noexcept = default;
  Watch& operator=(Watch&& other) noexcept;
  ~Watch();

  /// True until the event came or the watch was dropped, or moved from.
  bool armed() const noexcept;

 private:
  std::shared_ptr<detail::WatchState> state_;
};

/// The data that was read, and the watch that was armed with it.
///
///   const auto config = client.get_and_watch("/config", on_change);
///   use(config.value().data);  // The watch stays for as long as `config`.
template <typename T>
class [[nodiscard]] Watched {
 public:
  Watched() = default;
  Watched(T value, Watch watch) : value_(std::move(value)), watch_(std::move(watch)) {}

  /// What was read.
  [[nodiscard]] const T& value() const& noexcept { return value_; }
  [[nodiscard]] T& value() & noexcept { return value_; }
  /// Not of a temporary: the watch would be gone at the end of the statement.
  const T&& value() const&& = delete;
  /// What ends, or is dropped.
  [[nodiscard]] const Watch& watch() const& noexcept { return watch_; }
  [[nodiscard]] Watch& watch() & noexcept { return watch_; }
  [[nodiscard]] Watch watch() && noexcept { return std::move(watch_); }

 private:
  T value_;
  Watch watch_;
};

/// Keeps a listener registered; dropping it ends the subscription. After the destructor returned the listener
/// does not run any more, unless the destructor was called by the listener itself.
class ZKRECIPES_API [[nodiscard]] Subscription {
 public:
  Subscription() noexcept = default;
  explicit Subscription(std::shared_ptr<detail::SubscriptionState> state) noexcept : state_(std::move(state)) {}
  Subscription(Subscription&&) noexcept = default;
  Subscription& operator=(Subscription&& other) noexcept;
  ~Subscription();

 private:
  std::shared_ptr<detail::SubscriptionState> state_;
};

}  // namespace zkclient
