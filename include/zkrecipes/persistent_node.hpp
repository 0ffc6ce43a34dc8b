#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>
#include <zkrecipes/presence.hpp>

namespace zkrecipes {

namespace detail {
class KeptNode;
class NodeTouch;
}  // namespace detail

/// How a PersistentNode is made.
struct PersistentNodeOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// ephemeral, ephemeral_sequential, persistent or container.
  zkclient::CreateMode mode = zkclient::CreateMode::ephemeral;
  /// Put a unique id before the name ("_c_<uuid>-", Curator's protection). No other client makes a node of that name.
  bool protection = false;
  /// When another client's node is in the place. `replace`: it is removed, and ours is made, in one transaction unless ours
  /// is a container. If it has children, so that it cannot be removed, a node of ours that outlives sessions takes it over:
  /// it stays what it is, and gets our data. That is done once: a node that takes our place later is waited for.
  Conflict conflict = Conflict::wait;
};

/// How a PersistentTtlNode is made.
struct PersistentTtlNodeOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// As in PersistentNodeOptions. `replace` removes its child of our child's name with it, and then makes ours; one that has
  /// other children, and is taken over, has the time to live that it was made with, or none.
  Conflict conflict = Conflict::wait;
  std::string child = "touch";  ///< The name of the child that shows that the owner lives.
};

/// What a PersistentNode and a PersistentTtlNode have in common.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to. In a forked child state() is left, and calls end with Errc::forked.
class ZKRECIPES_API PersistentNodeBase {
 public:
  /// Gets the new state.
  using StateListener = zkclient::UniqueFunction<void(PresenceState state)>;

  PersistentNodeBase(PersistentNodeBase&&) noexcept;
  PersistentNodeBase& operator=(PersistentNodeBase&&) noexcept;

  /// As it was asked for.
  const zkclient::Path& path() const noexcept { return path_; }
  /// The path of the node that is there, or was there last: with the id before its name, and the number behind it. nullopt:
  /// there was none yet. Does not block.
  std::optional<zkclient::Path> node() const;
  /// A node that lives without a session stays `present` while there is no connection. Does not block.
  PresenceState state() const noexcept;
  /// Why it is not there: node_exists (another client's node is in its place), no_auth, unimplemented (a server without TTL
  /// nodes), ... nullopt: nothing is wrong. Does not block.
  std::optional<zkclient::Error> problem() const;
  /// Its number: grows each time that the node is made again. Zero before the first. Does not block.
  FencingToken token() const noexcept;

  /// Calls `listener` with the present state, then with each change of it, on the callback executor, one call at a time.
  /// `present` follows each creation, for which Curator's listener exists. A slow one may miss a pair of changes that leads
  /// back to the state before. Errors: invalid_argument (no listener).
  zkclient::Subscription on_state(StateListener listener) const;

