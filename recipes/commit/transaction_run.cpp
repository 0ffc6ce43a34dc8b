#include "recipes/commit/transaction_run.hpp"

#include <algorithm>
#include <utility>

namespace zkrecipes::detail {

namespace {

// No event tells of a transaction that an operator has removed while its acknowledgements were waited for.
constexpr auto look_again = std::chrono::seconds(10);
constexpr int most_removals = 5;

bool is_final(const Reply& reply) {
  return reply.failed(Errc::closed) || reply.failed(Errc::no_auth) || reply.failed(Errc::foreign_node);
}

}  // namespace

TransactionRun::TransactionRun(TreePtr tree, std::shared_ptr<Roster> roster, DrivePtr drive)
    : tree_(std::move(tree)),
      roster_(std::move(roster)),
      drive_(std::move(drive)),
      events_(tree_->client),
      votes_(tree_, events_, drive_->id, vote_prefix, drive_->header.participants),
      acks_(tree_, events_, drive_->id, ack_prefix, drive_->header.participants) {
  drive_->wake = events_.signal();
  if (drive_->owner) return;
  votes_.list_next();
  acks_.list_next();
}

Awaitable<void> TransactionRun::until_decided() {
  if (counts()) {
    roster_->tell(events_.signal());
    roster_->follow();
  }
  while (!over() && !drive_->decision) {
    events_.clear();
    co_await look();
    if (over() || drive_->decision) co_return;
    if (decision_ == nullptr) continue;  // It could not be watched.
    const bool counted = co_await count();
    if (!counted) continue;
    const Roster::Absence absence = missing();
    const DriveStep step = decide_drive(facts(absence.gone));
    if (step.kind == DriveStep::Kind::wait_for_votes) {
      LoopTime next = std::min(drive_->deadline, absence.next.value_or(drive_->deadline));
      co_await events_.wait(next);
    } else {
      co_await decide(step);
    }
  }
}

Awaitable<void> TransactionRun::until_removed() {
  if (!drive_->settled_at) drive_->settled_at = std::chrono::steady_clock::now() + drive_->header.timeout;
  while (!over()) {
    events_.clear();
    Reply reply = co_await acks_.advance(call_);
    if (!reply.ok()) {
      co_await failed(std::move(reply));
      continue;
    }
    const DriveFacts known = facts({});
    const DriveStep step = decide_drive(known);
    if (step.kind == DriveStep::Kind::wait_for_acknowledgements) {
      const bool without_end = drive_->owner && drive_->decision->committed;
      if (!without_end && known.settled) co_return;  // Left to the next sweep.
      const LoopTime again = std::chrono::steady_clock::now() + look_again;
      co_await events_.wait(without_end ? again : *drive_->settled_at);
      if (std::chrono::steady_clock::now() >= again) acks_.list_next();
      continue;
    }
    drive_->applied = true;
    drive_->tell();
    if (step.kind == DriveStep::Kind::remove) co_await remove();
    co_return;
  }
}

void TransactionRun::release() const {
  if (drive_->owner && !gone_ && !tree_->client->closing()) {
    zk::delete_in_background(tree_->client, tree_->child(drive_->id, coordinator_node), tree_->client->current());
  }
}

DriveFacts TransactionRun::facts(std::optional<std::string> gone) const {
  const auto now = std::chrono::steady_clock::now();
  DriveFacts facts;
  facts.participants = &drive_->header.participants;
  facts.voted = votes_.seen();
  facts.acknowledged = acks_.seen();
  if (drive_->decision) facts.decided = drive_->decision->committed;
  facts.late = now >= drive_->deadline;
  facts.unwanted = drive_->unwanted;
  facts.gone = std::move(gone);
  facts.settled = drive_->settled_at && now >= *drive_->settled_at;
  facts.kept = drive_->header.retention.count() > 0;
  return facts;
}

// --- The decision ----------------------------------------------------------------------------------------------------

// Has the decision watched, and reads it when it is there.
Awaitable<void> TransactionRun::look() {
  if (decision_ != nullptr && !decision_->event) co_return;
  bool there = decision_ != nullptr && decision_->event == zkclient::WatchEventType::created;
  if (!there) {
    decision_ = events_.watch();
    Request exists = zk::make_request(OpType::exists, tree_->child(drive_->id, decision_node));
    Reply seen = co_await tree_->client->perform_watching(std::move(exists), call_, decision_->watch);
    if (!seen.ok() && !seen.failed(Errc::no_node)) {
      decision_ = nullptr;
      co_await failed(std::move(seen));
      co_return;
    }
    there = seen.ok();
  }
  if (!there) co_return;
  decision_ = nullptr;
  DecisionFound found = co_await read_decision(tree_, drive_->id, call_);
  take(found);
  if (found.failure.error) co_await failed(std::move(found.failure));
}

// Of an all-to-all transaction the participants count the votes, while its coordinator is there.
bool TransactionRun::counts() const { return drive_->header.variant == CommitVariant::mediated || !drive_->owner; }

// False: it failed, and the next step begins anew.
Awaitable<bool> TransactionRun::count() {
  if (!counts()) co_return true;
  Reply reply = co_await votes_.advance(call_);
  if (reply.ok() && missing().gone) {
    votes_.list_next();  // It may have voted before it went, while we waited for another participant's vote.
    reply = co_await votes_.advance(call_);
  }
  if (reply.ok()) co_return true;
  co_await failed(std::move(reply));
  co_return false;
}

Roster::Absence TransactionRun::missing() const {
  return counts() ? roster_->absence(drive_->header.participants, votes_.seen()) : Roster::Absence{};
}

Awaitable<void> TransactionRun::decide(DriveStep step) {
  Decision wanted{step.kind == DriveStep::Kind::commit, step.reason};
  DecisionFound found = co_await make_decision(tree_, drive_->id, drive_->header.participants, wanted, call_);
  if (found.failure.failed(Errc::quota_exceeded) && drive_->owner && !released_) {
    // Without our node others may finish what is ours, as they may anyway when we are gone.
    std::string own = tree_->child(drive_->id, coordinator_node);
    found = co_await make_decision_in_place_of(tree_, std::move(own), released_, drive_->id,
                                               drive_->header.participants, wanted, call_);
  }
  take(found);
  if (found.failure.error) {
    co_await failed(std::move(found.failure));
  } else if (wanted.committed && !found.decision && !found.gone) {
    drive_->unwanted = "a vote was changed or removed";
  }
}

void TransactionRun::take(const DecisionFound& found) {
  if (found.decision) drive_->decision = found.decision;
  if (!found.gone) return;
  gone_ = true;
  drive_->applied = drive_->decision.has_value();  // Or it would not have been removed.
  if (!drive_->decision) {
    drive_->failure =
        Error(Errc::in_doubt, transaction_operation, tree_->shown(drive_->id), "the transaction is not there");
  }
}

Awaitable<void> TransactionRun::failed(Reply reply) {
  if (reply.failed(Errc::no_node)) {
    take({.gone = true});
    co_return;
  }
  if (is_final(reply)) {
    drive_->failure = zk::to_error(reply, transaction_operation, tree_->shown(drive_->id));
    co_return;
  }
  co_await events_.wait(from_now(pause_after_failure));
}

// --- The removal -----------------------------------------------------------------------------------------------------

Awaitable<void> TransactionRun::remove() {
  bool all_there = drive_->owner && drive_->decision->committed;  // The nodes are known, and need not be listed.
  // Another client may have put nodes of its own below: that is left to the next sweep.
  for (int attempt = 0; attempt < most_removals && !over(); ++attempt) {
    std::vector<std::string> nodes;
    if (all_there) {
      nodes = expected();
    } else {
      Reply listed = co_await list(nodes);
      if (listed.failed(Errc::no_node)) gone_ = true;
      if (!listed.ok() && !gone_) {
        co_await failed(std::move(listed));
        continue;
      }
      if (gone_ || nodes.empty()) co_return;
    }
    Request request = zk::make_request(OpType::multi, tree_->transaction(drive_->id));
    for (const std::string& node : nodes)
      request.operations.emplace_back(Transaction::Remove{Path(node), zkclient::any_version});
    Reply reply = co_await tree_->client->perform(std::move(request), call_);
    gone_ = reply.ok();
    if (gone_) co_return;
    all_there = false;
    if (!failed_operation(reply) && !reply.failed(Errc::in_doubt)) co_await failed(std::move(reply));
  }
}

std::vector<std::string> TransactionRun::expected() const {
  std::vector<std::string> nodes;
  if (!released_) nodes.push_back(tree_->child(drive_->id, coordinator_node));
  for (const std::string& name : drive_->header.participants) {
    nodes.push_back(tree_->child(drive_->id, vote_prefix, name));
    nodes.push_back(tree_->child(drive_->id, ack_prefix, name));
  }
  nodes.push_back(tree_->child(drive_->id, decision_node));
  nodes.push_back(tree_->transaction(drive_->id));
  return nodes;
}

// The nodes of the transaction, its own node last; none if a coordinator still waits.
Awaitable<Reply> TransactionRun::list(std::vector<std::string>& nodes) {
  Request children = zk::make_request(OpType::children, tree_->transaction(drive_->id));
  Reply listed = co_await tree_->client->perform(std::move(children), call_);
  if (!listed.ok()) co_return listed;
  const Ballot ballot = sort_out(listed.names);
  if (ballot.coordinated && !drive_->owner) co_return listed;
  for (const std::string& name : drive_->header.participants) {
    if (ballot.acknowledged.contains(name)) continue;  // Its entry went with the acknowledgement.
    std::string entry = tree_->inbox_entry(name, drive_->id);
    Request exists = zk::make_request(OpType::exists, entry);
    Reply seen = co_await tree_->client->perform(std::move(exists), call_);
    if (seen.ok()) nodes.push_back(std::move(entry));
    if (!seen.ok() && !seen.failed(Errc::no_node)) co_return seen;
  }
  for (const std::string& name : listed.names)
    nodes.push_back(tree_->child(drive_->id, name));
  nodes.push_back(tree_->transaction(drive_->id));
  co_return listed;
}

}  // namespace zkrecipes::detail
