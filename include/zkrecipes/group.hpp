#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/cache.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/presence.hpp>

namespace zkrecipes {

namespace detail {
class KeptNode;
struct GroupSpec;
}  // namespace detail

/// How the members of a group are written, so that other libraries see them.
class ZKRECIPES_API GroupLayout {
 public:
  /// `<id>`, data: the payload; below a container: Curator's GroupMember.
  static GroupLayout curator() { return GroupLayout(Style::curator); }
  /// `<uuid>__party__`, data: the id; below a persistent node: kazoo's Party. There is no payload, and two members may
  /// have one id.
  static GroupLayout kazoo_party() { return GroupLayout(Style::kazoo_party); }
  /// `<uuid>-<id>`, no data: kazoo's ShallowParty. Otherwise the same.
  static GroupLayout kazoo_shallow() { return GroupLayout(Style::kazoo_shallow); }

  /// What the node above the members is, if it has to be made.
  zkclient::CreateMode parent_mode() const noexcept {
    return style_ == Style::curator ? zkclient::CreateMode::container : zkclient::CreateMode::persistent;
  }
  /// Whether a member's node has room for data of the user's.
  bool has_payload() const noexcept { return style_ == Style::curator; }
  /// The name of a new member's node; `uuid` makes it unique where the id does not.
  std::string name(std::string_view uuid, std::string_view id) const;
  /// The data of a member's node.
  std::string data(std::string_view id, std::string payload) const;
  /// The id of the member whose node has this name and this data; nullopt: that node is no member's.
  std::optional<std::string> id(std::string_view name, std::string_view data) const;

 private:
  enum class Style { curator, kazoo_party, kazoo_shallow };
  explicit GroupLayout(Style style) noexcept : style_(style) {}
  Style style_;
};

struct GroupOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  GroupLayout layout = GroupLayout::curator();
  Conflict conflict = Conflict::wait;  ///< When another session has a member's node.
  /// A member knows when it counts as gone: see Membership::valid(). It costs six quorum writes per session timeout.
  bool lease = false;
};

/// A member, as its node shows it.
struct Member {
  std::string id;                                    ///< The name that it joined with.
  std::string payload = {};                          ///< What it shows to the others.
  FencingToken incarnation = {};                     ///< Grows each time that the member joins again.
  std::int64_t session_id = 0;                       ///< The session that the member lives with.
  std::chrono::system_clock::time_point since = {};  ///< By the server's clock.

  friend bool operator==(const Member&, const Member&) = default;
};

/// The members at one instant, ordered by the names of their nodes.
struct ZKRECIPES_API GroupSnapshot {
  std::vector<Member> members = {};  ///< One for each node.
  bool exact = false;                ///< See Snapshot::exact().
  /// No member is missing, and no payload: all nodes could be read that may be a member's. False: a node that could not
  /// be read may be one, and a payload that could not be read is empty; Group::problem() says why. Who decides by the
  /// members that are not there waits until it is true. A persistent node is no member's, whether it can be read or not.
  bool complete = false;
  std::int64_t zxid = 0;  ///< See Snapshot::zxid().

  /// The first one with this id; null if there is none.
  const Member* find(std::string_view id) const noexcept;
};

/// The difference that one member makes.
struct MemberChange {
  Change::Kind kind = Change::Kind::added;  ///< replaced: it has joined again.
  std::optional<Member> before = {};        ///< Nothing: added.
  std::optional<Member> after = {};         ///< Nothing: removed.
};

/// That this process is a member. It goes on for as long as the object lives: across broken connections, and with the
/// next session after one that was lost. The destructor leaves, without waiting for it.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to. In a forked child state() is left, and calls end with Errc::forked.
class ZKRECIPES_API Membership {
 public:
  /// Gets the new state.
  using StateListener = zkclient::UniqueFunction<void(PresenceState state)>;

  Membership(Membership&&) noexcept;
  Membership& operator=(Membership&&) noexcept;
  ~Membership();

  const std::string& id() const noexcept { return id_; }
  /// Does not block.
  PresenceState state() const noexcept;
  /// Why state() is not present: node_exists (another session has the name), no_auth, ...; or why there is no lease.
  /// nullopt: nothing is wrong. Does not block.
  std::optional<zkclient::Error> problem() const;
  /// Of the node that is there, or was there last; grows with each that this member makes. Zero before the first.
  FencingToken token() const noexcept;
  /// With GroupOptions::lease: this member certainly is listed, by its own clock; false before any other session can
  /// see it gone, unless an operator deletes its node. Without: whether state() is present. Does not block.
  bool valid() const noexcept;
  /// Told when the node of the present token() is lost: with its session, its lease or by an operator's hand. The next
  /// one has a token of its own. Not told when the member leaves.
  std::stop_token lost() const noexcept;

  /// Calls `listener` with the present state, then with each change of it, on the callback executor, one call at a
  /// time. A slow one may miss a pair of changes that leads back to the state before. Errors: invalid_argument (no
  /// listener).
  zkclient::Subscription on_state(StateListener listener) const;

