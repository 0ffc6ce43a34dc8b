#include <zkrecipes/barrier.hpp>

#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/timed.hpp"
#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;

namespace {

constexpr const char* raising = "barrier raise";
constexpr const char* lowering = "barrier lower";
constexpr const char* looking = "barrier state";
constexpr const char* waiting = "barrier wait";

struct BarrierSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  // As the user wrote it.
  std::string node;  // The same, full.
  zkclient::AclList acl;
  std::string id;
};
using BarrierPtr = std::shared_ptr<const BarrierSpec>;

Awaitable<Reply> perform(BarrierPtr spec, OpType type, Call call) {
  Request request = zk::make_request(type, spec->node);
  Reply reply = co_await spec->client->perform(std::move(request), call);
  co_return reply;
}

Awaitable<Result<bool>> raise_on_loop(BarrierPtr spec, BarrierLife life, Call call) {
  const bool ephemeral = life == BarrierLife::ephemeral;
  // By the id it is recognised if the reply gets lost.
  const std::string data = fmt::format("{} raise={}", detail::describe_process(spec->id), zk::make_uuid());
  if (ephemeral) {
    const Reply connected = co_await spec->client->connected(call);
    if (!connected.ok()) co_return zk::to_error(connected, raising, spec->path);
    call.bound = connected.session;
  }
  bool doubted = false;
  for (;;) {
    Request create = zk::make_request(OpType::create, spec->node);
    create.data = data;
    create.mode = ephemeral ? CreateMode::ephemeral : CreateMode::persistent;
    create.acl = spec->acl;
    Reply reply = co_await spec->client->perform(std::move(create), call);
    if (reply.ok()) co_return true;
    if (reply.unanswered()) {
      doubted = true;
      if (call.bound == nullptr || !call.bound->over()) continue;
      reply.error = Errc::session_lost;  // And with it what may have been created.
    }
    if (reply.failed(Errc::node_exists)) {
      if (!doubted) co_return false;
      reply = co_await perform(spec, OpType::get, call);
      if (reply.ok()) co_return reply.data == data;
      if (reply.failed(Errc::no_node)) continue;  // Lowered since. Perhaps it was not ours: true says that ours was up.
    }
    if (reply.failed(Errc::no_node)) {
      std::string parent = zk::parent_of(spec->node);
      reply = co_await zk::ensure(spec->client, std::move(parent), CreateMode::container, spec->acl, call);
      if (reply.ok()) continue;
    }
    // A failure of this attempt says nothing about those before it, unless what they created is gone with its session.
    if (doubted && !reply.failed(Errc::session_lost)) reply.error = Errc::in_doubt;
    co_return zk::to_error(reply, raising, spec->path);
  }
}

Awaitable<Reply> look(BarrierPtr spec, Call call) {
  Request exists = zk::make_request(OpType::exists, spec->node);
  return zk::fresh(spec->client, std::move(exists), std::move(call));
}

Awaitable<Reply> look_by_quorum(BarrierPtr spec, Call call) {
  Request exists = zk::make_request(OpType::exists, spec->node);
  return zk::fresh_by_quorum(spec->client, std::move(exists), std::move(call));
}

Awaitable<Result<void>> lower_on_loop(BarrierPtr spec, Call call) {
  Reply seen = co_await look(spec, call);
  if (seen.failed(Errc::no_node)) seen = co_await look_by_quorum(spec, call);  // Nobody looks again.
  const std::int64_t identity = seen.stat.czxid;
  for (;;) {
    if (seen.failed(Errc::no_node)) co_return Result<void>();
    if (!seen.ok()) co_return zk::to_error(seen, lowering, spec->path);
    if (seen.stat.czxid != identity) co_return Result<void>();  // Ours was lowered; this one was raised since.
    const Reply removed = co_await perform(spec, OpType::remove, call);
    if (removed.ok() || removed.failed(Errc::no_node)) co_return Result<void>();
    if (!removed.unanswered()) co_return zk::to_error(removed, lowering, spec->path);
    seen = co_await look(spec, call);
    if (!seen.ok() && !seen.failed(Errc::no_node)) seen.error = Errc::in_doubt;
  }
}

// A server that lags behind does not have a barrier whose raise() has returned elsewhere, or has one from before, and will
// tell of its end. So a majority is asked first: then the node is the barrier that was up during this call, and its end
// too.
Awaitable<Reply> wait_until_down(BarrierPtr spec, detail::Waiter& waiter) {
  for (;;) {
    auto armed = waiter.make_watch();
    Request get = zk::make_request(OpType::get, spec->node);
    Reply seen = co_await spec->client->perform_watching(std::move(get), waiter.call(), armed->watch);
    if (!seen.ok() && !seen.failed(Errc::no_node)) co_return seen;
    Reply agreed = co_await look_by_quorum(spec, waiter.call());
    if (agreed.failed(Errc::no_node)) co_return Reply{};
    if (!agreed.ok()) co_return agreed;
    if (!seen.ok() || seen.stat.czxid != agreed.stat.czxid) continue;  // It was old.
    armed->node = std::move(seen);
    Reply waited = co_await waiter.wait_until_gone(spec->node, "raised by", std::move(armed));
    co_return waited;
  }
}

Awaitable<Result<void>> wait_on_loop(BarrierPtr spec, Call call) {
  for (;;) {
    // On the heap: what it leaves to its wake-ups must not move.
    const auto waiter = std::make_unique<detail::Waiter>(spec->client, call);
    Reply reply = co_await waiter->enter();
    if (reply.ok()) reply = co_await wait_until_down(spec, *waiter);
    if (reply.ok()) co_return Result<void>();
    if (!reply.failed(Errc::session_lost)) co_return zk::to_error(reply, waiting, spec->path);
  }
}

