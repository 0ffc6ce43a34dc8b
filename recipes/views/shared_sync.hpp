#pragma once

#include <memory>
#include <vector>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The syncs of a client's views: one for all who ask in the same turn of the loop, as all do when the connection is
/// back. Lives on the loop thread.
class SharedSync : public std::enable_shared_from_this<SharedSync> {
 public:
  /// The client's. Kept by those who hold it.
  static std::shared_ptr<SharedSync> of(const std::shared_ptr<zk::ClientCore>& client);
  explicit SharedSync(std::shared_ptr<zk::ClientCore> client) : client_(std::move(client)) {}

  /// A sync that has not been sent yet; it is never joined on its way, for then it proves nothing of what is committed
  /// meanwhile. It ends with `session` alone: no view's end takes it from the others.
  zk::PendingReply launch(const std::shared_ptr<zk::SessionState>& session);

 private:
  static zk::Awaitable<void> send(std::shared_ptr<SharedSync> self, std::shared_ptr<zk::SessionState> session);

  const std::shared_ptr<zk::ClientCore> client_;
  std::vector<zk::PendingReply> waiting_;  // For the next one.
};

}  // namespace zkrecipes::detail
