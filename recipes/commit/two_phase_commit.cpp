#include <zkrecipes/two_phase_commit.hpp>

#include <algorithm>
#include <mutex>
#include <set>

#include "recipes/commit/participant.hpp"
#include "recipes/commit/transaction_driver.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::CommitServer;
using detail::CommitTree;
using detail::DrivePtr;
using detail::TransactionDriver;
using detail::TransactionHeader;
using detail::TreePtr;
using detail::Wake;
using zk::Awaitable;
using zk::Call;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

constexpr const char* recovering = "recover transactions";
constexpr const char* listing = "list transactions";
constexpr const char* run_operation = "two-phase commit";
constexpr const char* serve_operation = "serve transactions";
constexpr auto century = std::chrono::hours(24 * 36525);
using DriverPtr = std::shared_ptr<TransactionDriver>;

TreePtr make_tree(const zkclient::Client& client, const zkclient::Path& path, const zkclient::AclList& acl,
                  const char* operation) {
  if (const char* why = zkclient::acl_defect(acl)) throw Error(Errc::invalid_acl, operation, path.str(), why);
  return std::make_shared<const CommitTree>(client.impl(), path, acl);
}

void require(bool right, const char* operation, const std::string& path, const char* otherwise) {
  if (!right) throw Error(Errc::invalid_argument, operation, path, otherwise);
}

TransactionHeader make_header(const std::vector<std::string>& participants, std::string_view payload,
                              const CommitOptions& options, const std::string& path) {
  const auto check = [&](bool right, const char* otherwise) { require(right, run_operation, path, otherwise); };
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
  const std::optional<Error> failure = co_await driver->begin(id, header, call);
  if (failure) {
    // It may have been begun, and nobody will hear what becomes of it.
    if (failure->errc() == Errc::in_doubt) driver->start(id, std::move(header), deadline, true, "run() had no answer");
    co_return *failure;
  }
  const DrivePtr drive = driver->start(id, std::move(header), deadline, true);
  const Wake wake(tree->client);
  drive->told.push_back(wake.signal());
  const zk::CancelScope::Guard cancelled(call.cancel, [signal = wake.signal()] { signal->set(); });
  for (;;) {
    wake.clear();
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
    co_await wake.wait(call.deadline);
  }
}

