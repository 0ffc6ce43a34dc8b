#include <zkrecipes/worker_id.hpp>

#include <functional>
#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/single_node.hpp"
#include "recipes/values/number_decider.hpp"
#include "recipes/values/worker_core.hpp"

namespace zkrecipes {

using namespace words;
using detail::LeasePtr;
using detail::Patience;
using detail::SingleNodeSpec;
using detail::Waiter;
using detail::WorkerCore;
using detail::WorkerSpec;
using detail::WorkerSpecPtr;

namespace {

constexpr const char* worker_ids = "worker ids";
constexpr const char* acquiring_worker_id = "worker id acquire";
constexpr const char* releasing = "worker id release";

WorkerSpecPtr make_spec(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                        WorkerIdOptions options) {
  detail::require_acl(worker_ids, path, options.acl);
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, worker_ids, path.str(), why); };
  if (const char* why = detail::layout_defect(options.layout)) refuse(why);
  const bool sensible = options.ahead >= std::chrono::milliseconds(100) && options.ahead <= std::chrono::hours(1);
  if (!sensible) refuse("`ahead` must be from 100 ms to an hour");
  if (!options.clock) refuse("there is no clock");
  return std::make_shared<const WorkerSpec>(
      WorkerSpec{client, path.str(), client->full(path / "held"), client->full(path / "times"), std::move(options)});
}

std::shared_ptr<const SingleNodeSpec> node_spec(const WorkerSpec& worker, int number) {
  SingleNodeSpec spec;
  spec.client = worker.client;
  spec.path = worker.path;
  spec.directory = worker.held;
  spec.name = std::to_string(number);
  spec.parent_mode = zkclient::CreateMode::persistent;
  spec.acl = worker.options.acl;
  spec.operation = acquiring_worker_id;
  spec.requeue_on_session_loss = true;
  spec.watch_at_once = true;  // Numbers are held for long.
  spec.revocable = false;
  return std::make_shared<const SingleNodeSpec>(std::move(spec));
}

// --- On the loop ----------------------------------------------------------------------------------------------------

struct Picked {
  Reply reply;
  int number = 0;
};

// A node that is missing has no children.
Reply or_empty(Reply listed) { return listed.failed(Errc::no_node) ? Reply{} : std::move(listed); }

/// Finds a free number; waits for one if there is none.
Awaitable<Picked> pick(WorkerSpecPtr spec, int conflicts, Call call) {
  const std::size_t random = std::hash<std::string>()(zk::make_uuid());
  Picked picked;
  Request list = zk::make_request(OpType::children, spec->held);
  Reply listed = co_await spec->client->perform(std::move(list), call);
  for (;;) {
    picked.reply = or_empty(std::move(listed));
    if (!picked.reply.ok()) co_return picked;
    auto number = detail::pick_number(picked.reply.names, spec->count(), conflicts, random);
    if (number) {
      picked.number = *number;
      co_return picked;
    }
    Waiter waiter(spec->client, call);
    picked.reply = co_await waiter.enter();
    if (!picked.reply.ok()) co_return picked;
    const auto watch = waiter.make_watch(zk::WatchRegistry::Kind::children);
    Request again = zk::make_request(OpType::children, spec->held);
    listed = co_await spec->client->perform_watching(std::move(again), waiter.call(), watch->watch);
    number = listed.ok() ? detail::pick_number(listed.names, spec->count(), conflicts, random) : 0;
    if (number) continue;
    picked.reply = co_await waiter.fired(watch);
    if (picked.reply.failed(Errc::deadline_exceeded)) {
      picked.reply.detail = fmt::format("all {} numbers are taken", spec->count());
    }
    if (!picked.reply.ok()) co_return picked;
    Request next = zk::make_request(OpType::children, spec->held);
    listed = co_await spec->client->perform(std::move(next), call);
  }
}

