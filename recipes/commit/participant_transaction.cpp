#include "recipes/commit/participant_transaction.hpp"

#include <utility>

namespace zkrecipes::detail {

namespace {

constexpr auto pause_after_exception = std::chrono::milliseconds(1000);

}  // namespace

Awaitable<void> ParticipantTransaction::run() {
  if (open_->logged == LogState::ready || open_->logged == LogState::committed) {
    state_->board->put({open_->transaction.id, open_->transaction.payload, open_->logged, {}});
  }
  while (!view_.ended()) {
    open_->events.clear();
    if (!view_.begin_step()) {  // The process that has our name now acts for us.
      view_.look_again();
      co_await open_->events.wait(std::nullopt);
      continue;
    }
    const bool decided = open_->logged == LogState::committed || open_->logged == LogState::aborted ||
                         open_->logged == LogState::applied;
    if (!decided) {
      const bool known = co_await view_.look();
      if (!known) continue;
    }
    const ParticipantStep step = decide_participant(facts());
    co_await act(step);
  }
}

ParticipantFacts ParticipantTransaction::facts() const {
  ParticipantFacts facts;
  facts.logged = open_->logged;
  facts.exists = open_->exists;
  facts.same_tree = open_->same_tree;
  facts.voted = open_->voted;
  if (open_->decision) facts.decided = open_->decision->committed;
  facts.foreign_vote = open_->foreign_vote;
  return facts;
}

Awaitable<void> ParticipantTransaction::act(ParticipantStep step) {
  switch (step) {
    case ParticipantStep::prepare: co_await vote_.prepare(); break;
    case ParticipantStep::vote: co_await vote_.vote(); break;
    case ParticipantStep::wait: co_await wait(); break;
    case ParticipantStep::commit: co_await apply(true); break;
    case ParticipantStep::abort: co_await apply(false); break;
    case ParticipantStep::acknowledge: co_await acknowledge(); break;
    case ParticipantStep::forget: co_await forget(); break;
    case ParticipantStep::ask_operator: co_await ask_operator(); break;
  }
}

// --- The second phase ---------------------------------------------------------------------------------------------

// For the decision.
Awaitable<void> ParticipantTransaction::wait() {
  if (vote_.count() != nullptr) {
    co_await vote_.count()->wait_or_decide();
    co_return;
  }
  if (std::chrono::steady_clock::now() >= *open_->deadline) {
    Decision late{false, "no decision came in time"};
    co_await view_.decide(std::move(late));
    co_return;
  }
  co_await open_->events.wait(open_->deadline);
}

Awaitable<void> ParticipantTransaction::apply(bool commit) {
  auto result =
      co_await run_handler(state_, open_, commit ? HandlerExecutor::Kind::commit : HandlerExecutor::Kind::abort);
  if (!result) co_return;
  if (!result->thrown) {
    state_->board->remove(open_->transaction.id);
    co_return;
  }
  state_->board->put({open_->transaction.id, open_->transaction.payload, open_->logged, result->reason});
  const LoopTime again = from_now(pause_after_exception);
  while (!view_.ended() && std::chrono::steady_clock::now() < again) {
    open_->events.clear();
    co_await open_->events.wait(again);
  }
}

Awaitable<void> ParticipantTransaction::acknowledge() {
  const TreePtr& tree = state_->tree;
  const std::string& id = open_->transaction.id;
  const std::string entry = tree->inbox_entry(state_->name, id);
  Request request = zk::make_request(OpType::multi, entry);
  // An entry that an operator has removed must not keep us from saying so, nor a transaction that is gone from tidying
  // up.
  if (!open_->entry_missing) {
    request.operations.emplace_back(Transaction::Remove{Path(entry), zkclient::any_version});
  }
  const std::size_t creation = request.operations.size();
  const Path node(tree->child(id, ack_prefix, state_->name));
  request.operations.emplace_back(Transaction::Create{node, "", CreateMode::persistent, tree->acl});
  Reply reply = co_await tree->client->perform(std::move(request), view_.call());
  const auto refusal = failed_operation(reply);
  if (refusal && refusal->index == creation) {  // Acknowledged before, or the transaction is gone.
    open_->exists = false;
  } else if (refusal) {
    open_->entry_missing = true;
  } else if (reply.ok()) {
    co_await close();
  } else if (reply.failed(Errc::quota_exceeded) && !open_->entry_missing) {
    // It goes first. What was applied is in the log until it is acknowledged.
    Request remove = zk::make_request(OpType::remove, entry);
    const Reply removed = co_await tree->client->perform(std::move(remove), view_.call());
    open_->entry_missing = removed.ok() || removed.failed(Errc::no_node);
    if (!open_->entry_missing && !removed.unanswered()) co_await view_.pause_after(std::move(reply));
  } else if (!reply.unanswered()) {
    co_await view_.pause_after(std::move(reply));
  }
}

// No coordinator waits for us. Our inbox's entry has to go, or it would be found again and again.
Awaitable<void> ParticipantTransaction::forget() {
  Request remove = zk::make_request(OpType::remove, state_->tree->inbox_entry(state_->name, open_->transaction.id));
  Reply reply = co_await state_->tree->client->perform(std::move(remove), view_.call());
  if (reply.ok() || reply.failed(Errc::no_node)) {
    co_await close();
  } else if (!reply.unanswered()) {
    co_await view_.pause_after(std::move(reply));
  }
}

Awaitable<void> ParticipantTransaction::close() {
  if (open_->logged == LogState::applied) co_await run_handler(state_, open_, HandlerExecutor::Kind::end);
  state_->board->remove(open_->transaction.id);
  open_->over = true;
}

// --- What the log and ZooKeeper do not agree about ----------------------------------------------------------------

Awaitable<void> ParticipantTransaction::ask_operator() {
  const std::string& id = open_->transaction.id;
  const auto resolution = state_->board->resolution(id);
  if (!resolution) {
    const bool log_lost = open_->logged != LogState::ready;
    state_->board->put({id, open_->transaction.payload, open_->logged, {}});
    const char* problem = log_lost              ? "it was committed with our vote, of which the log knows nothing"
                          : open_->foreign_vote ? "it was committed with the vote of another process of our name"
                                                : "it was prepared in a tree that is not there any more";
    state_->board->set_problem(id, problem, true);
    co_await open_->events.wait(std::nullopt);
    co_return;
  }
  open_->tree = state_->tree_czxid;
  co_await apply(*resolution);
}

}  // namespace zkrecipes::detail