  /// Waits until it is present (with its lease, if one was asked for), for ever unless `call` has a deadline or a stop
  /// token. Errors: deadline_exceeded, cancelled, closed, with the problem that was seen last, and what the server refuses
  /// for good (no_auth, ...): it is tried again every 30 s all the same.
  void wait_present(const zkclient::CallOptions& call = {}) const;
  void async_wait_present(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {}) const;
  /// Changes the payload, and waits until it is in force. It stays wanted when the call fails, unless it is too large:
  /// then the last one that was in force is wanted again. By default not for longer than the client's
  /// operation_timeout. Errors: as wait_present(); too_large (this one, or one that another thread wanted after it);
  /// invalid_argument (the layout has no payload).
  void update(std::string payload, const zkclient::CallOptions& call = {});
  void async_update(std::string payload, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  /// Leaves, and waits until the node is gone, whatever became of connections and sessions meanwhile. Idempotent. When
  /// the call fails, leaving goes on. Errors: deadline_exceeded, cancelled, closed (the client, first: the node goes with
  /// the session).
  void leave(const zkclient::CallOptions& call = {});
  void async_leave(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  Membership(zkclient::Client client, std::string id, std::shared_ptr<detail::KeptNode> node,
             bool has_payload) noexcept;

 private:
  void end() noexcept;

  zkclient::Client client_;
  std::string id_;
  std::shared_ptr<detail::KeptNode> node_;
  bool has_payload_ = false;
};

/// A group of processes: those that are there, by ephemeral nodes. Peers: Curator's GroupMember, kazoo's Party.
/// Not possible: one id for members of ours and of Curator's, which write into each other's node, and data beside kazoo's.
///
///   path                         container, or as the layout says; its children are watched by those who look
///    '-- <member>                ephemeral; see GroupLayout
///   path-presence                container
///    '-- <uuid>                  ephemeral, empty; made and deleted with <member>: tells a member's own node from others
///
/// Invariant: who is listed has a session that has not ended. A member is never invented: it is listed by its node
/// alone.
///
/// What goes wrong                               What the caller sees
/// --------------------------------------------  -----------------------------------------------------------------
/// join: request or reply lost                   nothing: it is looked for, or created again
/// parent missing or removed                     nothing: created (again)
/// connection breaks while a member              nothing: the node stays; valid() ends in time, if there is a lease
/// session lost while a member                   absent, lost() is told; a member again with the next session, where one
///                                                 transaction puts the new node in the place of the old one
/// own node deleted by hand                      lost() is told; a member again at once, with a new token
/// own node changed by hand                      nothing: the payload is written again
/// another session has the member's node         absent, problem() is node_exists; Conflict: it waits, or that node goes
/// cut off for longer than the lease             valid() is false and lost() told first; then a new node with a new token
/// may not create or read                        absent, problem() is no_auth; tried again every 30 s
/// a member's node cannot be read, or watched    GroupSnapshot::complete is false, problem() of the group says why; tried
///                                                 again every 30 s. It is not listed, or without its payload
/// leave: request or reply lost, session lost    nothing: it is gone when the call returns
/// member's process dies                         listed until its session ends
/// client closed                                 left; calls end with Errc::closed
///
/// Thread safety: all members. The object keeps its client open.
class ZKRECIPES_API Group {
 public:
  /// Gets the changes, and the members with them.
  using Listener = zkclient::UniqueFunction<void(const std::vector<MemberChange>& changes, const GroupSnapshot& now)>;

  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (the path is the root).
  Group(zkclient::Client client, zkclient::Path path, GroupOptions options = {});
  ~Group();
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;

  /// Becomes a member, and waits for it, for ever unless `call` has a deadline or a stop token; when it fails, nothing
  /// stays behind. Errors: as Membership::wait_present(); invalid_path (the id makes no name of a node),
  /// invalid_argument (the layout has no payload), too_large.
  Membership join(std::string id, std::string payload = {}, const zkclient::CallOptions& call = {});
  void async_join(std::string id, std::string payload, zkclient::Handler<Membership> handler,
                  const zkclient::CallOptions& call = {});
  /// The same without waiting, for a service that starts before its ensemble does.
  Membership begin_join(std::string id, std::string payload = {});

  /// Waits for the first snapshot, and returns the newest, in which is what this client has joined, updated and left
  /// before: the first call of this, of wait_for_members() or on_change() begins to watch the group, later ones send
  /// nothing, and wait only for such an own change to be read. By default not for longer than the client's operation_timeout.
  GroupSnapshot members(const zkclient::CallOptions& call = {}) const;
  void async_members(zkclient::Handler<GroupSnapshot> handler, const zkclient::CallOptions& call = {}) const;
  /// Waits until there are at least `count` members, for ever unless `call` has a deadline or a stop token. Counts what
  /// this client has joined and left before, as members() does; not what cannot be read. An error says who was there
  /// last, and problem().
  GroupSnapshot wait_for_members(std::size_t count, const zkclient::CallOptions& call = {}) const;
  void async_wait_for_members(std::size_t count, zkclient::Handler<GroupSnapshot> handler,
                              const zkclient::CallOptions& call = {}) const;
  /// As Cache::on_change(): first all members as `added`, then each net difference. A member whose node cannot be read
  /// any more is told as `removed` only once that is known. Also called, without changes, when GroupSnapshot::complete is
  /// another one.
  zkclient::Subscription on_change(Listener listener) const;
  /// What could not be read, as Cache::problem(), also if that is no member's: overloaded (more watched paths than a
  /// session may have), no_auth and the like, too_large. nullopt: nothing is missing, or nobody has begun to watch the
  /// group. Does not block.
  std::optional<zkclient::Error> problem() const;

  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<const detail::GroupSpec> spec_;
};

}  // namespace zkrecipes
