#include <zkrecipes/latch.hpp>

#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/timed.hpp"
#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/latch_kind.hpp"
#include "recipes/values/value_recipe.hpp"

namespace zkrecipes {

using namespace words;
using detail::LatchAnswer;
using detail::LatchKind;
using detail::PreparedCall;

namespace {

constexpr const char* latch_recipe = "latch";
constexpr const char* counting_down = "latch count_down";
constexpr const char* waiting_for_latch = "latch wait";
constexpr const char* looking_at_latch = "latch left";

using SharedLatch = detail::ValueRecipe<LatchKind>;
using SharedLatchPtr = std::shared_ptr<const SharedLatch>;
using LatchTarget = SharedLatch::Target;

void require_positive(std::int64_t value, const char* operation, const Path& path, const char* what) {
  if (value > 0) return;
  throw Error(Errc::invalid_argument, operation, path.str(), fmt::format("{} is {}, not positive", what, value));
}

SharedLatchPtr make_shared_latch(zkclient::Client client, Path path, std::int64_t count, LatchOptions options) {
  require_positive(count, latch_recipe, path, "the count");
  require_positive(options.generation, latch_recipe, path, "the generation");
  detail::ValueOptions limits{std::move(options.acl), options.durable, options.max_marker_age};
  return SharedLatch::make(latch_recipe, std::move(client), std::move(path), LatchKind{{options.generation, count}},
                           std::move(limits));
}

// --- On the loop ----------------------------------------------------------------------------------------------------

Awaitable<Result<std::int64_t>> count_down_on_loop(LatchTarget target, std::int64_t by, Call call) {
  SharedLatch::Core::Outcome outcome = co_await SharedLatch::Core::change(target.core, by, std::move(call));
  if (!outcome.reply.ok()) co_return target.error(outcome.reply);
  co_return outcome.answer.left;
}

/// What the object finds in a node that was read, or is missing.
LatchAnswer answer_of(const Reply& node, const LatchKind& kind) {
  return detail::look_at_latch(LatchKind::view(node).record, kind.use);
}

Awaitable<Result<std::int64_t>> left_on_loop(LatchTarget target, LatchKind kind, Call call) {
  Request get = zk::make_request(OpType::get, target.node);
  const Reply node = co_await target.client->perform(std::move(get), call);
  if (!node.ok() && !node.failed(Errc::no_node)) co_return target.error(node);
  const LatchAnswer found = answer_of(node, kind);
  if (found.error) co_return Error(*found.error, target.operation, target.path, found.why);
  co_return found.left;
}

/// The node with a watch on it, or a watch for when it appears.
struct WatchedLatch {
  Reply node;
  std::shared_ptr<detail::Waiter::NodeWatch> watch;
};

Awaitable<WatchedLatch> look_watching(const LatchTarget& target, detail::Waiter& waiter) {
  WatchedLatch seen;
  for (;;) {
    for (const OpType type : {OpType::get, OpType::exists}) {
      seen.watch = waiter.make_watch();
      Request read = zk::make_request(type, target.node);
      seen.node = co_await target.client->perform_watching(std::move(read), waiter.call(), seen.watch->watch);
      const bool made_meanwhile = type == OpType::exists && seen.node.ok();
      const bool all_attempts_lost = seen.node.failed(Errc::connection_loss);
      if (made_meanwhile || all_attempts_lost) break;
      if (type == OpType::exists || !seen.node.failed(Errc::no_node)) co_return seen;
    }
  }
}

/// Until the latch is open, or the wait must end.
Awaitable<Reply> wait_in_session(const LatchTarget& target, const LatchKind& kind, detail::Waiter& waiter) {
  Reply reply = co_await waiter.enter();
  while (reply.ok()) {
    WatchedLatch seen = co_await look_watching(target, waiter);
    if (!seen.node.ok() && !seen.node.failed(Errc::no_node)) co_return std::move(seen.node);
    LatchAnswer found = answer_of(seen.node, kind);
    if (found.error || found.left == 0) {
      reply.error = found.error;
      reply.detail = std::move(found.why);
      co_return reply;
    }
    reply = co_await waiter.fired(seen.watch);
    const bool given_up = reply.failed(Errc::deadline_exceeded) || reply.failed(Errc::cancelled);
    if (given_up) reply.detail = fmt::format("{} of {} are left", found.left, kind.use.count);
  }
  co_return reply;
}

Awaitable<Result<void>> wait_for_latch(LatchTarget target, LatchKind kind, Call call) {
  for (;;) {
    // On the heap: what it leaves to its wake-ups must not move.
    const auto waiter = std::make_unique<detail::Waiter>(target.client, call);
    const Reply reply = co_await wait_in_session(target, kind, *waiter);
    if (reply.ok()) co_return Result<void>();
    if (!reply.failed(Errc::session_lost)) co_return target.error(reply);
  }
}

// --- From a call to its coroutine -----------------------------------------------------------------------------------

PreparedCall<std::int64_t> prepare_count(const SharedLatch& shared, std::int64_t by) {
  require_positive(by, counting_down, shared.path, "what is counted");
  return shared.prepare(counting_down, by, 0, count_down_on_loop);
}

PreparedCall<void> prepare_wait(const SharedLatch& shared) {
  auto work = [target = shared.target(waiting_for_latch), kind = shared.kind](Call limits) {
    return wait_for_latch(target, kind, std::move(limits));
  };
  return {shared.form(waiting_for_latch).endless(), std::move(work)};
}

PreparedCall<std::int64_t> prepare_left(const SharedLatch& shared) {
  auto work = [target = shared.target(looking_at_latch), kind = shared.kind](Call limits) {
    return left_on_loop(target, kind, std::move(limits));
  };
  return {shared.form(looking_at_latch), std::move(work)};
}

}  // namespace

struct Latch::State {
  SharedLatchPtr shared;
};

Latch::Latch(zkclient::Client client, zkclient::Path path, std::int64_t count, LatchOptions options)
    : state_(std::make_unique<State>(
          State{make_shared_latch(std::move(client), std::move(path), count, std::move(options))})) {}
Latch::~Latch() = default;
Latch::Latch(Latch&&) noexcept = default;
Latch& Latch::operator=(Latch&&) noexcept = default;

std::int64_t Latch::generation() const noexcept { return state_->shared->kind.use.generation; }
const zkclient::Path& Latch::path() const noexcept { return state_->shared->path; }

std::int64_t Latch::count_down(std::int64_t by, const CallOptions& call) {
  return prepare_count(*state_->shared, by).wait(call);
}
void Latch::async_count_down(std::int64_t by, zkclient::Handler<std::int64_t> handler, const CallOptions& call) {
  prepare_count(*state_->shared, by).start(std::move(handler), call);
}

void Latch::wait(const CallOptions& call) const { prepare_wait(*state_->shared).wait(call); }
void Latch::async_wait(zkclient::Handler<void> handler, const CallOptions& call) const {
  prepare_wait(*state_->shared).start(std::move(handler), call);
}
bool Latch::wait_for(Timeout timeout, WaitOptions options) const {
  return wait_until(detail::from_now(timeout.get()), std::move(options));
}
bool Latch::wait_until(std::chrono::steady_clock::time_point deadline, WaitOptions options) const {
  const auto connected = [this] { return detail::is_connected(state_->shared->client.impl()); };
  const detail::TimedCall timed = detail::timed_call(deadline, options);
  const std::optional<bool> open = detail::unless_late(connected, options, [&] {
    if (timed.once) return left(timed.limits) == 0;
    wait(timed.limits);
    return true;
  });
  if (open && !*open) detail::tell_why(connected, options, true);
  return open.value_or(false);
}

std::int64_t Latch::left(const CallOptions& call) const { return prepare_left(*state_->shared).wait(call); }
void Latch::async_left(zkclient::Handler<std::int64_t> handler, const CallOptions& call) const {
  prepare_left(*state_->shared).start(std::move(handler), call);
}

}  // namespace zkrecipes
