#include "recipes/commit/transaction_view.hpp"

#include <utility>

namespace zkrecipes::detail {

namespace {

// The coordinator, which counts from earlier, goes first.
constexpr auto deadline_slack = std::chrono::milliseconds(100);

}  // namespace

bool TransactionView::begin_step() {
  session_ = state_->session;
  return session_ != nullptr;
}

Call TransactionView::call() const {
  Call call;
  call.cancel = state_->cancel;
  call.bound = session_;
  return call;
}

Awaitable<bool> TransactionView::look() {
  if (!open_->exists || open_->decision) co_return true;
  if (watch_ != nullptr && !watch_->event) co_return true;
  const bool created = watch_ != nullptr && watch_->event == WatchEventType::created;
  watch_ = nullptr;
  Reply reply;
  if (created) {
    reply = co_await find_decision();
  } else {
    reply = co_await read_transaction();
  }
  const bool known = watch_ != nullptr || open_->decision || !open_->exists;
  if (reply.ok()) co_return known && !open_->over;
  watch_ = nullptr;
  co_await pause_after(std::move(reply));
  co_return false;
}

// The transaction, and its decision if there is one; both requests go out in one flight.
Awaitable<Reply> TransactionView::read_transaction() {
  const TreePtr& tree = state_->tree;
  const std::string node = tree->transaction(open_->transaction.id);
  const Call limits = call();
  watch_ = open_->events.watch();
  const zk::PendingReply getting = tree->client->launch(zk::make_request(OpType::get, node), limits);
  Request exists = zk::make_request(OpType::exists, tree->child(open_->transaction.id, decision_node));
  const zk::PendingReply looking = tree->client->launch_watching(std::move(exists), limits, watch_->watch);
  Reply got = co_await getting.get();
  Reply decided = co_await looking.get();
  if (got.failed(Errc::no_node)) {
    got = co_await certain(tree, node, limits);
    if (got.failed(Errc::no_node)) {
      co_await note_removal();
      co_return Reply{};
    }
    if (got.ok()) got.error = Errc::connection_loss;  // The server lagged behind; look again.
    co_return got;
  }
  if (!got.ok()) co_return got;
  open_->header = decode_transaction(got.data);
  if (!open_->header) {
    open_->over = true;  // Not one of ours.
    co_return Reply{};
  }
  open_->transaction.payload = open_->header->payload;
  if (!open_->deadline) open_->deadline = from_now(open_->header->timeout + deadline_slack);
  if (decided.failed(Errc::no_node)) co_return Reply{};
  if (!decided.ok()) co_return decided;
  co_return co_await find_decision();
}

Awaitable<Reply> TransactionView::find_decision() {
  DecisionFound found = co_await read_decision(state_->tree, open_->transaction.id, call());
  if (found.decision) open_->decision = found.decision;
  if (found.gone) co_await note_removal();
  co_return std::move(found.failure);
}

Awaitable<void> TransactionView::note_removal() {
  const TreePtr& tree = state_->tree;
  Reply transactions = co_await certain(tree, tree->transactions, call());
  if (!transactions.ok() && !transactions.failed(Errc::no_node)) {
    watch_ = nullptr;
    co_await pause_after(std::move(transactions));
    co_return;
  }
  open_->same_tree = transactions.ok() && transactions.stat.czxid == open_->tree;
  open_->exists = false;
}

Awaitable<void> TransactionView::decide(Decision wanted) {
  DecisionFound found =
      co_await make_decision(state_->tree, open_->transaction.id, open_->header->participants, wanted, call());
  // Not if there may be a vote of ours: if our log gets lost, the entry has to tell of a commit with it.
  const bool may_have_voted = open_->voted || open_->vote_there;
  if (found.failure.failed(Errc::quota_exceeded) && !may_have_voted && !open_->entry_missing) {
    const std::string& id = open_->transaction.id;
    std::string entry = state_->tree->inbox_entry(state_->name, id);
    found = co_await make_decision_in_place_of(state_->tree, std::move(entry), open_->entry_missing, id,
                                               open_->header->participants, wanted, call());
  }
  if (found.decision) open_->decision = found.decision;
  if (found.gone) {
    co_await note_removal();
  } else if (found.failure.error) {
    co_await pause_after(std::move(found.failure));
  } else if (!found.decision && wanted.committed) {
    // Named: g++ 12 destroys twice what braces make in the expression.
    Decision instead{false, "a vote was changed or removed"};
    co_await decide(std::move(instead));
  }
}

Awaitable<void> TransactionView::pause_after(Reply failure) {
  if (failure.failed(Errc::closed) || failure.failed(Errc::cancelled) || ended()) co_return;
  if (failure.failed(Errc::foreign_node)) {
    open_->over = true;
    co_return;
  }
  co_await open_->events.wait(from_now(pause_after_failure));
}

}  // namespace zkrecipes::detail
