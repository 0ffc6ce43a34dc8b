#include "recipes/values/worker_core.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace zkrecipes::detail {

namespace {

constexpr const char* making_id = "worker id next";
constexpr auto shortest_pause = std::chrono::milliseconds(10);
constexpr auto pause_after_refusal = std::chrono::milliseconds(500);

bool is_over(const Reply& reply) { return reply.failed(Errc::session_lost) || reply.failed(Errc::closed); }

}  // namespace

std::int64_t WorkerSpec::now() const {
  return std::chrono::floor<std::chrono::milliseconds>(options.clock().time_since_epoch()).count();
}

WorkerCore::WorkerCore(WorkerSpecPtr spec, int number, LeasePtr lease)
    : spec_(std::move(spec)),
      number_(number),
      node_(zk::child_path(spec_->times, std::to_string(number))),
      lease_(std::move(lease)) {}

// --- From any thread ------------------------------------------------------------------------------------------------

std::int64_t WorkerCore::next() {
  const LeaseState state = lease_->state();
  const bool valid = state == LeaseState::held || state == LeaseState::uncertain;
  // Before the lock, which a thread of a forked child's parent may have held.
  if (!valid) throw Error(Errc::not_held, making_id, spec_->path, "the lease was lost, or given back");
  const std::int64_t now = spec_->now();
  const std::lock_guard lock(mutex_);
  if (closed_) throw Error(Errc::not_held, making_id, spec_->path, "it was given back");
  const std::optional<std::int64_t> id = generator_->next(now);
  const bool short_of_time = generator_->left(now) < spec_->options.ahead.count() / 2;
  if (short_of_time && !std::exchange(asked_, true)) {
    spec_->client->loop()->post([self = shared_from_this()] { self->wake_->request(); });
  }
  if (!id) throw Error(Errc::overloaded, making_id, spec_->path, "the ids of the time that is reserved are used up");
  return *id;
}

void WorkerCore::close() noexcept {
  if (spec_->client->loop()->forked()) return;  // The number is the parent's.
  try {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    spec_->client->loop()->post([self = shared_from_this()] { self->give_rest_back(); });
  } catch (...) {
    // Out of memory: the time stays reserved.
  }
}

// --- On the loop thread ---------------------------------------------------------------------------------------------

Call WorkerCore::bound_call() const {
  Call call;
  call.bound = lease_->session();
  return call;
}

Awaitable<Reply> WorkerCore::begin(Call call) {
  call.bound = lease_->session();
  Reply reply;
  do {
    overtaken_ = false;
    reply = co_await look(call);
    if (!reply.ok()) co_return reply;
    generator_.emplace(spec_->options.layout, number_, found_);
    reply = co_await reserve(call);
  } while (overtaken_);  // By the last write of the owner before: what that has reserved is left out.
  if (reply.ok()) zk::spawn(keep_ahead(shared_from_this()));
  co_return reply;
}

// What the former owners wrote came before the end of their nodes, and that before the begin of ours: the session that
// made ours sees it.
Awaitable<Reply> WorkerCore::look(Call call) {
  Request get = zk::make_request(OpType::get, node_);
  Reply reply = co_await spec_->client->perform(std::move(get), call);
  if (reply.failed(Errc::no_node)) {
    stored_ = Node::missing;
    co_return Reply{};
  }
  if (!reply.ok()) co_return reply;
  const std::optional<std::int64_t> time = decode_time(reply.data, latest_time(spec_->options.layout));
  if (!time) {
    reply.error = Errc::foreign_node;
    reply.detail = fmt::format("{} holds no time that ids of this layout can have", spec_->client->stripped(node_));
    co_return reply;
  }
  stored_ = Node::present;
  version_ = reply.stat.version;
  found_ = *time;
  co_return reply;
}

std::int64_t WorkerCore::wanted() {
  const std::int64_t now = spec_->now();
  const std::lock_guard lock(mutex_);
  const std::int64_t until = std::max(now, generator_->last()) + spec_->options.ahead.count();
  return std::clamp(until, generator_->reserved(), latest_time(spec_->options.layout));
}

bool WorkerCore::is_more(std::int64_t until) {
  const std::lock_guard lock(mutex_);
  return until > generator_->reserved();
}

