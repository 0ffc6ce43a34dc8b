#include "zkclient/detail/calls/fresh.hpp"

namespace zkclient::detail {
namespace {

bool is_there_or_not(const Reply& reply) { return reply.ok() || reply.failed(Errc::no_node); }

}  // namespace

Awaitable<Reply> fresh(std::shared_ptr<ClientCore> client, Request read, Call call) {
  for (;;) {
    Request attempt = read;
    const PendingReply syncing = client->launch(make_request(OpType::sync, read.path), call);
    const PendingReply reading = client->launch(std::move(attempt), call);
    Reply synced = co_await syncing.get();
    Reply seen = co_await reading.get();
    if (!is_there_or_not(seen)) co_return seen;
    if (!is_there_or_not(synced)) co_return synced;
    if (is_behind(synced, seen)) co_return seen;
  }
}

}  // namespace zkclient::detail
