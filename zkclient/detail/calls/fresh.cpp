#include "zkclient/detail/calls/fresh.hpp"

namespace zkclient::detail {

Awaitable<Reply> fresh(std::shared_ptr<ClientCore> client, Request read, Call call) {
  const PendingReply syncing = client->launch(make_request(OpType::sync, read.path), call);
  const PendingReply reading = client->launch(std::move(read), call);
  Reply synced = co_await syncing.get();
  Reply seen = co_await reading.get();
  const bool caught_up = synced.ok() || synced.failed(Errc::no_node);
  co_return seen.ok() && !caught_up ? std::move(synced) : std::move(seen);
}

}  // namespace zkclient::detail
