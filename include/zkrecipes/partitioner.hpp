#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>

namespace zkrecipes {

namespace detail {
class PartitionerCore;
}

/// Where a partitioner's list of partitions comes from. The same for all members, or nearly so.
class ZKRECIPES_API PartitionSource {
 public:
  /// These; the order means nothing. Errors: invalid_argument (a name that no node can have, or twice).
  static PartitionSource list(std::vector<std::string> names);
  /// "0" to "`count` - 1": for partition_of() of hashing.hpp.
  static PartitionSource numbered(std::size_t count);
  /// The names of the children of this node, as they come and go. None if it is missing.
  static PartitionSource children_of(zkclient::Path path);

  /// What it was made of: the names, or the node whose children they are.
  const std::vector<std::string>& names() const noexcept { return names_; }
  const std::optional<zkclient::Path>& parent() const noexcept { return parent_; }

 private:
  PartitionSource() = default;
  std::vector<std::string> names_;  // Ordered.
  std::optional<zkclient::Path> parent_;
};

/// A partition that this process owns: its lease, and its name. Work on it while valid(); when revoke_requested() fires,
/// finish, and give it back (release(), or destroy it); when lost() fires, it is over. See Lease for all of that.
class ZKRECIPES_API [[nodiscard]] Partition : public Lease {
 public:
  Partition() noexcept = default;
  Partition(std::string name, Lease lease) noexcept : Lease(std::move(lease)), name_(std::move(name)) {}

