#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>

namespace zkrecipes {

namespace detail {
struct ReplicaSeat;
}

/// A member that has every acknowledged write. It is a storage that does: with an emptied disk, or on another machine,
/// the same id is a new member.
struct InSyncReplica {
  std::string id;                     ///< The member's.
  std::string storage;                ///< The storage's.
  std::chrono::milliseconds term{0};  ///< How long it may serve reads without having asked again.

  friend bool operator==(const InSyncReplica&, const InSyncReplica&) = default;
};

/// What a group has agreed upon.
struct ZKRECIPES_API ReplicaState {
  std::int64_t epoch = 0;              ///< Grows with each primary. 0: there was none yet.
  std::string primary = {};            ///< Of this epoch; "": there was none. It may be gone by now.
  std::vector<InSyncReplica> in_sync;  ///< Ordered by id.
  std::size_t minimum = 1;             ///< With fewer in sync, nothing is written.
  std::int64_t forced = 0;  ///< The last epoch before which an operator gave up acknowledged writes; 0: none.
  std::chrono::milliseconds leaving{0};  ///< The longest term of those that were taken out, and may serve reads still.

  /// Null if it is not in sync.
  const InSyncReplica* find(std::string_view id) const noexcept;
  friend bool operator==(const ReplicaState&, const ReplicaState&) = default;
};

/// A member that is there, as it has shown itself.
struct ReplicaMember {
  std::string id;                     ///< As Replica has it.
  std::string storage;                ///< As Replica has it.
  std::chrono::milliseconds term{0};  ///< How long it may serve reads without having asked again.
  std::uint64_t version = 0;          ///< As it has reported.
  std::string address = {};           ///< As Replica has it.

  friend bool operator==(const ReplicaMember&, const ReplicaMember&) = default;
};

/// What a member is at the moment.
///
///   joining --> out | secondary | candidate          its node is there
///   out --> secondary                                the primary has taken it in (expand)
///   secondary --> out                                ... or out (shrink)
///   secondary --> candidate --> primary | secondary  the primary's node is gone: it, or another one, has taken over
///   primary --> joining                              its lease was lost, or another epoch has begun
///   any --> joining                                  its own node is gone, with its session say
///   any --> left                                     final
enum class ReplicaRole {
  joining,    ///< It does not know yet what it is.
  secondary,  ///< In sync, with a primary.
  candidate,  ///< In sync, without a primary.
  primary,    ///< It leads.
  out,        ///< Not in sync, or no member that is in sync is there: see ReplicaGroup::problem().
  left,       ///< For ever.
};

ZKRECIPES_API const char* to_string(ReplicaRole role) noexcept;

/// Who a member is.
struct Replica {
  std::string id;  ///< Printable ASCII without spaces and slashes, 128 bytes at most.
  /// Likewise. Made at random with the storage, and kept there: an emptied one has another. Who erases a storage ends its
  /// name first.
  std::string storage;
  std::string address = {};  ///< Whatever the others need to reach it; 1024 bytes at most.
};

/// What a member is told that becomes the primary.
struct PrimaryTerm {
  std::int64_t epoch = 0;                   ///< The one that begins: grows with each primary.
  std::vector<InSyncReplica> in_sync = {};  ///< Who has every acknowledged write.
  FencingToken token = {};                  ///< For whatever refuses the writes of a former primary.
  /// The term is over. Its lease is lost: no other member can be the primary before that. Or it was given back, because
  /// this member leaves, or a newer epoch has begun.
  std::stop_token lost = {};
};

/// What a member is told that becomes a secondary.
struct SecondaryTerm {
  std::int64_t epoch = 0;    ///< The primary's.
  std::string primary = {};  ///< Its id.
  std::string address = {};  ///< The primary's; "" if it is not known.
  bool in_sync = false;      ///< False: it has to catch up, and does not count.
};

/// What a member is told, on the callback executor, one call at a time; a slow one is told the newest only. Each may
/// block, and call its group. Exceptions: as those of every callback.
struct ReplicaHandlers {
  /// Make the log of each member that is in sync equal the own one (tails are cut off), or take it out with shrink().
  /// Refuse what has a lower epoch from now on. When it returns, ReplicaGroup::may_write() can be true. If it cannot
  /// be done, return when `lost` is requested, or call leave().
  zkclient::UniqueFunction<void(const PrimaryTerm& term)> become_primary;
  /// Take entries of this epoch, and refuse those of a lower one. Keep the epoch with the log before the first entry of
  /// it is confirmed: it must survive a crash.
  zkclient::UniqueFunction<void(const SecondaryTerm& term)> become_secondary;
  /// There is no primary, as far as is known. May be empty.
  zkclient::UniqueFunction<void(ReplicaRole role)> become_idle = {};
};

struct ReplicaGroupOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// With fewer in sync, may_write() is false. Written into the first state; that of an existing group stays. It is no
  /// quorum: a write still is acknowledged when ALL that are in sync have it.
  std::size_t minimum = 1;
  /// How long a member waits for each that would be the better primary.
  std::chrono::milliseconds settle{1000};
  /// How long it may serve reads without having asked again, and so how long a primary that takes it out waits. 0: 7/12
  /// of the session timeout.
  std::chrono::milliseconds read_term{0};
  /// Not built: acknowledging when only so many have a write would take a promise of the others at each change of the
  /// primary. Any value is refused with Errc::unsupported.
  std::optional<std::size_t> write_quorum = {};
};

