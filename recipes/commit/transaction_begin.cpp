#include "recipes/commit/transaction_begin.hpp"

namespace zkrecipes::detail {

namespace {

constexpr std::size_t before_inboxes = 2;  // Operations of a begin that are not about an inbox.

Request begin_request(const CommitTree& tree, const std::string& id, const TransactionHeader& header) {
  Request request = zk::make_request(OpType::multi, tree.transaction(id));
  auto& all = request.operations;
  all.emplace_back(Transaction::Create{Path(tree.transaction(id)), encode(header), CreateMode::persistent, tree.acl});
  all.emplace_back(Transaction::Create{Path(tree.child(id, coordinator_node)), "", CreateMode::ephemeral, tree.acl});
  for (const std::string& name : header.participants) {
    // The data of the inbox is what its owner watches: it tells the newest id, and its version how many there were.
    all.emplace_back(Transaction::Set{Path(tree.inbox(name)), id, zkclient::any_version});
    all.emplace_back(Transaction::Create{Path(tree.inbox_entry(name, id)), "", CreateMode::persistent, tree.acl});
  }
  return request;
}

}  // namespace

Awaitable<std::optional<Error>> begin_transaction(TreePtr tree, std::string id, TransactionHeader header, Call call) {
  const std::string shown = tree->shown(id);
  bool doubted = false;
  for (;;) {
    if (call.bound == nullptr || !doubted) {
      Call any = call;
      any.bound = nullptr;
      Reply connected = co_await tree->client->connected(std::move(any));
      if (!connected.ok()) co_return zk::to_error(connected, transaction_operation, shown);
      call.bound = connected.session;
    }
    Request request = begin_request(*tree, id, header);
    Reply reply = co_await tree->client->perform(std::move(request), call);
    if (reply.ok()) co_return std::nullopt;
    if (reply.failed(Errc::in_doubt)) {
      if (reply.given_up) co_return zk::to_error(reply, transaction_operation, shown);
      // Once more, but in this session only: as long as it lives, no other process finishes what it has begun.
      doubted = true;
      continue;
    }
    if (reply.failed(Errc::session_lost)) {
      if (!doubted) continue;
      Call any = call;
      any.bound = nullptr;
      std::string node = tree->transaction(id);
      Reply exists = co_await certain(tree, std::move(node), std::move(any));
      if (exists.ok()) co_return std::nullopt;
      co_return Error(Errc::in_doubt, transaction_operation, shown, "the session was lost with its reply");
    }
    const auto failed = failed_operation(reply);
    if (!failed) {
      if (doubted) reply.error = Errc::in_doubt;
      co_return zk::to_error(reply, transaction_operation, shown);
    }
    if (failed->index == 0 && failed->code == zk::rc::node_exists) co_return std::nullopt;  // The reply was lost.
    if (failed->index == 0 && failed->code == zk::rc::no_node) {
      std::vector<std::string> no_more;
      Reply made = co_await ensure_tree(tree, std::move(no_more), call);
      if (!made.ok() && !made.failed(Errc::session_lost)) co_return zk::to_error(made, transaction_operation, shown);
      continue;
    }
    if (failed->code == zk::rc::no_node && failed->index >= before_inboxes) {
      const std::string& name = header.participants[(failed->index - before_inboxes) / 2];
      co_return Error(Errc::no_node, transaction_operation, tree->path,
                      "participant " + name + " has never served here");
    }
    co_return zk::to_error(reply, transaction_operation, shown);
  }
}

}  // namespace zkrecipes::detail
