#include <zkrecipes/mutex.hpp>

#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "recipes/detail/contender_queue.hpp"
#include "zkclient/detail/calls.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::LeasePtr;
using detail::Patience;
using detail::QueueSpec;
using detail::SpecPtr;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

struct Mutex::State {
  explicit State(zkclient::Client shared) : owner(std::move(shared)), client(owner.impl()) {}

  zkclient::Client owner;  // Stays open for as long as it is used here.
  std::shared_ptr<zk::ClientCore> client;
  zkclient::Path path;
  std::string id;
  SpecPtr spec;

  // The leases behind lock(), by the thread that locked.
  std::mutex mutex;
  std::unordered_map<std::thread::id, Lease> locked;

  Lease* own_lease() {
    const auto found = locked.find(std::this_thread::get_id());
    return found != locked.end() ? &found->second : nullptr;
  }
};

namespace {

constexpr const char* operation = "mutex acquire";
constexpr const char* listing = "mutex contenders";

SpecPtr make_spec(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                  const MutexOptions& options) {
  if (options.acl.empty()) throw Error(Errc::invalid_acl, "mutex", path.str(), "the list is empty");
  QueueSpec spec;
  spec.client = client;
  spec.path = path.str();
  spec.directory = client->full(path);
  spec.layout = options.layout;
  spec.kind = "lock";
  spec.infixes = {"lock-", "__lock__"};
  spec.acl = options.acl;
  spec.operation = operation;
  return std::make_shared<const QueueSpec>(std::move(spec));
}

zk::Work<LeasePtr> contend_work(const SpecPtr& spec, const std::string& id, Patience patience, bool has_deadline) {
  return [spec, data = detail::describe_process(id), patience, has_deadline](zk::Call call) {
    // Without a deadline of the caller's, a wait has none; the default is meant for single operations.
    if (!has_deadline && patience == Patience::wait) call.deadline.reset();
    return detail::contend(spec, data, patience, std::move(call));
  };
}

Result<LeasePtr> run(const std::shared_ptr<zk::ClientCore>& client, const SpecPtr& spec, const std::string& id,
                     Patience patience, const CallOptions& call) {
  return zk::wait_for_work<LeasePtr>(client, call, contend_work(spec, id, patience, call.deadline.has_value()),
                                     operation, spec->path);
}

std::optional<Lease> to_optional(LeasePtr lease) {
  if (lease == nullptr) return std::nullopt;
  return Lease(std::move(lease));
}

}  // namespace

Mutex::Mutex(zkclient::Client client, zkclient::Path path, MutexOptions options)
    : state_(std::make_unique<State>(std::move(client))) {
  state_->spec = make_spec(state_->client, path, options);
  state_->path = std::move(path);
  state_->id = std::move(options.id);
}

Mutex::~Mutex() = default;
Mutex::Mutex(Mutex&&) noexcept = default;
Mutex& Mutex::operator=(Mutex&&) noexcept = default;

const zkclient::Path& Mutex::path() const noexcept { return state_->path; }

Lease Mutex::acquire(const CallOptions& call) {
  return Lease(run(state_->client, state_->spec, state_->id, Patience::wait, call).value());
}

std::optional<Lease> Mutex::try_acquire(const CallOptions& call) {
  return to_optional(run(state_->client, state_->spec, state_->id, Patience::try_once, call).value());
}

std::optional<Lease> Mutex::try_acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop) {
  // As std::timed_mutex: a negative timeout tries once.
  const auto now = std::chrono::steady_clock::now();
  const bool endless = timeout > std::chrono::steady_clock::time_point::max() - now;
  return try_acquire_until(endless ? std::chrono::steady_clock::time_point::max() : now + timeout, std::move(stop));
}

std::optional<Lease> Mutex::try_acquire_until(std::chrono::steady_clock::time_point deadline, std::stop_token stop) {
  CallOptions call;
  call.stop = std::move(stop);
  const bool once = deadline <= std::chrono::steady_clock::now();
  if (!once && deadline != std::chrono::steady_clock::time_point::max()) call.deadline = deadline;
  const Patience patience = once ? Patience::try_once : Patience::wait;
  Result<LeasePtr> result = run(state_->client, state_->spec, state_->id, patience, call);
  if (result.code() == Errc::deadline_exceeded) return std::nullopt;
  return to_optional(std::move(result).value());
}

void Mutex::async_acquire(zkclient::Handler<Lease> handler, const CallOptions& call) {
  auto wrapped = [handler = std::move(handler)](Result<LeasePtr> result) mutable {
    if (result) {
      handler(Lease(std::move(*result)));
    } else {
      handler(result.error());
    }
  };
  zk::start_work<LeasePtr>(state_->client, call,
                           contend_work(state_->spec, state_->id, Patience::wait, call.deadline.has_value()),
                           std::move(wrapped), operation, state_->spec->path);
}

void Mutex::async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  auto wrapped = [handler = std::move(handler)](Result<LeasePtr> result) mutable {
    if (result) {
      handler(to_optional(std::move(*result)));
    } else {
      handler(result.error());
    }
  };
  zk::start_work<LeasePtr>(state_->client, call,
                           contend_work(state_->spec, state_->id, Patience::try_once, call.deadline.has_value()),
                           std::move(wrapped), operation, state_->spec->path);
}

std::vector<Contender> Mutex::contenders(const CallOptions& call) const {
  zk::Work<std::vector<Contender>> work = [spec = state_->spec](zk::Call limits) {
    return detail::list_contenders(spec, listing, std::move(limits));
  };
  return zk::wait_for_work<std::vector<Contender>>(state_->client, call, std::move(work), listing, state_->path.str())
      .value();
}

// --- Lockable -----------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void refuse_deadlock() {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), "mutex lock");
}

}  // namespace

void Mutex::lock() { lock_within(std::chrono::nanoseconds::max()); }

bool Mutex::try_lock() { return lock_within(std::chrono::nanoseconds::zero()); }

bool Mutex::lock_within(std::chrono::nanoseconds timeout) {
  {
    const std::lock_guard guard(state_->mutex);
    const Lease* own = state_->own_lease();
    if (own != nullptr && own->valid()) refuse_deadlock();
  }
  std::optional<Lease> lease = try_acquire_for(timeout);
  if (!lease) return false;
  const std::lock_guard guard(state_->mutex);
  state_->locked.insert_or_assign(std::this_thread::get_id(), std::move(*lease));
  return true;
}

void Mutex::unlock() {
  const std::lock_guard guard(state_->mutex);
  state_->locked.erase(std::this_thread::get_id());  // The lease's destructor gives it back.
}

const Lease& Mutex::lease() const {
  const std::lock_guard guard(state_->mutex);
  const Lease* own = state_->own_lease();
  if (own == nullptr) throw Error(Errc::not_held, "mutex lease", state_->path.str(), "not locked by this thread");
  return *own;
}

}  // namespace zkrecipes
