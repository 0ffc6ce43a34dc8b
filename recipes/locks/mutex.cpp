#include <zkrecipes/mutex.hpp>

#include "recipes/locks/acquirer.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::Acquirer;
using detail::ContendSpec;
using detail::ContendSpecPtr;
using detail::Patience;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;

namespace {

constexpr const char* operation = "mutex acquire";
constexpr const char* listing = "mutex contenders";

ContendSpecPtr make_spec(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                         const MutexOptions& options) {
  if (options.acl.empty()) throw Error(Errc::invalid_acl, "mutex", path.str(), "the list is empty");
  ContendSpec spec;
  spec.client = client;
  spec.path = path.str();
  spec.directory = client->full(path);
  spec.layout = options.layout;
  spec.kind = "lock";
  spec.names.exclusive = {"lock-", "__lock__"};
  spec.acl = options.acl;
  spec.lists_foreign = true;
  spec.look_ahead = options.look_ahead;
  spec.hands_over = true;
  spec.operation = operation;
  return std::make_shared<const ContendSpec>(std::move(spec));
}

Acquirer make_acquirer(const ContendSpecPtr& spec, std::string id) {
  return Acquirer(spec->client, spec->path, operation, [spec, id = std::move(id)](Patience patience, zk::Call call) {
    return detail::contend(spec, detail::describe_process(id), patience, std::move(call));
  });
}

}  // namespace

struct Mutex::State {
  State(zkclient::Client shared, zkclient::Path where, MutexOptions options)
      : owner(std::move(shared)),
        path(std::move(where)),
        spec(make_spec(owner.impl(), path, options)),
        acquirer(make_acquirer(spec, std::move(options.id))) {}

  zkclient::Client owner;  // Stays open for as long as it is used here.
  zkclient::Path path;
  ContendSpecPtr spec;
  Acquirer acquirer;
  detail::ThreadLeases locked;
};

Mutex::Mutex(zkclient::Client client, zkclient::Path path, MutexOptions options)
    : state_(std::make_unique<State>(std::move(client), std::move(path), std::move(options))) {}

Mutex::~Mutex() = default;
Mutex::Mutex(Mutex&&) noexcept = default;
Mutex& Mutex::operator=(Mutex&&) noexcept = default;

const zkclient::Path& Mutex::path() const noexcept { return state_->path; }
bool Mutex::connected() const { return detail::is_connected(state_->spec->client); }
const std::string& Mutex::full_path() const noexcept { return state_->spec->directory; }

Lease Mutex::acquire(const CallOptions& call) { return state_->acquirer.acquire(call); }

std::optional<Lease> Mutex::try_acquire(const CallOptions& call) { return state_->acquirer.try_acquire(call); }

std::optional<Lease> Mutex::try_acquire_for(std::chrono::nanoseconds timeout, WaitOptions options) {
  return state_->acquirer.try_acquire_for(timeout, options);
}

std::optional<Lease> Mutex::try_acquire_until(std::chrono::steady_clock::time_point deadline, WaitOptions options) {
  return state_->acquirer.try_acquire_until(deadline, options);
}

void Mutex::async_acquire(zkclient::Handler<Lease> handler, const CallOptions& call) {
  state_->acquirer.async_acquire(std::move(handler), call);
}

void Mutex::async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  state_->acquirer.async_try_acquire(std::move(handler), call);
}

std::vector<Contender> Mutex::contenders(const CallOptions& call) const {
  return detail::form_of(state_->spec, listing).wait(call, detail::contenders_work(state_->spec, listing));
}

void Mutex::async_contenders(zkclient::Handler<std::vector<Contender>> handler, const CallOptions& call) const {
  detail::form_of(state_->spec, listing)
      .start(call, detail::contenders_work(state_->spec, listing), std::move(handler));
}

void Mutex::lock() { lock_within(std::chrono::nanoseconds::max()); }

bool Mutex::try_lock() { return lock_within(std::chrono::nanoseconds::zero()); }

bool Mutex::lock_within(std::chrono::nanoseconds timeout) {
  return state_->locked.lock_within(state_->acquirer, timeout, "mutex lock");
}

void Mutex::unlock() { state_->locked.unlock(); }

const Lease& Mutex::lease() const { return state_->locked.own("mutex lease", state_->path.str()); }

}  // namespace zkrecipes