Awaitable<Result<WorkerId>> acquire_on_loop(WorkerSpecPtr spec, Call call) {
  for (int conflicts = 0;;) {
    Picked picked = co_await pick(spec, conflicts, call);
    if (picked.reply.failed(Errc::session_lost)) continue;  // The next one.
    if (!picked.reply.ok()) co_return zk::to_error(picked.reply, acquiring_worker_id, spec->path);
    std::string words = detail::describe_process(spec->options.id);
    Result<LeasePtr> taken =
        co_await detail::contend_for_node(node_spec(*spec, picked.number), std::move(words), Patience::try_once, call);
    if (!taken) co_return taken.error();
    if (*taken == nullptr) {
      ++conflicts;
      continue;
    }
    Lease lease(*taken);
    const auto core = std::make_shared<WorkerCore>(spec, picked.number, std::move(*taken));
    Reply begun = co_await core->begin(call);
    if (begun.failed(Errc::session_lost)) continue;
    if (!begun.ok()) co_return zk::to_error(begun, acquiring_worker_id, spec->path);
    co_return WorkerId(core, std::move(lease));
  }
}

}  // namespace

// --- WorkerId -------------------------------------------------------------------------------------------------------

WorkerId::WorkerId() noexcept = default;
WorkerId::WorkerId(std::shared_ptr<WorkerCore> core, Lease lease) noexcept
    : core_(std::move(core)), lease_(std::move(lease)) {}
WorkerId::WorkerId(WorkerId&&) noexcept = default;
WorkerId& WorkerId::operator=(WorkerId&& other) noexcept {
  if (this == &other) return *this;
  close();
  core_ = std::move(other.core_);
  lease_ = std::move(other.lease_);
  return *this;
}
WorkerId::~WorkerId() { close(); }

// Before the lease is given back: what goes out behind that is refused.
void WorkerId::close() noexcept {
  if (core_ != nullptr) core_->close();
}

int WorkerId::number() const noexcept { return core_ == nullptr ? -1 : core_->number(); }

std::int64_t WorkerId::next() {
  if (core_ == nullptr) throw Error(Errc::not_held, "worker id next", "", "it is empty");
  return core_->next();
}

const Lease& WorkerId::lease() const noexcept { return lease_; }

void WorkerId::release(const CallOptions& call) {
  close();
  lease_.release(call);
}
void WorkerId::async_release(zkclient::Handler<void> handler, const CallOptions& call) {
  if (core_ != nullptr) zk::require_handler(handler, releasing, lease_.node());
  close();
  lease_.async_release(std::move(handler), call);
}

// --- WorkerIds ------------------------------------------------------------------------------------------------------

struct WorkerIds::State {
  zkclient::Client client;  // Stays open for as long as it is used here.
  zkclient::Path path;      // As the user wrote it.
  WorkerSpecPtr spec;

  zk::CallForm form() const { return zk::CallForm(client.impl(), acquiring_worker_id, path.str()); }
  zk::Work<WorkerId> work() const {
    return [held = spec](Call limits) { return acquire_on_loop(held, std::move(limits)); };
  }
};

WorkerIds::WorkerIds(zkclient::Client client, zkclient::Path path, WorkerIdOptions options) {
  WorkerSpecPtr spec = make_spec(client.impl(), path, std::move(options));
  state_ = std::make_unique<State>(State{std::move(client), std::move(path), std::move(spec)});
}
WorkerIds::~WorkerIds() = default;
WorkerIds::WorkerIds(WorkerIds&&) noexcept = default;
WorkerIds& WorkerIds::operator=(WorkerIds&&) noexcept = default;

const zkclient::Path& WorkerIds::path() const noexcept { return state_->path; }

WorkerId WorkerIds::acquire(const CallOptions& call) { return state_->form().wait(call, state_->work()); }
void WorkerIds::async_acquire(zkclient::Handler<WorkerId> handler, const CallOptions& call) {
  state_->form().start(call, state_->work(), std::move(handler));
}

}  // namespace zkrecipes