  /// Waits until the node is there, for ever unless `call` has a deadline or a stop token. Errors: deadline_exceeded,
  /// cancelled, closed, with the problem that was seen last, and what the server refuses for good (no_auth,
  /// unimplemented, ...): it is tried again every 30 s all the same.
  void wait_created(const zkclient::CallOptions& call = {}) const;
  void async_wait_created(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {}) const;
  /// Changes the data, and waits until it is in the node. It stays wanted when the call fails, also where there is no
  /// connection, unless it is too large: then the last data that was in the node is wanted again. By default not for longer
  /// than the client's operation_timeout. Errors: as wait_created(); too_large (this one, or one that another thread wanted
  /// after it).
  void set_data(std::string data, const zkclient::CallOptions& call = {});
  void async_set_data(std::string data, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  /// Ends it: removes the node, and waits until it is gone, whatever became of connections and sessions meanwhile. What
  /// another client has put in its place stays. Where the create of a node that outlives sessions was lost with its session,
  /// that takes two session timeouts: the create may still come to light. Idempotent. When the call fails, the removal goes on. Errors:
  /// deadline_exceeded, cancelled, closed (the client, first: an ephemeral node goes with the session, any other one may
  /// stay); and of a node that outlives sessions: not_empty (it has children), no_auth, ...
  void remove(const zkclient::CallOptions& call = {});
  void async_remove(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

 protected:
  using Kept = std::pair<std::shared_ptr<detail::KeptNode>, std::shared_ptr<detail::NodeTouch>>;
  PersistentNodeBase(zkclient::Client client, zkclient::Path path, Kept kept) noexcept;
  ~PersistentNodeBase();

 private:
  void end() noexcept;

  zkclient::Client client_;
  zkclient::Path path_;
  std::shared_ptr<detail::KeptNode> node_;
  std::shared_ptr<detail::NodeTouch> touch_;  // Null: it has no TTL.
};

/// A node that exists, with the data that its owner wants, for as long as its owner wants: across broken connections, lost
/// sessions, and deletion by others. The nodes of Curator's PersistentNode (and of PersistentEphemeralNode, as it was called
/// before).
///
///   parent                                 container, if it has to be made
///    |-- <name>                            ephemeral, persistent or container
///    |-- <name>0000000007                  ephemeral_sequential: it keeps that name when it is made again
///    '-- _c_<uuid>-<name>[0000000007]      with protection; the id stays, too
///   parent-presence                        container, of ephemeral nodes only
///    '-- <uuid>                            ephemeral, empty; made and deleted with the node: tells it from another's
///
/// Invariant: no node that was found to be another client's is changed or removed, unless Conflict::replace asks for it; and
/// of one object there never are two nodes at a time, but for the last one of a session that is ending. But a node is
/// written or removed by its version. So the node that another client (also an owner that replaces ours) makes in its place
/// between our look and that request is hit by it, if it was changed as often. Before a removal the watch may stand for the
/// look, while its connection has shown within half a second that it tells of changes: then that gap is as long.
///
/// Cost: an ephemeral node is made with 3 requests in one flight, and removed with 1, or 2 unless it was just made or written;
/// docs/views.md says more, also of the others.
///
/// How it knows its own node: an ephemeral one by its companion, which has the same czxid. Any other one by its czxid; and if
/// the reply to the create is lost, by the data that was to be in it, where there was no node before. So another client's
/// node is taken for ours if it was made in just that moment, under the same name and with the same data; with
/// `protection`, none is.
///
/// What goes wrong                               What the caller sees
/// --------------------------------------------  -----------------------------------------------------------------
/// create: request or reply lost                 nothing: it is looked for, or created again; there is one node
/// parent missing or removed                     nothing: created (again)
/// connection breaks                             nothing: the node stays; set_data() counts from the next one on
/// session lost, ephemeral node                  absent; then present again in the next session, with its name: one
///                                                 transaction puts the new node in the place of the old one
/// session lost, any other node                  nothing
/// node deleted by hand                          absent; then made again at once, with its name
/// node changed by hand                          nothing: the data is written again
/// another client's node in its place            absent, problem() is node_exists; Conflict: it waits, or replaces it
/// another owner replaces our node               absent, problem() is node_exists: we wait. If it had to take it over, with
///                                                 children, both write their data, each every 500 ms: remove one
/// data too large                                set_data() fails with too_large; the former data stays wanted
/// may not create or read                        absent, problem() is no_auth; tried again every 30 s
/// remove: request or reply lost, session lost   nothing: it is gone when the call returns
/// remove: the node has children                 remove() fails with not_empty; tried again by the next remove(),
///                                                 and once by the destructor
/// process dies                                  an ephemeral node goes with the session; any other one stays: at the next
///                                                 start it is another client's
/// client closed                                 left; calls end with Errc::closed. Nodes that outlive sessions stay
class ZKRECIPES_API PersistentNode : public PersistentNodeBase {
 public:
  /// Begins to keep the node, without waiting for it or for a connection. Errors: invalid_acl (see acl_defect());
  /// invalid_argument (the path is the root; a mode that is not listed at PersistentNodeOptions: of a persistent sequential
  /// node whose create is in doubt nobody could find the name), invalid_path (too long), closed, forked.
  PersistentNode(zkclient::Client client, zkclient::Path path, std::string data = {},
                 PersistentNodeOptions options = {});
  PersistentNode(PersistentNode&&) noexcept = default;
  PersistentNode& operator=(PersistentNode&&) noexcept = default;
  /// Removes the node, without waiting for it: one that outlives sessions goes only if the client stays open for long
  /// enough, so call remove() for those. What the server refuses (the node has children) is not tried again.
  ~PersistentNode() = default;
};

/// A node that outlives its owner's sessions, and goes when nobody has kept it for a while. The nodes of Curator's
/// PersistentTtlNode.
///
///   path            has a time to live, data: the user's (Curator makes a container)
///    '-- touch      has a time to live, empty; written each third of it while the owner lives
///
/// As both have a time to live, an owner that dies at any moment leaves nothing for ever. (A container that never had a child
/// stays, which is what Curator leaves of an owner that dies between its two creates: CURATOR-545.) It takes servers with
/// extendedTypesEnabled=true. The server looks for what is due every znode.container.checkIntervalMs, a minute by default.
///
/// An owner that follows another one makes the touch anew, since that has the former owner's time to live. If the server
/// looks for empty containers in just that moment, one that Curator has made goes, and our node is made in its place.
///
/// Invariant: as that of PersistentNode; and while an owner is connected, its touch is younger than the time to live, so the
/// node, which has a child, stays.
///
/// What goes wrong                               What the caller sees
/// --------------------------------------------  -----------------------------------------------------------------
/// server has no TTL nodes                       absent, problem() is unimplemented; wait_created() fails with it
/// touch: request or reply lost                  nothing: it is written again
/// touch deleted by hand                         it is made again with the next touch; if the server looks before that, and
///                                                 the node is older than the TTL: absent, then made again
/// touch may not be written                      problem() says so; the node goes, and is made again
/// owner cut off for longer than the TTL         the node goes; absent, then present again when there is a connection
/// owner dies before the touch is made           the node goes after the TTL
/// owner dies                                    the touch goes after the TTL, and the node with it
/// remove: children besides touch                remove() fails with not_empty
class ZKRECIPES_API PersistentTtlNode : public PersistentNodeBase {
 public:
  /// The longest time to live that a server takes, some 34 years.
  static constexpr std::chrono::milliseconds max_ttl{0xFF'FFFF'FFFF};

  /// Begins to keep the node, without waiting for it or for a connection. `ttl` is counted by the server's clock. Errors:
  /// invalid_acl; invalid_argument (the path is the root; `ttl` is less than 1 ms or more than max_ttl), invalid_path (too
  /// long, or the child's name makes none), closed, forked.
  PersistentTtlNode(zkclient::Client client, zkclient::Path path, std::chrono::milliseconds ttl, std::string data = {},
                    PersistentTtlNodeOptions options = {});
  PersistentTtlNode(PersistentTtlNode&&) noexcept = default;
  PersistentTtlNode& operator=(PersistentTtlNode&&) noexcept = default;
  /// Leaves the node to its time to live. remove() removes it at once; a removal that has begun goes on,
  /// unless the server refuses it.
  ~PersistentTtlNode() = default;
};

}  // namespace zkrecipes
