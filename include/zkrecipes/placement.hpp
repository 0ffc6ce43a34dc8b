#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/place_replicas.hpp>

/// Replicas of many partitions, each a ReplicaGroup (replica_group.hpp), on hosts that come and go. Peers: Apache
/// Helix, the controller of Kafka.
///
///   path
///    |-- hosts                a Group (see group.hpp): ephemeral <id>, data: "host 1 <weight> <rack>", "-" for no rack
///    |-- placer               a LeaderSelector of the placers
///    |-- placement            persistent
///    |    '-- <partition>     persistent, data: "placement 1", and a line "<host> wanted" or "<host> leaving" for each
///    |                        host that has a replica or makes one; written by the placer that leads, with its guard
///    '-- groups/<partition>   a ReplicaGroup of these hosts
///
/// No other library has such nodes: beside Helix, whose nodes are others, nothing can be shared.
///
/// place_replicas() (place_replicas.hpp) works out who shall have which. A PlacementMap (placement_map.hpp) tells routers
/// where the replicas are.
namespace zkrecipes {

namespace detail {
class HostedReplicasCore;
class PlacerCore;
}  // namespace detail

// --- Who decides -----------------------------------------------------------------------------------------------------

struct PlacerOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< This placer's name; default "host:pid".
  std::size_t replicas = 3;                      ///< Of each partition; from 1 to max_replicas.
  /// While there are fewer hosts than this, nothing is placed, and nothing is taken away. Nor is it from a partition
  /// that has fewer replicas in sync, or whose node wants fewer. ReplicaGroupOptions::minimum at least, so that groups
  /// can write. At most `replicas`.
  std::size_t minimum = 1;
  /// A host that goes keeps its replicas for so long, and one that comes gets none before it has been there for so
  /// long.
  std::chrono::milliseconds settle{30'000};
  /// So many partitions are moving at a time. At least 1. One whose new replica does not get in sync counts until it
  /// does. These do not count: one whose new host has not joined its group for 30 s, one without a replica in sync that
  /// could serve for 30 s, and one whose step the server refuses. So many more may wait for hosts that have joined no group
  /// for 30 s.
  std::size_t max_moving = 4;
};

/// Says which host shall have which replica. Several processes may have one; the one that leads decides, whenever
/// hosts, groups or placements change. It need not run where hosts do, and holds no replica.
///
/// A move adds the new replica, waits until it is in sync, and then takes the old one away: in a transaction that
/// checks the state of the group, the members of it that stay, the hosts that come, and the guard of the placer. A host
/// whose replica went leaves the group, and the primary takes it out of those in sync, as it does with any member that
/// is gone (ReplicaGroup::shrink()). Only then it erases its copy (HostedReplicasHandlers::erase): until it has left it may
/// be the primary, and take the others out. If all that are in sync and there have left, or are about to, they are placed
/// again.
///
/// The check of a member is by its node, and by the one that was made with it (see group.hpp), whose name no other one has:
/// so a member that is gone and back, perhaps with an empty disk, is another one, and the step is refused.
///
/// Invariants: a replica that may have acknowledged writes is taken away only when all that are wanted are in sync, and
/// these are `minimum` at least. No two wanted replicas of a partition are on one rack while hosts of enough racks are
/// there. While hosts stay the same, moves come to an end. Not promised: which replica is the primary.
///
/// Cost: a thread, and a view of hosts, placements and groups; one transaction for each step of each partition. Before one
/// that takes a replica away: a list of the group's members, and a read of each of them, all at once.
///
/// What goes wrong                             What happens
/// ------------------------------------------  -----------------------------------------------------------------------
/// --- Hosts --------------------------------  -----------------------------------------------------------------------
/// host dies, or is cut off                    after `settle` each of its replicas is replaced; then it has none
/// host is back within `settle`                nothing moves
/// host comes                                  after `settle` it gets its share, a few at a time
/// host is drained                             as one that has gone, but its replicas serve until others are in sync
/// too few hosts                               all stays where it is
/// new replica dies while it catches up        after `settle` another host gets it; the old one stays until then
/// wanted host has lost its disk               closed copies stay until it is in sync again, or another one in its
///                                               place, though the state may name its former storage for a while
/// disk of the only replica in sync is lost    those that are not in sync stay: an operator may need them
/// all in sync are away, perhaps for ever      that partition has no primary until one is back, or force_primary() is
///                                               called. It is the last to move
///   after 30 s                                it holds up no others; problem() says so
/// two hosts with one id                       the second one has no replicas, problem() is node_exists; it waits
/// --- Hosts that close a replica -----------  -----------------------------------------------------------------------
/// host still closes what it would get back    that partition stays where it is until the host has left the group;
///                                               then it opens the replica again, with all its data
///   its session ends meanwhile                it passes for one that has left
/// only hosts that close are in sync           they are called back: they get the replica until others are in sync
///   they are wanted again while they close    one that was called back passes for one that is open: there is a copy
///                                               too few until it has opened again and caught up
/// closing primary cannot reach the others     it may leave its last writes to one copy: its own stays until all that
///                                               are wanted are in sync
/// host restarts before its copy was erased    erased later, if HostedReplicasOptions::copies names it
/// --- Handlers of a host -------------------  -----------------------------------------------------------------------
/// a handler never ends                        close(), say. The host is told nothing more: copies stay, moves to it
///                                               do not end. Its problem() says so
///   after 30 s                                these moves hold up no others; problem() of the placer says so
///   until its process ends                    it is a host, so nobody else gets what it shall have: if that is to
///                                               replace what died, a replica is missing until then
/// open() or close() throws                    it counts as done, and is not told again; others are
///   close() leaves its member in the group    the copy stays, and is not opened again
/// erase() throws                              told again, after a pause
/// erase() has to wait for another handler     the rule is looked at again before it is told
/// --- Placers ------------------------------  -----------------------------------------------------------------------
/// no placer                                   all stays where it is; groups go on by themselves
/// placer dies, is cut off                     the next one goes on with what is written; what the former one sends
///                                               late is refused by its guard
/// group changes while the placer decides      its transaction is refused; it looks again
/// reply of a step is lost                     it looks again, and finds what is written
/// server refuses a step: no right, a quota    that partition stays where it is, others move; problem() says why;
///                                               tried again after 30 s
/// a host cannot be read                       all stays where it is; problem() says why
/// a group cannot be read                      nothing of it is taken away, and no placement of it is made; others go
///                                               on; problem() says why
/// client closed                               the placer does not lead; a host is told nothing more
/// --- Operators, and nodes of others -------  -----------------------------------------------------------------------
/// a placement is foreign, or without hosts    that partition stays where it is; problem() is foreign_node
/// a placement is removed by hand              made again, with all hosts that are in sync or in the group
/// a placement or a state is removed or        no closed copy of it is erased; problem() of the host says so
///   overwritten while a copy is closed
/// the state of a group is foreign             as one that cannot be read; problem() is foreign_node
/// a group has over 1,000 members, or as many  nothing of it is taken away; others go on; problem() is foreign_node;
///   foreign nodes pass for theirs               tried again after 30 s
///
/// Thread safety: all members. The object keeps its client open. In a forked child leads() is false.
class ZKRECIPES_API Placer {
 public:
  /// No I/O. `partitions`: names that nodes can have; the same for all placers. One that is in no placer's list any
  /// more keeps its replicas. Errors: invalid_acl, invalid_argument (a name that no node can have, or that leaves
  /// no room for the nodes of its group, or twice; an option is out of its range), invalid_path (the path leaves no room
  /// for the nodes below it).
  Placer(zkclient::Client client, zkclient::Path path, std::vector<std::string> partitions, PlacerOptions options = {});
  /// As LeaderSelector's: waits until the thread has ended.
  ~Placer();
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;

