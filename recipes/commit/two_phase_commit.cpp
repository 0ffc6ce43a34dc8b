#include <zkrecipes/two_phase_commit.hpp>

#include <algorithm>
#include <set>

#include "recipes/commit/commit_arguments.hpp"
#include "recipes/commit/transaction_begin.hpp"
#include "recipes/commit/transaction_driver.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::DrivePtr;
using detail::NodeEvents;
using detail::TransactionDriver;
using detail::TransactionHeader;
using detail::TreePtr;

namespace {

constexpr const char* recovering = "recover transactions";
constexpr const char* listing = "list transactions";
constexpr const char* run_operation = detail::transaction_operation;
constexpr auto century = std::chrono::hours(24 * 36525);
using DriverPtr = std::shared_ptr<TransactionDriver>;

TransactionHeader make_header(const std::vector<std::string>& participants, std::string_view payload,
                              const CommitOptions& options, const std::string& path) {
  const auto check = [&](bool right, const char* otherwise) {
    detail::require_argument(right, run_operation, path, otherwise);
  };
  check(!participants.empty(), "there is no participant");
  check(participants.size() <= max_commit_participants, "there are too many participants");
  for (const std::string& name : participants) {
    const char* defect = detail::name_defect(name);
    check(defect == nullptr, defect == nullptr ? "" : defect);
  }
  check(std::set<std::string>(participants.begin(), participants.end()).size() == participants.size(),
        "a participant is named twice");
  check(options.timeout.count() >= 1 && options.timeout <= century, "the timeout is not between 1 ms and a century");
  check(options.retention.count() >= 0 && options.retention <= century, "the retention is negative or too long");
  if (payload.size() > max_commit_payload) throw Error(Errc::too_large, run_operation, path, "the payload");
  return {options.variant, options.timeout, options.retention, participants, std::string(payload)};
}

/// Why a wait ends before what it waits for.
std::optional<Errc> ended_by(const Call& call, const zk::ClientCore& client) {
  if (client.closing()) return Errc::closed;
  if (call.cancel != nullptr && call.cancel->requested()) return Errc::cancelled;
  if (call.deadline && std::chrono::steady_clock::now() >= *call.deadline) return Errc::deadline_exceeded;
  return std::nullopt;
}

Awaitable<Result<CommitOutcome>> run_one(DriverPtr driver, TransactionHeader header, CommitOptions::Wait wait,
                                         Call call) {
  const TreePtr tree = driver->tree();
  const std::string id = zk::make_uuid();
  const auto deadline = std::chrono::steady_clock::now() + header.timeout;
  const std::optional<Error> failure = co_await detail::begin_transaction(tree, id, header, call);
  if (failure) {
    // It may have been begun, and its caller does not wait for its end.
    if (failure->errc() == Errc::in_doubt) driver->start(id, std::move(header), deadline, true, "run() had no answer");
    co_return *failure;
  }
  const DrivePtr drive = driver->start(id, std::move(header), deadline, true);
  const NodeEvents events(tree->client);
  drive->told.push_back(events.signal());
  const zk::CancelScope::Guard cancelled(call.cancel, [signal = events.signal()] { signal->set(); });
  for (;;) {
    events.clear();
    const bool known = drive->decision && (wait == CommitOptions::Wait::decided || drive->applied);
    if (known) co_return CommitOutcome{id, drive->decision->committed, drive->decision->reason};
    if (drive->failure) {
      if (drive->failure->errc() == Errc::in_doubt) co_return *drive->failure;
      co_return Error(Errc::in_doubt, run_operation, tree->shown(id), drive->failure->what());
    }
    if (const auto why = ended_by(call, *tree->client)) {
      if (drive->unwanted.empty()) drive->unwanted = "run() was given up";
      drive->wake->set();
      const char* detail = *why == Errc::closed      ? "closed"
                           : *why == Errc::cancelled ? "cancelled"
                                                     : "deadline exceeded";
      co_return Error(Errc::in_doubt, run_operation, tree->shown(id), detail);
    }
    if (drive->finished) {
      co_return Error(Errc::in_doubt, run_operation, tree->shown(id), "not all participants have acknowledged it");
    }
    co_await events.wait(call.deadline);
  }
}

using OutcomesPtr = std::shared_ptr<std::vector<CommitOutcome>>;

void note_outcome(const OutcomesPtr& outcomes, const DrivePtr& drive) {
  if (drive->decision) outcomes->push_back({drive->id, drive->decision->committed, drive->decision->reason});
}

/// Also of those transactions that are not finished yet.
Error failed_to_recover(const OutcomesPtr& outcomes, const std::vector<DrivePtr>& driven, Error error) {
  for (const DrivePtr& drive : driven)
    note_outcome(outcomes, drive);
  return error;
}

Awaitable<Result<std::vector<CommitOutcome>>> recover_all(DriverPtr driver, OutcomesPtr outcomes, Call call) {
  constexpr std::size_t at_once = 64;
  const TreePtr tree = driver->tree();
  Result<std::vector<std::string>> found = co_await driver->orphans(call);
  if (!found) co_return found.error();
  const NodeEvents events(tree->client);
  const zk::CancelScope::Guard cancelled(call.cancel, [signal = events.signal()] { signal->set(); });
  std::vector<DrivePtr> driven;
  std::size_t next = 0;
  while (next < found->size() || !driven.empty()) {
    events.clear();
    if (const auto why = ended_by(call, *tree->client)) {
      Error over(*why, recovering, tree->path, "what was begun goes on in the background");
      co_return failed_to_recover(outcomes, driven, over);
    }
    while (next < found->size() && driven.size() < at_once) {
      std::string id = (*found)[next++];
      Result<DrivePtr> adopted = co_await driver->adopt(std::move(id), call);
      if (!adopted) co_return failed_to_recover(outcomes, driven, adopted.error());
      if (*adopted == nullptr) continue;
      (*adopted)->told.push_back(events.signal());
      driven.push_back(*adopted);
    }
    std::erase_if(driven, [&](const DrivePtr& drive) {
      if (!drive->finished) return false;
      note_outcome(outcomes, drive);
      return true;
    });
    const bool idle = driven.empty() || next < found->size();
    if (!idle || driven.size() >= at_once) co_await events.wait(call.deadline);
  }
  co_return *outcomes;
}

Awaitable<Result<std::vector<CommitStatus>>> look_at_all(DriverPtr driver, Call call) {
  const TreePtr tree = driver->tree();
  std::vector<CommitStatus> all;
  zk::Request list = zk::make_request(zk::OpType::children, tree->transactions);
  zk::Reply listed = co_await tree->client->perform(std::move(list), call);
  if (listed.failed(Errc::no_node)) co_return all;
  if (!listed.ok()) co_return zk::to_error(listed, listing, tree->path);
  for (std::string& id : listed.names) {
    Result<CommitStatus> status = co_await driver->look(std::move(id), call);
    if (status) {
      all.push_back(std::move(*status));
    } else if (status.code() != Errc::no_node && status.code() != Errc::foreign_node) {
      co_return status.error();
    }
  }
  co_return all;
}

}  // namespace

