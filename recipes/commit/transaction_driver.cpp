#include "recipes/commit/transaction_driver.hpp"

#include <algorithm>

#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::Reply;
using zk::Request;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;
using zkclient::Transaction;

namespace {

constexpr const char* operation = "two-phase commit";
constexpr auto pause_after_failure = std::chrono::milliseconds(200);
// Nobody tells of a transaction that was removed by hand while its acknowledgements were waited for.
constexpr auto look_again = std::chrono::seconds(10);
constexpr int most_removals = 5;

bool is_final(const Reply& reply) {
  return reply.failed(Errc::closed) || reply.failed(Errc::no_auth) || reply.failed(Errc::foreign_node);
}

}  // namespace

// --- The beginning ------------------------------------------------------------------------------------------------

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

Awaitable<std::optional<Error>> TransactionDriver::begin(std::string id, TransactionHeader header, Call call) {
  const auto self = shared_from_this();
  const std::string shown = tree_->shown(id);
  bool doubted = false;
  for (;;) {
    if (call.bound == nullptr || !doubted) {
      Call any = call;
      any.bound = nullptr;
      Reply connected = co_await tree_->client->connected(std::move(any));
      if (!connected.ok()) co_return zk::to_error(connected, operation, shown);
      call.bound = connected.session;
    }
    Request request = begin_request(*tree_, id, header);
    Reply reply = co_await tree_->client->perform(std::move(request), call);
    if (reply.ok()) co_return std::nullopt;
    if (reply.failed(Errc::in_doubt)) {
      if (reply.given_up) co_return zk::to_error(reply, operation, shown);
      // Once more, but in this session only: as long as it lives, nobody removes what it has begun.
      doubted = true;
      continue;
    }
    if (reply.failed(Errc::session_lost)) {
      if (!doubted) continue;
      Call any = call;
      any.bound = nullptr;
      std::string node = tree_->transaction(id);
      Reply exists = co_await certain(tree_, std::move(node), std::move(any));
      if (exists.ok()) co_return std::nullopt;
      co_return Error(Errc::in_doubt, operation, shown, "the session was lost with its reply");
    }
    const auto failed = failed_operation(reply);
    if (!failed) {
      if (doubted) reply.error = Errc::in_doubt;
      co_return zk::to_error(reply, operation, shown);
    }
    if (failed->index == 0 && failed->code == zk::rc::node_exists) co_return std::nullopt;  // The reply was lost.
    if (failed->index == 0 && failed->code == zk::rc::no_node) {
      std::vector<std::string> no_more;
      Reply made = co_await ensure_tree(tree_, std::move(no_more), call);
      if (!made.ok() && !made.failed(Errc::session_lost)) co_return zk::to_error(made, operation, shown);
      continue;
    }
    if (failed->code == zk::rc::no_node && failed->index >= before_inboxes) {
      const std::string& name = header.participants[(failed->index - before_inboxes) / 2];
      co_return Error(Errc::no_node, operation, tree_->path, "participant " + name + " has never served here");
    }
    co_return zk::to_error(reply, operation, shown);
  }
}

// --- One transaction, driven --------------------------------------------------------------------------------------

/// From open to decided, from decided to removed. Each step looks at what is known, decides, and does it.
class TransactionDriver::Run {
 public:
  Run(std::shared_ptr<TransactionDriver> driver, DrivePtr transaction)
      : driver_(std::move(driver)),
        tree_(driver_->tree()),
        drive_(std::move(transaction)),
        wake_(tree_->client),
        votes_(tree_, wake_, drive_->id, vote_prefix, drive_->header.participants),
        acks_(tree_, wake_, drive_->id, ack_prefix, drive_->header.participants) {
    drive_->wake = wake_.signal();
    if (drive_->owner) return;
    votes_.list_next();
    acks_.list_next();
  }

