#include "zkclient/detail/watches/watch_registry.hpp"

#include <bit>

namespace zkclient::detail {

WatchRegistry::Map::iterator WatchRegistry::make(const std::string& path, Kind kind) {
  const auto [node, is_new] = nodes_.try_emplace(Key(path, kind));
  if (is_new) path_bytes_ += cost(path);
  return node;
}

bool WatchRegistry::reserve(const std::string& path, Kind kind) {
  if (!has_room(path, kind)) return false;
  const auto node = make(path, kind);
  ++node->second.reads;
  end_idle(node);
  return true;
}

void WatchRegistry::settle(const std::string& path, Kind kind, bool armed) {
  const auto node = nodes_.find(Key(path, kind));
  if (node == nodes_.end() || node->second.reads == 0) return;  // The session has ended meanwhile.
  --node->second.reads;
  if (armed) node->second.armed = true;
  check_idle(node);
  erase_if_unused(node);
}

WatchRegistry::Id WatchRegistry::add(const std::string& path, Kind kind, Callback callback) {
  const auto node = make(path, kind);
  std::vector<Id>& ids = node->second.ids;
  if (ids.size() >= 8 && std::has_single_bit(ids.size())) {
    std::erase_if(ids, [&](Id id) { return !callbacks_.contains(id); });
  }
  const Id id = next_id_++;
  ids.push_back(id);
  node->second.armed = true;
  ++node->second.listeners;
  end_idle(node);
  callbacks_.emplace(id, Listener{node, std::move(callback)});
  return id;
}

void WatchRegistry::remove(Id id) {
  const auto listener = callbacks_.extract(id);
  if (listener.empty()) return;
  const Map::iterator node = listener.mapped().node;
  if (node == nodes_.end()) return;  // Its event is being told to those before it.
  --node->second.listeners;
  check_idle(node);
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
  const std::vector<Id> ids = std::exchange(node->second.ids, {});
  for (const Id id : ids) {
    if (const auto listener = callbacks_.find(id); listener != callbacks_.end()) listener->second.node = nodes_.end();
  }
  node->second.listeners = 0;
  node->second.armed = false;
  end_idle(node);
  erase_if_unused(node);
  for (const Id id : ids) {
    auto listener = callbacks_.extract(id);
    if (!listener.empty()) listener.mapped().callback(type);
  }
}

void WatchRegistry::end_all(WatchEventType reason) {
  while (!nodes_.empty()) {
    const auto node = nodes_.begin();
    node->second.reads = 0;
    node->second.removing = false;
    fire(node, reason);
  }
  removals_ = 0;
}

// --- Idle registrations ----------------------------------------------------------------------------------------------

void WatchRegistry::check_idle(Map::iterator node) {
  Node& state = node->second;
  if (!state.armed || state.listeners > 0 || state.reads > 0 || state.removing || state.idle) return;
  state.idle = idle_.insert(idle_.end(), node);
  state.idle_since = Clock::now();
  idle_bytes_ += cost(node->first.first);
  if (told_) told_();
}

void WatchRegistry::end_idle(Map::iterator node) {
  if (!node->second.idle) return;
  idle_.erase(*node->second.idle);
  node->second.idle.reset();
  idle_bytes_ -= cost(node->first.first);
}

void WatchRegistry::erase_if_unused(Map::iterator node) {
  const Node& state = node->second;
  if (state.armed || state.reads > 0 || state.removing) return;
  path_bytes_ -= cost(node->first.first);
  nodes_.erase(node);
}

std::optional<WatchRegistry::Clock::time_point> WatchRegistry::idle_due() const {
  if (idle_.empty() || removals_ >= max_removals) return std::nullopt;
  if (idle_bytes_ > max_idle_bytes) return Clock::time_point::min();
  return idle_.front()->second.idle_since + idle_time;
}

std::vector<WatchRegistry::Key> WatchRegistry::take_idle(Clock::time_point now) {
  std::vector<Key> taken;
  for (auto due = idle_due(); due && *due <= now; due = idle_due()) {
    const auto node = idle_.front();
    end_idle(node);
    node->second.removing = true;
    ++removals_;
    taken.push_back(node->first);
  }
  return taken;
}

void WatchRegistry::removed(const Key& key, Removal outcome) {
  const auto node = nodes_.find(key);
  if (node == nodes_.end() || !node->second.removing) return;  // The session has ended meanwhile.
  node->second.removing = false;
  --removals_;
  // A caller that came meanwhile has sent a read after the removal, whose reply is still to come.
  if (outcome == Removal::done) node->second.armed = false;
  if (outcome == Removal::try_later) check_idle(node);
  erase_if_unused(node);
}

}  // namespace zkclient::detail
