#include "recipes/commit/transaction_driver.hpp"

#include <algorithm>
#include <utility>

namespace zkrecipes::detail {

namespace {

constexpr std::size_t most_remembered = 64;

CommitOutcome outcome_of(const TransactionDrive& drive) {
  return {drive.id, drive.decision->committed, drive.decision->reason};
}

}  // namespace

DrivePtr TransactionDriver::start(std::string id, TransactionHeader header, LoopTime deadline, bool owner,
                                  std::string unwanted) {
  auto started = std::make_shared<TransactionDrive>();
  started->id = std::move(id);
  started->header = std::move(header);
  started->deadline = deadline;
  started->owner = owner;
  started->unwanted = std::move(unwanted);
  started->wake = std::make_shared<zk::Signal>(tree_->client->events());
  active_.emplace(started->id, started);
  zk::spawn(drive(shared_from_this(), started));
  return started;
}

Awaitable<void> TransactionDriver::drive(std::shared_ptr<TransactionDriver> self, DrivePtr transaction) {
  {
    TransactionRun run(self->tree_, self->roster_, transaction);
    co_await run.until_decided();
    transaction->tell();
    if (transaction->decision) co_await run.until_removed();
    run.release();
  }
  transaction->finished = true;
  self->remember(transaction);
  self->active_.erase(transaction->id);
  transaction->tell();
}

// A caller that has given up asks when the transaction may be gone already.
void TransactionDriver::remember(const DrivePtr& transaction) {
  if (!transaction->owner || !transaction->decision) return;
  if (ended_.size() == most_remembered) ended_.pop_front();
  ended_.push_back(outcome_of(*transaction));
}

std::optional<CommitOutcome> TransactionDriver::known_outcome(const std::string& id) const {
  const auto driven = active_.find(id);
  if (driven != active_.end() && driven->second->decision) return outcome_of(*driven->second);
  const auto ended = std::find_if(ended_.begin(), ended_.end(), [&](const auto& outcome) { return outcome.id == id; });
  return ended == ended_.end() ? std::nullopt : std::optional(*ended);
}

// --- Transactions that their coordinators have left ---------------------------------------------------------------

Awaitable<Result<CommitStatus>> TransactionDriver::look(std::string id, Call call) {
  Result<CommitStatus> found = co_await read(id, call);
  if (found && found->outcome) co_return found;
  const auto outcome = known_outcome(id);
  if (!outcome) co_return found;
  CommitStatus status = found ? std::move(*found) : CommitStatus{};
  status.id = std::move(id);
  status.outcome = outcome;
  co_return status;
}

Awaitable<Result<CommitStatus>> TransactionDriver::read(std::string id, Call call) {
  const std::string shown = tree_->shown(id);
  Request get = zk::make_request(OpType::get, tree_->transaction(id));
  Request list = zk::make_request(OpType::children, tree_->transaction(id));
  const zk::PendingReply getting = tree_->client->launch(std::move(get), call);
  const zk::PendingReply listing = tree_->client->launch(std::move(list), call);
  Reply node = co_await getting.get();
  Reply listed = co_await listing.get();
  if (!node.ok()) co_return zk::to_error(node, transaction_operation, shown);
  if (!listed.ok()) co_return zk::to_error(listed, transaction_operation, shown);
  const auto header = decode_transaction(node.data);
  if (!header) co_return Error(Errc::foreign_node, transaction_operation, shown);
  CommitStatus status;
  status.id = id;
  status.participants = header->participants;
  status.begun_ms = node.stat.ctime_ms;
  const Ballot ballot = sort_out(listed.names);
  status.voted.assign(ballot.voted.begin(), ballot.voted.end());
  status.acknowledged.assign(ballot.acknowledged.begin(), ballot.acknowledged.end());
  status.coordinated = ballot.coordinated;
  if (ballot.decided) {
    DecisionFound found = co_await read_decision(tree_, id, call);
    if (found.failure.error) co_return zk::to_error(found.failure, transaction_operation, shown);
    if (found.gone) co_return Error(Errc::no_node, transaction_operation, shown);
    if (found.decision) status.outcome = CommitOutcome{id, found.decision->committed, found.decision->reason};
  }
  co_return status;
}

Awaitable<Result<std::vector<std::string>>> TransactionDriver::orphans(Call call) {
  std::vector<std::string> ids;
  Request list = zk::make_request(OpType::children, tree_->transactions);
  Reply listed = co_await tree_->client->perform(std::move(list), call);
  if (listed.failed(Errc::no_node)) co_return ids;
  if (!listed.ok()) co_return zk::to_error(listed, transaction_operation, tree_->path);
  for (std::string& id : listed.names) {
    if (!drives(id) && is_transaction_id(*tree_, id)) ids.push_back(std::move(id));
  }
  co_return ids;
}

Awaitable<Result<DrivePtr>> TransactionDriver::adopt(std::string id, Call call) {
  const std::string shown = tree_->shown(id);
  Request list = zk::make_request(OpType::children, tree_->transaction(id));
  Reply listed = co_await tree_->client->perform(std::move(list), call);
  if (listed.failed(Errc::no_node)) co_return DrivePtr();
  if (!listed.ok()) co_return zk::to_error(listed, transaction_operation, shown);
  const Ballot ballot = sort_out(listed.names);
  if (ballot.coordinated) co_return DrivePtr();
  Request get = zk::make_request(OpType::get, tree_->transaction(id));
  Reply node = co_await tree_->client->perform(std::move(get), call);
  if (node.failed(Errc::no_node)) co_return DrivePtr();
  if (!node.ok()) co_return zk::to_error(node, transaction_operation, shown);
  auto header = decode_transaction(node.data);
  if (!header || drives(id)) co_return DrivePtr();
  std::optional<LoopTime> settled_at;
  if (ballot.decided) {
    Request decision = zk::make_request(OpType::exists, tree_->child(id, decision_node));
    Reply made = co_await tree_->client->perform(std::move(decision), call);
    if (made.failed(Errc::no_node)) co_return DrivePtr();
    if (!made.ok()) co_return zk::to_error(made, transaction_operation, shown);
    // The one place where wall clocks are compared: all it decides is for how long something finished is kept.
    const auto age =
        std::chrono::system_clock::now().time_since_epoch() - std::chrono::milliseconds(made.stat.ctime_ms);
    const bool all = std::all_of(header->participants.begin(), header->participants.end(),
                                 [&](const std::string& name) { return ballot.acknowledged.contains(name); });
    if (all && age < header->retention) co_return DrivePtr();
    if (age >= header->retention) header->retention = std::chrono::milliseconds(0);
    if (age >= header->timeout) settled_at = std::chrono::steady_clock::now();
  }
  if (drives(id)) co_return DrivePtr();
  const LoopTime deadline = std::chrono::steady_clock::now() + header->timeout;
  DrivePtr started = start(std::move(id), std::move(*header), deadline, false);
  started->settled_at = settled_at;
  co_return started;
}

}  // namespace zkrecipes::detail