  Awaitable<void> until_decided() {
    // Of an all-to-all transaction the participants count the votes, while its coordinator is there.
    const bool counts = drive_->header.variant == CommitVariant::mediated || !drive_->owner;
    const auto missed = [&] {
      return counts ? driver_->roster()->absence(drive_->header.participants, votes_.seen()) : Roster::Absence{};
    };
    if (counts) {
      driver_->roster()->tell(wake_.signal());
      driver_->roster()->follow();
    }
    while (!over() && !drive_->decision) {
      wake_.clear();
      co_await look();
      if (over() || drive_->decision) co_return;
      if (decision_ == nullptr) continue;  // It could not be watched.
      if (counts) {
        Reply reply = co_await votes_.advance(call_);
        if (!reply.ok()) {
          co_await failed(std::move(reply));
          continue;
        }
      }
      Roster::Absence absence = missed();
      if (absence.gone) {  // It may have voted before it went, while we waited for somebody else's vote.
        votes_.list_next();
        Reply reply = co_await votes_.advance(call_);
        if (!reply.ok()) {
          co_await failed(std::move(reply));
          continue;
        }
        absence = missed();
      }
      const DriveStep step = decide_drive(facts(absence.gone));
      if (step.kind == DriveStep::Kind::wait_for_votes) {
        LoopTime next = std::min(drive_->deadline, absence.next.value_or(drive_->deadline));
        co_await wake_.wait(next);
      } else {
        co_await decide(step);
      }
    }
  }

  Awaitable<void> until_removed() {
    if (!drive_->settled_at) drive_->settled_at = std::chrono::steady_clock::now() + drive_->header.timeout;
    while (!over()) {
      wake_.clear();
      Reply reply = co_await acks_.advance(call_);
      if (!reply.ok()) {
        co_await failed(std::move(reply));
        continue;
      }
      const DriveFacts known = facts({});
      const DriveStep step = decide_drive(known);
      if (step.kind == DriveStep::Kind::wait_for_acknowledgements) {
        const bool for_ever = drive_->owner && drive_->decision->committed;
        if (!for_ever && known.settled) co_return;  // Left to the next one.
        const LoopTime again = std::chrono::steady_clock::now() + look_again;
        co_await wake_.wait(for_ever ? again : *drive_->settled_at);
        if (std::chrono::steady_clock::now() >= again) acks_.list_next();
        continue;
      }
      drive_->applied = true;
      drive_->tell();
      if (step.kind == DriveStep::Kind::remove) co_await remove();
      co_return;
    }
  }

  // Whatever has ended it: whoever looks for what nobody finishes must not take it for one that somebody waits for.
  void release() const {
    if (drive_->owner && !gone_ && !tree_->client->closing()) {
      tree_->client->delete_in_background(tree_->child(drive_->id, coordinator_node), tree_->client->current());
    }
  }

 private:
  bool over() const { return drive_->failure || gone_ || tree_->client->closing(); }