  /// "" of an empty one. Stays when it was given back.
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
};

struct PartitionerOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// This member's name, a name that a node can have; default "host:pid". A process that comes back with the same id
  /// gets the same partitions.
  std::string id = {};
  std::string data = {};     ///< For routers: see PartitionOwner::data.
  std::uint32_t weight = 1;  ///< Its share of the sum of all weights. 0: it gets nothing.
  /// How much more than its share a member may have, as in assign(). The same for all members.
  double max_load = 1.0;
  /// For so long without a change of members or partitions nobody is asked to give back what it has, so that those
  /// who come and go for a moment move nothing.
  std::chrono::milliseconds settle{1'000};
  /// Within this time the owner gives back what was asked for; then it is lost.
  std::chrono::milliseconds grace{10'000};
  std::size_t max_moving = 8;  ///< This member is asked for so many at a time. At least 1.
};

/// Shares partitions out among the processes that are there, each to one of them at most. Peers: kazoo's
/// SetPartitioner, the consumer groups of Kafka. Not possible: to share partitions out together with
/// a SetPartitioner, whose nodes are others. For that take a Group with GroupLayout::kazoo_shallow() at its `party`, and a
/// Mutex with Layout::kazoo() at its `locks/<partition>`.
///
///   path
///    |-- members              a Group with leases (see group.hpp): ephemeral <id>, data: "weight=1 set=<hash>"
///    '-- owners
///         '-- <partition>     container
///              '-- owner      ephemeral: its creator owns the partition; data: the id, and on the next line
///                             PartitionerOptions::data. Made in one transaction with a check of the own member node and
///                             with _c_<uuid>-owner, the node that is this holding's alone
///
/// Invariant: a partition's `owner` exists at most once, and the lease of it ends before the next one is made.
///
/// Every member works out for itself who shall have what, by assign() of hashing.hpp over the members that are there.
/// Members that disagree for a moment do no harm: the leases exclude. A partition without owner is taken at once. One
/// that has an owner is asked back after `settle`, and the next owner, who watches it, takes it when it is free. So a
/// member that joins or leaves moves what it shall have or had, and little else.
///
/// Guaranteed: never two owners, by their own clocks; the tokens of a partition grow; a partition without owner gets
/// one as soon as the members know of it. Not guaranteed: that a process that is paused, or ignores lost(), stops in
/// time (give token() or guard() to what it writes to); that a partition is never without an owner: from one to the next
/// passes at least a round trip. After an outage that cost the session, a member waits for the end of its own former
/// session, which its client closes as soon as it is connected again.
///
/// Cost for P partitions, M members: a member takes with 5 requests, waits with 1 and a watch, and holds with a watch.
/// 16 requests at most are on their way. Leases of all partitions share their heartbeats. Beyond 10,000 partitions the
/// watches do not fit a session: make partitions larger, or use more paths.
///
/// What goes wrong                               What happens
/// --------------------------------------------  -----------------------------------------------------------------
/// no server yet                                 it begins when there is one
/// take: request or reply lost                   nothing: it is found out
/// connection breaks, session goes on            nothing moves, no lease is lost
/// owner's session is lost                       its leases are lost() first; others take over at once; it is a member
///                                                 again with the next session
/// the servers keep a session that was given up  it is closed as soon as they serve again; its partitions are free then
/// owner is cut off                              lost() by its own clock; others take over when its session has ended
/// owner's process dies                          the same
/// a member joins                                it is given what it shall have, the rest stays
/// a member leaves                               it hands over one by one, the rest stays
/// a member restarts                             within `settle` only its own partitions moved; it gets them back
/// members change while partitions are taken     ends in the last assignment
/// owner does not give back                      after `grace` it is lost() and taken over; the token refuses late writes
/// owner gives back what it shall have           it gets it again, a second later
/// owner's node deleted by hand                  lost(), and taken again
/// member's node deleted by hand                 made again; its partitions stay
/// a server that lags behind hides the member    it keeps what it has, and waits until it sees itself
/// two members with one id                       the second one waits, problem() is node_exists; it takes over when the
///                                                 first one is gone
/// members know different sets                   those of one set share it out among themselves; what several sets
///                                                 have in common has one owner
/// partitions come and go                        taken at once; asked back after `settle`
/// the source's node is missing or unreadable    there are no partitions; unreadable: what is known stays, problem()
/// a member's node cannot be read                the same: the members that are known stay, and nobody takes what one
///                                                 has left that dies meanwhile. Who starts meanwhile goes by the
///                                                 members that it can read
/// may not create or read                        problem() says so; tried again every 5 s
/// client closed                                 all is lost(); the partitioner is finished
///
/// Thread safety: all members, also from on_acquired. The object keeps its client open. In a forked child nothing is
/// owned, and calls end with Errc::forked.
class ZKRECIPES_API Partitioner {
 public:
  /// Gets each partition that this member has taken, on the callback executor, one call at a time. Put the work
  /// elsewhere: the next partition waits for its return. What is not kept is given back.
  using OnAcquired = zkclient::UniqueFunction<void(Partition partition)>;

  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_path (the id makes no name of a node), invalid_argument (no
  /// function, a weight above max_weight, max_load as for assign(), a negative time, max_moving is 0).
  Partitioner(zkclient::Client client, zkclient::Path path, PartitionSource source, OnAcquired on_acquired,
              PartitionerOptions options = {});
  /// As stop(), but does not wait for the server. When it returns, on_acquired has returned, unless that calls it.
  ~Partitioner();
  Partitioner(const Partitioner&) = delete;
  Partitioner& operator=(const Partitioner&) = delete;

  /// Becomes a member, and takes what it shall have. Returns at once, whether a server is there or not. Again: nothing.
  /// Errors: closed (also after leave() or stop()), forked.
  void start();
  /// Leaves the group, and hands over all partitions, `max_moving` at a time: each holder is asked to give back, and
  /// after `grace` it loses. Waits until nothing is held, for ever unless `call` has a deadline or a stop token. When the
  /// call fails, leaving goes on. Final and idempotent. Errors: deadline_exceeded, cancelled, closed.
  void leave(const zkclient::CallOptions& call = {});
  void async_leave(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  /// Leaves at once: all partitions are lost() now. Waits until their nodes are gone. Otherwise as leave().
  void stop(const zkclient::CallOptions& call = {});
  void async_stop(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// The names of the partitions whose leases are valid now, ordered. Does not block.
  std::vector<std::string> owned() const;
  /// Why this is no member, or cannot read or take what it shall have: node_exists (another process has the id), no_auth,
  /// timeout_too_short, ... nullopt: nothing is wrong. Does not block.
  std::optional<zkclient::Error> problem() const;

  const std::string& id() const noexcept;
  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<detail::PartitionerCore> core_;
};

}  // namespace zkrecipes
