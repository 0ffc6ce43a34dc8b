#include <zkrecipes/semaphore.hpp>

#include <algorithm>

#include "recipes/locks/acquirer.hpp"
#include "recipes/locks/permits.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::Acquirer;
using detail::ContendSpec;
using detail::ContendSpecPtr;
using detail::LeasePtr;
using detail::Patience;
using detail::PermitSpec;
using detail::PermitSpecPtr;
using zk::Awaitable;
using zk::Call;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

constexpr const char* operation = "semaphore acquire";
constexpr const char* listing = "semaphore contenders";
using LeasePtrs = std::vector<LeasePtr>;

// For the inner mutex in `name`, or, as it is listed alike, for the leases.
ContendSpecPtr make_queue(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path, const char* name,
                          const SemaphoreOptions& options) {
  ContendSpec spec;
  spec.client = client;
  spec.path = path.str();
  spec.directory = client->full(path / name);
  spec.kind = "lock";
  spec.names = {{"lock-"}, {"lease-"}};
  spec.acl = options.acl;
  spec.operation = operation;
  return std::make_shared<const ContendSpec>(std::move(spec));
}

PermitSpecPtr make_pool(const zkclient::Client& client, const zkclient::Path& path, int fixed_limit,
                        const std::optional<zkclient::Path>& limit, const SemaphoreOptions& options) {
  if (options.acl.empty()) throw Error(Errc::invalid_acl, "semaphore", path.str(), "the list is empty");
  if (!limit && fixed_limit < 1) {
    throw Error(Errc::invalid_argument, "semaphore", path.str(), "the number of leases must be positive");
  }
  const int initial = options.initial_limit.value_or(0);
  if (initial < 0 || initial > detail::most_leases) {
    throw Error(Errc::invalid_argument, "semaphore", path.str(), "initial_limit must be from 0 to a million");
  }
  PermitSpec spec;
  spec.initial_limit = options.initial_limit;
  spec.queue = make_queue(client.impl(), path, "locks", options);
  spec.directory = client.impl()->full(path / "leases");
  spec.fixed_limit = limit ? 0 : fixed_limit;
  if (limit) spec.limit_node = client.impl()->full(*limit);
  spec.operation = operation;
  return std::make_shared<const PermitSpec>(std::move(spec));
}

Awaitable<Result<LeasePtr>> take_one(PermitSpecPtr pool, std::string data, Patience patience, Call call) {
  Result<LeasePtrs> taken =
      co_await detail::take_leases(std::move(pool), std::move(data), 1, patience, std::move(call));
  if (!taken) co_return taken.error();
  co_return taken->empty() ? LeasePtr() : taken->front();
}

// What nobody takes, because an executor drops its tasks, is given back: so leases travel as such.
Awaitable<Result<std::vector<Lease>>> own_leases(PermitSpecPtr pool, std::string data, int count, Patience patience,
                                                 Call call) {
  Result<LeasePtrs> taken =
      co_await detail::take_leases(std::move(pool), std::move(data), count, patience, std::move(call));
  if (!taken) co_return taken.error();
  std::vector<Lease> leases;
  leases.reserve(taken->size());
  for (LeasePtr& core : *taken)
    leases.emplace_back(std::move(core));
  co_return leases;
}

zk::Work<std::vector<Lease>> take_many(const PermitSpecPtr& pool, const std::string& id, int count, Patience patience) {
  constexpr int most_at_once = 1'000;  // They are created in one transaction.
  const char* wrong = nullptr;
  if (count < 1) wrong = "the number of leases must be positive";
  if (count > most_at_once) wrong = "more than 1,000 leases at once";
  if (pool->fixed_limit != 0 && count > pool->fixed_limit) wrong = "more leases than there are";
  if (wrong != nullptr) throw Error(Errc::invalid_argument, operation, pool->queue->path, wrong);
  return [pool, id, count, patience](Call limits) {
    return own_leases(pool, detail::describe_process(id), count, patience, std::move(limits));
  };
}

}  // namespace

struct Semaphore::State {
  State(zkclient::Client shared, zkclient::Path where, int fixed_limit, std::optional<zkclient::Path> node,
        SemaphoreOptions options)
      : owner(std::move(shared)),
        path(std::move(where)),
        limit_node(std::move(node)),
        id(std::move(options.id)),
        pool(make_pool(owner, path, fixed_limit, limit_node, options)),
        leases(make_queue(owner.impl(), path, "leases", options)),
        acl(std::move(options.acl)),
        acquirer(owner.impl(), path.str(), operation, [pool = pool, id = id](Patience patience, Call call) {
          return take_one(pool, detail::describe_process(id), patience, std::move(call));
        }) {}

  zk::CallForm form(const char* name) const { return zk::CallForm(owner.impl(), name, path.str()); }

  zkclient::Client owner;  // Stays open for as long as it is used here.
  zkclient::Path path;
  std::optional<zkclient::Path> limit_node;
  std::string id;
  PermitSpecPtr pool;
  ContendSpecPtr leases;
  zkclient::AclList acl;
  Acquirer acquirer;
};

Semaphore::Semaphore(zkclient::Client client, zkclient::Path path, int leases, SemaphoreOptions options)
    : state_(std::make_unique<State>(std::move(client), std::move(path), leases, std::nullopt, std::move(options))) {}
Semaphore::Semaphore(zkclient::Client client, zkclient::Path path, zkclient::Path limit, SemaphoreOptions options)
    : state_(std::make_unique<State>(std::move(client), std::move(path), 0, std::move(limit), std::move(options))) {}