// One look.
Awaitable<Result<bool>> is_up_on_loop(BarrierPtr spec, Call call) {
  Reply seen = co_await perform(spec, OpType::get, call);
  if (seen.failed(Errc::no_node)) seen = co_await look_by_quorum(spec, call);
  if (seen.failed(Errc::no_node)) co_return false;
  if (!seen.ok()) co_return zk::to_error(seen, waiting, spec->path);
  co_return true;
}

zk::Work<bool> raise_work(const BarrierPtr& spec, BarrierLife life) {
  return [spec, life](Call limits) { return raise_on_loop(spec, life, std::move(limits)); };
}
zk::Work<void> lower_work(const BarrierPtr& spec) {
  return [spec](Call limits) { return lower_on_loop(spec, std::move(limits)); };
}
zk::Work<void> wait_work(const BarrierPtr& spec) {
  return [spec](Call limits) { return wait_on_loop(spec, std::move(limits)); };
}
zk::Work<bool> is_up_work(const BarrierPtr& spec) {
  return [spec](Call limits) { return is_up_on_loop(spec, std::move(limits)); };
}

Awaitable<Result<std::optional<BarrierState>>> read_state(BarrierPtr spec, Call call) {
  zk::Request get = zk::make_request(OpType::get, spec->node);
  Reply node = co_await spec->client->perform(std::move(get), call);
  if (node.failed(Errc::no_node)) co_return std::optional<BarrierState>();
  if (!node.ok()) co_return zk::to_error(node, looking, spec->path);
  std::optional<BarrierState> state(std::in_place);
  state->data = std::move(node.data);
  state->since = std::chrono::system_clock::time_point(std::chrono::milliseconds(node.stat.ctime_ms));
  if (node.stat.ephemeral_owner != 0) state->session_id = node.stat.ephemeral_owner;
  co_return state;
}

zk::Work<std::optional<BarrierState>> state_work(const BarrierPtr& spec) {
  return [spec](Call limits) { return read_state(spec, std::move(limits)); };
}

zk::CallForm form_of(const BarrierPtr& spec, const char* operation) {
  return zk::CallForm(spec->client, operation, spec->path);
}

BarrierPtr make_spec(const zkclient::Client& client, const zkclient::Path& path, BarrierOptions options) {
  detail::require_acl("barrier", path, options.acl);
  if (path.is_root()) throw Error(Errc::invalid_argument, "barrier", path.str(), "the root is always there");
  return std::make_shared<const BarrierSpec>(
      BarrierSpec{client.impl(), path.str(), client.impl()->full(path), std::move(options.acl), std::move(options.id)});
}

}  // namespace

struct Barrier::State {
  State(zkclient::Client client, zkclient::Path where, BarrierOptions options)
      : owner(std::move(client)), path(std::move(where)), spec(make_spec(owner, path, std::move(options))) {}

  zkclient::Client owner;  // Stays open for as long as it is used here.
  zkclient::Path path;
  BarrierPtr spec;
};

Barrier::Barrier(zkclient::Client client, zkclient::Path path, BarrierOptions options)
    : state_(std::make_unique<State>(std::move(client), std::move(path), std::move(options))) {}
Barrier::~Barrier() = default;
Barrier::Barrier(Barrier&&) noexcept = default;
Barrier& Barrier::operator=(Barrier&&) noexcept = default;

const zkclient::Path& Barrier::path() const noexcept { return state_->path; }

bool Barrier::raise(BarrierLife life, const CallOptions& call) {
  return form_of(state_->spec, raising).wait(call, raise_work(state_->spec, life));
}
void Barrier::async_raise(BarrierLife life, zkclient::Handler<bool> handler, const CallOptions& call) {
  form_of(state_->spec, raising).start(call, raise_work(state_->spec, life), std::move(handler));
}

void Barrier::lower(const CallOptions& call) { form_of(state_->spec, lowering).wait(call, lower_work(state_->spec)); }
void Barrier::async_lower(zkclient::Handler<void> handler, const CallOptions& call) {
  form_of(state_->spec, lowering).start(call, lower_work(state_->spec), std::move(handler));
}

void Barrier::wait(const CallOptions& call) const {
  form_of(state_->spec, waiting).endless().wait(call, wait_work(state_->spec));
}
void Barrier::async_wait(zkclient::Handler<void> handler, const CallOptions& call) const {
  form_of(state_->spec, waiting).endless().start(call, wait_work(state_->spec), std::move(handler));
}
bool Barrier::wait_for(Timeout timeout, WaitOptions options) const {
  return wait_until(detail::from_now(timeout.get()), std::move(options));
}
bool Barrier::wait_until(std::chrono::steady_clock::time_point deadline, WaitOptions options) const {
  const auto connected = [this] { return detail::is_connected(state_->spec->client); };
  const detail::TimedCall timed = detail::timed_call(deadline, options);
  const std::optional<bool> down = detail::unless_late(connected, options, [&] {
    if (timed.once) return !form_of(state_->spec, waiting).wait(timed.limits, is_up_work(state_->spec));
    wait(timed.limits);
    return true;
  });
  if (down && !*down) detail::tell_why(connected, options, true);
  return down.value_or(false);
}

std::optional<BarrierState> Barrier::state(const CallOptions& call) const {
  return form_of(state_->spec, looking).wait(call, state_work(state_->spec));
}
void Barrier::async_state(zkclient::Handler<std::optional<BarrierState>> handler, const CallOptions& call) const {
  form_of(state_->spec, looking).start(call, state_work(state_->spec), std::move(handler));
}

}  // namespace zkrecipes
