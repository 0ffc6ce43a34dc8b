#include "recipes/commit/commit_tree.hpp"

#include "zkclient/detail/recipe_names.hpp"

namespace zkrecipes::detail {

// --- Paths --------------------------------------------------------------------------------------------------------

namespace {

std::string joined(std::string_view parent, std::string_view name) {
  std::string path(parent);
  path += '/';
  path += name;
  return path;
}

}  // namespace

CommitTree::CommitTree(std::shared_ptr<zk::ClientCore> core, const Path& where, zkclient::AclList list)
    : client(std::move(core)), path(where.str()), acl(std::move(list)) {
  const std::string root = client->full(where) == "/" ? std::string() : client->full(where);
  participants = root + "/participants";
  inboxes = root + "/inbox";
  transactions = root + "/transactions";
}

std::string CommitTree::presence(std::string_view name) const { return joined(participants, name); }
std::string CommitTree::inbox(std::string_view name) const { return joined(inboxes, name); }
std::string CommitTree::inbox_entry(std::string_view name, std::string_view id) const {
  return joined(joined(inboxes, name), id);
}
std::string CommitTree::transaction(std::string_view id) const { return joined(transactions, id); }
std::string CommitTree::child(std::string_view id, std::string_view name) const {
  return joined(joined(transactions, id), name);
}
std::string CommitTree::child(std::string_view id, std::string_view prefix, std::string_view name) const {
  std::string path_of = joined(joined(transactions, id), prefix);
  path_of += name;
  return path_of;
}
std::string CommitTree::shown(std::string_view id) const { return client->stripped(transaction(id)); }

// --- Nodes --------------------------------------------------------------------------------------------------------

bool is_transaction_id(const CommitTree& tree, std::string_view id) {
  constexpr std::size_t below = 1 + vote_prefix.size() + max_commit_name;  // Its longest node.
  return zk::is_usable_name(tree.transactions, id, below);
}

Awaitable<Reply> ensure_tree(TreePtr tree, std::vector<std::string> wanted, Call call) {
  // Persistent, all of them: a container that is empty for a moment would be removed, and with it what it stands for.
  wanted.insert(wanted.end(), {tree->participants, tree->inboxes, tree->transactions});
  Reply reply;
  for (const std::string& node : wanted) {
    reply = co_await zk::ensure(tree->client, node, CreateMode::persistent, tree->acl, call);
    if (!reply.ok()) co_return reply;
  }
  co_return reply;
}

Awaitable<Reply> certain(TreePtr tree, std::string path, Call call) {
  Request exists = zk::make_request(OpType::exists, std::move(path));
  return zk::fresh(tree->client, std::move(exists), std::move(call));
}

std::optional<zk::Refusal> failed_operation(Reply& reply) {
  const std::optional<zk::Refusal> refusal = reply.refusal();
  if (!refusal) return std::nullopt;
  const bool raced = refusal->code == zk::rc::no_node || refusal->code == zk::rc::node_exists ||
                     refusal->code == zk::rc::bad_version || refusal->code == zk::rc::not_empty;
  if (raced) return refusal;
  reply.error = reply.cause();
  return std::nullopt;
}

// --- The decision -------------------------------------------------------------------------------------------------

Awaitable<DecisionFound> read_decision(TreePtr tree, std::string id, Call call) {
  DecisionFound found;
  Request get = zk::make_request(OpType::get, tree->child(id, decision_node));
  Reply read = co_await tree->client->perform(std::move(get), call);
  if (read.ok()) {
    found.decision = decode_decision(read.data);
    if (!found.decision) {
      found.failure.error = Errc::foreign_node;
      found.failure.detail = "the decision is not one of ours";
    }
    co_return found;
  }
  if (!read.failed(Errc::no_node)) {
    found.failure = std::move(read);
    co_return found;
  }
  std::string node = tree->transaction(id);
  Reply exists = co_await certain(tree, std::move(node), call);
  if (exists.failed(Errc::no_node)) {
    found.gone = true;
  } else if (!exists.ok()) {
    found.failure = std::move(exists);
  }
  co_return found;
}

namespace {

Request decision_request(const CommitTree& tree, const std::string& id, const std::vector<std::string>& participants,
                         const Decision& wanted) {
  const std::string node = tree.child(id, decision_node);
  Request request = zk::make_request(OpType::multi, node);
  if (wanted.committed) {
    // A vote to abort has version 1.
    for (const std::string& name : participants)
      request.operations.emplace_back(zkclient::Check{Path(tree.child(id, vote_prefix, name)), 0});
  }
  request.operations.emplace_back(Transaction::Create{Path(node), encode(wanted), CreateMode::persistent, tree.acl});
  return request;
}

}  // namespace

Awaitable<DecisionFound> make_decision(TreePtr tree, std::string id, std::vector<std::string> participants,
                                       Decision wanted, Call call) {
  for (;;) {
    Request request = decision_request(*tree, id, participants, wanted);
    Reply reply = co_await tree->client->perform(std::move(request), call);
    DecisionFound found;
    if (reply.ok()) {
      found.decision = std::move(wanted);
      co_return found;
    }
    // If it was done, the next attempt finds it: it does not matter which process has decided.
    if (reply.unanswered()) continue;
    if (!failed_operation(reply)) {
      found.failure = std::move(reply);
      co_return found;
    }
    found = co_await read_decision(tree, id, call);
    co_return found;
  }
}

Awaitable<DecisionFound> make_decision_in_place_of(TreePtr tree, std::string node, bool& gone, std::string id,
                                                   std::vector<std::string> participants, Decision wanted, Call call) {
  const zk::PendingReply removing = tree->client->launch(zk::make_request(OpType::remove, std::move(node)), call);
  DecisionFound found = co_await make_decision(tree, id, participants, wanted, call);
  const Reply removed = co_await removing.get();
  gone = gone || removed.ok() || removed.failed(Errc::no_node);
  // A server that has not applied the removal yet when it looks at the quota sees no room.
  if (gone && found.failure.failed(Errc::quota_exceeded)) {
    found = co_await make_decision(tree, std::move(id), std::move(participants), std::move(wanted), call);
  }
  co_return found;
}

}  // namespace zkrecipes::detail
