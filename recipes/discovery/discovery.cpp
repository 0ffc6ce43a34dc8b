#include <zkrecipes/discovery.hpp>

#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "recipes/discovery/instance_format.hpp"
#include "recipes/discovery/provider_core.hpp"
#include "recipes/discovery/standing_node.hpp"
#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/kept_node.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::KeptNode;
using detail::StandingNode;
using zk::Awaitable;
using zk::Call;
using zk::CallForm;
using zk::OpType;
using zk::PendingReply;
using zk::Reply;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;

/// What a directory is. Shared, because every call needs it until its end.
struct detail::DirectorySpec {
  zkclient::Client client;  // Stays open for as long as it is used here.
  Path base;
  DirectoryOptions options;
};

namespace {

constexpr const char* registering_instance = "register instance";
constexpr const char* updating_instance = "update instance";
constexpr const char* unregistering_instance = "unregister instance";
constexpr const char* listing_services = "list services";
constexpr const char* listing_instances = "list instances";
constexpr std::size_t reads_at_once = 128;

using DirectorySpecPtr = std::shared_ptr<const detail::DirectorySpec>;

DirectorySpecPtr make_directory(zkclient::Client client, Path base, DirectoryOptions options) {
  detail::require_acl("discovery", base, options.acl);
  if (base.is_root()) throw Error(Errc::invalid_argument, "discovery", base.str(), "the root is no directory");
  return std::make_shared<const detail::DirectorySpec>(
      detail::DirectorySpec{std::move(client), std::move(base), std::move(options)});
}

Path component_of(const Path& parent, std::string_view name, const char* operation) {
  if (name.empty() || name.find('/') != std::string_view::npos) {
    throw Error(Errc::invalid_path, operation, parent.str(), "a name has one character at least, and no slash");
  }
  return parent / name;
}

bool is_dynamic(ServiceType type) { return type == ServiceType::dynamic || type == ServiceType::dynamic_sequential; }

// Curator lets the server append the number, and gets another node at each reconnection. A kept node has one name for as
// long as it is registered, so the number is made up once, and no reply that tells it can be lost. The server counts
// from 0 and this is above 10^9, so Curator's own numbers do not meet it; nor do two of ours, but once in 10^9, and then
// the second waits as any other for a name that is taken.
std::string sequential_name(const std::string& id) {
  const std::string uuid = zk::make_uuid();
  const std::uint64_t bits = std::stoull(uuid.substr(0, 8), nullptr, 16);
  constexpr std::uint64_t least = 1'000'000'000;
  constexpr std::uint64_t most = 2'147'483'647;
  return fmt::format("{}{:010}", id, least + bits % (most - least + 1));
}

std::string written_instance(const ServiceInstance& instance, const Path& node, const char* operation) {
  detail::WrittenInstance text = detail::write_instance(instance);
  if (!text.bytes) {
    throw Error(text.too_large ? Errc::too_large : Errc::invalid_argument, operation, node.str(), text.defect);
  }
  return std::move(*text.bytes);
}

// --- Registering -----------------------------------------------------------------------------------------------------

/// A registration that is about to begin.
struct PlannedRegistration {
  ServiceInstance instance;
  Path node;
  std::string data;
};

PlannedRegistration plan_registration(const detail::DirectorySpec& spec, ServiceInstance instance) {
  const Path service = component_of(spec.base, instance.name, registering_instance);
  if (instance.id.empty()) instance.id = zk::make_uuid();
  if (instance.registered == ServiceInstance::Milliseconds()) {
    instance.registered = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  }
  Path node = component_of(service, instance.id, registering_instance);
  if (instance.type == ServiceType::dynamic_sequential) node = service / sequential_name(instance.id);
  std::string data = written_instance(instance, node, registering_instance);
  return {std::move(instance), std::move(node), std::move(data)};
}

std::shared_ptr<KeptNode> start_kept(const detail::DirectorySpec& spec, const PlannedRegistration& wanted) {
  const auto& core = spec.client.impl();
  detail::KeptNodeSpec kept;
  kept.client = core;
  kept.path = wanted.node.str();
  kept.node = core->full(wanted.node);
  // Beside the directory: below it, it would be a service, or an instance.
  kept.witnesses = core->full(Path(spec.base.str() + "-presence"));
  kept.acl = spec.options.acl;
  kept.conflict = spec.options.conflict;
  kept.operation = registering_instance;
  return KeptNode::start(std::move(kept), wanted.data);
}

std::shared_ptr<StandingNode> make_standing(const detail::DirectorySpec& spec, const PlannedRegistration& wanted) {
  const auto& core = spec.client.impl();
  detail::StandingNodeSpec standing;
  standing.client = core;
  standing.path = wanted.node.str();
  standing.node = core->full(wanted.node);
  standing.acl = spec.options.acl;
  standing.conflict = spec.options.conflict;
  return StandingNode::make(std::move(standing));
}

Registration begin_registration(const DirectorySpecPtr& spec, PlannedRegistration wanted) {
  const bool dynamic = is_dynamic(wanted.instance.type);
  auto kept = dynamic ? start_kept(*spec, wanted) : nullptr;
  auto standing = dynamic ? nullptr : make_standing(*spec, wanted);
  return {spec, std::move(wanted.instance), std::move(wanted.node), std::move(kept), std::move(standing)};
}

auto registered_work(std::shared_ptr<KeptNode> node) {
  return [node = std::move(node)](Call call) { return KeptNode::wait_present(node, std::move(call)); };
}
auto registered_work(std::shared_ptr<StandingNode> node) {
  return [node = std::move(node)](Call call) { return StandingNode::wait_present(node, std::move(call)); };
}
auto write_work(std::shared_ptr<KeptNode> node, std::string data) {
  return [node = std::move(node), data = std::move(data)](Call call) {
    return KeptNode::update(node, data, std::move(call));
  };
}
auto write_work(std::shared_ptr<StandingNode> node, std::string data) {
  return [node = std::move(node), data = std::move(data)](Call call) {
    return StandingNode::put(node, data, std::move(call));
  };
}
auto unregister_work(std::shared_ptr<KeptNode> node) {
  return [node = std::move(node)](Call call) { return KeptNode::leave(node, std::move(call)); };
}
auto unregister_work(std::shared_ptr<StandingNode> node) {
  return [node = std::move(node)](Call call) { return StandingNode::remove(node, std::move(call)); };
}

template <typename Node>
CallForm registration_form(const std::shared_ptr<Node>& node, const char* operation, std::size_t payload = 0) {
  return CallForm(node->spec().client, operation, node->spec().path).payload(payload);
}

// --- Looking ---------------------------------------------------------------------------------------------------------

Awaitable<Result<std::vector<std::string>>> services_on_loop(DirectorySpecPtr spec, Call call) {
  const auto& core = spec->client.impl();
  Reply listed = co_await core->perform(zk::make_request(OpType::children, core->full(spec->base)), call);
  if (listed.failed(Errc::no_node)) co_return std::vector<std::string>();
  if (!listed.ok()) co_return zk::to_error(listed, listing_services, spec->base.str());
  std::vector<std::string> names = std::move(listed.names);
  std::sort(names.begin(), names.end());
  co_return names;
}

// A node that may not be read is skipped; one that has vanished never was there.
void take_instance(ServiceListing& listing, const Path& node, const Reply& read) {
  if (read.failed(Errc::no_node)) return;
  if (!read.ok()) {
    listing.skipped.push_back(zk::to_error(read, listing_instances, node.str()));
    return;
  }
  detail::ReadNode found = detail::read_node(node.str(), std::string(node.name()), read.data, read.stat);
  if (found.instance != nullptr) listing.instances.push_back(std::move(found.instance));
  if (found.defect) listing.skipped.push_back(std::move(*found.defect));
}

Awaitable<Result<ServiceListing>> instances_on_loop(DirectorySpecPtr spec, Path service, Call call) {
  const auto& core = spec->client.impl();
  Reply listed = co_await core->perform(zk::make_request(OpType::children, core->full(service)), call);
  if (listed.failed(Errc::no_node)) co_return ServiceListing();
  if (!listed.ok()) co_return zk::to_error(listed, listing_instances, service.str());
  const std::vector<std::string>& names = listed.names;
  std::sort(listed.names.begin(), listed.names.end());
  ServiceListing listing;
  std::deque<PendingReply> reads;
  std::size_t sent = 0;
  for (const std::string& name : names) {
    for (; sent < names.size() && reads.size() < reads_at_once; ++sent)
      reads.push_back(core->launch(zk::make_request(OpType::get, core->full(service / names[sent])), call));
    const Reply read = co_await reads.front().get();
    reads.pop_front();
    // An answer of the server is about this node; anything else is about all.
    const bool answered = read.ok() || read.failed(Errc::no_node) || read.failed(Errc::no_auth);
    if (!answered) co_return zk::to_error(read, listing_instances, service.str());
    take_instance(listing, service / name, read);
  }
  co_return listing;
}

auto services_work(DirectorySpecPtr spec) {
  return [spec = std::move(spec)](Call call) { return services_on_loop(spec, std::move(call)); };
}
auto instances_work(DirectorySpecPtr spec, Path service) {
  return [spec = std::move(spec), service = std::move(service)](Call call) {
    return instances_on_loop(spec, service, std::move(call));
  };
}

void check_provider(const ProviderOptions& options, const Path& service) {
  const auto refuse = [&](const char* why) {
    throw Error(Errc::invalid_argument, "service provider", service.str(), why);
  };
  const HealthOptions& health = options.health;
  if (health.errors < 1) refuse("HealthOptions::errors is below 1");
  for (const auto& time : {health.window, health.pause, health.max_pause, options.last_resort}) {
    if (time.count() < 0) refuse("a time is negative");
  }
}

}  // namespace

