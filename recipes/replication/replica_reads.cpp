// How a secondary keeps its right to serve reads.

#include <algorithm>
#include <utility>

#include "recipes/replication/replica_core.hpp"

namespace zkrecipes::detail {

namespace {

constexpr auto shortest_read_pause = std::chrono::milliseconds(10);

}  // namespace

// After the nodes were looked at. A member with another storage is not the one that the state names.
void ReplicaCore::see_read_right() {
  const std::lock_guard lock(mutex_);
  const bool reader = facts_.state && term_ == nullptr && !over();
  const InSyncReplica* own = reader ? facts_.state->find(self_.id) : nullptr;
  if (own == nullptr || own->storage != self_.storage) {
    reads_.revoke();
    return;
  }
  const bool news = !reads_.wanted() || reads_.version() != version_;
  reads_.in_sync(version_, own->term);
  if (news) reads_changed_.set();
}

// The checks rest on the version of the state that was seen last. One that is refused ends nothing: what was granted
// before is waited for by who has changed the state, and the cache is about to tell of that.
Awaitable<void> ReplicaCore::renew_reads(std::shared_ptr<ReplicaCore> self) {
  while (!self->over()) {
    self->reads_changed_.clear();
    ReadLease now;
    {
      const std::lock_guard lock(self->mutex_);
      now = self->reads_;
    }
    if (!now.wanted()) {
      co_await self->reads_changed_.wait(std::nullopt);
      continue;
    }
    Request check = zk::make_request(OpType::multi, self->layout_.state);
    check.operations.emplace_back(zkclient::Check{Path(self->layout_.state), now.version()});
    const Call call = self->own_call();
    const Reply reply = co_await self->client_->perform(std::move(check), call);
    if (reply.ok()) {
      const std::lock_guard lock(self->mutex_);
      self->reads_.acknowledged(now.version(), reply.sent);
    }
    const auto pause = std::max<ReadLease::Duration>(now.term() / 4, shortest_read_pause);
    co_await self->reads_changed_.wait(std::chrono::steady_clock::now() + pause);
  }
}

}  // namespace zkrecipes::detail
