#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <zkclient/client.hpp>

#include "recipes/kernel/kept_node.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// Shows for a kept node with a time to live that its owner lives, by a child that it writes again and again. Lives on the
/// loop thread, but for the members that say otherwise; kept alive by its coroutine until it ends, or the node does.
class NodeTouch : public std::enable_shared_from_this<NodeTouch> {
 public:
  /// Any thread. `child`: its full path. Errors: as the loop refuses work (closed, forked).
  static std::shared_ptr<NodeTouch> start(std::shared_ptr<KeptNode> node, std::string child,
                                          std::chrono::milliseconds ttl);
  NodeTouch(std::shared_ptr<KeptNode> node, std::string child, std::chrono::milliseconds ttl);

  // --- Any thread ---

  /// Why the child could not be written; nullopt: nothing is wrong.
  std::optional<zkclient::Error> problem() const;
  /// Ends, without waiting for it, and leaves both nodes to their time to live.
  void abandon() noexcept;

  // --- Calls ---

  /// Ends, and removes both nodes.
  static zk::Awaitable<zkclient::Result<void>> remove(std::shared_ptr<NodeTouch> self, zk::Call call);

 private:
  static zk::Awaitable<void> run(std::shared_ptr<NodeTouch> self);
  zk::Awaitable<bool> touch(zk::Call call);
  zk::Awaitable<zk::Reply> make_child(zk::Reply gone, zk::Call call);
  zk::Awaitable<zk::Reply> find_own(zk::Call call);
  zk::Awaitable<void> pause(std::chrono::milliseconds time, const zk::Call& call) const;
  void note(const zk::Reply& reply);
  bool over() const;

  const std::shared_ptr<KeptNode> node_;
  const std::string child_;
  const std::chrono::milliseconds ttl_;
  bool made_ = false;  // The child, by this object, or by another owner beside it.
  const std::shared_ptr<zk::CancelScope> ending_ = std::make_shared<zk::CancelScope>();
  const zk::ProcessGeneration process_;
  mutable std::mutex mutex_;
  std::optional<zkclient::Error> problem_;  // Guarded by mutex_.
};

}  // namespace zkrecipes::detail