// --- Registration ----------------------------------------------------------------------------------------------------

Registration::Registration(std::shared_ptr<const detail::DirectorySpec> spec, ServiceInstance instance, Path node,
                           std::shared_ptr<KeptNode> kept, std::shared_ptr<StandingNode> standing) noexcept
    : spec_(std::move(spec)),
      instance_(std::move(instance)),
      node_(std::move(node)),
      kept_(std::move(kept)),
      standing_(std::move(standing)) {}

Registration::Registration(Registration&&) noexcept = default;

Registration& Registration::operator=(Registration&& other) noexcept {
  if (this == &other) return *this;
  end();
  spec_ = std::move(other.spec_);
  instance_ = std::move(other.instance_);
  node_ = std::move(other.node_);
  kept_ = std::move(other.kept_);
  standing_ = std::move(other.standing_);
  return *this;
}

Registration::~Registration() { end(); }

void Registration::end() noexcept {
  if (kept_ != nullptr) {
    kept_->end_listeners();
    kept_->drop();
  }
  if (standing_ != nullptr) {
    standing_->end_listeners();
    const bool stays = instance_.type == ServiceType::permanent && standing_->state() == PresenceState::present;
    if (!stays) StandingNode::drop(standing_);
  }
  kept_ = nullptr;
  standing_ = nullptr;
}

