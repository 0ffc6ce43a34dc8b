#include <zkrecipes/semaphore.hpp>

#include <algorithm>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/locks/lock_state.hpp"
#include "recipes/locks/permit_decider.hpp"
#include "recipes/locks/permits.hpp"

namespace zkrecipes {

using namespace words;
using detail::Acquisition;
using detail::ContendSpec;
using detail::ContendSpecPtr;
using detail::LeasePtr;
using detail::LockState;
using detail::Patience;
using detail::PermitSpec;
using detail::PermitSpecPtr;

namespace {

constexpr const char* semaphore_recipe = "semaphore";
constexpr const char* acquiring_permits = "semaphore acquire";
constexpr const char* listing_permits = "semaphore contenders";
using LeasePtrs = std::vector<LeasePtr>;

ContendSpec spec_of(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path, const char* directory,
                    const SemaphoreOptions& options) {
  ContendSpec spec;
  spec.client = client;
  spec.path = path.str();
  spec.directory = client->full(path / directory);
  spec.kind = "lock";
  spec.acl = options.acl;
  spec.operation = acquiring_permits;
  return spec;
}

// The inner mutex: the turn of those who take permits. Who has it may wait for long, so the one behind looks ahead: it
// learns that it is next, and proves its session beforehand.
ContendSpecPtr turn_of(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                       const SemaphoreOptions& options) {
  ContendSpec spec = spec_of(client, path, "locks", options);
  spec.names = {{"lock-"}};
  spec.internal = true;
  spec.look_ahead = true;
  return std::make_shared<const ContendSpec>(std::move(spec));
}

// Only to list the leases, none of which excludes another.
ContendSpecPtr leases_of(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                         const SemaphoreOptions& options) {
  ContendSpec spec = spec_of(client, path, "leases", options);
  spec.names = {{}, {"lease-"}};
  return std::make_shared<const ContendSpec>(std::move(spec));
}

PermitSpecPtr make_spec(const zkclient::Client& client, const zkclient::Path& path, int fixed_limit,
                        const std::optional<zkclient::Path>& limit, const SemaphoreOptions& options) {
  detail::require_acl(semaphore_recipe, path, options.acl);
  if (!limit && fixed_limit < 1) {
    throw Error(Errc::invalid_argument, "semaphore", path.str(), "the number of leases must be positive");
  }
  const int initial = options.initial_limit.value_or(0);
  if (initial < 0 || initial > detail::most_leases) {
    throw Error(Errc::invalid_argument, "semaphore", path.str(), "initial_limit must be from 0 to a million");
  }
  PermitSpec spec;
  spec.initial_limit = options.initial_limit;
  spec.turn = turn_of(client.impl(), path, options);
  spec.directory = client.impl()->full(path / "leases");
  spec.fixed_limit = limit ? 0 : fixed_limit;
  if (limit) spec.limit_node = client.impl()->full(*limit);
  spec.operation = acquiring_permits;
  return std::make_shared<const PermitSpec>(std::move(spec));
}

Awaitable<Result<LeasePtr>> take_one(PermitSpecPtr pool, std::string data, Patience patience, Call call) {
  Result<LeasePtrs> taken =
      co_await detail::take_leases(std::move(pool), std::move(data), 1, patience, std::move(call));
  if (!taken) co_return taken.error();
  co_return taken->empty() ? LeasePtr() : taken->front();
}

// Leases whose handler never runs, because an executor drops its tasks, are released: so they travel as Leases.
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
  if (wrong != nullptr) throw Error(Errc::invalid_argument, acquiring_permits, pool->turn->path, wrong);
  return [pool, id, count, patience](Call limits) {
    return own_leases(pool, detail::describe_process(id), count, patience, std::move(limits));
  };
}

Acquisition make_acquisition(zkclient::Client client, zkclient::Path path, const PermitSpecPtr& spec,
                             const SemaphoreOptions& options) {
  auto get = [spec, id = options.id](Patience patience, Call call) {
    return take_one(spec, detail::describe_process(id), patience, std::move(call));
  };
  const ContendSpecPtr leases = leases_of(client.impl(), path, options);
  auto list = [leases, turn = spec->turn](Call call) {
    std::string operation = listing_permits;
    return detail::list_permits(leases, turn, std::move(operation), std::move(call));
  };
  return {std::move(client), std::move(path), semaphore_recipe, acquiring_permits,
          std::move(get),    listing_permits, std::move(list)};
}

}  // namespace

struct Semaphore::Pool {
  zk::CallForm form(const char* name) const { return zk::CallForm(owner.impl(), name, spec->turn->path); }

  zkclient::Client owner;  // Stays open for as long as it is used here.
  std::string id;
  PermitSpecPtr spec;
};

Semaphore::Semaphore(zkclient::Client client, zkclient::Path path, int leases, SemaphoreOptions options)
    : Semaphore(make_spec(client, path, leases, std::nullopt, options), client, path, options) {}
Semaphore::Semaphore(zkclient::Client client, zkclient::Path path, zkclient::Path limit, SemaphoreOptions options)
    : Semaphore(make_spec(client, path, 0, limit, options), client, path, options) {}
