#include <zkrecipes/shared_mutex.hpp>

#include "recipes/locks/contending_lock.hpp"
#include "recipes/locks/downgrade.hpp"
#include "recipes/locks/lock_state.hpp"

namespace zkrecipes {

using namespace words;
using detail::Acquirer;
using detail::ContendSpec;
using detail::ContendSpecPtr;
using detail::LeasePtr;
using detail::LockNames;
using detail::LockState;
using detail::Way;

namespace {

constexpr const char* listing_shared_mutex = "shared mutex contenders";
constexpr LockNames writing = {"shared mutex", "shared mutex acquire", listing_shared_mutex};
constexpr LockNames reading = {"shared mutex", "shared mutex acquire_shared", listing_shared_mutex};
constexpr const char* downgrading = "shared mutex downgrade";

ContendSpec spec_of(const SharedMutexOptions& options, const char* kind) {
  ContendSpec spec;
  spec.layout = options.layout;
  spec.kind = kind;
  spec.names = {{"__WRIT__", "__lock__"}, {"__READ__", "__rlock__"}};
  spec.acl = options.acl;
  spec.lists_foreign = true;
  return spec;
}

}  // namespace

struct SharedMutex::Readers {
  Readers(const zkclient::Client& client, const zkclient::Path& path, const SharedMutexOptions& options)
      : spec(detail::contend_spec(reading, client, path, spec_of(options, "read"))),
        acquirer(std::make_shared<const Acquirer>(
            detail::contending_lock(reading, client, path, spec_of(options, "read"), options.id))) {}

  const ContendSpecPtr spec;
  const std::shared_ptr<const Acquirer> acquirer;
};

SharedMutex::SharedMutex(zkclient::Client client, zkclient::Path path, SharedMutexOptions options)
    : Lock(std::make_unique<LockState>(
          detail::contending_lock(writing, client, path, spec_of(options, "write"), options.id))),
      readers_(std::make_unique<Readers>(client, path, options)) {}

SharedMutex::~SharedMutex() = default;
SharedMutex::SharedMutex(SharedMutex&&) noexcept = default;
SharedMutex& SharedMutex::operator=(SharedMutex&&) noexcept = default;

const std::shared_ptr<const Acquirer>& SharedMutex::reader() const noexcept { return readers_->acquirer; }

Lease SharedMutex::acquire_shared(const CallOptions& call) { return reader()->acquire(call); }
std::optional<Lease> SharedMutex::try_acquire_shared(const CallOptions& call) { return reader()->try_acquire(call); }
std::optional<Lease> SharedMutex::try_acquire_shared_for(Timeout timeout, WaitOptions options) {
  return reader()->try_acquire_for(timeout.get(), options);
}
std::optional<Lease> SharedMutex::try_acquire_shared_until(std::chrono::steady_clock::time_point deadline,
                                                           WaitOptions options) {
  return reader()->try_acquire_until(deadline, options);
}
void SharedMutex::async_acquire_shared(zkclient::Handler<Lease> handler, const CallOptions& call) {
  reader()->async_acquire(std::move(handler), call);
}
void SharedMutex::async_try_acquire_shared(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  reader()->async_try_acquire(std::move(handler), call);
}

void SharedMutex::lock_shared() { lock_shared_within(std::chrono::nanoseconds::max()); }
bool SharedMutex::try_lock_shared() { return lock_shared_within(std::chrono::nanoseconds::zero()); }
void SharedMutex::unlock_shared() noexcept { state().locked.unlock(Way::shared); }
bool SharedMutex::lock_shared_within(std::chrono::nanoseconds timeout) {
  return state().locked.lock_within(*reader(), Way::shared, timeout);
}

// --- Downgrade ----------------------------------------------------------------------------------------------------

namespace {

// A lease whose handler never runs, because an executor drops its tasks, is released: so it travels as a Lease.
zk::Awaitable<zkclient::Result<Lease>> own_downgrade(ContendSpecPtr readers, LeasePtr held, zk::Call call) {
  auto changing = detail::downgrade(std::move(readers), std::move(held), downgrading, std::move(call));
  zkclient::Result<LeasePtr> lease = co_await std::move(changing);
  if (!lease) co_return lease.error();
  co_return Lease(std::move(*lease));
}

zk::Work<Lease> downgrade_work(const ContendSpecPtr& readers, const Lease& lease) {
  const LeasePtr& held = lease.impl();
  if (held == nullptr) throw Error(Errc::not_held, downgrading, readers->path, "the lease is empty");
  if (held->client() != readers->client || !detail::is_writer_of(*readers, *held)) {
    throw Error(Errc::invalid_argument, downgrading, readers->path,
                lease.node() + " is not a lease to write of this path");
  }
  return [readers, held](zk::Call limits) { return own_downgrade(readers, held, std::move(limits)); };
}

}  // namespace

void SharedMutex::downgrade(Lease& lease, const CallOptions& call) {
  const ContendSpecPtr& readers = readers_->spec;
  lease = detail::form_of(readers, downgrading).wait(call, downgrade_work(readers, lease));
}

void SharedMutex::async_downgrade(const Lease& lease, zkclient::Handler<Lease> handler, const CallOptions& call) {
  const ContendSpecPtr& readers = readers_->spec;
  zk::require_handler(handler, downgrading, readers->path);
  detail::form_of(readers, downgrading).start(call, downgrade_work(readers, lease), std::move(handler));
}

}  // namespace zkrecipes
