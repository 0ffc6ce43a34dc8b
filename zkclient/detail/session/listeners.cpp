#include "zkclient/detail/session/listeners.hpp"

namespace zkclient::detail {
namespace {

void post(const std::shared_ptr<SubscriptionState>& listener, const StateChange& change) {
  listener->queue()->post([weak = std::weak_ptr<SubscriptionState>(listener), change] {
    if (const auto alive = weak.lock()) alive->listener(change);
  });
}

}  // namespace

void Listeners::add(const std::shared_ptr<SubscriptionState>& listener, const StateChange& now) {
  all_.emplace_back(listener);
  post(listener, now);
}

void Listeners::tell(const StateChange& change) {
  std::erase_if(all_, [](const std::weak_ptr<SubscriptionState>& listener) { return listener.expired(); });
  for (const auto& weak : all_) {
    if (const auto listener = weak.lock()) post(listener, change);
  }
}

}  // namespace zkclient::detail
