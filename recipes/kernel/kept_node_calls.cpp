#include <utility>

#include "recipes/kernel/kept_node.hpp"

namespace zkrecipes::detail {

Awaitable<Result<void>> KeptNode::until_kept(std::shared_ptr<KeptNode> self, const char* operation,
                                             std::uint64_t generation, Call call) {
  const Waiting waiter(self->waiting_, self->spec_.client->events(), call);
  for (;;) {
    waiter->clear();
    const bool refused = generation > self->refused_after_ && generation <= self->refused_;
    if (refused) co_return Error(Errc::too_large, operation, self->spec_.path);
    if (self->kept_ >= generation && self->shown_.complete()) co_return Result<void>();
    const bool closed = self->leaving_ || self->finished_ || self->spec_.client->closing();
    const auto problem = self->shown_.problem();
    if (problem && problem->definite && !closed) {
      co_return Error(problem->code, operation, self->spec_.path, problem->detail);
    }
    if (const auto failure = waiter->failure(closed)) {
      const auto awaited = self->kept_ >= generation ? "the node's lease" : "the node with its data";
      co_return self->ended_wait(*failure, operation, awaited);
    }
    co_await waiter->wait();
  }
}

Awaitable<Result<void>> KeptNode::wait_present(std::shared_ptr<KeptNode> self, Call call) {
  return until_kept(self, self->spec_.operation, 1, std::move(call));
}

std::uint64_t KeptNode::want(std::string data) {
  data_ = std::move(data);
  shown_.clear_problem();
  wake_.set();
  return ++wanted_;
}

Awaitable<Result<void>> KeptNode::update(std::shared_ptr<KeptNode> self, std::string data, Call call,
                                         const char* operation) {
  const std::uint64_t generation = self->want(std::move(data));
  return until_kept(self, operation, generation, std::move(call));
}

Awaitable<Result<void>> KeptNode::leave(std::shared_ptr<KeptNode> self, Call call, const char* operation) {
  self->begin_to_leave();
  const Waiting waiter(self->waiting_, self->spec_.client->events(), call);
  for (;;) {
    waiter->clear();
    if (self->gone_) co_return Result<void>();
    const auto problem = self->shown_.problem();
    if (problem && problem->definite && self->spec_.lasting())
      co_return Error(problem->code, operation, self->spec_.path, problem->detail);
    if (const auto failure = waiter->failure(self->finished_))
      co_return self->ended_wait(*failure, operation, "the node to go");
    co_await waiter->wait();
  }
}

Awaitable<void> KeptNode::wait_ended(std::shared_ptr<KeptNode> self, Call call) {
  const Waiting waiter(self->waiting_, self->spec_.client->events(), call);
  for (;;) {
    waiter->clear();
    if (waiter->failure(self->finished_)) co_return;
    co_await waiter->wait();
  }
}

}  // namespace zkrecipes::detail
