#include "recipes/commit/participant_presence.hpp"

#include "recipes/commit/participant_inbox.hpp"

namespace zkrecipes::detail {

Awaitable<Reply> ParticipantPresence::hold(Call call) {
  const TreePtr& tree = state_->tree;
  Reply reply = co_await tree->client->connected(call);
  if (!reply.ok()) co_return reply;
  const auto session = reply.session;
  if (state_->session == session && watch_ != nullptr && !watch_->event) co_return reply;
  state_->session = nullptr;
  call.bound = session;
  reply = co_await prepare(call);
  if (!reply.ok()) co_return reply;
  for (;;) {
    watch_ = events_.watch();
    Request get = zk::make_request(OpType::get, tree->presence(state_->name));
    reply = co_await tree->client->perform_watching(std::move(get), call, watch_->watch);
    const bool ours = reply.ok() && reply.data == state_->identity;
    if (ours && reply.stat.ephemeral_owner == session->id()) {
      state_->session = session;
      state_->wake_all();
      co_return reply;
    }
    if (!reply.ok() && !reply.failed(Errc::no_node)) co_return reply;
    if (reply.ok() && !ours) co_return reply;
    reply = co_await claim(std::move(reply), call);
    if (!reply.ok()) co_return reply;
  }
}

// Once for each session. Its server must not be older than what we saw in the last one: what we have acknowledged is
// gone.
Awaitable<Reply> ParticipantPresence::prepare(Call call) {
  if (prepared_ == call.bound) co_return Reply{};
  const TreePtr& tree = state_->tree;
  Request sync = zk::make_request(OpType::sync, tree->transactions);
  Reply reply = co_await tree->client->perform(std::move(sync), call);
  if (!reply.ok() && !reply.failed(Errc::no_node)) co_return reply;
  reply = co_await ensure_inbox(state_, call);
  if (reply.ok()) prepared_ = call.bound;
  co_return reply;
}

// There is no node, or that of an earlier process with our log: it is dead, or it would hold the log's lock.
Awaitable<Reply> ParticipantPresence::claim(Reply found, Call call) {
  const TreePtr& tree = state_->tree;
  const std::string node = tree->presence(state_->name);
  Request claim = zk::make_request(OpType::multi, node);
  if (found.ok()) claim.operations.emplace_back(Transaction::Remove{Path(node), found.stat.version});
  claim.operations.emplace_back(Transaction::Create{Path(node), state_->identity, CreateMode::ephemeral, tree->acl});
  claimed_ = call.bound;
  Reply reply = co_await tree->client->perform(std::move(claim), call);
  const auto failed = failed_operation(reply);
  if (failed && failed->code == zk::rc::no_node && !found.ok()) {
    reply = co_await make_inbox_again(state_, call);
  } else if (failed || reply.unanswered()) {
    reply.error.reset();  // Look again.
  }
  co_return reply;
}

namespace {

/// Removes the node if it is ours in this session. Ends with a reply that never came if it cannot tell.
Awaitable<Reply> remove_own(TreePtr tree, std::string name, std::string identity, Call call) {
  Request look = zk::make_request(OpType::get, tree->presence(name));
  Reply found = co_await tree->client->perform(std::move(look), call);
  const bool ours = found.ok() && found.data == identity && found.stat.ephemeral_owner == call.bound->id();
  if (!ours) co_return found;
  Request remove = zk::make_request(OpType::remove, tree->presence(name));
  remove.version = found.stat.version;
  Reply removed = co_await tree->client->perform(std::move(remove), call);
  co_return removed;
}

/// For as long as the session lives. It keeps nothing of the user's: serve() has returned.
Awaitable<void> remove_own_later(TreePtr tree, std::string name, std::string identity, Call call) {
  for (;;) {
    const Reply reply = co_await remove_own(tree, name, identity, call);
    if (!reply.unanswered() && !reply.failed(Errc::connection_loss)) co_return;
  }
}

}  // namespace

// A claim whose answer was not awaited may have made the node all the same. serve() does not wait for long: whoever has
// no connection loses the session, and the node with it, or gets both back.
Awaitable<void> ParticipantPresence::remove() {
  const auto session = state_->session != nullptr ? state_->session : claimed_;
  if (session == nullptr) co_return;
  Call last;
  last.bound = session;
  last.deadline = from_now(std::chrono::seconds(1));
  Request remove = zk::make_request(OpType::remove, state_->tree->presence(state_->name));
  Reply reply;
  if (state_->session != nullptr)
    reply = co_await state_->tree->client->perform(std::move(remove), last);
  else
    reply = co_await remove_own(state_->tree, state_->name, state_->identity, last);
  if (!reply.given_up && !reply.unanswered()) co_return;
  last.deadline.reset();
  zk::spawn(remove_own_later(state_->tree, state_->name, state_->identity, last));
}

}  // namespace zkrecipes::detail
