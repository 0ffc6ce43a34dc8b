#include "recipes/values/block_core.hpp"

#include <utility>

namespace zkrecipes::detail {

BlockCore::BlockCore(std::shared_ptr<zk::ClientCore> client, const std::string& node, const IdBlocksOptions& options)
    : client_(std::move(client)),
      block_(options.block),
      counter_(CounterCore::make(client_, node, CounterKind{options.encoding}, ValueOptions{options.acl})),
      stock_(block_) {}

std::optional<std::int64_t> BlockCore::take() {
  if (client_->loop()->forked()) return std::nullopt;  // These are the parent's.
  const std::lock_guard lock(mutex_);
  const std::optional<std::int64_t> id = stock_.take();
  if (stock_.wants_more() && !std::exchange(reserving_, true)) {
    client_->loop()->post([self = shared_from_this()] { zk::spawn(reserve(self)); });
  }
  return id;
}

void BlockCore::abandon() noexcept {
  try {
    client_->loop()->post([self = shared_from_this()] {
      self->ownerless_ = true;
      self->end_what_nobody_waits_for();
    });
  } catch (...) {
    // Out of memory: it ends with the client.
  }
}

void BlockCore::end_what_nobody_waits_for() {
  if (ownerless_ && waiting_ == 0) abandoned_->request();
}

Awaitable<Result<std::int64_t>> BlockCore::next(std::shared_ptr<BlockCore> self, const char* operation,
                                                std::string path, Call call) {
  Waiting waiting(self->calls_, self->client_->events(), call);
  ++self->waiting_;
  const std::uint64_t failures = self->failures_;
  std::optional<std::int64_t> id;
  zk::Reply failed;
  for (;;) {
    waiting->clear();
    id = self->take();
    if (id) break;
    if (self->failures_ != failures) failed = self->failure_;
    if (failed.ok()) failed.error = waiting->failure(false);
    if (!failed.ok()) break;
    co_await waiting->wait();
  }
  --self->waiting_;
  self->end_what_nobody_waits_for();
  if (!id) co_return zk::to_error(failed, operation, path);
  co_return *id;
}

// Numbers that may have been reserved are not used, so a reservation in doubt can be repeated.
Awaitable<void> BlockCore::reserve(std::shared_ptr<BlockCore> self) {
  const CounterRequest request{CounterRequest::Kind::add, self->block_, 0};
  CounterCore::Outcome outcome;
  do {
    Call call;
    call.cancel = self->abandoned_;
    outcome = co_await CounterCore::change(self->counter_, request, call);
  } while (outcome.reply.unanswered());
  {
    const std::lock_guard lock(self->mutex_);
    self->reserving_ = false;
    if (outcome.reply.ok()) self->stock_.add(outcome.answer.change.before + 1, outcome.answer.change.after);
  }
  if (!outcome.reply.ok()) {
    ++self->failures_;
    self->failure_ = std::move(outcome.reply);
  }
  self->calls_.wake_all();
}

}  // namespace zkrecipes::detail