/// A member of a group of replicas: who may write, who must have a write before it is acknowledged, who may serve
/// reads. It moves no data. The rules are those of PacificA (Lin et al. 2008), with ZooKeeper as the manager of
/// configurations.
///
///   path                 persistent, or a container
///    |-- state           persistent: epoch, primary, in-sync members; its version orders all changes
///    |-- members/<id>    ephemeral, of a Group with leases: storage, address, reported version
///    '-- primary/owner   ephemeral: the primary's lease; its czxid is the fencing token. Beside it a node
///                        of this holding alone
///
/// Invariants: at most one member may write, and each of them with an epoch of its own. While one member that is in
/// sync keeps its storage, no acknowledged write is lost. They hold if the users of this class follow the rules:
///
///   1. A write goes to the members with the primary's epoch, and is durable there before it is confirmed.
///   2. It is acknowledged when ALL of in_sync() have confirmed it, while may_write() is true.
///   3. A member refuses what has a lower epoch than the highest that it took; that epoch is durable, too.
///   4. A new primary makes all logs equal before become_primary() returns.
///   5. A member that catches up gets all writes from when expand() is called, with the epoch in which it did.
///   6. A secondary serves what the primary has declared acknowledged, while may_serve_reads(). Such reads may be old.
///
/// Taking over is one transaction: it checks the own member's node, makes the primary's node, and sets the state by the
/// version on which the choice rests. docs/models/replica_group.pml is the protocol, checked.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ----------------------------------------------------------------------
/// primary cut off                          may_write() is false by its own clock before another one takes over; what
///                                            it sent carries the old epoch, and is refused
/// primary dies between shrink and acknowledge   the write is on all that are in sync now; the next primary has it
/// primary's process dies                   the best of those in sync takes over when the session has ended
/// all in-sync members dead                 out, problem() is not_available; goes on when one of them is back
/// operator forces a primary                that member takes over; ReplicaState::forced tells
/// two candidates at once                   one takes over, the other one follows
/// taken over, but the grant fails          the state names a primary that never was; the next one has the next epoch
/// caught up in an epoch that is over       expand() ends with not_held: the member is not taken in
/// leaves while it is taken in              expand() ends with no_node: no state names a member that is gone by then, or
///                                            is back with an empty disk
/// shrink, expand: reply lost               nothing: found out; the set counts that is the larger one
/// secondary taken out while it is cut off  may_serve_reads() is false before shrink() returns
/// disk emptied                             not in sync, whatever its id: the storage is another one
/// another session has the member's id      joining, problem() is node_exists; it waits
/// session lost while a secondary           joining, then what it was; in sync all the while
/// state removed or overwritten by hand     out or joining, problem() is no_node or foreign_node; nobody is the primary
/// state cannot be read                     out or joining, problem() is no_auth; tried again every 30 s
/// left, destroyed while become_primary() runs   `lost` of its term is requested; the destructor waits for it
/// client closed                            left
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to. In a forked child nothing is allowed, and calls end with Errc::forked.
class ZKRECIPES_API ReplicaGroup {
 public:
  /// Joins; returns at once, with no I/O of its own. A handler may be called before this returns. It may call the object
  /// that is being made; so an object that its handlers call must not be moved. Errors: invalid_argument (id, storage,
  /// address, a handler is missing, minimum is 0 or above 64, a time that is negative or above an hour, the path is the
  /// root), invalid_acl, unsupported (write_quorum), closed.
  ReplicaGroup(zkclient::Client client, zkclient::Path path, Replica self, ReplicaHandlers handlers,
               ReplicaGroupOptions options = {});
  /// Leaves, without waiting for it; but waits for a handler that runs, unless it is called there.
  ~ReplicaGroup();
  ReplicaGroup(ReplicaGroup&&) noexcept;
  ReplicaGroup& operator=(ReplicaGroup&&) noexcept;

