#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include <zkrecipes/two_phase_commit.hpp>

#include "recipes/commit/commit_arguments.hpp"
#include "recipes/commit/participant.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::Participant;

namespace {

constexpr const char* serve_operation = "serve transactions";
constexpr const char* resolve_operation = "resolve transaction";

}  // namespace

struct CommitParticipant::State {
  State(zkclient::Client shared, zkclient::Path where, std::string called, std::shared_ptr<ParticipantLog> log,
        const CommitParticipantOptions& options)
      : owner(std::move(shared)), path(std::move(where)) {
    const auto check = [&](bool right, const char* otherwise) {
      detail::require_argument(right, serve_operation, path.str(), otherwise);
    };
    const char* defect = detail::name_defect(called);
    check(defect == nullptr, defect == nullptr ? "" : defect);
    check(log != nullptr, "there is no log");
    check(options.absence_grace.count() >= 0 && options.sweep_interval.count() >= 0, "a time is negative");
    setup.tree = detail::make_tree(owner, path, options.acl, serve_operation);
    setup.name = std::move(called);
    setup.identity = log->identity();
    setup.log = std::move(log);
    setup.absence_grace = options.absence_grace;
    setup.sweep_interval = options.sweep_interval;
    setup.board = std::make_shared<detail::InDoubtBoard>();
    note(setup.log->open());
  }

  // In a forked child a thread that is not there may hold the locks.
  void require_own_process(const char* called) const {
    if (setup.tree->client->loop()->forked()) throw Error(Errc::forked, called, path.str());
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
  detail::ParticipantSetup setup;
  std::mutex mutex;
  bool serving = false;
  std::weak_ptr<Participant> participant;
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

/// A participant that serves, and its caller's stop token.
struct Serving {
  std::shared_ptr<Participant> participant;
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
    zk::spawn(Participant::serve(serving->participant, std::move(limits), open, std::move(finished)));
  });
  if (!accepted) (*handler)(Error(client->loop()->refusal(), serve_operation, path));
}

}  // namespace

void CommitParticipant::async_serve(CommitHandlers handlers, zkclient::Handler<void> handler, const CallOptions& call) {
  const std::string& path = state_->path.str();
  detail::require_argument(handlers.prepare && handlers.commit && handlers.abort, serve_operation, path,
                           "a handler is missing");
  zk::require_handler(handler, serve_operation, path);
  state_->require_own_process(serve_operation);
  const auto serving = std::make_shared<Serving>();
  std::vector<LoggedTransaction> open;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->serving) throw Error(Errc::would_deadlock, serve_operation, path, "it serves already");
    open = state_->setup.log->open();
    state_->note(open);
    serving->participant = Participant::make(state_->setup, std::move(handlers));
    state_->participant = serving->participant;
    state_->serving = true;
  }
  auto done = [state = state_, handler = std::move(handler)](Result<void> result) mutable {
    {
      const std::lock_guard lock(state->mutex);
      state->serving = false;
    }
    state = nullptr;  // With the log: the handler may open it again once the participant is gone.
    handler(std::move(result));
  };
  start_serving(state_->setup.tree->client, serving, std::move(open), call, std::move(done), path);
}

void CommitParticipant::serve(CommitHandlers handlers, const CallOptions& call) {
  zk::BlockedCall<Result<void>> blocked;
  async_serve(
      std::move(handlers), [&blocked](Result<void> result) { blocked.fill(std::move(result)); }, call);
  blocked.take().value();
}

std::vector<InDoubtTransaction> CommitParticipant::in_doubt() const {
  state_->require_own_process("list transactions in doubt");
  return state_->setup.board->list();
}

void CommitParticipant::resolve(std::string_view id, bool commit) {
  state_->require_own_process(resolve_operation);
  if (!state_->setup.board->resolve(std::string(id), commit)) {
    throw Error(Errc::no_node, resolve_operation, state_->path.str(), "no such transaction waits for that");
  }
  const std::lock_guard lock(state_->mutex);
  const auto participant = state_->participant.lock();
  if (!state_->serving || participant == nullptr) return;
  state_->setup.tree->client->loop()->post([participant, id = std::string(id)] { participant->note_resolution(id); });
}

}  // namespace zkrecipes
