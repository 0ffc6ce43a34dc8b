#include "zkclient/detail/calls/fresh.hpp"

namespace zkclient::detail {

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

Awaitable<Reply> fresh_by_quorum(std::shared_ptr<ClientCore> client, Request read, Call call) {
  for (;;) {
    Request check = make_request(OpType::multi, "/");
    check.operations.emplace_back(Check{Path("/")});
    Request attempt = read;
    const PendingReply passing = client->launch(std::move(check), call);
    const PendingReply reading = client->launch(std::move(attempt), call);
    Reply passed = co_await passing.get();
    Reply seen = co_await reading.get();
    if (!is_there_or_not(seen)) co_return seen;
    if (passed.unanswered()) continue;
    // A majority has agreed on a refusal, too: the client may have no right to the root.
    if (!passed.ok() && !passed.failed(Errc::transaction_failed)) {
      if (passed.failed(Errc::in_doubt)) passed.error = passed.given_up;
      co_return passed;
    }
    if (is_behind(passed, seen)) co_return seen;
  }
}

}  // namespace zkclient::detail
