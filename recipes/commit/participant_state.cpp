#include "recipes/commit/participant_state.hpp"

#include <utility>

namespace zkrecipes::detail {

void ParticipantState::wake_all() const {
  for (const auto& [id, transaction] : open)
    transaction->events.set();
}

Awaitable<std::optional<HandlerExecutor::Result>> run_handler(ParticipantStatePtr state, OpenTransactionPtr transaction,
                                                              HandlerExecutor::Kind kind) {
  const auto answer = std::make_shared<std::optional<HandlerExecutor::Result>>();
  HandlerExecutor::Job job;
  job.kind = kind;
  job.transaction = transaction->transaction;
  job.tree = transaction->tree;
  job.logged = transaction->logged;
  job.done = [answer, signal = transaction->events.signal()](HandlerExecutor::Result result) {
    *answer = std::move(result);
    signal->set();
  };
  state->executor->submit(std::move(job));
  while (!*answer && !state->ended()) {
    transaction->events.clear();
    co_await transaction->events.wait(std::nullopt);
  }
  if (*answer && (*answer)->logged) transaction->logged = *(*answer)->logged;
  co_return std::move(*answer);
}

}  // namespace zkrecipes::detail
