#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/cache.hpp>
#include <zkrecipes/lease.hpp>

namespace zkrecipes {

namespace detail {
struct PlacementMapState;
}

/// A replica, for those who send requests to it.
struct ReplicaAddress {
  std::string id;            ///< The host's.
  std::string address = {};  ///< Replica::address

  friend bool operator==(const ReplicaAddress&, const ReplicaAddress&) = default;
};

/// The replicas of a partition that have every acknowledged write, and are there.
struct PartitionReplicas {
  std::int64_t epoch = 0;                        ///< As ReplicaState::epoch.
  std::optional<ReplicaAddress> primary = {};    ///< Nothing: there is none at the moment.
  FencingToken token = {};                       ///< Of the primary's lease.
  std::vector<ReplicaAddress> secondaries = {};  ///< Ordered by id.

  friend bool operator==(const PartitionReplicas&, const PartitionReplicas&) = default;
};

/// The primaries and secondaries of all partitions. Kept up to date by watches. What it says is what a server said
/// last: a replica may have lost its role meanwhile, and answers so. It creates nothing, and takes the right to read.
///
/// Cost: as a TreeCache with 4 nodes for each partition and one for each of its members, which change with
/// report_version(). Calls that do not block ask no server.
///
/// A connection that breaks, a lost session, a node that cannot be read: as PartitionMap.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to. In a forked child it is empty, and calls end with Errc::forked.
class ZKRECIPES_API PlacementMap {
 public:
  using Partitions = std::map<std::string, PartitionReplicas, std::less<>>;  ///< By name.
  /// Gets all partitions.
  using Listener = zkclient::UniqueFunction<void(const Partitions& now)>;

  /// Begins to read; returns at once. `path`: the Placer's. Errors: closed.
  PlacementMap(zkclient::Client client, zkclient::Path path);
  /// As close().
  ~PlacementMap();
  PlacementMap(PlacementMap&&) noexcept;
  PlacementMap& operator=(PlacementMap&&) noexcept;

  /// Without a primary and secondaries if nothing is known. Does not block.
  PartitionReplicas replicas(std::string_view partition) const;
  /// Those of which there is something to be known. Does not block.
  Partitions partitions() const;
  /// As Cache::state() and Cache::problem().
  CacheState state() const noexcept;
  std::optional<zkclient::Error> problem() const;

  /// Waits until the partition has a primary, with a higher token than `above`: that of one who has refused a request,
  /// say. For ever unless `call` has a deadline or a stop token. Errors: as Cache::wait_until(); invalid_path (no node
  /// can have this name).
  PartitionReplicas wait_primary(const std::string& partition, FencingToken above = {},
                                 const zkclient::CallOptions& call = {}) const;
  void async_wait_primary(const std::string& partition, FencingToken above,
                          zkclient::Handler<PartitionReplicas> handler, const zkclient::CallOptions& call = {}) const;

  /// Calls `listener` as soon as something is known, then whenever anything has changed, on the callback executor, one
  /// call at a time. Errors: invalid_argument (no listener).
  zkclient::Subscription on_change(Listener listener) const;
  /// As Cache::close(). What it knows stays.
  void close();

  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<detail::PlacementMapState> state_;
};

}  // namespace zkrecipes
