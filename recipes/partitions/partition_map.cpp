#include <zkrecipes/partition_map.hpp>

#include <utility>

#include <fmt/format.h>

#include <zkrecipes/tree_cache.hpp>

#include "recipes/kernel/ended_wait.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/kernel/slots.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/partitions/partition_format.hpp"

namespace zkrecipes {

using namespace words;

namespace {

constexpr const char* waiting_for_owners = "partition owners";
constexpr const char* waiting_for_owner = "partition owner";

// The nodes that are one holding's alone tell routers nothing.
TreeCacheOptions owners_only() {
  TreeCacheOptions options;
  options.max_depth = 2;
  options.include = [](const std::string& path) { return !detail::is_holding(zk::name_of(path), detail::slot_owner); };
  return options;
}

std::string owner_path(std::string_view partition) {
  return zk::child_path(std::string(partition), detail::slot_owner);
}

// What is not ephemeral is no owner's, and neither is what cannot be read.
std::optional<PartitionOwner> read_owner(const CachedNode* node) {
  if (node == nullptr || !node->has_data || !detail::is_ephemeral(node->stat)) return std::nullopt;
  PartitionOwner owner = detail::parse_owner(node->data);
  owner.token = FencingToken{node->stat.czxid};
  owner.session_id = node->stat.ephemeral_owner;
  return owner;
}

PartitionMap::Owners owners_in(const Snapshot& nodes) {
  PartitionMap::Owners owners;
  for (const CachedNodePtr& slot : nodes.children()) {
    if (auto owner = read_owner(nodes.find(owner_path(slot->name)))) owners.emplace(slot->name, std::move(*owner));
  }
  return owners;
}

std::optional<PartitionOwner> owner_above(const Snapshot& nodes, const std::string& node, FencingToken above) {
  auto owner = read_owner(nodes.find(node));
  if (owner && !(owner->token > above)) owner.reset();
  return owner;
}

std::vector<OwnerChange> owner_changes(const std::vector<Change>& changes) {
  std::vector<OwnerChange> owners;
  for (const Change& change : changes) {
    const Path path(change.path);
    if (path.name() != detail::slot_owner) continue;
    OwnerChange owner{std::string(path.parent().name()), read_owner(change.before.get()),
                      read_owner(change.after.get())};
    if (owner.before != owner.after) owners.push_back(std::move(owner));
  }
  return owners;
}

}  // namespace

struct detail::PartitionMapState {
  PartitionMapState(zkclient::Client owner, Path where)
      : client(std::move(owner)), path(std::move(where)), cache(client, path / "owners", owners_only()) {}

  const zkclient::Client client;
  const Path path;
  TreeCache cache;
};

namespace {

/// The words of a wait for an owner that has ended.
auto owner_story(std::shared_ptr<const detail::PartitionMapState> state, const std::string& partition,
                 FencingToken above) {
  const auto& core = state->client.impl();
  const std::string path = state->path.str();
  return detail::RetoldWait(core, waiting_for_owner, path, [state = std::move(state), partition, above] {
    const Snapshot nodes = state->cache.snapshot();
    std::string awaited = fmt::format("an owner of partition {}", partition);
    if (above.value != 0) awaited += fmt::format(" with a token above {}", above.value);
    std::string seen = nodes.revision() == 0 ? detail::describe_view(state->cache) : "no owner";
    if (const auto owner = read_owner(nodes.find(owner_path(partition))))
      seen = fmt::format("owner {:?} with token {}", owner->id, owner->token.value);
    return detail::wait_story(awaited, seen);
  });
}

}  // namespace

PartitionMap::PartitionMap(zkclient::Client client, Path path)
    : state_(std::make_shared<detail::PartitionMapState>(std::move(client), std::move(path))) {}

PartitionMap::~PartitionMap() {
  if (state_ != nullptr) state_->cache.close();
}

PartitionMap::PartitionMap(PartitionMap&&) noexcept = default;

PartitionMap& PartitionMap::operator=(PartitionMap&& other) noexcept {
  if (this == &other) return *this;
  if (state_ != nullptr) state_->cache.close();
  state_ = std::move(other.state_);
  return *this;
}

std::optional<PartitionOwner> PartitionMap::owner(std::string_view partition) const {
  const Snapshot nodes = state_->cache.snapshot();
  return read_owner(nodes.find(owner_path(partition)));
}

PartitionMap::Owners PartitionMap::owners() const { return owners_in(state_->cache.snapshot()); }
CacheState PartitionMap::state() const noexcept { return state_->cache.state(); }
std::optional<Error> PartitionMap::problem() const { return state_->cache.problem(); }
void PartitionMap::close() {
  const auto state = state_;  // A listener that is released may own this object.
  state->cache.close();
}
const Path& PartitionMap::path() const noexcept { return state_->path; }

PartitionMap::Owners PartitionMap::wait_ready(const CallOptions& call) const {
  return owners_in(state_->cache.wait_ready(call));
}
void PartitionMap::async_wait_ready(zkclient::Handler<Owners> handler, const CallOptions& call) const {
  zk::require_handler(handler, waiting_for_owners, path().str());
  state_->cache.async_wait_ready(
      [handler = std::move(handler)](Result<Snapshot> nodes) mutable {
        nodes ? handler(owners_in(*nodes)) : handler(nodes.error());
      },
      call);
}

PartitionOwner PartitionMap::wait_owner(const std::string& partition, FencingToken above,
                                        const CallOptions& call) const {
  const std::string node = (state_->cache.path() / partition / detail::slot_owner).str();
  const auto there = [node, above](const Snapshot& nodes) { return owner_above(nodes, node, above).has_value(); };
  return owner_story(state_, partition, above).around([&] {
    return *owner_above(state_->cache.wait_until(there, call), node, above);
  });
}
void PartitionMap::async_wait_owner(const std::string& partition, FencingToken above,
                                    zkclient::Handler<PartitionOwner> handler, const CallOptions& call) const {
  zk::require_handler(handler, waiting_for_owner, path().str());
  const std::string node = (state_->cache.path() / partition / detail::slot_owner).str();
  auto there = [node, above](const Snapshot& nodes) { return owner_above(nodes, node, above).has_value(); };
  auto told = [node, above, story = owner_story(state_, partition, above),
               handler = std::move(handler)](Result<Snapshot> nodes) mutable {
    nodes ? handler(*owner_above(*nodes, node, above)) : handler(story(nodes.error()));
  };
  state_->cache.async_wait_until(std::move(there), std::move(told), call);
}

zkclient::Subscription PartitionMap::on_change(Listener listener) const {
  if (!listener) throw Error(Errc::invalid_argument, "on_change", path().str(), "no listener");
  return state_->cache.on_change(
      [listener = std::move(listener), first = true](const std::vector<Change>& changes, const Snapshot&) mutable {
        const std::vector<OwnerChange> owners = owner_changes(changes);
        if (std::exchange(first, false) || !owners.empty()) listener(owners);
      });
}

}  // namespace zkrecipes
