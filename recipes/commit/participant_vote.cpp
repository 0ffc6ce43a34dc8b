#include "recipes/commit/participant_vote.hpp"

#include <utility>

namespace zkrecipes::detail {

Awaitable<void> ParticipantVote::prepare() {
  if (open_->refused.empty()) {
    if (open_->logged == LogState::none) open_->tree = state_->tree_czxid;
    auto result = co_await run_handler(state_, open_, HandlerExecutor::Kind::prepare);
    if (!result) co_return;
    if (result->ready) {
      state_->board->put({open_->transaction.id, open_->transaction.payload, LogState::ready, {}});
      co_return;
    }
    open_->refused = "vote of " + state_->name + ": " + result->reason;
  }
  co_await vote_against();
}

// --- To commit ----------------------------------------------------------------------------------------------------

Awaitable<void> ParticipantVote::vote() {
  if (!open_->no_room.empty() && !open_->decision && std::chrono::steady_clock::now() >= *open_->deadline) {
    Decision late{false, "vote of " + state_->name + ": " + open_->no_room};
    co_await view_.decide(std::move(late));
    co_return;
  }
  const TreePtr& tree = state_->tree;
  const Call call = view_.call();
  const bool counts = open_->header && open_->header->variant == CommitVariant::all_to_all;
  Request request = vote_request();
  const std::size_t creation = request.operations.size() - 1;
  const zk::PendingReply voting = tree->client->launch(std::move(request), call);
  std::optional<zk::PendingReply> listing;
  if (counts) {
    listing = tree->client->launch(zk::make_request(OpType::children, tree->transaction(open_->transaction.id)), call);
  }
  Reply reply = co_await voting.get();
  std::optional<Reply> listed;
  if (listing) listed = co_await listing->get();
  const auto refusal = failed_operation(reply);
  const bool there = refusal && refusal->index == creation && refusal->code == zk::rc::node_exists;
  open_->vote_there = open_->vote_there || there || reply.unanswered();
  if (there) {
    const bool ours = co_await own_vote();
    if (!ours) co_return;
  }
  if (reply.ok() || there) {
    open_->voted = true;
    if (counts) begin_count(listed);
  } else if (refusal) {
    co_await find_refusal();
  } else if (!reply.unanswered()) {
    if (reply.failed(Errc::quota_exceeded)) open_->no_room = reply.detail;
    co_await view_.pause_after(std::move(reply));
  }
}

// A vote is a node that is created once. It is refused when the transaction is not in our inbox any more: then another
// process, which acted for us, has acknowledged it.
Request ParticipantVote::vote_request() const {
  const TreePtr& tree = state_->tree;
  const std::string& id = open_->transaction.id;
  Request request = zk::make_request(OpType::multi, tree->transaction(id));
  auto& all = request.operations;
  if (!open_->entry_missing) all.emplace_back(zkclient::Check{Path(tree->inbox_entry(state_->name, id))});
  const Path node(tree->child(id, vote_prefix, state_->name));
  all.emplace_back(Transaction::Create{node, state_->identity, CreateMode::persistent, tree->acl});
  return request;
}

void ParticipantVote::begin_count(const std::optional<Reply>& listed) {
  count_ = std::make_unique<VoteCount>(state_, open_, view_);
  if (listed && listed->ok()) count_->note(sort_out(listed->names));
}

// Whether the vote that is there already was ours, before a reply was lost or we died. If another process of our name,
// with a log of its own, has cast it, the two must not both take part: we try to have the transaction aborted.
Awaitable<bool> ParticipantVote::own_vote() {
  const TreePtr& tree = state_->tree;
  Request get = zk::make_request(OpType::get, tree->child(open_->transaction.id, vote_prefix, state_->name));
  Reply vote = co_await tree->client->perform(std::move(get), view_.call());
  if (vote.ok() && vote.data == state_->identity) co_return true;
  if (vote.ok()) {
    open_->foreign_vote = true;
    Decision instead{false, "participant " + state_->name + " has voted in another process"};
    co_await view_.decide(std::move(instead));
  } else if (!vote.failed(Errc::no_node)) {
    co_await view_.pause_after(std::move(vote));
  }
  co_return false;
}

// Why a vote was refused: the transaction is gone, or an operator has removed its entry from our inbox.
Awaitable<void> ParticipantVote::find_refusal() {
  std::string transaction = state_->tree->transaction(open_->transaction.id);
  Reply exists = co_await certain(state_->tree, std::move(transaction), view_.call());
  if (exists.failed(Errc::no_node)) {
    co_await view_.note_removal();
  } else if (exists.ok()) {
    open_->entry_missing = true;
    view_.look_again();  // Whether it was decided, before we vote again.
  }
}

// --- To abort -----------------------------------------------------------------------------------------------------

Awaitable<void> ParticipantVote::vote_against() {
  const Decision decision{false, open_->refused};
  Request request = refusal_request(decision);
  Reply reply = co_await state_->tree->client->perform(std::move(request), view_.call());
  if (reply.ok()) {
    open_->decision = decision;
  } else if (failed_operation(reply) || reply.failed(Errc::quota_exceeded)) {
    // It is decided already, or gone, or a vote of ours was there from before our log was lost. Or there is no room for
    // the vote: the decision does without.
    open_->vote_there = open_->vote_there || !reply.failed(Errc::quota_exceeded);
    co_await view_.decide(decision);
  } else if (!reply.unanswered()) {
    co_await view_.pause_after(std::move(reply));
  }
}

// The vote and the decision come together; the vote gets version 1, so that it fails every check for a vote to commit.
Request ParticipantVote::refusal_request(const Decision& decision) const {
  const TreePtr& tree = state_->tree;
  const std::string& id = open_->transaction.id;
  const Path node(tree->child(id, vote_prefix, state_->name));
  const Path decided(tree->child(id, decision_node));
  Request request = zk::make_request(OpType::multi, tree->transaction(id));
  auto& all = request.operations;
  all.emplace_back(zkclient::Check{Path(tree->inbox_entry(state_->name, id))});
  all.emplace_back(Transaction::Create{node, "", CreateMode::persistent, tree->acl});
  all.emplace_back(Transaction::Set{node, encode(decision), 0});
  all.emplace_back(Transaction::Create{decided, encode(decision), CreateMode::persistent, tree->acl});
  return request;
}

}  // namespace zkrecipes::detail
