#include "recipes/views/shared_sync.hpp"

#include <utility>

#include "zkclient/detail/recipe_views.hpp"

namespace zkrecipes::detail {

// The client has it, not a list of all clients: that would take a mutex, and a process that is forked while another thread
// holds it would never get it.
std::shared_ptr<SharedSync> SharedSync::of(const std::shared_ptr<zk::ClientCore>& client) {
  std::weak_ptr<void>& known = zk::shared_by_views_of(*client);
  auto found = std::static_pointer_cast<SharedSync>(known.lock());
  if (found == nullptr) {
    found = std::make_shared<SharedSync>(client);
    known = found;
  }
  return found;
}

// After all that waits for its turn already: that may ask, too.
zk::PendingReply SharedSync::launch(const std::shared_ptr<zk::SessionState>& session) {
  const zk::PendingReply pending;
  waiting_.push_back(pending);
  if (waiting_.size() > 1) return pending;
  client_->events().defer([self = shared_from_this(), session] { zk::spawn(send(self, session)); });
  return pending;
}

zk::Awaitable<void> SharedSync::send(std::shared_ptr<SharedSync> self, std::shared_ptr<zk::SessionState> session) {
  const std::vector<zk::PendingReply> waiting = std::exchange(self->waiting_, {});
  zk::Call call;
  call.bound = session;
  zk::Request request = zk::make_request(zk::OpType::sync, "/");
  const zk::Reply reply = co_await self->client_->perform(std::move(request), call);
  for (const zk::PendingReply& one : waiting)
    one.arrive(reply);
}

}  // namespace zkrecipes::detail