Awaitable<Reply> WorkerCore::reserve(Call call) {
  const std::int64_t until = wanted();
  Reply reply;
  if (is_more(until)) reply = co_await write(until, call);
  const std::lock_guard lock(mutex_);
  asked_ = false;
  if (reply.ok()) generator_->reserve(until);
  co_return reply;
}

Request WorkerCore::writing(std::int64_t until) const {
  Request both = zk::make_request(OpType::multi, node_);
  both.operations.emplace_back(zkclient::Check{Path(lease_->grant().path)});
  if (stored_ == Node::present) {
    both.operations.emplace_back(Transaction::Set{Path(node_), encode_time(until), version_});
  } else {
    both.operations.emplace_back(
        Transaction::Create{Path(node_), encode_time(until), CreateMode::persistent, spec_->options.acl});
  }
  return both;
}

// The first operation refuses it as soon as the lease's node is gone. An operator may have removed that, and another
// worker have the number and a node of that name: then the time is not what it was, nor what this has asked for. What
// was written by a request whose reply was lost may be written again.
Awaitable<Reply> WorkerCore::write(std::int64_t until, Call call) {
  for (;;) {
    if (stored_ == Node::unknown) {
      const std::int64_t before = found_;
      Reply seen = co_await look(call);
      if (!seen.ok()) co_return seen;
      if (found_ != before && found_ != until) {
        overtaken_ = true;
        seen.error = Errc::session_lost;
        seen.detail = "another worker has reserved time for the number";
        co_return seen;
      }
    }
    Request both = writing(until);
    Reply reply = co_await spec_->client->perform(std::move(both), call);
    if (reply.ok()) {
      version_ = stored_ == Node::present ? reply.results.back().stat->version : 0;
      stored_ = Node::present;
      found_ = until;
      co_return reply;
    }
    const bool created = stored_ == Node::missing;
    stored_ = Node::unknown;
    if (reply.refused(0, zk::rc::no_node)) {
      reply.error = Errc::session_lost;
      reply.detail = "the node of the lease is gone";
      co_return reply;
    }
    if (created && reply.refused(1, zk::rc::no_node)) {
      Reply parents =
          co_await zk::ensure(spec_->client, spec_->times, CreateMode::persistent, spec_->options.acl, call);
      if (!parents.ok()) co_return parents;
      continue;
    }
    const bool changed = reply.refused(1, zk::rc::bad_version) || reply.refused(1, zk::rc::no_node) ||
                         reply.refused(1, zk::rc::node_exists);
    if (changed || reply.unanswered()) continue;
    if (reply.failed(Errc::transaction_failed)) reply.error = reply.cause();
    // Whether it was reserved does not matter to a caller that has no number.
    if (reply.failed(Errc::in_doubt)) reply.error = reply.given_up.value_or(Errc::connection_loss);
    co_return reply;
  }
}

std::chrono::milliseconds WorkerCore::pause() {
  const std::int64_t half = spec_->options.ahead.count() / 2;
  const std::int64_t now = spec_->now();
  const std::lock_guard lock(mutex_);
  const std::chrono::milliseconds until_half(std::clamp<std::int64_t>(generator_->left(now) - half, 0, half));
  return std::max(until_half, shortest_pause);
}

Awaitable<void> WorkerCore::keep_ahead(std::shared_ptr<WorkerCore> self) {
  for (;;) {
    Call sleep;
    const auto pause = self->pause();
    sleep.deadline = std::chrono::steady_clock::now() + pause;
    if (self->wake_->requested()) self->wake_ = std::make_shared<zk::CancelScope>();
    sleep.cancel = self->wake_;
    const Errc woken = co_await self->lease_->over(sleep);
    if (woken != Errc::deadline_exceeded && woken != Errc::cancelled) co_return;
    const Call bound = self->bound_call();
    Reply reply = co_await self->reserve(bound);
    if (is_over(reply)) co_return;
    if (reply.ok()) continue;
    co_await zk::pause_for(pause_after_refusal, self->spec_->client->events(), self->lease_->session());
  }
}

// At best: if it is not written, the next owner begins later than it must.
void WorkerCore::give_rest_back() {
  if (lease_->session()->over() || stored_ != Node::present || !generator_) return;
  std::int64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    if (generator_->last() >= generator_->reserved()) return;
    last = generator_->last();
  }
  (void)spec_->client->launch(writing(last), bound_call());
}

}  // namespace zkrecipes::detail
