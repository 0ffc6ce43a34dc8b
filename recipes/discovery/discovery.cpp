#include <zkrecipes/discovery.hpp>

#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "recipes/discovery/directory_spec.hpp"
#include "recipes/discovery/instance_format.hpp"
#include "recipes/discovery/provider_core.hpp"
#include "recipes/discovery/registered_node.hpp"
#include "recipes/discovery/standing_node.hpp"
#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::registering_instance;

namespace {

constexpr const char* listing_services = "list services";
constexpr const char* listing_instances = "list instances";
constexpr std::size_t reads_at_once = 128;

using DirectorySpecPtr = std::shared_ptr<const detail::DirectorySpec>;

DirectorySpecPtr make_directory(zkclient::Client client, Path base, DirectoryOptions options) {
  detail::require_acl("discovery", base, options.acl);
  if (base.is_root()) throw Error(Errc::invalid_argument, "discovery", base.str(), "the root is no directory");
  return std::make_shared<const detail::DirectorySpec>(std::move(client), std::move(base), std::move(options));
}

Path component_of(const Path& parent, std::string_view name, const char* operation) {
  if (name.empty() || name.find('/') != std::string_view::npos) {
    throw Error(Errc::invalid_path, operation, parent.str(), "a name has one character at least, and no slash");
  }
  return parent / name;
}

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
  std::string data = detail::written_instance(instance, node, registering_instance);
  return {std::move(instance), std::move(node), std::move(data)};
}

detail::RegisteredNodePtr make_node(const detail::DirectorySpec& spec, PlannedRegistration& wanted) {
  const auto& core = spec.client.impl();
  detail::RegisteredNodeSpec node;
  node.client = core;
  node.type = wanted.instance.type;
  node.path = wanted.node.str();
  node.node = core->full(wanted.node);
  // Beside the directory: below it, it would be a service, or an instance.
  node.witnesses = core->full(Path(spec.base.str() + "-presence"));
  node.acl = spec.options.acl;
  node.conflict = spec.options.conflict;
  node.data = std::move(wanted.data);
  return detail::make_registered_node(std::move(node));
}

Registration begin_registration(const DirectorySpecPtr& spec, PlannedRegistration wanted) {
  auto node = make_node(*spec, wanted);
  return {spec, std::move(wanted.instance), std::move(wanted.node), std::move(node)};
}

auto enter_work(detail::RegisteredNodePtr node) {
  return [node = std::move(node)](Call call) { return node->enter(std::move(call)); };
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

// --- The directory ---------------------------------------------------------------------------------------------------

ServiceDirectory::ServiceDirectory(zkclient::Client client, Path base, DirectoryOptions options)
    : spec_(make_directory(std::move(client), std::move(base), std::move(options))) {}
ServiceDirectory::~ServiceDirectory() = default;
ServiceDirectory::ServiceDirectory(ServiceDirectory&&) noexcept = default;
ServiceDirectory& ServiceDirectory::operator=(ServiceDirectory&&) noexcept = default;

const Path& ServiceDirectory::path() const noexcept { return spec_->base; }

Registration ServiceDirectory::register_instance(ServiceInstance instance, const CallOptions& call) {
  PlannedRegistration wanted = plan_registration(*spec_, std::move(instance));
  const std::size_t size = wanted.data.size();
  Registration registration = begin_registration(spec_, std::move(wanted));
  registration.node_->entering_form(size).wait(call, enter_work(registration.node_));
  spec_->providers.catch_up(registration.instance_.name, call);
  return registration;
}

void ServiceDirectory::async_register_instance(ServiceInstance instance, zkclient::Handler<Registration> handler,
                                               const CallOptions& call) {
  zk::require_handler(handler, registering_instance, spec_->base.str());
  PlannedRegistration wanted = plan_registration(*spec_, std::move(instance));
  const std::size_t size = wanted.data.size();
  auto registration = std::make_shared<Registration>(begin_registration(spec_, std::move(wanted)));
  const auto node = registration->node_;
  auto told = [spec = spec_, call, registration = std::move(registration),
               handler = std::move(handler)](Result<void> present) mutable {
    if (!present) return handler(present.error());
    const std::string service = registration->instance_.name;
    auto then = [registration = std::move(registration), handler = std::move(handler)]() mutable {
      handler(std::move(*registration));
    };
    spec->providers.async_catch_up(service, call, std::move(then));
  };
  node->entering_form(size).start(call, enter_work(node), std::move(told));
}

Registration ServiceDirectory::begin_register_instance(ServiceInstance instance) {
  Registration registration = begin_registration(spec_, plan_registration(*spec_, std::move(instance)));
  registration.node_->begin();
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
  auto core = detail::ProviderCore::start(spec_->client, path, std::move(options));
  spec_->providers.add(core);
  return ServiceProvider(std::move(core));
}

}  // namespace zkrecipes
