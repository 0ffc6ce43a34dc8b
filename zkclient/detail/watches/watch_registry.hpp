#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <zkclient/watch.hpp>

namespace zkclient::detail {

/// Who waits for what, in one session. The C client is always given the same function and context, so it keeps one
/// registration per node; this is where an event fans out. Lives on the loop thread.
///
/// A registration that no watch needs any more ("idle") stays in the C client and at the server until its event
/// comes, which may be never. The owner therefore takes idle ones from here, after some time, and removes them there.
/// Nothing is lost by that: a registration with a read in flight that arms it is not idle, and a read that is sent
/// after the removal is answered after it.
class WatchRegistry {
 public:
  enum class Kind { data, children };
  using Callback = UniqueFunction<void(WatchEventType)>;
  using Id = std::uint64_t;
  using Key = std::pair<std::string, Kind>;
  using Clock = std::chrono::steady_clock;

  /// After a reconnection the C client sends all watched paths in one packet, which the server refuses for ever if it
  /// is larger than its frame limit.
  static constexpr std::size_t max_path_bytes = 900'000;
  /// Idle registrations are kept for a while, since a caller that looks at a node again soon needs no new one, but not
  /// more of them than this.
  static constexpr std::size_t max_idle_bytes = 100'000;
  static constexpr auto idle_time = std::chrono::milliseconds(1000);
  static constexpr std::size_t max_removals = 128;  ///< In flight.

  bool has_room(const std::string& path, Kind kind) const {
    return path_bytes_ + cost(path) <= max_path_bytes || nodes_.contains(Key(path, kind));
  }
  /// A read that arms a watch is about to be sent: false if there is no room. Followed by `settle`.
  bool reserve(const std::string& path, Kind kind);
  /// The reply of that read was worked off, or will never come: has it armed the watch in the C client?
  void settle(const std::string& path, Kind kind, bool armed);

  /// `callback` runs once, unless it is removed before. Between `reserve` and `settle`.
  Id add(const std::string& path, Kind kind, Callback callback);
  void remove(Id id);
  /// An event of the C client for one of its types: 1 created, 2 deleted, 3 data changed, 4 children changed.
  void fire(int type, const std::string& path);
  /// Ends every watch.
  void end_all(WatchEventType reason);
  std::size_t size() const noexcept { return callbacks_.size(); }

  /// Called when something becomes idle.
  void on_idle(std::function<void()> told) { told_ = std::move(told); }
  /// When `take_idle` will have something; nullopt: not before the next `on_idle` or `removed`.
  std::optional<Clock::time_point> idle_due() const;
  /// The registrations to be removed at the server now. Each is followed by `removed`.
  std::vector<Key> take_idle(Clock::time_point now);
  enum class Removal { done, try_later, refused };
  void removed(const Key& key, Removal outcome);

 private:
  struct Node;
  using Map = std::map<Key, Node>;
  struct Node {
    std::vector<Id> ids;        // In order. Those of removed callbacks stay in it for a while.
    std::size_t listeners = 0;  // Without those.
    int reads = 0;              // In flight.
    bool armed = false;         // The C client has a registration.
    bool removing = false;
    std::optional<std::list<Map::iterator>::iterator> idle = {};
    Clock::time_point idle_since = {};
  };
  struct Listener {
    Map::iterator node;
    Callback callback;
  };

  static std::size_t cost(const std::string& path) noexcept { return path.size() + 4; }
  Map::iterator make(const std::string& path, Kind kind);
  void fire(Map::iterator node, WatchEventType type);
  void check_idle(Map::iterator node);
  void end_idle(Map::iterator node);
  void erase_if_unused(Map::iterator node);

  Map nodes_;
  std::unordered_map<Id, Listener> callbacks_;
  std::list<Map::iterator> idle_;  // The oldest first.
  std::function<void()> told_;
  Id next_id_ = 1;
  std::size_t path_bytes_ = 0;  // Of all nodes, armed or about to be.
  std::size_t idle_bytes_ = 0;
  std::size_t removals_ = 0;
};

}  // namespace zkclient::detail