Awaitable<Result<std::vector<CommitOutcome>>> recover_all(DriverPtr driver, Call call) {
  constexpr std::size_t at_once = 64;
  const TreePtr tree = driver->tree();
  Result<std::vector<std::string>> found = co_await driver->orphans(call);
  if (!found) co_return found.error();
  const Wake wake(tree->client);
  const zk::CancelScope::Guard cancelled(call.cancel, [signal = wake.signal()] { signal->set(); });
  std::vector<CommitOutcome> outcomes;
  std::vector<DrivePtr> driven;
  std::size_t next = 0;
  while (next < found->size() || !driven.empty()) {
    wake.clear();
    if (const auto why = ended_by(call, *tree->client)) {
      co_return Error(*why, "recover transactions", tree->path, "what was begun goes on in the background");
    }
    while (next < found->size() && driven.size() < at_once) {
      std::string id = (*found)[next++];
      Result<DrivePtr> adopted = co_await driver->adopt(std::move(id), call);
      if (!adopted) co_return adopted.error();
      if (*adopted == nullptr) continue;
      (*adopted)->told.push_back(wake.signal());
      driven.push_back(*adopted);
    }
    std::erase_if(driven, [&](const DrivePtr& drive) {
      if (!drive->finished) return false;
      if (drive->decision) outcomes.push_back({drive->id, drive->decision->committed, drive->decision->reason});
      return true;
    });
    const bool idle = driven.empty() || next < found->size();
    if (!idle || driven.size() >= at_once) co_await wake.wait(call.deadline);
  }
  co_return outcomes;
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

// --- CommitCoordinator --------------------------------------------------------------------------------------------

struct CommitCoordinator::State {
  State(zkclient::Client shared, zkclient::Path where, const CommitCoordinatorOptions& options)
      : owner(std::move(shared)),
        path(std::move(where)),
        tree(make_tree(owner, path, options.acl, run_operation)),
        driver(std::make_shared<TransactionDriver>(tree, options.absence_grace)) {
    require(options.absence_grace.count() >= 0, run_operation, path.str(), "the absence grace is negative");
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

zk::Work<std::vector<CommitOutcome>> recover_work(const DriverPtr& driver) {
  return [driver](Call call) { return recover_all(driver, std::move(call)); };
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

void CommitCoordinator::async_recover(zkclient::Handler<std::vector<CommitOutcome>> handler, const CallOptions& call) {
  state_->form(recovering).endless().start(call, recover_work(state_->driver), std::move(handler));
}

namespace {

zk::Work<std::vector<CommitStatus>> list_work(const DriverPtr& driver) {
  return [driver](Call limits) { return look_at_all(driver, std::move(limits)); };
}

zk::Work<CommitStatus> status_work(const DriverPtr& driver, std::string_view id, const zkclient::Path& path) {
  require(detail::name_defect(id) == nullptr, run_operation, path.str(), "that is not the id of a transaction");
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

// --- CommitParticipant --------------------------------------------------------------------------------------------

struct CommitParticipant::State {
  State(zkclient::Client shared, zkclient::Path where, std::string called, std::shared_ptr<ParticipantLog> log,
        const CommitParticipantOptions& options)
      : owner(std::move(shared)), path(std::move(where)) {
    const auto check = [&](bool right, const char* otherwise) {
      require(right, serve_operation, path.str(), otherwise);
    };
    const char* defect = detail::name_defect(called);
    check(defect == nullptr, defect == nullptr ? "" : defect);
    check(log != nullptr, "there is no log");
    check(options.absence_grace.count() >= 0 && options.sweep_interval.count() >= 0, "a time is negative");
    setup.tree = make_tree(owner, path, options.acl, serve_operation);
    setup.name = std::move(called);
    setup.identity = log->identity();
    setup.log = std::move(log);
    setup.absence_grace = options.absence_grace;
    setup.sweep_interval = options.sweep_interval;
    setup.board = std::make_shared<detail::InDoubtBoard>();
    note(setup.log->open());
  }

  void note(const std::vector<LoggedTransaction>& open) const {
    for (const LoggedTransaction& transaction : open) {
      if (transaction.state != LogState::ready && transaction.state != LogState::committed) continue;
      const auto data = detail::decode_logged(transaction.data);
      setup.board->put({transaction.id, data ? data->payload : std::string(), transaction.state, {}});
    }
  }

  zkclient::Client owner;  // Stays open for as long as it is used here.
  zkclient::Path path;
  detail::CommitServerSetup setup;
  std::mutex mutex;
  bool serving = false;
  std::weak_ptr<CommitServer> server;
};

CommitParticipant::CommitParticipant(zkclient::Client client, zkclient::Path path, std::string name,
                                     std::shared_ptr<ParticipantLog> log, CommitParticipantOptions options)
    : state_(std::make_shared<State>(std::move(client), std::move(path), std::move(name), std::move(log), options)) {}
CommitParticipant::~CommitParticipant() = default;
CommitParticipant::CommitParticipant(CommitParticipant&&) noexcept = default;
CommitParticipant& CommitParticipant::operator=(CommitParticipant&&) noexcept = default;

const std::string& CommitParticipant::name() const noexcept { return state_->setup.name; }
const zkclient::Path& CommitParticipant::path() const noexcept { return state_->path; }

namespace {

/// What starts a server on the loop, with the caller's stop token; `done` is called on the callback executor.
struct Serving {
  std::shared_ptr<CommitServer> server;
  std::shared_ptr<zk::CancelScope> cancel = std::make_shared<zk::CancelScope>();
  zkclient::AnyStop caller = {};
  std::optional<std::stop_callback<std::function<void()>>> stop = {};
};

void start_serving(const std::shared_ptr<zk::ClientCore>& client, const std::shared_ptr<Serving>& serving,
                   std::vector<LoggedTransaction> open, const CallOptions& call,
                   zkclient::UniqueFunction<void(Result<void>)> done, const std::string& path) {
  const auto handler = std::make_shared<zkclient::UniqueFunction<void(Result<void>)>>(std::move(done));
  const bool accepted = client->loop()->post([client, serving, open = std::move(open), call, handler] {
    Call limits;
    limits.deadline = call.deadline;
    limits.cancel = serving->cancel;
    serving->caller = call.stop;
    if (serving->caller.stop_possible()) {
      serving->stop.emplace(serving->caller, [client, cancel = serving->cancel] {
        client->loop()->post([cancel] { cancel->request(); });
      });
    }
    auto finished = [serving, handler](Result<void> result) {
      serving->stop.reset();
      (*handler)(std::move(result));
    };
    zk::spawn(CommitServer::serve(serving->server, std::move(limits), open, std::move(finished)));
  });
  if (!accepted) (*handler)(Error(client->loop()->refusal(), serve_operation, path));
}

}  // namespace

void CommitParticipant::async_serve(CommitHandlers handlers, zkclient::Handler<void> handler, const CallOptions& call) {
  const std::string& path = state_->path.str();
  require(handlers.prepare && handlers.commit && handlers.abort, serve_operation, path, "a handler is missing");
  zk::require_handler(handler, serve_operation, path);
  const auto serving = std::make_shared<Serving>();
  std::vector<LoggedTransaction> open;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->serving) throw Error(Errc::would_deadlock, serve_operation, path, "it serves already");
    open = state_->setup.log->open();
    state_->note(open);
    serving->server = CommitServer::make(state_->setup, std::move(handlers));
    state_->server = serving->server;
    state_->serving = true;
  }
  auto done = [state = state_, handler = std::move(handler)](Result<void> result) mutable {
    {
      const std::lock_guard lock(state->mutex);
      state->serving = false;
    }
    state = nullptr;  // With the log: whoever is told may open it again once the participant is gone.
    handler(std::move(result));
  };
  start_serving(state_->setup.tree->client, serving, std::move(open), call, std::move(done), path);
}

void CommitParticipant::serve(CommitHandlers handlers, const CallOptions& call) {
  zk::Slot<Result<void>> slot;
  async_serve(
      std::move(handlers), [&slot](Result<void> result) { slot.fill(std::move(result)); }, call);
  slot.take().value();
}

std::vector<InDoubtTransaction> CommitParticipant::in_doubt() const { return state_->setup.board->list(); }

void CommitParticipant::resolve(std::string_view id, bool commit) {
  if (!state_->setup.board->resolve(std::string(id), commit)) {
    throw Error(Errc::no_node, "resolve transaction", state_->path.str(), "no such transaction waits for that");
  }
  const std::lock_guard lock(state_->mutex);
  const auto server = state_->server.lock();
  if (!state_->serving || server == nullptr) return;
  state_->setup.tree->client->loop()->post([server, id = std::string(id)] { server->wake_up(id); });
}

}  // namespace zkrecipes