Semaphore::Semaphore(std::shared_ptr<const detail::PermitSpec> spec, const zkclient::Client& client,
                     const zkclient::Path& path, const SemaphoreOptions& options)
    : Acquirable(std::make_unique<LockState>(make_acquisition(client, path, spec, options))),
      pool_(std::make_unique<Pool>(Pool{client, options.id, std::move(spec)})) {}
Semaphore::~Semaphore() = default;
Semaphore::Semaphore(Semaphore&&) noexcept = default;
Semaphore& Semaphore::operator=(Semaphore&&) noexcept = default;

std::vector<Lease> Semaphore::acquire_many(int count, const CallOptions& call) {
  return pool_->form(acquiring_permits).endless().wait(call, take_many(pool_->spec, pool_->id, count, Patience::wait));
}

std::vector<Lease> Semaphore::try_acquire_many(int count, const CallOptions& call) {
  return pool_->form(acquiring_permits).wait(call, take_many(pool_->spec, pool_->id, count, Patience::try_once));
}

void Semaphore::async_acquire_many(int count, zkclient::Handler<std::vector<Lease>> handler, const CallOptions& call) {
  auto work = take_many(pool_->spec, pool_->id, count, Patience::wait);
  pool_->form(acquiring_permits).endless().start(call, std::move(work), std::move(handler));
}

void Semaphore::async_try_acquire_many(int count, zkclient::Handler<std::vector<Lease>> handler,
                                       const CallOptions& call) {
  auto work = take_many(pool_->spec, pool_->id, count, Patience::try_once);
  pool_->form(acquiring_permits).start(call, std::move(work), std::move(handler));
}

// --- The number of permits ----------------------------------------------------------------------------------------

namespace {

constexpr const char* reading_limit = "semaphore limit";
constexpr const char* setting_limit = "semaphore set_limit";

Awaitable<Result<int>> read_limit(PermitSpecPtr spec, Call call) {
  if (spec->limit_node.empty()) co_return spec->fixed_limit;
  Request get = zk::make_request(OpType::get, spec->limit_node);
  const Reply node = co_await spec->turn->client->perform(std::move(get), call);
  if (node.failed(Errc::no_node)) co_return 0;
  const std::string path = spec->turn->client->stripped(spec->limit_node);
  if (!node.ok()) co_return zk::to_error(node, reading_limit, path);
  const std::optional<int> limit = detail::decode_limit(node.data);
  if (!limit) co_return Error(Errc::foreign_node, reading_limit, path);
  co_return *limit;
}

Awaitable<Result<void>> write_limit(PermitSpecPtr spec, int limit, Call call) {
  const std::shared_ptr<zk::ClientCore> client = spec->turn->client;
  for (;;) {
    Request set = zk::make_request(OpType::set, spec->limit_node);
    set.data = detail::encode_limit(limit);
    Reply reply = co_await client->perform(std::move(set), call);
    if (reply.failed(Errc::no_node)) {
      std::string parent = zk::parent_of(spec->limit_node);
      reply = co_await zk::ensure(client, std::move(parent), zkclient::CreateMode::container, spec->turn->acl, call);
      if (reply.ok()) {
        Request create = zk::make_request(OpType::create, spec->limit_node);
        create.data = detail::encode_limit(limit);
        create.acl = spec->turn->acl;
        reply = co_await client->perform(std::move(create), call);
      }
      if (reply.failed(Errc::node_exists) || reply.failed(Errc::no_node)) continue;  // Made, or removed, meanwhile.
    }
    if (reply.ok()) co_return Result<void>();
    co_return zk::to_error(reply, setting_limit, client->stripped(spec->limit_node));
  }
}

zk::Work<int> limit_work(const PermitSpecPtr& spec) {
  return [spec](Call limits) { return read_limit(spec, std::move(limits)); };
}

zk::Work<void> set_limit_work(const PermitSpecPtr& spec, int limit) {
  const std::string& path = spec->turn->path;
  if (spec->limit_node.empty()) throw Error(Errc::invalid_argument, setting_limit, path, "it is a constant");
  if (limit < 0 || limit > detail::most_leases) {
    throw Error(Errc::invalid_argument, setting_limit, path, "it must be from 0 to a million");
  }
  return [spec, limit](Call limits) { return write_limit(spec, limit, std::move(limits)); };
}

}  // namespace

int Semaphore::limit(const CallOptions& call) const {
  return pool_->form(reading_limit).wait(call, limit_work(pool_->spec));
}

void Semaphore::async_limit(zkclient::Handler<int> handler, const CallOptions& call) const {
  pool_->form(reading_limit).start(call, limit_work(pool_->spec), std::move(handler));
}

void Semaphore::set_limit(int leases, const CallOptions& call) {
  pool_->form(setting_limit).wait(call, set_limit_work(pool_->spec, leases));
}

void Semaphore::async_set_limit(int leases, zkclient::Handler<void> handler, const CallOptions& call) {
  zk::require_handler(handler, setting_limit, path().str());
  pool_->form(setting_limit).start(call, set_limit_work(pool_->spec, leases), std::move(handler));
}

}  // namespace zkrecipes
