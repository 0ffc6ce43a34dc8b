#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/servers/access.hpp"
#include "simulation/servers/java_set.hpp"
#include "simulation/servers/owner.hpp"
#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// Who asks.
struct Caller {
  SessionId session = 0;
  /// What the connection has authenticated as: begin with {"ip", the client's address}, add with add_identities().
  std::vector<Id> auth;
  /// What the session tracker says of the session before anything else is looked at: ok, session_expired, session_moved.
  std::int32_t session_error = code::ok;
};

/// One change of one node, as the leader has worked it out.
struct Change {
  Op op{};  // create, create2, create_container, create_ttl, remove, set_data, set_acl, check, error
  std::string path;
  std::optional<std::string> data;
  SharedAcl acl;
  std::int64_t owner = 0;    // Of a created node: the session, or what marks a container or a TTL.
  std::int32_t version = 0;  // The new one: of data, of ACLs; for a create, of the parent's children.
  std::int32_t error = code::ok;
  friend bool operator==(const Change&, const Change&) = default;
};

/// What the leader proposes, and every server applies. An error is a transaction as well: it has a zxid and changes
/// nothing. Shared as std::shared_ptr<const Txn>.
struct Txn {
  Zxid zxid = 0;
  Millis time = 0;
  SessionId session = 0;
  Op op = Op::error;  // That of the request; `error` if it failed (but a multi stays one).
  std::int32_t error = code::ok;
  std::vector<Change> changes{};  // One; those of a multi; the ephemeral nodes of a session that is closed.
  Millis timeout = 0;             // create_session
  friend bool operator==(const Txn&, const Txn&) = default;
};
using TxnPtr = std::shared_ptr<const Txn>;

/// A change that watches may wait for. For children_changed the path is the parent's.
struct TreeEvent {
  EventType type{};
  std::string path;
  SharedAcl acl;  // Of the node at `path`: who may not read it hears nothing.
  friend bool operator==(const TreeEvent&, const TreeEvent&) = default;
};

struct Reply {
  std::int32_t error = code::ok;
  std::string body;  // What follows the reply's header. Empty when there is an error.
};

/// What a transaction did: the answer to the client that asked for it, and the events in the real server's order.
struct Applied {
  Reply reply;
  std::vector<TreeEvent> events;
};

struct TreeOptions {
  /// TTL nodes are refused (unimplemented) without it, as they are by a server that is not told otherwise.
  bool extended_types = true;
};

/// One server's state: nodes, and the sessions that the ensemble has agreed on. A value: a copy is a snapshot.
class Tree {
 public:
  explicit Tree(TreeOptions options = {});

  /// The leader's check of a write, on the tree to which everything proposed has been applied. Never fails: an error
  /// becomes a transaction.
  [[nodiscard]] Txn prepare(const Request& request, const Caller& caller, Zxid zxid, Millis now) const;
  [[nodiscard]] Txn prepare_create_session(SessionId session, Millis timeout, Zxid zxid, Millis now) const;
  /// Lists the session's ephemeral nodes. The same for a session that is closed and for one that has expired.
  [[nodiscard]] Txn prepare_close_session(SessionId session, Zxid zxid, Millis now) const;
  /// What the reaper sends for each path of due_for_reaper(). Fails when a child has come.
  [[nodiscard]] Txn prepare_delete_container(const std::string& path, Zxid zxid, Millis now) const;

  /// To be called in the order of zxids. One that is not newer than `last_zxid()` changes nothing.
  Applied apply(const Txn& txn);

  /// What changes nothing: exists, get_data, get_children(2), get_acl, get_ephemerals, get_all_children_number, sync (the
  /// answer to it), multi_read. Watches::note_read leaves the watch. ping, auth, set_watches and the like are the
  /// server's.
  [[nodiscard]] Reply read(const Request& request, const Caller& caller) const;

  /// Containers that had a child and have none, and TTL nodes without children that nobody has changed for so long.
  [[nodiscard]] std::vector<std::string> due_for_reaper(Millis now) const;

  [[nodiscard]] Zxid last_zxid() const { return last_zxid_; }
  /// Of a new epoch: the first proposal of it carries (epoch << 32) + 1.
  void set_last_zxid(Zxid zxid) { last_zxid_ = zxid; }

  /// The sessions that are agreed on, with their timeouts: what a new leader tracks.
  [[nodiscard]] const std::map<SessionId, Millis>& sessions() const { return sessions_; }
  [[nodiscard]] std::optional<Stat> stat(std::string_view path) const;
  [[nodiscard]] std::map<SessionId, std::set<std::string>> ephemerals() const;
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  [[nodiscard]] std::int64_t approximate_data_size() const;
  /// /zookeeper/config of an ensemble, as the real server fills it.
  void set_config(std::string text, Millis now);

  /// Two servers that have applied the same are equal.
  friend bool operator==(const Tree& left, const Tree& right);

 private:
  friend class Preparation;
  struct Node {
    std::optional<std::string> data;
    SharedAcl acl;
    Stat stat;  // cversion counts the creations; data_length and num_children are not kept.
    JavaSet children{8};
    friend bool operator==(const Node&, const Node&) = default;
  };
  using Nodes = std::map<std::string, Node, std::less<>>;

  [[nodiscard]] const Node* find(std::string_view path) const;
  Node* find(std::string_view path);
  [[nodiscard]] OwnerKind kind_of_owner(const Node& node) const;
  /// As clients see it.
  [[nodiscard]] Stat stat_of(const Node& node) const;

  Txn prepare_multi(const Request& request, const Caller& caller, Zxid zxid, Millis now) const;
  void apply_multi(const Txn& txn, Applied& applied);
  void close(SessionId session, const Txn& txn, std::vector<TreeEvent>& events);
  /// The result goes to `body`, as the request's own reply has it.
  std::int32_t apply(const Change& change, const Txn& txn, Encoder& body, std::vector<TreeEvent>& events);
  std::int32_t create(const Change& change, const Txn& txn, std::vector<TreeEvent>& events);
  std::int32_t remove(const std::string& path, Zxid zxid, std::vector<TreeEvent>& events);
  void note_owner(const std::string& path, const Node& node);
  void forget_owner(const std::string& path, const Node& node);

  std::int32_t read_one(const Request& request, const Caller& caller, Encoder& body) const;
  std::int32_t read_acl(const Node& node, const Caller& caller, Encoder& body) const;
  void read_multi(const Request& request, const Caller& caller, Encoder& body) const;
  [[nodiscard]] std::vector<std::string> ephemerals_under(std::string_view prefix, SessionId session) const;
  [[nodiscard]] std::int32_t count_below(const std::string& path) const;

  TreeOptions options_;
  Nodes nodes_;  // The root is "".
  std::map<SessionId, JavaSet> ephemerals_;
  std::set<std::string> containers_;
  std::set<std::string> ttls_;
  std::map<SessionId, Millis> sessions_;
  Zxid last_zxid_ = 0;
};

}  // namespace zktesting::simulated
