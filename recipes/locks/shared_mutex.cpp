#include <zkrecipes/shared_mutex.hpp>

#include "recipes/locks/acquirer.hpp"
#include "recipes/locks/downgrade.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::Acquirer;
using detail::ContendSpec;
using detail::ContendSpecPtr;
using detail::LeasePtr;
using detail::Patience;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;

namespace {

constexpr const char* writing = "shared mutex acquire";
constexpr const char* reading = "shared mutex acquire_shared";
constexpr const char* downgrading = "shared mutex downgrade";
constexpr const char* listing = "shared mutex contenders";

ContendSpecPtr make_spec(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                         const SharedMutexOptions& options, bool shared) {
  if (options.acl.empty()) throw Error(Errc::invalid_acl, "shared mutex", path.str(), "the list is empty");
  ContendSpec spec;
  spec.client = client;
  spec.path = path.str();
  spec.directory = client->full(path);
  spec.layout = options.layout;
  spec.kind = shared ? "read" : "write";
  spec.names = {{"__WRIT__", "__lock__"}, {"__READ__", "__rlock__"}};
  spec.acl = options.acl;
  spec.lists_foreign = true;
  spec.operation = shared ? reading : writing;
  return std::make_shared<const ContendSpec>(std::move(spec));
}

Acquirer make_acquirer(const ContendSpecPtr& spec, const char* operation, std::string id) {
  return Acquirer(spec->client, spec->path, operation, [spec, id = std::move(id)](Patience patience, zk::Call call) {
    return detail::contend(spec, detail::describe_process(id), patience, std::move(call));
  });
}

}  // namespace

struct SharedMutex::State {
  State(zkclient::Client shared, zkclient::Path where, const SharedMutexOptions& options)
      : owner(std::move(shared)),
        path(std::move(where)),
        read_spec(make_spec(owner.impl(), path, options, true)),
        writer(make_acquirer(make_spec(owner.impl(), path, options, false), writing, options.id)),
        reader(make_acquirer(read_spec, reading, options.id)) {}

  zkclient::Client owner;  // Stays open for as long as it is used here.
  zkclient::Path path;
  ContendSpecPtr read_spec;
  Acquirer writer;
  Acquirer reader;
  detail::ThreadLeases locked;
  detail::ThreadLeases locked_shared;
};

SharedMutex::SharedMutex(zkclient::Client client, zkclient::Path path, SharedMutexOptions options)
    : state_(std::make_unique<State>(std::move(client), std::move(path), options)) {}

SharedMutex::~SharedMutex() = default;
SharedMutex::SharedMutex(SharedMutex&&) noexcept = default;
SharedMutex& SharedMutex::operator=(SharedMutex&&) noexcept = default;

const zkclient::Path& SharedMutex::path() const noexcept { return state_->path; }
bool SharedMutex::connected() const { return detail::is_connected(state_->read_spec->client); }
const std::string& SharedMutex::full_path() const noexcept { return state_->read_spec->directory; }

Lease SharedMutex::acquire(const CallOptions& call) { return state_->writer.acquire(call); }
std::optional<Lease> SharedMutex::try_acquire(const CallOptions& call) { return state_->writer.try_acquire(call); }
std::optional<Lease> SharedMutex::try_acquire_for(std::chrono::nanoseconds timeout, WaitOptions options) {
  return state_->writer.try_acquire_for(timeout, options);
}
std::optional<Lease> SharedMutex::try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                    WaitOptions options) {
  return state_->writer.try_acquire_until(deadline, options);
}
void SharedMutex::async_acquire(zkclient::Handler<Lease> handler, const CallOptions& call) {
  state_->writer.async_acquire(std::move(handler), call);
}
void SharedMutex::async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  state_->writer.async_try_acquire(std::move(handler), call);
}

