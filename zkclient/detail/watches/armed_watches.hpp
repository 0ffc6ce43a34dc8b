#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/types.hpp>

#include "zkclient/detail/watches/watch_registry.hpp"

namespace zkclient::detail {

/// The watches that a handle of the C client knows, and what is needed to take them over to the next handle of the same
/// session. After a reconnection of its own the C client asks the server to arm its watches again and to tell what
/// changed meanwhile; a new handle knows of none. So each watch is armed again by a read, whose answer is compared with
/// what the session saw last. The rule is the server's own for that case (relativeZxid): what is newer than the newest
/// transaction the session saw has not been told yet.
class ArmedWatches {
 public:
  using Kind = WatchRegistry::Kind;
  static constexpr int created = 1;
  static constexpr int deleted = 2;
  static constexpr int data_changed = 3;
  static constexpr int children_changed = 4;

  struct Pending {
    std::string path;
    Kind kind = Kind::data;
    bool existed = false;   ///< When it was armed.
    std::int64_t seen = 0;  ///< The newest transaction that the session had seen when the handle went.
  };

  /// Any answer of the server: shows how far the session has seen.
  void saw(const Stat& stat) noexcept { seen_ = std::max({seen_, stat.czxid, stat.mzxid, stat.pzxid}); }
  /// A read armed a watch; `exists` says what it found.
  void armed(const std::string& path, Kind kind, bool exists) { watches_[Key(path, kind)] = {exists, std::nullopt}; }
  /// An event of the C client, which forgets the watch with it.
  void fired(int type, const std::string& path) {
    if (type != children_changed) watches_.erase(Key(path, Kind::data));
    if (type == children_changed || type == deleted) watches_.erase(Key(path, Kind::children));
  }
  /// It was removed at the server, and with that in the C client.
  void removed(const std::string& path, Kind kind) { watches_.erase(Key(path, kind)); }
  /// The handle is gone.
  void handle_gone() {
    for (auto& [key, watch] : watches_) {
      if (!watch.seen) watch.seen = seen_;
    }
  }
  /// The watches that the present handle does not know yet.
  std::vector<Pending> pending() const {
    std::vector<Pending> all;
    for (const auto& [key, watch] : watches_) {
      if (watch.seen) all.push_back({key.first, key.second, watch.existed, *watch.seen});
    }
    return all;
  }
  std::size_t size() const noexcept { return watches_.size(); }

  /// The event that was missed, given what the node looks like now (nothing: it is not there); 0 if none was.
  static int missed(const Pending& watch, const std::optional<Stat>& now) noexcept {
    if (!watch.existed) return now ? created : 0;
    if (!now) return deleted;
    if (watch.kind == Kind::children) return now->pzxid > watch.seen ? children_changed : 0;
    return now->mzxid > watch.seen ? data_changed : 0;
  }

 private:
  using Key = std::pair<std::string, Kind>;
  struct Watch {
    bool existed = false;
    std::optional<std::int64_t> seen = {};  // Set while it has to be armed again.
  };

  std::map<Key, Watch> watches_;
  std::int64_t seen_ = 0;
};

}  // namespace zkclient::detail
