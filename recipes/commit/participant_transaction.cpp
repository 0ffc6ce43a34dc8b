#include "recipes/commit/participant_transaction.hpp"

#include <algorithm>
#include <utility>

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::Reply;
using zk::Request;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Path;
using zkclient::Transaction;
using zkclient::WatchEventType;

namespace {

constexpr auto pause_after_failure = std::chrono::milliseconds(200);
constexpr auto pause_after_exception = std::chrono::milliseconds(1000);
// The coordinator, which counts from earlier, goes first.
constexpr auto deadline_slack = std::chrono::milliseconds(100);
// In an all-to-all transaction the last one to vote sees all votes, and decides. The others leave it this time before they
// look again: it may be dead.
constexpr auto last_voter_time = std::chrono::milliseconds(100);

LoopTime from_now(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

}  // namespace

CommitServer::Handling::Handling(CommitServer& server, ServedPtr served)
    : server_(server), served_(std::move(served)), tree_(server_.tree_), wake_(served_->wake) {}

Call CommitServer::Handling::bound() const {
  Call call = server_.call_;
  call.bound = session_;
  return call;
}

Awaitable<void> CommitServer::Handling::run() {
  if (served_->logged == LogState::ready || served_->logged == LogState::committed) {
    server_.setup_.board->put({served_->transaction.id, served_->transaction.payload, served_->logged, {}});
  }
  while (!ended()) {
    wake_.clear();
    session_ = server_.session_;
    if (session_ == nullptr) {  // Whoever has our name now acts for us.
      decision_ = nullptr;
      co_await wake_.wait(std::nullopt);
      continue;
    }
    const bool decided = served_->logged == LogState::committed || served_->logged == LogState::aborted ||
                         served_->logged == LogState::applied;
    if (!decided) {
      const bool known = co_await look();
      if (!known) continue;
    }
    const ParticipantFacts facts{served_->logged,
                                 served_->exists,
                                 served_->same_tree,
                                 served_->voted,
                                 served_->decision ? std::optional<bool>(served_->decision->committed) : std::nullopt,
                                 served_->foreign_vote};
    const ParticipantStep step = decide_participant(facts);
    co_await act(step);
  }
}

Awaitable<void> CommitServer::Handling::act(ParticipantStep step) {
  switch (step) {
    case ParticipantStep::prepare: co_await prepare(); break;
    case ParticipantStep::vote: co_await vote(); break;
    case ParticipantStep::wait: co_await wait(); break;
    case ParticipantStep::commit: co_await apply(true); break;
    case ParticipantStep::abort: co_await apply(false); break;
    case ParticipantStep::acknowledge: co_await acknowledge(); break;
    case ParticipantStep::forget: co_await forget(); break;
    case ParticipantStep::ask_operator: co_await ask_operator(); break;
  }
}

// --- Looking ------------------------------------------------------------------------------------------------------

// True when it is known what there is; a watch then tells of the decision.
Awaitable<bool> CommitServer::Handling::look() {
  if (!served_->exists || served_->decision) co_return true;
  if (decision_ != nullptr && !decision_->event) co_return true;
  const bool created = decision_ != nullptr && decision_->event == WatchEventType::created;
  decision_ = nullptr;
  Reply reply;
  if (created) {
    DecisionFound found = co_await read_decision(tree_, served_->transaction.id, bound());
    take(found);
    if (found.gone) co_await handle_removal();
    reply = std::move(found.failure);
  } else {
    reply = co_await find_transaction();
  }
  const bool known = decision_ != nullptr || served_->decision || !served_->exists;
  if (reply.ok()) co_return known && !over_;
  decision_ = nullptr;
  co_await failed(std::move(reply));
  co_return false;
}

// The transaction, and its decision if there is one; both requests go out in one flight.
Awaitable<Reply> CommitServer::Handling::find_transaction() {
  const std::string node = tree_->transaction(served_->transaction.id);
  const Call call = bound();
  decision_ = wake_.watch();
  const zk::PendingReply getting = tree_->client->launch(zk::make_request(OpType::get, node), call);
  Request exists = zk::make_request(OpType::exists, tree_->child(served_->transaction.id, decision_node));
  const zk::PendingReply looking = tree_->client->launch_watching(std::move(exists), call, decision_->watch);
  Reply got = co_await getting.get();
  Reply decided = co_await looking.get();
  if (got.failed(Errc::no_node)) {
    got = co_await certain(tree_, node, call);
    if (got.failed(Errc::no_node)) {
      co_await handle_removal();
      co_return Reply{};
    }
    if (got.ok()) got.error = Errc::connection_loss;  // The server lagged behind; look again.
    co_return got;
  }
  if (!got.ok()) co_return got;
  served_->header = decode_transaction(got.data);
  if (!served_->header) {
    over_ = true;  // Not one of ours.
    co_return Reply{};
  }
  served_->transaction.payload = served_->header->payload;
  if (!served_->deadline) served_->deadline = from_now(served_->header->timeout + deadline_slack);
  if (decided.failed(Errc::no_node)) co_return Reply{};
  if (!decided.ok()) co_return decided;
  DecisionFound found = co_await read_decision(tree_, served_->transaction.id, call);
  take(found);
  if (found.gone) co_await handle_removal();
  co_return std::move(found.failure);
}

void CommitServer::Handling::take(const DecisionFound& found) {
  if (found.decision) served_->decision = found.decision;
}

// There is no such transaction (any more). Is that the same tree as the one in which it was begun?
Awaitable<void> CommitServer::Handling::handle_removal() {
  Reply tree = co_await certain(tree_, tree_->transactions, bound());
  if (!tree.ok() && !tree.failed(Errc::no_node)) {
    decision_ = nullptr;
    co_await failed(std::move(tree));
    co_return;
  }
  served_->same_tree = tree.ok() && tree.stat.czxid == served_->tree;
  served_->exists = false;
}

Awaitable<void> CommitServer::Handling::failed(Reply reply) {
  if (reply.failed(Errc::closed) || reply.failed(Errc::cancelled) || ended()) co_return;
  if (reply.failed(Errc::foreign_node)) {
    over_ = true;
    co_return;
  }
  co_await wake_.wait(from_now(pause_after_failure));
}

// --- The first phase ----------------------------------------------------------------------------------------------

Awaitable<std::optional<HandlerExecutor::Result>> CommitServer::Handling::run_job(HandlerExecutor::Kind kind) {
  const auto answer = std::make_shared<std::optional<HandlerExecutor::Result>>();
  HandlerExecutor::Job job;
  job.kind = kind;
  job.transaction = served_->transaction;
  job.tree = served_->tree;
  job.logged = served_->logged;
  job.done = [answer, signal = wake_.signal()](HandlerExecutor::Result result) {
    *answer = std::move(result);
    signal->set();
  };
  server_.runner_->submit(std::move(job));
  while (!*answer && !server_.ended()) {
    wake_.clear();
    co_await wake_.wait(std::nullopt);
  }
  if (*answer && (*answer)->logged) served_->logged = *(*answer)->logged;
  co_return std::move(*answer);
}

Awaitable<void> CommitServer::Handling::prepare() {
  if (served_->refused.empty()) {
    if (served_->logged == LogState::none) served_->tree = server_.tree_czxid_;
    auto result = co_await run_job(HandlerExecutor::Kind::prepare);
    if (!result) co_return;
    if (result->ready) {
      server_.setup_.board->put({served_->transaction.id, served_->transaction.payload, LogState::ready, {}});
      co_return;
    }
    served_->refused = "vote of " + server_.setup_.name + ": " + result->reason;
  }
  co_await vote_against();
}

// A vote is a node that is created once. It is refused when the transaction is not in our inbox any more: then somebody
// who acted for us has acknowledged it.
Awaitable<void> CommitServer::Handling::vote() {
  const std::string& id = served_->transaction.id;
  Request request = zk::make_request(OpType::multi, tree_->transaction(id));
  auto& all = request.operations;
  if (!served_->entry_missing) all.emplace_back(zkclient::Check{Path(tree_->inbox_entry(server_.setup_.name, id))});
  const std::size_t creation = all.size();
  const std::string node = tree_->child(id, vote_prefix, server_.setup_.name);
  all.emplace_back(Transaction::Create{Path(node), server_.setup_.identity, CreateMode::persistent, tree_->acl});
  const Call call = bound();
  const bool counts = served_->header && served_->header->variant == CommitVariant::all_to_all;
  const zk::PendingReply voting = tree_->client->launch(std::move(request), call);
  std::optional<zk::PendingReply> listing;
  if (counts) listing = tree_->client->launch(zk::make_request(OpType::children, tree_->transaction(id)), call);
  Reply reply = co_await voting.get();
  Reply listed;
  if (listing) listed = co_await listing->get();
  const auto refusal = failed_operation(reply);
  const bool there = refusal && refusal->index == creation && refusal->code == zk::rc::node_exists;
  if (there) {
    const bool ours = co_await own_vote(node);
    if (!ours) co_return;
  }
  if (reply.ok() || there) {
    served_->voted = true;
    if (!counts) co_return;
    votes_ = std::make_unique<VoteTally>(tree_, wake_, id, vote_prefix, served_->header->participants);
    if (listed.ok()) votes_->note(sort_out(listed.names));
    count_at_ = from_now(last_voter_time);
    co_return;
  }
  if (refusal) {
    std::string transaction = tree_->transaction(id);
    Reply exists = co_await certain(tree_, std::move(transaction), call);
    if (exists.failed(Errc::no_node)) {
      co_await handle_removal();
    } else if (exists.ok()) {
      served_->entry_missing = true;
      decision_ = nullptr;  // Look whether it was decided before voting again.
    }
    co_return;
  }
  if (!reply.failed(Errc::in_doubt) || reply.given_up) co_await failed(std::move(reply));
}

// Whether the vote that is there already was ours, before a reply was lost or we died. If it was cast by another process
// of our name, with a log of its own, the two must not both take part: we try to have it aborted.
Awaitable<bool> CommitServer::Handling::own_vote(std::string node) {
  Request get = zk::make_request(OpType::get, node);
  Reply vote = co_await tree_->client->perform(std::move(get), bound());
  if (vote.ok() && vote.data == server_.setup_.identity) co_return true;
  if (vote.ok()) {
    served_->foreign_vote = true;
    Decision instead{false, "participant " + server_.setup_.name + " has voted in another process"};
    co_await make(std::move(instead));
  } else if (!vote.failed(Errc::no_node)) {
    co_await failed(std::move(vote));
  }
  co_return false;
}

// The vote and the decision come together; the vote gets version 1, so that it fails every check for a vote to commit.
Awaitable<void> CommitServer::Handling::vote_against() {
  const std::string& id = served_->transaction.id;
  const Path node(tree_->child(id, vote_prefix, server_.setup_.name));
  const Decision decision{false, served_->refused};
  Request request = zk::make_request(OpType::multi, tree_->transaction(id));
  auto& all = request.operations;
  all.emplace_back(zkclient::Check{Path(tree_->inbox_entry(server_.setup_.name, id))});
  all.emplace_back(Transaction::Create{node, "", CreateMode::persistent, tree_->acl});
  all.emplace_back(Transaction::Set{node, encode(decision), 0});
  all.emplace_back(
      Transaction::Create{Path(tree_->child(id, decision_node)), encode(decision), CreateMode::persistent, tree_->acl});
  Reply reply = co_await tree_->client->perform(std::move(request), bound());
  if (reply.ok()) {
    served_->decision = decision;
  } else if (failed_operation(reply)) {
    // It is decided already, or gone, or a vote of ours was there from before our log was lost.
    co_await make(decision);
  } else if (!reply.failed(Errc::in_doubt) || reply.given_up) {
    co_await failed(std::move(reply));
  }
}

// --- The second phase ---------------------------------------------------------------------------------------------

Awaitable<void> CommitServer::Handling::wait() {
  if (votes_ != nullptr) {
    co_await count_votes();
    co_return;
  }
  if (std::chrono::steady_clock::now() >= *served_->deadline) {
    Decision late{false, "no decision came in time"};
    co_await make(std::move(late));
    co_return;
  }
  co_await wake_.wait(served_->deadline);
}

// All-to-all: as the coordinator does.
Awaitable<void> CommitServer::Handling::count_votes() {
  const auto now = std::chrono::steady_clock::now();
  const bool counting = now >= *count_at_ && !votes_->complete();
  Roster::Absence absence;
  if (counting) {
    server_.driver_->roster()->follow();
    server_.driver_->roster()->tell(wake_.signal());
    Reply reply = co_await votes_->advance(bound());
    if (!reply.ok()) {
      decision_ = nullptr;
      if (!reply.failed(Errc::no_node)) co_await failed(std::move(reply));
      co_return;
    }
    absence = server_.driver_->roster()->absence(served_->header->participants, votes_->seen());
    if (absence.gone) {  // It may have voted before it went.
      votes_->list_next();
      reply = co_await votes_->advance(bound());
      if (!reply.ok()) {
        decision_ = nullptr;
        if (!reply.failed(Errc::no_node)) co_await failed(std::move(reply));
        co_return;
      }
      absence = server_.driver_->roster()->absence(served_->header->participants, votes_->seen());
    }
  }
  DriveFacts facts;
  facts.participants = &served_->header->participants;
  facts.voted = votes_->seen();
  facts.late = now >= *served_->deadline;
  facts.gone = absence.gone;
  const DriveStep step = decide_drive(facts);
  if (step.kind == DriveStep::Kind::wait_for_votes) {
    LoopTime next = *served_->deadline;
    if (!counting) next = std::min(next, *count_at_);
    if (absence.next) next = std::min(next, *absence.next);
    co_await wake_.wait(next);
    co_return;
  }
  // Named, here and below: g++ 12 destroys what is made by braces in the expression twice.
  Decision wanted{step.kind == DriveStep::Kind::commit, step.reason};
  co_await make(std::move(wanted));
}

Awaitable<void> CommitServer::Handling::make(Decision wanted) {
  DecisionFound found =
      co_await make_decision(tree_, served_->transaction.id, served_->header->participants, wanted, bound());
  take(found);
  if (found.gone) {
    co_await handle_removal();
  } else if (found.failure.error) {
    co_await failed(std::move(found.failure));
  } else if (!found.decision && wanted.committed) {
    Decision instead{false, "a vote was changed or removed"};
    co_await make(std::move(instead));
  }
}

Awaitable<void> CommitServer::Handling::apply(bool commit) {
  auto result = co_await run_job(commit ? HandlerExecutor::Kind::commit : HandlerExecutor::Kind::abort);
  if (!result) co_return;
  InDoubtBoard& board = *server_.setup_.board;
  if (!result->thrown) {
    board.remove(served_->transaction.id);
    co_return;
  }
  board.put({served_->transaction.id, served_->transaction.payload, served_->logged, result->reason});
  const LoopTime again = from_now(pause_after_exception);
  while (!ended() && std::chrono::steady_clock::now() < again) {
    wake_.clear();
    co_await wake_.wait(again);
  }
}

Awaitable<void> CommitServer::Handling::acknowledge() {
  const std::string& id = served_->transaction.id;
  const std::string entry = tree_->inbox_entry(server_.setup_.name, id);
  Request request = zk::make_request(OpType::multi, entry);
  // An entry that somebody has removed must not keep us from saying so, nor a transaction that is gone from tidying up.
  if (!served_->entry_missing) {
    request.operations.emplace_back(Transaction::Remove{Path(entry), zkclient::any_version});
  }
  const std::size_t creation = request.operations.size();
  request.operations.emplace_back(Transaction::Create{Path(tree_->child(id, ack_prefix, server_.setup_.name)), "",
                                                      CreateMode::persistent, tree_->acl});
  Reply reply = co_await tree_->client->perform(std::move(request), bound());
  const auto refusal = failed_operation(reply);
  if (refusal && refusal->index == creation) {  // Acknowledged before, or the transaction is gone.
    served_->exists = false;
    co_return;
  }
  if (refusal) {
    served_->entry_missing = true;
    co_return;
  }
  if (reply.failed(Errc::in_doubt) && !reply.given_up) co_return;
  if (!reply.ok()) {
    co_await failed(std::move(reply));
    co_return;
  }
  if (served_->logged == LogState::applied) co_await run_job(HandlerExecutor::Kind::end);
  server_.setup_.board->remove(id);
  over_ = true;
}

// Nobody waits for us. What is left in our inbox has to go, or it would be found again and again.
Awaitable<void> CommitServer::Handling::forget() {
  const std::string& id = served_->transaction.id;
  Request remove = zk::make_request(OpType::remove, tree_->inbox_entry(server_.setup_.name, id));
  Reply reply = co_await tree_->client->perform(std::move(remove), bound());
  if (reply.failed(Errc::in_doubt) && !reply.given_up) co_return;
  if (!reply.ok() && !reply.failed(Errc::no_node)) {
    co_await failed(std::move(reply));
    co_return;
  }
  if (served_->logged == LogState::applied) co_await run_job(HandlerExecutor::Kind::end);
  server_.setup_.board->remove(id);
  over_ = true;
}

Awaitable<void> CommitServer::Handling::ask_operator() {
  InDoubtBoard& board = *server_.setup_.board;
  const std::string& id = served_->transaction.id;
  const auto resolution = board.resolution(id);
  if (!resolution) {
    const bool log_lost = served_->logged != LogState::ready;
    board.put({id, served_->transaction.payload, served_->logged, {}});
    const char* problem = log_lost                ? "it was committed with our vote, of which the log knows nothing"
                          : served_->foreign_vote ? "it was committed with the vote of another process of our name"
                                                  : "it was prepared in a tree that is not there any more";
    board.set_problem(id, problem, true);
    co_await wake_.wait(std::nullopt);
    co_return;
  }
  served_->tree = server_.tree_czxid_;
  co_await apply(*resolution);
}

}  // namespace zkrecipes::detail