Lease SharedMutex::acquire_shared(const CallOptions& call) { return state_->reader.acquire(call); }
std::optional<Lease> SharedMutex::try_acquire_shared(const CallOptions& call) {
  return state_->reader.try_acquire(call);
}
std::optional<Lease> SharedMutex::try_acquire_shared_for(std::chrono::nanoseconds timeout, WaitOptions options) {
  return state_->reader.try_acquire_for(timeout, options);
}
std::optional<Lease> SharedMutex::try_acquire_shared_until(std::chrono::steady_clock::time_point deadline,
                                                           WaitOptions options) {
  return state_->reader.try_acquire_until(deadline, options);
}
void SharedMutex::async_acquire_shared(zkclient::Handler<Lease> handler, const CallOptions& call) {
  state_->reader.async_acquire(std::move(handler), call);
}
void SharedMutex::async_try_acquire_shared(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  state_->reader.async_try_acquire(std::move(handler), call);
}

namespace {

// What nobody takes, because an executor drops its tasks, is given back: so a lease travels as one.
zk::Awaitable<zkclient::Result<Lease>> own_downgrade(ContendSpecPtr readers, LeasePtr held, zk::Call call) {
  std::string operation = downgrading;
  auto changing = detail::downgrade(std::move(readers), std::move(held), std::move(operation), std::move(call));
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
  const ContendSpecPtr& readers = state_->read_spec;
  lease = detail::form_of(readers, downgrading).wait(call, downgrade_work(readers, lease));
}

void SharedMutex::async_downgrade(const Lease& lease, zkclient::Handler<Lease> handler, const CallOptions& call) {
  const ContendSpecPtr& readers = state_->read_spec;
  zk::require_handler(handler, downgrading, readers->path);
  detail::form_of(readers, downgrading).start(call, downgrade_work(readers, lease), std::move(handler));
}

std::vector<Contender> SharedMutex::contenders(const CallOptions& call) const {
  return detail::form_of(state_->read_spec, listing).wait(call, detail::contenders_work(state_->read_spec, listing));
}

void SharedMutex::async_contenders(zkclient::Handler<std::vector<Contender>> handler, const CallOptions& call) const {
  detail::form_of(state_->read_spec, listing)
      .start(call, detail::contenders_work(state_->read_spec, listing), std::move(handler));
}

// --- SharedTimedLockable ------------------------------------------------------------------------------------------

void SharedMutex::lock() { lock_within(false, std::chrono::nanoseconds::max()); }
bool SharedMutex::try_lock() { return lock_within(false, std::chrono::nanoseconds::zero()); }
void SharedMutex::unlock() { state_->locked.unlock(); }
void SharedMutex::lock_shared() { lock_within(true, std::chrono::nanoseconds::max()); }
bool SharedMutex::try_lock_shared() { return lock_within(true, std::chrono::nanoseconds::zero()); }
void SharedMutex::unlock_shared() { state_->locked_shared.unlock(); }

bool SharedMutex::lock_within(bool shared, std::chrono::nanoseconds timeout) {
  const char* operation = shared ? "shared mutex lock_shared" : "shared mutex lock";
  if (state_->locked.holds()) {
    throw Error(Errc::would_deadlock, operation, state_->path.str(), "this thread has locked it");
  }
  if (state_->locked_shared.holds()) {
    throw Error(Errc::would_deadlock, operation, state_->path.str(),
                "this thread has locked it shared; a shared lock cannot be upgraded");
  }
  return shared ? state_->locked_shared.lock_within(state_->reader, timeout, operation)
                : state_->locked.lock_within(state_->writer, timeout, operation);
}

const Lease& SharedMutex::lease() const {
  // A lost one stays until it is unlocked, but after it the thread may have locked the other way.
  const bool shared = state_->locked_shared.has() && !state_->locked.holds();
  const detail::ThreadLeases& own = shared ? state_->locked_shared : state_->locked;
  return own.own("shared mutex lease", state_->path.str());
}

}  // namespace zkrecipes