struct CommitCoordinator::State {
  State(zkclient::Client shared, zkclient::Path where, const CommitCoordinatorOptions& options)
      : owner(std::move(shared)),
        path(std::move(where)),
        tree(detail::make_tree(owner, path, options.acl, run_operation)),
        driver(std::make_shared<TransactionDriver>(tree, options.absence_grace)) {
    detail::require_argument(options.absence_grace.count() >= 0, run_operation, path.str(),
                             "the absence grace is negative");
  }

  zk::CallForm form(const char* operation) const { return zk::CallForm(tree->client, operation, path.str()); }

  zkclient::Client owner;  // Stays open for as long as it is used here.
  zkclient::Path path;
  TreePtr tree;
  DriverPtr driver;
};

CommitCoordinator::CommitCoordinator(zkclient::Client client, zkclient::Path path, CommitCoordinatorOptions options)
    : state_(std::make_shared<State>(std::move(client), std::move(path), options)) {}
CommitCoordinator::~CommitCoordinator() = default;
CommitCoordinator::CommitCoordinator(CommitCoordinator&&) noexcept = default;
CommitCoordinator& CommitCoordinator::operator=(CommitCoordinator&&) noexcept = default;

const zkclient::Path& CommitCoordinator::path() const noexcept { return state_->path; }

