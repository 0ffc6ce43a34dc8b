#include "recipes/commit/node_events.hpp"

namespace zkrecipes::detail {

NodeEvents::WatchPtr NodeEvents::watch(zk::WatchRegistry::Kind kind) const {
  auto made = std::make_shared<NodeWatch>();
  made->watch = std::make_shared<zk::LoopWatch>(
      client_, kind, [signal = signal_, weak = std::weak_ptr<NodeWatch>(made)](WatchEventType type) {
        const auto alive = weak.lock();
        if (alive == nullptr) return;
        alive->event = type;
        signal->set();
      });
  return made;
}

Awaitable<void> NodeEvents::wait(std::optional<LoopTime> deadline) const {
  if (client_->closing()) co_return;
  const zk::SessionEnd end(client_->current(), *signal_);
  co_await signal_->wait(deadline);
}

}  // namespace zkrecipes::detail
