#include "recipes/commit/participant_inbox.hpp"

namespace zkrecipes::detail {

Awaitable<Reply> ParticipantInbox::read(Call call) {
  if (session_ != state_->session) {
    session_ = state_->session;
    watch_ = nullptr;
    known_.reset();
  }
  call.bound = session_;
  const TreePtr& tree = state_->tree;
  while (watch_ == nullptr || watch_->event) {
    watch_ = events_.watch();
    Request get = zk::make_request(OpType::get, tree->inbox(state_->name));
    Reply inbox = co_await tree->client->perform_watching(std::move(get), call, watch_->watch);
    if (!inbox.ok()) watch_ = nullptr;
    if (inbox.failed(Errc::no_node)) {
      inbox = co_await make_inbox_again(state_, call);
      if (inbox.ok()) continue;
    }
    if (!inbox.ok()) co_return inbox;
    const InboxVersion found{inbox.stat.czxid, inbox.stat.version};
    const InboxStep step = decide_inbox(known_, found);
    if (step == InboxStep::take_newest) {
      known_ = found;
      arrived_(inbox.data);
    } else if (step == InboxStep::list) {
      Reply listed = co_await list(found, call);
      if (listed.ok()) continue;
      watch_ = nullptr;
      co_return listed;
    }
  }
  co_return Reply{};
}

// The list has a version, too, so that nothing is taken up twice. Nothing comes between its reply and arrived_() but the
// other one, which follows at once: a transaction that is acknowledged meanwhile would be found anew, and prepared again.
Awaitable<Reply> ParticipantInbox::list(InboxVersion found, Call call) {
  const TreePtr& tree = state_->tree;
  const bool anew = !known_ || known_->czxid != found.czxid;
  const zk::PendingReply listing =
      tree->client->launch(zk::make_request(OpType::children, tree->inbox(state_->name)), call);
  std::optional<zk::PendingReply> looking;
  if (anew) looking = tree->client->launch(zk::make_request(OpType::exists, tree->transactions), call);
  Reply listed = co_await listing.get();
  if (looking) {
    Reply transactions = co_await looking->get();
    if (!listed.ok()) co_return listed;
    if (!transactions.ok()) co_return transactions;
    state_->tree_czxid = transactions.stat.czxid;
    state_->wake_all();
  }
  if (!listed.ok()) co_return listed;
  known_ = InboxVersion{listed.stat.czxid, listed.stat.version};
  for (const std::string& id : listed.names)
    arrived_(id);
  co_return listed;
}

Awaitable<Reply> ensure_inbox(ParticipantStatePtr state, Call call) {
  std::vector<std::string> wanted{state->tree->inbox(state->name)};
  return ensure_tree(state->tree, std::move(wanted), std::move(call));
}

Awaitable<Reply> make_inbox_again(ParticipantStatePtr state, Call call) {
  const NodeEvents pause(state->tree->client);  // Not the participant's: no event must end the pause, or be missed.
  co_await pause.wait(from_now(pause_after_failure));
  co_return co_await ensure_inbox(std::move(state), std::move(call));
}

}  // namespace zkrecipes::detail