namespace {

zk::Work<CommitOutcome> run_work(const DriverPtr& driver, TransactionHeader header, const CommitOptions& options) {
  return [driver, header = std::move(header), wait = options.wait](Call call) {
    return run_one(driver, header, wait, std::move(call));
  };
}

zk::Work<std::vector<CommitOutcome>> recover_work(
    const DriverPtr& driver, const OutcomesPtr& outcomes = std::make_shared<std::vector<CommitOutcome>>()) {
  return [driver, outcomes](Call call) { return recover_all(driver, outcomes, std::move(call)); };
}

}  // namespace

CommitOutcome CommitCoordinator::run(const std::vector<std::string>& participants, std::string_view payload,
                                     const CommitOptions& options, const CallOptions& call) {
  TransactionHeader header = make_header(participants, payload, options, state_->path.str());
  auto work = run_work(state_->driver, std::move(header), options);
  return state_->form(run_operation).endless().wait(call, std::move(work));
}

void CommitCoordinator::async_run(const std::vector<std::string>& participants, std::string_view payload,
                                  const CommitOptions& options, zkclient::Handler<CommitOutcome> handler,
                                  const CallOptions& call) {
  TransactionHeader header = make_header(participants, payload, options, state_->path.str());
  auto work = run_work(state_->driver, std::move(header), options);
  state_->form(run_operation).endless().start(call, std::move(work), std::move(handler));
}

std::vector<CommitOutcome> CommitCoordinator::recover(const CallOptions& call) {
  return state_->form(recovering).endless().wait(call, recover_work(state_->driver));
}

void CommitCoordinator::recover(std::vector<CommitOutcome>& outcomes, const CallOptions& call) {
  const auto found = std::make_shared<std::vector<CommitOutcome>>();
  const auto result = state_->form(recovering).endless().result(call, recover_work(state_->driver, found));
  outcomes = *found;
  (void)result.value();
}

void CommitCoordinator::async_recover(zkclient::Handler<std::vector<CommitOutcome>> handler, const CallOptions& call) {
  state_->form(recovering).endless().start(call, recover_work(state_->driver), std::move(handler));
}

namespace {

zk::Work<std::vector<CommitStatus>> list_work(const DriverPtr& driver) {
  return [driver](Call limits) { return look_at_all(driver, std::move(limits)); };
}

zk::Work<CommitStatus> status_work(const DriverPtr& driver, std::string_view id, const zkclient::Path& path) {
  detail::require_argument(detail::name_defect(id) == nullptr, run_operation, path.str(),
                           "that is not the id of a transaction");
  return [driver, id = std::string(id)](Call limits) { return driver->look(id, std::move(limits)); };
}

}  // namespace

std::vector<CommitStatus> CommitCoordinator::transactions(const CallOptions& call) const {
  return state_->form(listing).wait(call, list_work(state_->driver));
}

void CommitCoordinator::async_transactions(zkclient::Handler<std::vector<CommitStatus>> handler,
                                           const CallOptions& call) const {
  state_->form(listing).start(call, list_work(state_->driver), std::move(handler));
}

CommitStatus CommitCoordinator::status(std::string_view id, const CallOptions& call) const {
  return state_->form(run_operation).wait(call, status_work(state_->driver, id, state_->path));
}

void CommitCoordinator::async_status(std::string_view id, zkclient::Handler<CommitStatus> handler,
                                     const CallOptions& call) const {
  state_->form(run_operation).start(call, status_work(state_->driver, id, state_->path), std::move(handler));
}

}  // namespace zkrecipes
