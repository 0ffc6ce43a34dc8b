#include <utility>

#include <zkrecipes/discovery.hpp>

#include "recipes/discovery/directory_spec.hpp"
#include "recipes/discovery/registered_node.hpp"
#include "recipes/discovery/standing_node.hpp"

namespace zkrecipes {

using namespace words;
using detail::RegisteredNodePtr;
using detail::registering_instance;
using detail::unregistering_instance;

namespace {

constexpr const char* updating_instance = "update instance";

auto present_work(RegisteredNodePtr node) {
  return [node = std::move(node)](Call call) { return node->wait_present(std::move(call)); };
}
auto update_work(RegisteredNodePtr node, std::string data) {
  return [node = std::move(node), data = std::move(data)](Call call) { return node->write(data, std::move(call)); };
}
auto unregister_work(RegisteredNodePtr node) {
  return [node = std::move(node)](Call call) { return node->take_away(std::move(call)); };
}

/// The handler of a call that changes what is listed: the directory's providers know of it first.
zkclient::Handler<void> behind_providers(std::weak_ptr<const detail::DirectorySpec> weak, std::string service,
                                         CallOptions call, zkclient::Handler<void> handler) {
  return [weak = std::move(weak), service = std::move(service), call = std::move(call),
          handler = std::move(handler)](Result<void> done) mutable {
    const auto spec = done ? weak.lock() : nullptr;
    if (spec == nullptr) return handler(std::move(done));
    spec->providers.async_catch_up(service, call,
                                   [handler = std::move(handler)]() mutable { handler(Result<void>()); });
  };
}

}  // namespace

Registration::Registration(std::shared_ptr<const detail::DirectorySpec> spec, ServiceInstance instance, Path path,
                           RegisteredNodePtr node) noexcept
    : spec_(std::move(spec)), instance_(std::move(instance)), path_(std::move(path)), node_(std::move(node)) {}

Registration::Registration(Registration&&) noexcept = default;

Registration& Registration::operator=(Registration&& other) noexcept {
  if (this == &other) return *this;
  if (node_ != nullptr) node_->end();
  spec_ = std::move(other.spec_);
  instance_ = std::move(other.instance_);
  path_ = std::move(other.path_);
  node_ = std::move(other.node_);
  return *this;
}

Registration::~Registration() {
  if (node_ != nullptr) node_->end();
}

const Path& Registration::node() const noexcept { return path_; }
const ServiceInstance& Registration::instance() const noexcept { return instance_; }
PresenceState Registration::state() const noexcept { return node_->state(); }
std::optional<Error> Registration::problem() const { return node_->problem(); }
FencingToken Registration::token() const noexcept { return node_->token(); }

zkclient::Subscription Registration::on_state(StateListener listener) const {
  return node_->on_state(std::move(listener));
}

void Registration::wait_present(const CallOptions& call) const {
  node_->form(registering_instance).endless().wait(call, present_work(node_));
  spec_->providers.catch_up(instance_.name, call);
}
void Registration::async_wait_present(zkclient::Handler<void> handler, const CallOptions& call) const {
  zk::require_handler(handler, registering_instance, path_.str());
  auto told = behind_providers(spec_, instance_.name, call, std::move(handler));
  node_->form(registering_instance).endless().start(call, present_work(node_), std::move(told));
}

std::string Registration::updated(ServiceInstance& instance) const {
  if (instance.id.empty()) instance.id = instance_.id;
  if (instance.registered == ServiceInstance::Milliseconds()) instance.registered = instance_.registered;
  const bool same = instance.name == instance_.name && instance.id == instance_.id && instance.type == instance_.type;
  if (!same) {
    throw Error(Errc::invalid_argument, updating_instance, path_.str(),
                "name, id and type are those that were registered");
  }
  return detail::written_instance(instance, path_, updating_instance);
}

void Registration::update(ServiceInstance instance, const CallOptions& call) {
  std::string data = updated(instance);
  const std::size_t size = data.size();
  node_->form(updating_instance, size).wait(call, update_work(node_, std::move(data)));
  spec_->providers.catch_up(instance_.name, call);
}
void Registration::async_update(ServiceInstance instance, zkclient::Handler<void> handler, const CallOptions& call) {
  std::string data = updated(instance);
  const std::size_t size = data.size();
  zk::require_handler(handler, updating_instance, path_.str());
  auto told = behind_providers(spec_, instance_.name, call, std::move(handler));
  node_->form(updating_instance, size).start(call, update_work(node_, std::move(data)), std::move(told));
}

void Registration::unregister(const CallOptions& call) {
  node_->form(unregistering_instance).wait(call, unregister_work(node_));
  spec_->providers.catch_up(instance_.name, call);
}
void Registration::async_unregister(zkclient::Handler<void> handler, const CallOptions& call) {
  zk::require_handler(handler, unregistering_instance, path_.str());
  auto told = behind_providers(spec_, instance_.name, call, std::move(handler));
  node_->form(unregistering_instance).start(call, unregister_work(node_), std::move(told));
}

}  // namespace zkrecipes
