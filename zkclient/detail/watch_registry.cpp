#include "zkclient/detail/watch_registry.hpp"

#include <bit>

namespace zkclient::detail {

WatchRegistry::Id WatchRegistry::add(const std::string& path, Kind kind, Callback callback) {
  const auto [node, is_new] = nodes_.try_emplace(Key(path, kind));
  if (is_new) path_bytes_ += path.size() + 4;
  std::vector<Id>& ids = node->second;
  if (ids.size() >= 8 && std::has_single_bit(ids.size())) {
    std::erase_if(ids, [&](Id id) { return !callbacks_.contains(id); });
  }
  const Id id = next_id_++;
  ids.push_back(id);
  callbacks_.emplace(id, std::move(callback));
  return id;
}

void WatchRegistry::fire(int type, const std::string& path) {
  constexpr WatchEventType types[] = {WatchEventType::created, WatchEventType::deleted, WatchEventType::data_changed,
                                      WatchEventType::children_changed};
  if (type < 1 || type > 4) return;
  const WatchEventType event = types[type - 1];
  if (event != WatchEventType::children_changed) {
    if (const auto node = nodes_.find(Key(path, Kind::data)); node != nodes_.end()) fire(node, event);
  }
  if (event == WatchEventType::children_changed || event == WatchEventType::deleted) {
    if (const auto node = nodes_.find(Key(path, Kind::children)); node != nodes_.end()) fire(node, event);
  }
}

void WatchRegistry::fire(Map::iterator node, WatchEventType type) {
  // Out of the registry first: the callbacks may add and remove watches, on this node too.
  const std::vector<Id> ids = std::move(node->second);
  path_bytes_ -= node->first.first.size() + 4;
  nodes_.erase(node);
  for (const Id id : ids) {
    auto callback = callbacks_.extract(id);
    if (!callback.empty()) callback.mapped()(type);
  }
}

void WatchRegistry::end_all(WatchEventType reason) {
  while (!nodes_.empty())
    fire(nodes_.begin(), reason);
}

}  // namespace zkclient::detail
