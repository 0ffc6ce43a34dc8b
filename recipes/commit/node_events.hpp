#pragma once

#include <memory>
#include <optional>

#include "recipes/commit/commit_tree.hpp"

namespace zkrecipes::detail {

/// The events that one coroutine waits for: its watches, the end of the session, and set(). On the loop thread only.
class NodeEvents {
 public:
  explicit NodeEvents(std::shared_ptr<zk::ClientCore> client)
      : client_(std::move(client)), signal_(std::make_shared<zk::Signal>(client_->events())) {}

  struct NodeWatch {
    std::optional<zkclient::WatchEventType> event = {};
    std::shared_ptr<zk::LoopWatch> watch = {};  ///< For the read that arms it.
  };
  using WatchPtr = std::shared_ptr<NodeWatch>;
  WatchPtr watch(zk::WatchRegistry::Kind kind = zk::WatchRegistry::Kind::data) const;

  const std::shared_ptr<zk::Signal>& signal() const noexcept { return signal_; }
  void set() const { signal_->set(); }
  void clear() const noexcept { signal_->clear(); }
  /// Until an event came since clear(), the session is over, the deadline has passed, or the client is closing.
  zk::Awaitable<void> wait(std::optional<LoopTime> deadline) const;

 private:
  const std::shared_ptr<zk::ClientCore> client_;
  const std::shared_ptr<zk::Signal> signal_;
};

}  // namespace zkrecipes::detail