  /// Stands for election. Returns at once. Again: nothing. Errors: closed, forked.
  void start();
  /// Whether this placer decides, right now. Does not block.
  bool leads() const noexcept;
  /// Why it could not decide, or write a step, the last time; or which move has waited for 30 s for a host to join the
  /// group, or for a replica in sync (not_available). nullopt: nothing is wrong. Does not block.
  std::optional<zkclient::Error> problem() const;

  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<detail::PlacerCore> core_;
};

// --- Who has replicas ------------------------------------------------------------------------------------------------

/// A replica that a host has.
struct HostedReplica {
  std::string partition;  ///< Its name.
  zkclient::Path group;   ///< Of its ReplicaGroup.
};

/// What a host is told, on the callback executor, one call at a time. Exceptions: as those of every callback.
struct HostedReplicasHandlers {
  /// This host shall have a replica: open its storage, and make a ReplicaGroup at `group`, with the host's id as the
  /// member's. Also told when the process starts, of all that it had before.
  zkclient::UniqueFunction<void(const HostedReplica& replica)> open;
  /// It shall not have it any more: leave the group, and destroy the ReplicaGroup. Keep the data: it may be the only copy
  /// of what was acknowledged last. Then open() or erase() follows.
  zkclient::UniqueFunction<void(const HostedReplica& replica)> close;
  /// The data of a closed replica is not needed any more: erase it. This is the only rule by which a host may erase a
  /// copy: it has left the group; its partition is not placed here; and the state of the group, read afterwards from a
  /// majority, does not name it, but names all hosts that are wanted, each with the storage with which it is a member. Told
  /// while the host's lease is valid, so that no other process has its id, and within a second of when that state was read;
  /// not after leave(). If it throws, the copy is taken to be there still, and this is told again. May be empty: then the
  /// data stays.
  ///
  /// End the storage's name first (Replica::storage), durably: what a crash leaves of a copy must not be opened as the
  /// storage that it was. And take the lock of the storage: a former process of this host may be there still.
  zkclient::UniqueFunction<void(const HostedReplica& replica)> erase = {};
};

struct HostedReplicasOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// The partitions of which this process finds a copy on its disk when it starts. One that is placed here is opened, as
  /// ever; the others are closed copies: erase() is told of each when its time has come.
  std::vector<std::string> copies = {};
};

