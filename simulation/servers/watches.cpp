#include "simulation/servers/watches.hpp"

#include <algorithm>
#include <utility>

namespace zktesting::simulated {
namespace {

/// The kinds of check_watches and remove_watches.
namespace kind {
constexpr std::int32_t children = 1;
constexpr std::int32_t data = 2;
constexpr std::int32_t any = 3;
}  // namespace kind

bool is_kind(std::int32_t flags) { return flags >= kind::children && flags <= kind::any; }

/// "/a" for "/a/b", "/" for "/a", nothing for "/".
std::string parent_path(const std::string& path) {
  if (path.size() <= 1) return {};
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {};
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

void Watches::Table::add(const std::string& path, ConnectionId connection, Mode mode) {
  paths[path][connection] = mode;
  connections[connection].insert(path);
}

bool Watches::Table::remove(const std::string& path, ConnectionId connection) {
  const auto own = connections.find(connection);
  if (own == connections.end() || own->second.erase(path) == 0) return false;
  if (own->second.empty()) connections.erase(own);
  const auto watched = paths.find(path);
  watched->second.erase(connection);
  if (watched->second.empty()) paths.erase(watched);
  return true;
}

void Watches::Table::drop(ConnectionId connection) {
  const auto own = connections.find(connection);
  if (own == connections.end()) return;
  const std::set<std::string> watched = own->second;
  for (const std::string& path : watched)
    remove(path, connection);
}

std::size_t Watches::Table::size() const {
  std::size_t count = 0;
  for (const auto& [connection, watched] : connections)
    count += watched.size();
  return count;
}

std::set<ConnectionId> Watches::Table::take(const std::string& path, EventType type) {
  std::set<ConnectionId> heard;
  take_at(path, type, false, heard);
  for (std::string above = parent_path(path); !above.empty(); above = parent_path(above))
    take_at(above, type, true, heard);
  return heard;
}

void Watches::Table::take_at(const std::string& path, EventType type, bool above, std::set<ConnectionId>& heard) {
  const auto watched = paths.find(path);
  if (watched == paths.end()) return;
  std::vector<ConnectionId> done;
  for (const auto& [connection, mode] : watched->second) {
    // A recursive watch hears of each child that comes and goes; that a list has changed says nothing new.
    if (mode == Mode::persistent_recursive ? type == EventType::children_changed : above) continue;
    heard.insert(connection);
    if (mode == Mode::once) done.push_back(connection);
  }
  for (const ConnectionId connection : done)
    remove(path, connection);
}

void Watches::note_read(const Request& request, std::int32_t error, ConnectionId connection) {
  if (!request.watch || request.malformed) return;
  switch (request.op) {
    case Op::exists:
      if (error == code::ok || error == code::no_node) data_.add(request.path, connection, Mode::once);
      return;
    case Op::get_data:
      if (error == code::ok) data_.add(request.path, connection, Mode::once);
      return;
    case Op::get_children:
    case Op::get_children2:
      if (error == code::ok) children_.add(request.path, connection, Mode::once);
      return;
    default: return;
  }
}

std::vector<WatchEvent> Watches::trigger(const TreeEvent& event) {
  std::set<ConnectionId> heard;
  if (event.type != EventType::children_changed) heard = data_.take(event.path, event.type);
  if (event.type == EventType::children_changed || event.type == EventType::deleted)
    heard.merge(children_.take(event.path, event.type));
  std::vector<WatchEvent> events;
  for (const ConnectionId connection : heard)
    events.push_back({connection, event.type, event.path, event.acl});
  return events;
}

std::vector<WatchEvent> Watches::trigger(const std::vector<TreeEvent>& events) {
  std::vector<WatchEvent> all;
  for (const TreeEvent& event : events)
    for (WatchEvent& fired : trigger(event))
      all.push_back(std::move(fired));
  return all;
}

std::vector<WatchEvent> Watches::set_watches(const Request& request, const Tree& tree, ConnectionId connection) {
  std::vector<WatchEvent> missed;
  const auto miss = [&](EventType type, const std::string& path) { missed.push_back({connection, type, path, {}}); };
  for (const std::string& path : request.data_watches) {
    const std::optional<Stat> stat = tree.stat(path);
    if (!stat)
      miss(EventType::deleted, path);
    else if (stat->mzxid > request.relative_zxid)
      miss(EventType::data_changed, path);
    else
      data_.add(path, connection, Mode::once);
  }
  for (const std::string& path : request.exist_watches) {
    if (tree.stat(path))
      miss(EventType::created, path);
    else
      data_.add(path, connection, Mode::once);
  }
  for (const std::string& path : request.child_watches) {
    const std::optional<Stat> stat = tree.stat(path);
    if (!stat)
      miss(EventType::deleted, path);
    else if (stat->pzxid > request.relative_zxid)
      miss(EventType::children_changed, path);
    else
      children_.add(path, connection, Mode::once);
  }
  for (const std::string& path : request.persistent_watches)
    add_both(path, connection, Mode::persistent);
  for (const std::string& path : request.persistent_recursive_watches)
    add_both(path, connection, Mode::persistent_recursive);
  return missed;
}

void Watches::add_both(const std::string& path, ConnectionId connection, Mode mode) {
  data_.add(path, connection, mode);
  children_.add(path, connection, mode);
}

std::int32_t Watches::remove_watches(const Request& request, ConnectionId connection) {
  if (request.malformed || !is_kind(request.flags)) return code::marshalling_error;
  bool removed = false;
  if (request.flags != kind::data) removed = children_.remove(request.path, connection);
  if (request.flags != kind::children) removed = data_.remove(request.path, connection) || removed;
  return removed ? code::ok : code::no_watcher;
}

std::int32_t Watches::check_watches(const Request& request) const {
  if (request.malformed || !is_kind(request.flags)) return code::marshalling_error;
  if (request.path.empty()) return code::no_watcher;
  if (!request.path.starts_with('/'))
    return code::marshalling_error;  // The real server looks for a parent, and stumbles.
  const bool there = (request.flags != kind::data && children_.paths.contains(request.path)) ||
                     (request.flags != kind::children && data_.paths.contains(request.path));
  return there ? code::ok : code::no_watcher;
}

std::int32_t Watches::add_watch(const Request& request, ConnectionId connection) {
  if (request.malformed || request.flags < 0 || request.flags > 1) return code::marshalling_error;
  add_both(request.path, connection, request.flags == 0 ? Mode::persistent : Mode::persistent_recursive);
  return code::ok;
}

void Watches::drop(ConnectionId connection) {
  data_.drop(connection);
  children_.drop(connection);
}

std::size_t Watches::size() const { return data_.size() + children_.size(); }

std::map<std::string, std::set<ConnectionId>> Watches::by_path() const {
  std::map<std::string, std::set<ConnectionId>> all;
  for (const Table* table : {&data_, &children_})
    for (const auto& [path, watchers] : table->paths)
      for (const auto& [connection, mode] : watchers)
        all[path].insert(connection);
  return all;
}

std::map<ConnectionId, std::set<std::string>> Watches::by_connection() const {
  std::map<ConnectionId, std::set<std::string>> all;
  for (const Table* table : {&data_, &children_})
    for (const auto& [connection, watched] : table->connections)
      all[connection].insert(watched.begin(), watched.end());
  return all;
}

}  // namespace zktesting::simulated
