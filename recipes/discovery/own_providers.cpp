#include "recipes/discovery/own_providers.hpp"

namespace zkrecipes::detail {

namespace {

// The write was done: that its writer is told of it does not wait for ever.
CallOptions limited(const ProviderCore& provider, CallOptions call) {
  if (!call.deadline) call.deadline = provider.default_deadline();
  return call;
}

}  // namespace

void OwnProviders::add(const std::shared_ptr<ProviderCore>& provider) const {
  const std::lock_guard lock(mutex_);
  std::erase_if(providers_, [](const auto& other) { return other.expired(); });
  providers_.push_back(provider);
}

OwnProviders::Providers OwnProviders::of(std::string_view service) const {
  Providers found;
  const std::lock_guard lock(mutex_);
  for (const auto& weak : providers_) {
    auto provider = weak.lock();
    if (provider != nullptr && provider->name() == service) found.push_back(std::move(provider));
  }
  return found;
}

void OwnProviders::catch_up(std::string_view service, CallOptions call) const {
  for (const auto& provider : of(service)) {
    call = limited(*provider, std::move(call));
    try {
      (void)provider->listing(provider->cache().wait_ready(call));
    } catch (const Error&) {
      // Closed, or not in time: it is told by its watches.
    }
  }
}

void OwnProviders::async_catch_up(std::string_view service, CallOptions call, Then then) const {
  catch_up_last(of(service), std::move(call), std::move(then));
}

void OwnProviders::catch_up_last(Providers providers, CallOptions call, Then then) {
  if (providers.empty()) return then();
  const auto provider = providers.back();
  providers.pop_back();
  call = limited(*provider, std::move(call));
  auto next = [provider, providers = std::move(providers), call,
               then = std::move(then)](Result<Snapshot> nodes) mutable {
    if (nodes) (void)provider->listing(*nodes);
    catch_up_last(std::move(providers), std::move(call), std::move(then));
  };
  provider->cache().async_wait_ready(std::move(next), call);
}

}  // namespace zkrecipes::detail