/// A host, and the replicas that it has. See Placer for what goes wrong.
///
/// A host that loses its session keeps its replicas open: their groups have leases of their own, and it is a host again
/// with the next session. What it was told to close while it was away, it is told then. It opens and erases nothing until
/// it is a host again. Each handler rests on what is known when it is called, however long the one before has taken.
///
/// Cost: a lease, which is six quorum writes per session timeout; a view of the placements. For a closed copy three reads,
/// each behind a transaction that changes nothing, which is a quorum write; and one of each member that is wanted, once the
/// state names all of these. That again and again until the copy may be erased: at last every 5 s.
///
/// Thread safety: all members, also from the handlers. The object keeps its client open. In a forked child nothing is
/// told, and calls end with Errc::forked.
class ZKRECIPES_API HostedReplicas {
 public:
  /// Errors: invalid_acl, invalid_argument (an id or a rack that is not printable ASCII without spaces and slashes, or
  /// longer than 128 bytes; a weight above max_weight; a handler is missing; the path is the root; a copy of a name that no
  /// partition can have). No I/O.
  HostedReplicas(zkclient::Client client, zkclient::Path path, ReplicaHost host, HostedReplicasHandlers handlers,
                 HostedReplicasOptions options = {});
  /// Leaves, without waiting for it; but waits for a handler that runs, unless it is called there. close() is not told
  /// of what is open.
  ~HostedReplicas();
  HostedReplicas(const HostedReplicas&) = delete;
  HostedReplicas& operator=(const HostedReplicas&) = delete;

  /// Becomes a host. Returns at once, whether a server is there or not. Again: nothing. Errors: closed (also after
  /// leave()), forked.
  void start();
  /// For planned work: this host gets no more replicas, and what it has moves away. Waits until no partition is placed
  /// here, for ever unless `call` has a deadline or a stop token; it goes on when the call fails. A placement that cannot
  /// be read counts as one that is here; so does one that is foreign or was removed, while its replica is open. So does one
  /// of a partition that no placer has in its list: nobody moves it. problem() names what it waits for. close() may still run
  /// for the last one when it returns, and erase() follows, or open() again if no other replica in sync is left: wait until
  /// erase() was told of all. A host that leaves before that keeps the copy: see HostedReplicasOptions::copies.
  /// Errors: as Membership::update(), Cache::refresh() and Cache::wait_until(); not_held (it was not started, or has left).
  void drain(const zkclient::CallOptions& call = {});
  void async_drain(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  /// Is no host any more, and is told nothing more. Final. Replicas stay open: destroy their groups. A handler that runs
  /// is not waited for: it may still run when this returns, until the destructor has returned. Errors: as
  /// Membership::leave().
  void leave(const zkclient::CallOptions& call = {});
  void async_leave(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// The partitions that open() was told of, and close() was not; ordered. Does not block.
  std::vector<std::string> hosted() const;
  /// Why it is no host, or has no lease (node_exists: another process has the id; timeout_too_short; no_auth; ...); why it
  /// cannot read what it shall have, or whether it may erase a copy (also no_node, foreign_node: somebody has removed or
  /// overwritten the placement or the state); which handler has been running for over 10 s, or what drain() waits for
  /// (not_available). nullopt: nothing is wrong. Does not block.
  std::optional<zkclient::Error> problem() const;

  const std::string& id() const noexcept;
  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<detail::HostedReplicasCore> core_;
};

}  // namespace zkrecipes
