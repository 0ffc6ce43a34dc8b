#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulation/servers/tree.hpp"
#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// A connection of one server's, by a number of the server's own that is never used again.
using ConnectionId = std::uint64_t;

/// An event for a client: to be sent at once, with encode_event, before any later reply of this connection, if it
/// `may_hear` of it. (Debian's 3.8.0 keeps silent towards who may not read the node. The watch is gone nevertheless.)
struct WatchEvent {
  ConnectionId connection = 0;
  EventType type{};
  std::string path;
  SharedAcl acl;
  [[nodiscard]] bool may_hear(const std::vector<Id>& identities) const {
    return permits(*acl, perms::read, identities);
  }
};

/// One server's watches. As in the real server, one on data and one on existence are the same thing.
class Watches {
 public:
  /// Leaves the watch that an answered read asks for, if it asks for one. `error` is that of the reply.
  void note_read(const Request& request, std::int32_t error, ConnectionId connection);

  /// Takes the watches that an event of the tree fires. Of several watches on one deleted node, a connection gets one
  /// event. Ordered by connection.
  std::vector<WatchEvent> trigger(const TreeEvent& event);
  /// The same for all events of a transaction, in their order.
  std::vector<WatchEvent> trigger(const std::vector<TreeEvent>& events);

  /// set_watches, set_watches2: what a client that was away has missed, in the order in which it is sent. What it has not
  /// missed is armed anew.
  std::vector<WatchEvent> set_watches(const Request& request, const Tree& tree, ConnectionId connection);

  /// remove_watches: the error for the reply; no_watcher if there was none. No event is sent.
  std::int32_t remove_watches(const Request& request, ConnectionId connection);
  /// check_watches: ok or no_watcher. As in 3.8.0, the watch may be anybody's.
  [[nodiscard]] std::int32_t check_watches(const Request& request) const;
  /// add_watch: persistent ones. The error for the reply; without one, the body is an int32 of 0.
  std::int32_t add_watch(const Request& request, ConnectionId connection);

  void drop(ConnectionId connection);

  /// For the four-letter words, and for tests that look for leaks.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::map<std::string, std::set<ConnectionId>> by_path() const;
  [[nodiscard]] std::map<ConnectionId, std::set<std::string>> by_connection() const;

 private:
  enum class Mode : std::int8_t { once, persistent, persistent_recursive };
  /// Real servers keep two of these: one for data (with existence), one for children.
  struct Table {
    std::map<std::string, std::map<ConnectionId, Mode>> paths;
    std::map<ConnectionId, std::set<std::string>> connections;

    void add(const std::string& path, ConnectionId connection, Mode mode);
    bool remove(const std::string& path, ConnectionId connection);
    void drop(ConnectionId connection);
    /// Who hears of `type` at `path`.
    std::set<ConnectionId> take(const std::string& path, EventType type);
    [[nodiscard]] std::size_t size() const;

   private:
    void take_at(const std::string& path, EventType type, bool above, std::set<ConnectionId>& heard);
  };

  void add_both(const std::string& path, ConnectionId connection, Mode mode);

  Table data_;
  Table children_;
};

}  // namespace zktesting::simulated