const Path& Registration::node() const noexcept { return node_; }
const ServiceInstance& Registration::instance() const noexcept { return instance_; }
PresenceState Registration::state() const noexcept { return kept_ != nullptr ? kept_->state() : standing_->state(); }
std::optional<Error> Registration::problem() const {
  return kept_ != nullptr ? kept_->problem() : standing_->problem();
}
FencingToken Registration::token() const noexcept { return kept_ != nullptr ? kept_->token() : standing_->token(); }

zkclient::Subscription Registration::on_state(StateListener listener) const {
  return kept_ != nullptr ? kept_->on_state(std::move(listener)) : standing_->on_state(std::move(listener));
}

void Registration::wait_present(const CallOptions& call) const {
  if (kept_ != nullptr) {
    return registration_form(kept_, registering_instance).endless().wait(call, registered_work(kept_));
  }
  registration_form(standing_, registering_instance).endless().wait(call, registered_work(standing_));
}
void Registration::async_wait_present(zkclient::Handler<void> handler, const CallOptions& call) const {
  if (kept_ != nullptr) {
    registration_form(kept_, registering_instance).endless().start(call, registered_work(kept_), std::move(handler));
  } else {
    registration_form(standing_, registering_instance)
        .endless()
        .start(call, registered_work(standing_), std::move(handler));
  }
}

std::string Registration::updated(ServiceInstance& instance) const {
  if (instance.id.empty()) instance.id = instance_.id;
  if (instance.registered == ServiceInstance::Milliseconds()) instance.registered = instance_.registered;
  const bool same = instance.name == instance_.name && instance.id == instance_.id && instance.type == instance_.type;
  if (!same) {
    throw Error(Errc::invalid_argument, updating_instance, node_.str(),
                "name, id and type are those that were registered");
  }
  return written_instance(instance, node_, updating_instance);
}

void Registration::update(ServiceInstance instance, const CallOptions& call) {
  std::string data = updated(instance);
  const std::size_t size = data.size();
  if (kept_ != nullptr)
    return registration_form(kept_, updating_instance, size).wait(call, write_work(kept_, std::move(data)));
  registration_form(standing_, updating_instance, size).wait(call, write_work(standing_, std::move(data)));
}
void Registration::async_update(ServiceInstance instance, zkclient::Handler<void> handler, const CallOptions& call) {
  std::string data = updated(instance);
  const std::size_t size = data.size();
  if (kept_ != nullptr) {
    registration_form(kept_, updating_instance, size)
        .start(call, write_work(kept_, std::move(data)), std::move(handler));
  } else {
    registration_form(standing_, updating_instance, size)
        .start(call, write_work(standing_, std::move(data)), std::move(handler));
  }
}

