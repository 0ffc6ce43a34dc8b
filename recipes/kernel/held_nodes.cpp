#include "recipes/kernel/held_nodes.hpp"

#include <algorithm>

namespace zkrecipes::detail {

namespace {

constexpr auto first_pause = std::chrono::milliseconds(50);
constexpr auto last_pause = std::chrono::milliseconds(10'000);

bool over(const Reply& reply) { return reply.failed(Errc::session_lost) || reply.failed(Errc::closed); }

Awaitable<Reply> perform(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::SessionState> session,
                         Request request) {
  zk::Call call;
  call.bound = session;
  Reply reply = co_await client->perform(std::move(request), call);
  co_return reply;
}

// The node that is ours alone is gone, but maybe not for the reason that both are: the other one is ours by its czxid.
Awaitable<Reply> remove_companion(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::SessionState> session,
                                  HeldNodes nodes) {
  Request look = zk::make_request(OpType::exists, nodes.companion);
  Reply seen = co_await perform(client, session, std::move(look));
  const bool ours = seen.ok() && seen.stat.czxid == nodes.czxid && seen.stat.ephemeral_owner == session->id();
  if (!ours) co_return seen;
  Request remove = zk::make_request(OpType::remove, nodes.companion);
  remove.version = seen.stat.version;
  Reply removed = co_await perform(client, session, std::move(remove));
  co_return removed;
}

Awaitable<Reply> remove_alone(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::SessionState> session,
                              HeldNodes nodes) {
  Request remove = zk::make_request(OpType::remove, nodes.path);
  Reply removed = co_await perform(client, session, std::move(remove));
  co_return removed;
}

}  // namespace

Request removal(const HeldNodes& nodes) {
  if (!nodes.record.empty()) {
    Request passing = zk::make_request(OpType::multi, nodes.path);
    passing.operations.emplace_back(Transaction::Remove{zkclient::Path(nodes.path), zkclient::any_version});
    passing.operations.emplace_back(
        Transaction::Set{zkclient::Path(nodes.record), std::string(zk::name_of(nodes.path)), nodes.record_version});
    return passing;
  }
  if (nodes.companion.empty()) return zk::make_request(OpType::remove, nodes.path);
  // The first one proves that the second one has not been deleted, and made again by another client.
  Request both = zk::make_request(OpType::multi, nodes.path);
  both.operations.emplace_back(Transaction::Remove{zkclient::Path(nodes.path), zkclient::any_version});
  both.operations.emplace_back(Transaction::Remove{zkclient::Path(nodes.companion), zkclient::any_version});
  return both;
}

Awaitable<void> finish_removal(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::SessionState> session,
                               HeldNodes nodes, Reply reply) {
  auto pause = first_pause;
  for (;;) {
    if (reply.failed(Errc::transaction_failed) && !nodes.record.empty()) {
      if (reply.refused(0, zk::rc::no_node)) co_return;
      nodes.record.clear();  // Another client has written there, or we may not: go without a word to the next holder.
      reply = co_await remove_alone(client, session, nodes);
    } else if (reply.refused(0, zk::rc::no_node)) {  // One of the two was missing.
      reply = co_await remove_companion(client, session, nodes);
    } else if (reply.refused(1, zk::rc::no_node)) {
      reply = co_await remove_alone(client, session, nodes);
    }
    if (reply.ok() || reply.failed(Errc::no_node) || over(reply)) co_return;
    if (!reply.failed(Errc::in_doubt)) {  // The next attempt waits for the connection anyway.
      // The server refuses it for now (children, access rights): that may change.
      co_await zk::pause_for(pause, client->events(), session);
      pause = std::min(pause * 2, last_pause);
    }
    Request again = removal(nodes);
    reply = co_await perform(client, session, std::move(again));
  }
}

void remove_in_background(const std::shared_ptr<zk::ClientCore>& client,
                          const std::shared_ptr<zk::SessionState>& session, HeldNodes nodes) {
  zk::Call call;
  call.bound = session;
  auto pending = client->launch(removal(nodes), call);
  zk::spawn([](std::shared_ptr<zk::ClientCore> core, std::shared_ptr<zk::SessionState> owner, HeldNodes held,
               zk::PendingReply first) -> Awaitable<void> {
    Reply reply = co_await first.get();
    co_await finish_removal(std::move(core), std::move(owner), std::move(held), std::move(reply));
  }(client, session, std::move(nodes), std::move(pending)));
}

// As long as a session's end waits.
constexpr auto telling_patience = std::chrono::seconds(1);

Awaitable<void> until_told(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::SessionState> session,
                           std::shared_ptr<zk::CancelScope> told) {
  zk::Signal wake(client->events());
  const zk::CancelScope::Guard telling(told, [&wake] { wake.set(); });
  const zk::SessionEnd end(session, wake);
  if (told->requested() || session->over()) wake.set();  // That is not told again.
  co_await wake.wait(std::chrono::steady_clock::now() + telling_patience);
}

void remove_when_told(const std::shared_ptr<zk::ClientCore>& client, const std::shared_ptr<zk::SessionState>& session,
                      std::vector<HeldNodes> nodes, std::shared_ptr<zk::CancelScope> told) {
  zk::spawn([](std::shared_ptr<zk::ClientCore> core, std::shared_ptr<zk::SessionState> owner,
               std::vector<HeldNodes> lost, std::shared_ptr<zk::CancelScope> known) -> Awaitable<void> {
    co_await until_told(core, owner, std::move(known));
    for (HeldNodes& held : lost)
      remove_in_background(core, owner, std::move(held));
  }(client, session, std::move(nodes), std::move(told)));
}

}  // namespace zkrecipes::detail
