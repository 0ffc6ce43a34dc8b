#include "recipes/commit/participant.hpp"

#include <algorithm>
#include <utility>

#include "recipes/commit/participant_transaction.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* operation = "serve transactions";

ParticipantStatePtr make_state(ParticipantSetup& setup, CommitHandlers handlers) {
  const TreePtr& tree = setup.tree;
  auto executor = std::make_shared<HandlerExecutor>(tree->client, std::move(setup.log), std::move(handlers));
  auto driver = std::make_shared<TransactionDriver>(tree, setup.absence_grace);
  return std::shared_ptr<ParticipantState>(new ParticipantState{tree, std::move(setup.name), std::move(setup.identity),
                                                                setup.board, std::move(executor), std::move(driver)});
}

}  // namespace

// --- Begin --------------------------------------------------------------------------------------------------------

std::shared_ptr<Participant> Participant::make(ParticipantSetup setup, CommitHandlers handlers) {
  const std::shared_ptr<zk::Loop> loop = setup.tree->client->loop();
  const auto destroy = [loop](Participant* it) { loop->post([owned = std::unique_ptr<Participant>(it)] {}); };
  return {new Participant(std::move(setup), std::move(handlers)), destroy};
}

Participant::Participant(ParticipantSetup setup, CommitHandlers handlers)
    : state_(make_state(setup, std::move(handlers))),
      events_(state_->tree->client),
      presence_(state_, events_),
      inbox_(state_, events_,
             [this](const std::string& id) {
               if (is_transaction_id(*state_->tree, id)) take_up(id);
             }),
      sweep_(std::make_shared<OrphanSweep>(state_, setup.sweep_interval)) {}

Awaitable<void> Participant::serve(std::shared_ptr<Participant> self, Call call, std::vector<LoggedTransaction> logged,
                                   zkclient::UniqueFunction<void(Result<void>)> done) {
  self->deadline_ = call.deadline;
  self->stop_ = call.cancel;
  self->state_->executor->on_failure([weak = self->weak_from_this()] {
    if (const auto alive = weak.lock()) alive->end();
  });
  const zk::CancelScope::Guard stopped(call.cancel, [self] { self->end(); });
  for (LoggedTransaction& transaction : logged) {
    const std::string id = transaction.id;
    self->take_up(id, std::move(transaction));
  }
  co_await self->attend();
  self->end();
  co_await self->wind_up();
  auto finish = [self, done = std::move(done)]() mutable { done(self->result()); };
  self->state_->executor->finish(std::move(finish));
}

// --- Serve --------------------------------------------------------------------------------------------------------

Awaitable<void> Participant::attend() {
  while (!over()) {
    events_.clear();
    Call call;
    call.cancel = state_->cancel;
    call.deadline = deadline_;
    Reply reply = co_await presence_.hold(call);
    const bool present = reply.ok() && state_->session != nullptr;
    if (present) reply = co_await inbox_.read(call);
    if (over()) co_return;
    if (!reply.ok()) {
      if (reply.failed(Errc::no_auth)) {
        failure_ = zk::to_error(reply, operation, state_->tree->path);
        co_return;
      }
      const LoopTime again = from_now(pause_after_failure);
      co_await events_.wait(deadline_ ? std::min(*deadline_, again) : again);
      continue;
    }
    sweep_->start_when_due();
    std::optional<LoopTime> next = sweep_->next();
    if (deadline_) next = std::min(next.value_or(*deadline_), *deadline_);
    co_await events_.wait(next);
  }
}

bool Participant::over() const {
  const bool stopped = stop_ != nullptr && stop_->requested();
  const bool late = deadline_ && std::chrono::steady_clock::now() >= *deadline_;
  return state_->ended() || stopped || late || state_->executor->failure();
}

void Participant::take_up(const std::string& id, std::optional<LoggedTransaction> logged) {
  if (state_->ended() || state_->open.contains(id)) return;
  auto open = std::make_shared<OpenTransaction>(state_->tree->client);
  open->transaction.id = id;
  if (logged) {
    open->logged = logged->state;
    if (auto data = decode_logged(logged->data)) {
      open->transaction.payload = std::move(data->payload);
      open->tree = data->tree;
    }
  }
  state_->open.emplace(id, open);
  zk::spawn(handle(shared_from_this(), open));
}

Awaitable<void> Participant::handle(std::shared_ptr<Participant> self, OpenTransactionPtr transaction) {
  {
    ParticipantTransaction handling(self->state_, transaction);
    co_await handling.run();
  }
  self->state_->open.erase(transaction->transaction.id);
  if (transaction->ended != nullptr) transaction->ended->set();
}

void Participant::note_resolution(const std::string& id) const {
  const auto found = state_->open.find(id);
  if (found != state_->open.end()) found->second->events.set();
}

// --- End ----------------------------------------------------------------------------------------------------------

// Ends also a wait for a connection.
void Participant::end() {
  state_->ending = true;
  state_->cancel->request();
  state_->wake_all();
  events_.set();
}

// Nothing of ours runs any more when this ends, or the client is closing, and waits for that itself.
Awaitable<void> Participant::wind_up() {
  co_await end_transactions();
  if (!state_->tree->client->closing()) co_await end_handlers();
  if (!state_->tree->client->closing()) co_await presence_.remove();
}

Awaitable<void> Participant::end_transactions() {
  while (!state_->open.empty()) {
    const NodeEvents ended(state_->tree->client);
    for (const auto& [id, transaction] : state_->open)
      transaction->ended = ended.signal();
    co_await ended.signal()->wait(std::nullopt);
  }
}

Awaitable<void> Participant::end_handlers() {
  const auto& client = state_->tree->client;
  const auto idle = std::make_shared<bool>(false);
  state_->executor->finish([client, signal = events_.signal(), idle] {
    client->loop()->post([signal, idle] {
      *idle = true;
      signal->set();
    });
  });
  while (!*idle && !client->closing()) {
    events_.clear();
    co_await events_.wait(std::nullopt);
  }
}

Result<void> Participant::result() const {
  if (const auto failure = state_->executor->failure()) return *failure;
  if (failure_) return *failure_;
  if (state_->tree->client->closing()) return Error(Errc::closed, operation, state_->tree->path);
  return Result<void>();
}

}  // namespace zkrecipes::detail