  // --- None of these blocks ---

  const zkclient::Path& path() const noexcept;
  /// What this member is, as far as it knows.
  ReplicaRole role() const noexcept;
  /// Why it is not what it could be; nullopt: nothing is wrong.
  std::optional<zkclient::Error> problem() const;
  /// The newest state that this member has seen; nullopt: none.
  std::optional<ReplicaState> state() const;
  /// The members that are there, ordered by id, as this one has seen them last; with its own newest report, once
  /// report_version() has returned.
  std::vector<ReplicaMember> members() const;

  /// This member is the primary by its own clock, its become_primary() has returned, no former member serves reads any
  /// more, and enough members are in sync.
  bool may_write() const noexcept;
  /// Whose confirmation a write needs, with the primary's own; empty when it is not the primary. Ask when a write is
  /// about to be acknowledged: members are in it from when they may be in sync until they certainly are not.
  std::vector<InSyncReplica> in_sync() const;
  /// This member is in sync by its own clock. A primary: its lease is valid, and become_primary() has returned.
  bool may_serve_reads() const noexcept;

  // --- Calls ---

  /// Tells the others how far this member's log goes: the highest is the first choice for the next primary. It costs a
  /// write and an event for each member, so report now and then. Errors: as Membership::update().
  void report_version(std::uint64_t version, const zkclient::CallOptions& call = {});
  void async_report_version(std::uint64_t version, zkclient::Handler<void> handler,
                            const zkclient::CallOptions& call = {});
  /// The primary takes members out that have failed or lag behind, and waits until none of them serves reads. By
  /// default without a deadline. Errors: not_held (it is not the primary, or not any more), invalid_argument (itself),
  /// deadline_exceeded and cancelled (it goes on), and what the server refuses.
  void shrink(std::vector<std::string> ids, const zkclient::CallOptions& call = {});
  void async_shrink(std::vector<std::string> ids, zkclient::Handler<void> handler,
                    const zkclient::CallOptions& call = {});
  /// The primary of `epoch` takes a member in that has all acknowledged writes in this storage, and gets all further
  /// ones. Errors: as shrink(); not_held also if this is the primary of a later epoch: the member may lack what was
  /// written in between; no_node (there is no such member with this storage; checked in the transaction, too);
  /// foreign_node (the member's node is none of this recipe, or beside the members are far more nodes than a group makes).
  /// It costs a list of the group's members, and a read of each.
  void expand(std::int64_t epoch, std::string id, std::string storage, const zkclient::CallOptions& call = {});
  void async_expand(std::int64_t epoch, std::string id, std::string storage, zkclient::Handler<void> handler,
                    const zkclient::CallOptions& call = {});
  /// Gives the primary's lease back, and leaves. Idempotent. Errors: deadline_exceeded, cancelled (it goes on).
  void leave(const zkclient::CallOptions& call = {});
  void async_leave(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

 private:
  std::unique_ptr<detail::ReplicaSeat> seat_;
};

/// An operator's last resort, when no member that is in sync comes back: this one takes over with what it has.
/// **Acknowledged writes that it lacks are lost.** The member is checked as expand() checks it. Errors: node_exists (there
/// is a primary), no_node (no such member is there, or no group), foreign_node, invalid_argument, in_doubt, and what the
/// server refuses.
ZKRECIPES_API void force_primary(const zkclient::Client& client, const zkclient::Path& path, const std::string& id,
                                 const zkclient::CallOptions& call = {});
ZKRECIPES_API void async_force_primary(const zkclient::Client& client, const zkclient::Path& path,
                                       const std::string& id, zkclient::Handler<void> handler,
                                       const zkclient::CallOptions& call = {});

}  // namespace zkrecipes
