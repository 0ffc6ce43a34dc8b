#include <memory>
#include <utility>

#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "recipes/kernel/words.hpp"
#include "recipes/replication/group_views.hpp"

namespace zkrecipes {

using namespace words;

namespace {

constexpr const char* placement_primary = "placement primary";

PartitionReplicas replicas_in(const Snapshot& groups, const std::string& partition) {
  const detail::GroupView group = detail::group_view(groups, partition);
  PartitionReplicas replicas;
  if (!group.state) return replicas;
  replicas.epoch = group.state->epoch;
  for (const InSyncReplica& one : group.state->in_sync) {
    const detail::GroupMemberNode* node = group.ready(one.id);
    if (node == nullptr) continue;
    ReplicaAddress address{one.id, node->member.address};
    if (group.primary && one.id == group.state->primary) {
      replicas.primary = std::move(address);
      replicas.token = *group.primary;
    } else {
      replicas.secondaries.push_back(std::move(address));
    }
  }
  return replicas;
}

PlacementMap::Partitions partitions_in(const Snapshot& groups) {
  PlacementMap::Partitions partitions;
  for (const CachedNodePtr& node : groups.children()) {
    PartitionReplicas replicas = replicas_in(groups, node->name);
    if (replicas.epoch != 0) partitions.emplace(node->name, std::move(replicas));
  }
  return partitions;
}

}  // namespace

struct detail::PlacementMapState {
  PlacementMapState(const zkclient::Client& client, Path where)
      : path(std::move(where)), cache(client, path / "groups", viewing_groups(path / "groups", GroupViewer::router)) {}

  const Path path;
  TreeCache cache;
};

PlacementMap::PlacementMap(zkclient::Client client, Path path)
    : state_(std::make_shared<detail::PlacementMapState>(client, std::move(path))) {}
PlacementMap::~PlacementMap() {
  if (state_ != nullptr) state_->cache.close();
}
PlacementMap::PlacementMap(PlacementMap&&) noexcept = default;
PlacementMap& PlacementMap::operator=(PlacementMap&& other) noexcept {
  if (this == &other) return *this;
  if (state_ != nullptr) state_->cache.close();
  state_ = std::move(other.state_);
  return *this;
}

PartitionReplicas PlacementMap::replicas(std::string_view partition) const {
  return replicas_in(state_->cache.snapshot(), std::string(partition));
}
PlacementMap::Partitions PlacementMap::partitions() const { return partitions_in(state_->cache.snapshot()); }
CacheState PlacementMap::state() const noexcept { return state_->cache.state(); }
std::optional<Error> PlacementMap::problem() const { return state_->cache.problem(); }
const Path& PlacementMap::path() const noexcept { return state_->path; }
void PlacementMap::close() {
  const auto state = state_;  // A listener that is released may own this object.
  state->cache.close();
}

PartitionReplicas PlacementMap::wait_primary(const std::string& partition, FencingToken above,
                                             const CallOptions& call) const {
  (void)(state_->cache.path() / partition);
  const auto there = [partition, above](const Snapshot& groups) {
    const PartitionReplicas replicas = replicas_in(groups, partition);
    return replicas.primary && replicas.token > above;
  };
  return replicas_in(state_->cache.wait_until(there, call), partition);
}
void PlacementMap::async_wait_primary(const std::string& partition, FencingToken above,
                                      zkclient::Handler<PartitionReplicas> handler, const CallOptions& call) const {
  zk::require_handler(handler, placement_primary, path().str());
  (void)(state_->cache.path() / partition);
  auto there = [partition, above](const Snapshot& groups) {
    const PartitionReplicas replicas = replicas_in(groups, partition);
    return replicas.primary && replicas.token > above;
  };
  auto told = [partition, handler = std::move(handler)](const Result<Snapshot>& groups) mutable {
    groups ? handler(replicas_in(*groups, partition)) : handler(groups.error());
  };
  state_->cache.async_wait_until(std::move(there), std::move(told), call);
}

zkclient::Subscription PlacementMap::on_change(Listener listener) const {
  if (!listener) throw Error(Errc::invalid_argument, "on_change", path().str(), "no listener");
  return state_->cache.on_change([listener = std::move(listener), before = std::optional<Partitions>()](
                                     const std::vector<Change>&, const Snapshot& groups) mutable {
    Partitions now = partitions_in(groups);
    if (before == now) return;
    before = now;
    listener(now);
  });
}

}  // namespace zkrecipes