void Registration::unregister(const CallOptions& call) {
  if (kept_ != nullptr) return registration_form(kept_, unregistering_instance).wait(call, unregister_work(kept_));
  registration_form(standing_, unregistering_instance).wait(call, unregister_work(standing_));
}
void Registration::async_unregister(zkclient::Handler<void> handler, const CallOptions& call) {
  if (kept_ != nullptr) {
    registration_form(kept_, unregistering_instance).start(call, unregister_work(kept_), std::move(handler));
  } else {
    registration_form(standing_, unregistering_instance).start(call, unregister_work(standing_), std::move(handler));
  }
}

// --- The directory ---------------------------------------------------------------------------------------------------

ServiceDirectory::ServiceDirectory(zkclient::Client client, Path base, DirectoryOptions options)
    : spec_(make_directory(std::move(client), std::move(base), std::move(options))) {}
ServiceDirectory::~ServiceDirectory() = default;
ServiceDirectory::ServiceDirectory(ServiceDirectory&&) noexcept = default;
ServiceDirectory& ServiceDirectory::operator=(ServiceDirectory&&) noexcept = default;

const Path& ServiceDirectory::path() const noexcept { return spec_->base; }

Registration ServiceDirectory::register_instance(ServiceInstance instance, const CallOptions& call) {
  PlannedRegistration wanted = plan_registration(*spec_, std::move(instance));
  std::string data = wanted.data;
  const std::size_t size = data.size();
  Registration registration = begin_registration(spec_, std::move(wanted));
  if (registration.kept_ != nullptr) {
    registration_form(registration.kept_, registering_instance, size)
        .endless()
        .wait(call, registered_work(registration.kept_));
  } else {
    registration_form(registration.standing_, registering_instance, size)
        .wait(call, write_work(registration.standing_, std::move(data)));
  }
  return registration;
}

void ServiceDirectory::async_register_instance(ServiceInstance instance, zkclient::Handler<Registration> handler,
                                               const CallOptions& call) {
  zk::require_handler(handler, registering_instance, spec_->base.str());
  PlannedRegistration wanted = plan_registration(*spec_, std::move(instance));
  std::string data = wanted.data;
  const std::size_t size = data.size();
  auto registration = std::make_shared<Registration>(begin_registration(spec_, std::move(wanted)));
  const auto kept = registration->kept_;
  const auto standing = registration->standing_;
  auto told = [registration = std::move(registration), handler = std::move(handler)](Result<void> present) mutable {
    present ? handler(std::move(*registration)) : handler(present.error());
  };
  if (kept != nullptr) {
    registration_form(kept, registering_instance, size).endless().start(call, registered_work(kept), std::move(told));
  } else {
    registration_form(standing, registering_instance, size)
        .start(call, write_work(standing, std::move(data)), std::move(told));
  }
}

Registration ServiceDirectory::begin_register_instance(ServiceInstance instance) {
  PlannedRegistration wanted = plan_registration(*spec_, std::move(instance));
  std::string data = wanted.data;
  Registration registration = begin_registration(spec_, std::move(wanted));
  if (registration.standing_ != nullptr) StandingNode::begin(registration.standing_, std::move(data));
  return registration;
}

std::vector<std::string> ServiceDirectory::services(const CallOptions& call) const {
  return CallForm(spec_->client.impl(), listing_services, spec_->base.str()).wait(call, services_work(spec_));
}
void ServiceDirectory::async_services(zkclient::Handler<std::vector<std::string>> handler,
                                      const CallOptions& call) const {
  CallForm(spec_->client.impl(), listing_services, spec_->base.str())
      .start(call, services_work(spec_), std::move(handler));
}

ServiceListing ServiceDirectory::instances(std::string_view service, const CallOptions& call) const {
  const Path path = component_of(spec_->base, service, listing_instances);
  return CallForm(spec_->client.impl(), listing_instances, path.str()).wait(call, instances_work(spec_, path));
}
void ServiceDirectory::async_instances(std::string_view service, zkclient::Handler<ServiceListing> handler,
                                       const CallOptions& call) const {
  const Path path = component_of(spec_->base, service, listing_instances);
  CallForm(spec_->client.impl(), listing_instances, path.str())
      .start(call, instances_work(spec_, path), std::move(handler));
}

ServiceProvider ServiceDirectory::provider(std::string_view service, ProviderOptions options) const {
  const Path path = component_of(spec_->base, service, "service provider");
  check_provider(options, path);
  return ServiceProvider(detail::ProviderCore::start(spec_->client, path, std::move(options)));
}

}  // namespace zkrecipes
