#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>

#include "recipes/discovery/provider_core.hpp"

namespace zkrecipes::detail {

/// The providers of a directory, which are to know of what it registers, updates and unregisters as soon as that is done:
/// pick() does not wait, so the other call does. Thread safety: all members.
class OwnProviders {
 public:
  using Then = zkclient::UniqueFunction<void()>;

  void add(const std::shared_ptr<ProviderCore>& provider) const;
  /// Returns when the providers of `service` know what this client has written before, or when `call` ends.
  void catch_up(std::string_view service, zkclient::CallOptions call) const;
  /// The same; `then` is called in any case, on the callback executor, or in here if there is nothing to be waited for.
  void async_catch_up(std::string_view service, zkclient::CallOptions call, Then then) const;

 private:
  using Providers = std::vector<std::shared_ptr<ProviderCore>>;

  Providers of(std::string_view service) const;
  static void catch_up_last(Providers providers, zkclient::CallOptions call, Then then);

  mutable std::mutex mutex_;
  mutable std::vector<std::weak_ptr<ProviderCore>> providers_;  // Guarded by mutex_.
};

}  // namespace zkrecipes::detail
