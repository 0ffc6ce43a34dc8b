#include "recipes/views/shared_sync.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace zkrecipes::detail {

// The clients of several runtimes meet here. What is in the map keeps its client, so no other one has that address.
std::shared_ptr<SharedSync> SharedSync::of(const std::shared_ptr<zk::ClientCore>& client) {
  static std::mutex mutex;
  static std::map<zk::ClientCore*, std::weak_ptr<SharedSync>> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<SharedSync>& known = all[client.get()];
  std::shared_ptr<SharedSync> found = known.lock();
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
