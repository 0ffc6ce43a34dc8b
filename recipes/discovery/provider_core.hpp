#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/service_provider.hpp>

#include "recipes/discovery/provider_decider.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// What the node of an instance says, or why it is skipped. `path`: the node's, for the error.
struct ReadNode {
  ListedInstancePtr instance = {};
  std::optional<zkclient::Error> defect = {};
};
ReadNode read_node(const std::string& path, const std::string& name, std::string_view data, const zkclient::Stat& stat);

/// A provider's view of its service, and its choice.
class ProviderCore : public std::enable_shared_from_this<ProviderCore> {
 public:
  static std::shared_ptr<ProviderCore> start(const zkclient::Client& client, const zkclient::Path& path,
                                             ProviderOptions options);
  ProviderCore(const zkclient::Client& client, const zkclient::Path& path, ProviderOptions options);

  const std::string& name() const noexcept { return name_; }
  auto default_deadline() const { return client_->default_deadline(); }
  const ChildrenCache& cache() const noexcept { return cache_; }
  void close() { cache_.close(); }
  bool forked() const noexcept { return process_.forked(); }
  ProviderDecider& decider() noexcept { return decider_; }

  /// Of what listing() shows: it follows the cache by a call of a listener.
  CacheState state() const;
  /// What is known, or more: at least `nodes`.
  std::shared_ptr<const ServiceListing> listing(const Snapshot& nodes);
  std::shared_ptr<const ServiceListing> listing() const;
  zkclient::Subscription on_change(ServiceProvider::Listener listener);
  zkclient::Subscription on_state(ServiceProvider::StateListener listener);

 private:
  /// A node, as it was read last.
  struct Known {
    CachedNodePtr node;
    ReadNode read;
  };

  Known read(const CachedNodePtr& node) const;

  const std::string name_;
  const std::shared_ptr<zk::ClientCore> client_;
  const zk::ProcessGeneration process_;
  ProviderDecider decider_;
  SharedCell<const ServiceListing> listing_;
  std::mutex mutex_;                        // Of those that bring news; held while nodes are read.
  std::atomic<std::uint64_t> revision_{0};  // Of the snapshot that is listed. Written under mutex_.
  std::vector<Known> known_;                // By name. Guarded by mutex_.
  ChildrenCache cache_;
  zkclient::Subscription subscription_;
};

}  // namespace zkrecipes::detail
