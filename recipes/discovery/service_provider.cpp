#include <zkrecipes/service_provider.hpp>

#include <utility>

#include "recipes/discovery/provider_core.hpp"

namespace zkrecipes {

using namespace words;
using detail::ProviderCore;

namespace {

std::chrono::steady_clock::time_point this_moment() { return std::chrono::steady_clock::now(); }

}  // namespace

ServiceProvider::ServiceProvider(std::shared_ptr<ProviderCore> core) noexcept : core_(std::move(core)) {}
ServiceProvider::ServiceProvider(ServiceProvider&&) noexcept = default;

ServiceProvider& ServiceProvider::operator=(ServiceProvider&& other) noexcept {
  if (this == &other) return *this;
  if (core_ != nullptr) core_->close();
  core_ = std::move(other.core_);
  return *this;
}

ServiceProvider::~ServiceProvider() {
  if (core_ != nullptr) core_->close();
}

const std::string& ServiceProvider::name() const noexcept { return core_->name(); }
CacheState ServiceProvider::state() const noexcept { return core_->state(); }
void ServiceProvider::close() { core_->close(); }

ServiceListing ServiceProvider::instances() const {
  if (core_->forked()) return {};
  return *core_->listing();
}

std::optional<Error> ServiceProvider::problem() const {
  if (core_->forked()) return std::nullopt;
  if (auto problem = core_->cache().problem()) return problem;
  const auto listing = core_->listing();
  if (listing->skipped.empty()) return std::nullopt;
  return listing->skipped.front();
}

ListedInstancePtr ServiceProvider::pick() const {
  if (core_->forked()) return nullptr;
  return core_->decider().pick(this_moment());
}

ListedInstancePtr ServiceProvider::pick(std::string_view key) const {
  if (core_->forked()) return nullptr;
  return core_->decider().pick(key, this_moment());
}

void ServiceProvider::note_error(const ListedInstancePtr& instance) const {
  if (instance == nullptr || core_->forked()) return;
  core_->decider().note_error(*instance, this_moment());
}

void ServiceProvider::note_success(const ListedInstancePtr& instance) const {
  if (instance == nullptr || core_->forked()) return;
  core_->decider().note_success(*instance);
}

ServiceListing ServiceProvider::wait_ready(const CallOptions& call) const {
  const Snapshot nodes = core_->cache().wait_ready(call);
  return *core_->listing(nodes);
}

void ServiceProvider::async_wait_ready(zkclient::Handler<ServiceListing> handler, const CallOptions& call) const {
  zkclient::detail::require_handler(handler, "wait for service", core_->cache().path().str());
  core_->cache().async_wait_ready(
      [core = core_, handler = std::move(handler)](zkclient::Result<Snapshot> nodes) mutable {
        nodes ? handler(*core->listing(*nodes)) : handler(nodes.error());
      },
      call);
}

zkclient::Subscription ServiceProvider::on_change(Listener listener) const {
  if (!listener) throw Error(Errc::invalid_argument, "on_change", core_->cache().path().str(), "no listener");
  return core_->on_change(std::move(listener));
}

zkclient::Subscription ServiceProvider::on_state(StateListener listener) const {
  if (!listener) throw Error(Errc::invalid_argument, "on_state", core_->cache().path().str(), "no listener");
  return core_->on_state(std::move(listener));
}

}  // namespace zkrecipes
