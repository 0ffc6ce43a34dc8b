#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <zkclient/watch.hpp>

namespace zkclient::detail {

/// Who waits for what, in one session. The C client is always given the same function and context, so it keeps one
/// registration per node; this is where an event fans out. Lives on the loop thread.
class WatchRegistry {
 public:
  enum class Kind { data, children };
  using Callback = UniqueFunction<void(WatchEventType)>;
  using Id = std::uint64_t;

  /// After a reconnection the C client sends all watched paths in one packet, which the server refuses for ever if it
  /// is larger than its frame limit.
  static constexpr std::size_t max_path_bytes = 900'000;

  bool has_room(const std::string& path) const noexcept { return path_bytes_ + path.size() + 4 <= max_path_bytes; }

  /// `callback` runs once, unless it is removed before.
  Id add(const std::string& path, Kind kind, Callback callback);
  void remove(Id id) { callbacks_.erase(id); }
  /// An event of the C client for one of its types: 1 created, 2 deleted, 3 data changed, 4 children changed.
  void fire(int type, const std::string& path);
  /// Ends every watch.
  void end_all(WatchEventType reason);
  std::size_t size() const noexcept { return callbacks_.size(); }

 private:
  using Key = std::pair<std::string, Kind>;
  // An entry stays until its event, even with nobody left: the C client still has the registration. The ids of
  // removed callbacks stay in it for a while.
  using Map = std::map<Key, std::vector<Id>>;

  void fire(Map::iterator node, WatchEventType type);

  Map nodes_;
  std::unordered_map<Id, Callback> callbacks_;
  Id next_id_ = 1;
  std::size_t path_bytes_ = 0;
};

}  // namespace zkclient::detail
