#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>

#include "zkclient/detail/loop/callbacks.hpp"

namespace zkclient::detail {

/// A registered state listener.
class SubscriptionState {
 public:
  SubscriptionState(std::shared_ptr<CallbackGroup> group) : queue_(std::make_shared<SerialQueue>(std::move(group))) {}
  const std::shared_ptr<SerialQueue>& queue() const noexcept { return queue_; }
  StateListener listener;
  UniqueFunction<void()> on_end;  ///< Runs once when the subscription ends; any thread.

 private:
  std::shared_ptr<SerialQueue> queue_;
};

/// The listeners of a client's states. They run on the callback executor; this lives on the loop thread.
class Listeners {
 public:
  /// Tells the new one the present state.
  void add(const std::shared_ptr<SubscriptionState>& listener, const StateChange& now);
  void tell(const StateChange& change);

 private:
  std::vector<std::weak_ptr<SubscriptionState>> all_;
};

}  // namespace zkclient::detail