  DriveFacts facts(std::optional<std::string> gone) const {
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

  Awaitable<void> failed(Reply reply) {
    if (reply.failed(Errc::no_node)) {
      take({.gone = true});
      co_return;
    }
    if (is_final(reply)) {
      drive_->failure = zk::to_error(reply, operation, tree_->shown(drive_->id));
      co_return;
    }
    co_await wake_.wait(std::chrono::steady_clock::now() + pause_after_failure);
  }

  void take(const DecisionFound& found) {
    if (found.decision) drive_->decision = found.decision;
    if (!found.gone) return;
    gone_ = true;
    drive_->applied = drive_->decision.has_value();  // Or nobody would have removed it.
    if (!drive_->decision) {
      drive_->failure = Error(Errc::in_doubt, operation, tree_->shown(drive_->id), "the transaction is not there");
    }
  }

  // Has the decision watched, and reads it when it is there.
  Awaitable<void> look() {
    if (decision_ != nullptr && !decision_->event) co_return;
    bool there = decision_ != nullptr && decision_->event == zkclient::WatchEventType::created;
    if (!there) {
      decision_ = wake_.watch();
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

  Awaitable<void> decide(DriveStep step) {
    Decision wanted{step.kind == DriveStep::Kind::commit, step.reason};
    DecisionFound found = co_await make_decision(tree_, drive_->id, drive_->header.participants, wanted, call_);
    take(found);
    if (found.failure.error) {
      co_await failed(std::move(found.failure));
    } else if (wanted.committed && !found.decision && !found.gone) {
      drive_->unwanted = "a vote was changed or removed";
    }
  }

  Awaitable<void> remove() {
    bool all_there = drive_->owner && drive_->decision->committed;  // So that what there is need not be listed.
    // Somebody may have put nodes of his own below: that is left to the next one who looks.
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

  std::vector<std::string> expected() const {
    std::vector<std::string> nodes{tree_->child(drive_->id, coordinator_node)};
    for (const std::string& name : drive_->header.participants) {
      nodes.push_back(tree_->child(drive_->id, vote_prefix, name));
      nodes.push_back(tree_->child(drive_->id, ack_prefix, name));
    }
    nodes.push_back(tree_->child(drive_->id, decision_node));
    nodes.push_back(tree_->transaction(drive_->id));
    return nodes;
  }

  // What there is of it, the transaction's own node last; nothing if that must stay.
  Awaitable<Reply> list(std::vector<std::string>& nodes) {
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

  const std::shared_ptr<TransactionDriver> driver_;
  const TreePtr tree_;
  const DrivePtr drive_;
  const Wake wake_;
  const Call call_ = {};
  VoteTally votes_;
  VoteTally acks_;
  Wake::WatchPtr decision_;
  bool gone_ = false;
};

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
    Run run(self, transaction);
    co_await run.until_decided();
    transaction->tell();
    if (transaction->decision) co_await run.until_removed();
    run.release();
  }
  transaction->finished = true;
  self->active_.erase(transaction->id);
  transaction->tell();
}

// --- What others have left ----------------------------------------------------------------------------------------

Awaitable<Result<CommitStatus>> TransactionDriver::look(std::string id, Call call) {
  const std::string shown = tree_->shown(id);
  Request get = zk::make_request(OpType::get, tree_->transaction(id));
  Request list = zk::make_request(OpType::children, tree_->transaction(id));
  const zk::PendingReply getting = tree_->client->launch(std::move(get), call);
  const zk::PendingReply listing = tree_->client->launch(std::move(list), call);
  Reply node = co_await getting.get();
  Reply listed = co_await listing.get();
  if (!node.ok()) co_return zk::to_error(node, operation, shown);
  if (!listed.ok()) co_return zk::to_error(listed, operation, shown);
  const auto header = decode_transaction(node.data);
  if (!header) co_return Error(Errc::foreign_node, operation, shown);
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
    if (found.failure.error) co_return zk::to_error(found.failure, operation, shown);
    if (found.gone) co_return Error(Errc::no_node, operation, shown);
    if (found.decision) status.outcome = CommitOutcome{id, found.decision->committed, found.decision->reason};
  }
  co_return status;
}

Awaitable<Result<std::vector<std::string>>> TransactionDriver::orphans(Call call) {
  std::vector<std::string> ids;
  Request list = zk::make_request(OpType::children, tree_->transactions);
  Reply listed = co_await tree_->client->perform(std::move(list), call);
  if (listed.failed(Errc::no_node)) co_return ids;
  if (!listed.ok()) co_return zk::to_error(listed, operation, tree_->path);
  for (std::string& id : listed.names) {
    if (!drives(id)) ids.push_back(std::move(id));
  }
  co_return ids;
}

Awaitable<Result<DrivePtr>> TransactionDriver::adopt(std::string id, Call call) {
  const std::string shown = tree_->shown(id);
  Request list = zk::make_request(OpType::children, tree_->transaction(id));
  Reply listed = co_await tree_->client->perform(std::move(list), call);
  if (listed.failed(Errc::no_node)) co_return DrivePtr();
  if (!listed.ok()) co_return zk::to_error(listed, operation, shown);
  const Ballot ballot = sort_out(listed.names);
  if (ballot.coordinated) co_return DrivePtr();
  Request get = zk::make_request(OpType::get, tree_->transaction(id));
  Reply node = co_await tree_->client->perform(std::move(get), call);
  if (node.failed(Errc::no_node)) co_return DrivePtr();
  if (!node.ok()) co_return zk::to_error(node, operation, shown);
  auto header = decode_transaction(node.data);
  if (!header || drives(id)) co_return DrivePtr();
  std::optional<LoopTime> settled_at;
  if (ballot.decided) {
    Request decision = zk::make_request(OpType::exists, tree_->child(id, decision_node));
    Reply made = co_await tree_->client->perform(std::move(decision), call);
    if (made.failed(Errc::no_node)) co_return DrivePtr();
    if (!made.ok()) co_return zk::to_error(made, operation, shown);
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
