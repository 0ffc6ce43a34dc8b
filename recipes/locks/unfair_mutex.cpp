#include <zkrecipes/unfair_mutex.hpp>

#include "recipes/kernel/single_node.hpp"
#include "recipes/locks/acquirer.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::Acquirer;
using detail::Patience;
using detail::SingleNodePtr;
using detail::SingleNodeSpec;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;

namespace {

constexpr const char* operation = "unfair mutex acquire";
constexpr const char* reading = "unfair mutex holder";

SingleNodePtr make_spec(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                        const UnfairMutexOptions& options) {
  if (options.acl.empty()) throw Error(Errc::invalid_acl, "unfair mutex", path.str(), "the list is empty");
  SingleNodeSpec spec;
  spec.client = client;
  spec.path = path.str();
  spec.directory = client->full(path);
  spec.name = "lock";
  spec.acl = options.acl;
  spec.operation = operation;
  return std::make_shared<const SingleNodeSpec>(std::move(spec));
}

Acquirer make_acquirer(const SingleNodePtr& spec, std::string id) {
  return Acquirer(spec->client, spec->path, operation, [spec, id = std::move(id)](Patience patience, zk::Call call) {
    return detail::contend_for_node(spec, detail::describe_process(id), patience, std::move(call));
  });
}

zk::Work<std::optional<Contender>> reading_work(const SingleNodePtr& spec) {
  return [spec](zk::Call limits) { return detail::read_holder(spec, reading, std::move(limits)); };
}
zk::CallForm form_of_reading(const SingleNodePtr& spec) { return zk::CallForm(spec->client, reading, spec->path); }

}  // namespace

struct UnfairMutex::State {
  State(zkclient::Client shared, zkclient::Path where, UnfairMutexOptions options)
      : owner(std::move(shared)),
        path(std::move(where)),
        spec(make_spec(owner.impl(), path, options)),
        acquirer(make_acquirer(spec, std::move(options.id))) {}

  zkclient::Client owner;  // Stays open for as long as it is used here.
  zkclient::Path path;
  SingleNodePtr spec;
  Acquirer acquirer;
  detail::ThreadLeases locked;
};

UnfairMutex::UnfairMutex(zkclient::Client client, zkclient::Path path, UnfairMutexOptions options)
    : state_(std::make_unique<State>(std::move(client), std::move(path), std::move(options))) {}

UnfairMutex::~UnfairMutex() = default;
UnfairMutex::UnfairMutex(UnfairMutex&&) noexcept = default;
UnfairMutex& UnfairMutex::operator=(UnfairMutex&&) noexcept = default;

const zkclient::Path& UnfairMutex::path() const noexcept { return state_->path; }
bool UnfairMutex::connected() const { return detail::is_connected(state_->spec->client); }
const std::string& UnfairMutex::full_path() const noexcept { return state_->spec->directory; }

Lease UnfairMutex::acquire(const CallOptions& call) { return state_->acquirer.acquire(call); }

std::optional<Lease> UnfairMutex::try_acquire(const CallOptions& call) { return state_->acquirer.try_acquire(call); }

std::optional<Lease> UnfairMutex::try_acquire_for(std::chrono::nanoseconds timeout, WaitOptions options) {
  return state_->acquirer.try_acquire_for(timeout, options);
}

std::optional<Lease> UnfairMutex::try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                    WaitOptions options) {
  return state_->acquirer.try_acquire_until(deadline, options);
}

void UnfairMutex::async_acquire(zkclient::Handler<Lease> handler, const CallOptions& call) {
  state_->acquirer.async_acquire(std::move(handler), call);
}

void UnfairMutex::async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  state_->acquirer.async_try_acquire(std::move(handler), call);
}

std::optional<Contender> UnfairMutex::holder(const CallOptions& call) const {
  return form_of_reading(state_->spec).wait(call, reading_work(state_->spec));
}

void UnfairMutex::async_holder(zkclient::Handler<std::optional<Contender>> handler, const CallOptions& call) const {
  form_of_reading(state_->spec).start(call, reading_work(state_->spec), std::move(handler));
}

void UnfairMutex::lock() { lock_within(std::chrono::nanoseconds::max()); }

bool UnfairMutex::try_lock() { return lock_within(std::chrono::nanoseconds::zero()); }

bool UnfairMutex::lock_within(std::chrono::nanoseconds timeout) {
  return state_->locked.lock_within(state_->acquirer, timeout, "unfair mutex lock");
}

void UnfairMutex::unlock() { state_->locked.unlock(); }

const Lease& UnfairMutex::lease() const { return state_->locked.own("unfair mutex lease", state_->path.str()); }

}  // namespace zkrecipes