Semaphore::~Semaphore() = default;
Semaphore::Semaphore(Semaphore&&) noexcept = default;
Semaphore& Semaphore::operator=(Semaphore&&) noexcept = default;

const zkclient::Path& Semaphore::path() const noexcept { return state_->path; }

Lease Semaphore::acquire(const CallOptions& call) { return state_->acquirer.acquire(call); }
std::optional<Lease> Semaphore::try_acquire(const CallOptions& call) { return state_->acquirer.try_acquire(call); }
std::optional<Lease> Semaphore::try_acquire_for(std::chrono::nanoseconds timeout, WaitOptions options) {
  return state_->acquirer.try_acquire_for(timeout, options);
}
std::optional<Lease> Semaphore::try_acquire_until(std::chrono::steady_clock::time_point deadline, WaitOptions options) {
  return state_->acquirer.try_acquire_until(deadline, options);
}
void Semaphore::async_acquire(zkclient::Handler<Lease> handler, const CallOptions& call) {
  state_->acquirer.async_acquire(std::move(handler), call);
}
void Semaphore::async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  state_->acquirer.async_try_acquire(std::move(handler), call);
}

std::vector<Lease> Semaphore::acquire_many(int count, const CallOptions& call) {
  return state_->form(operation).endless().wait(call, take_many(state_->pool, state_->id, count, Patience::wait));
}

std::vector<Lease> Semaphore::try_acquire_many(int count, const CallOptions& call) {
  return state_->form(operation).wait(call, take_many(state_->pool, state_->id, count, Patience::try_once));
}

void Semaphore::async_acquire_many(int count, zkclient::Handler<std::vector<Lease>> handler, const CallOptions& call) {
  auto work = take_many(state_->pool, state_->id, count, Patience::wait);
  state_->form(operation).endless().start(call, std::move(work), std::move(handler));
}

void Semaphore::async_try_acquire_many(int count, zkclient::Handler<std::vector<Lease>> handler,
                                       const CallOptions& call) {
  auto work = take_many(state_->pool, state_->id, count, Patience::try_once);
  state_->form(operation).start(call, std::move(work), std::move(handler));
}

namespace {

Awaitable<Result<std::vector<Contender>>> list_all(ContendSpecPtr leases, ContendSpecPtr queue, Call call) {
  Result<std::vector<Contender>> all = co_await detail::list_contenders(leases, listing, call);
  if (!all) co_return all;
  Result<std::vector<Contender>> waiting = co_await detail::list_contenders(queue, listing, call);
  if (!waiting) co_return waiting;
  // Who is in front has nodes among the leases already, of one transaction: they are not granted yet.
  for (const Contender& front : *waiting) {
    if (!front.holds) continue;
    FencingToken newest = front.token;
    for (const Contender& lease : *all) {
      if (lease.session_id == front.session_id) newest = std::max(newest, lease.token);
    }
    for (Contender& lease : *all)
      lease.holds = lease.holds && lease.token != newest;
  }
  for (Contender& contender : *waiting) {
    contender.holds = false;
    all->push_back(std::move(contender));
  }
  co_return all;
}

zk::Work<std::vector<Contender>> list_work(const ContendSpecPtr& leases, const ContendSpecPtr& queue) {
  return [leases, queue](Call limits) { return list_all(leases, queue, std::move(limits)); };
}

}  // namespace

std::vector<Contender> Semaphore::contenders(const CallOptions& call) const {
  return state_->form(listing).wait(call, list_work(state_->leases, state_->pool->queue));
}

void Semaphore::async_contenders(zkclient::Handler<std::vector<Contender>> handler, const CallOptions& call) const {
  state_->form(listing).start(call, list_work(state_->leases, state_->pool->queue), std::move(handler));
}

int Semaphore::limit(const CallOptions& call) const {
  if (!state_->limit_node) return state_->pool->fixed_limit;
  std::error_code error;
  const zkclient::NodeData node = state_->owner.get(*state_->limit_node, call, error);
  if (error == Errc::no_node) return 0;
  if (error) throw Error(static_cast<Errc>(error.value()), "semaphore limit", state_->limit_node->str());
  const std::optional<int> limit = detail::decode_limit(node.data);
  if (!limit) throw Error(Errc::foreign_node, "semaphore limit", state_->limit_node->str());
  return *limit;
}

void Semaphore::set_limit(int leases, const CallOptions& call) {
  const std::string& path = state_->path.str();
  if (!state_->limit_node) throw Error(Errc::invalid_argument, "semaphore set_limit", path, "it is a constant");
  if (leases < 0 || leases > detail::most_leases) {
    throw Error(Errc::invalid_argument, "semaphore set_limit", path, "it must be from 0 to a million");
  }
  const std::string data = detail::encode_limit(leases);
  for (;;) {
    std::error_code error;
    state_->owner.set(*state_->limit_node, data, zkclient::any_version, call, error);
    if (!error) return;
    if (error != Errc::no_node) {
      throw Error(static_cast<Errc>(error.value()), "semaphore set_limit", state_->limit_node->str());
    }
    const zkclient::CreateOptions options{.acl = state_->acl, .parents = true, .parent_acl = state_->acl};
    state_->owner.create(*state_->limit_node, data, options, call, error);
    if (!error) return;
    if (error != Errc::node_exists) {
      throw Error(static_cast<Errc>(error.value()), "semaphore set_limit", state_->limit_node->str());
    }
  }
}

}  // namespace zkrecipes
