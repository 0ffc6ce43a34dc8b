#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/export.hpp>

#include <zkrecipes/place_replicas.hpp>

/// What a placer does next. Pure functions of what it knows, which may be old: each step says on what it rests, and the
/// placer has that checked in the transaction that writes it.
namespace zkrecipes::detail {

using HostIds = std::vector<std::string>;  ///< Ordered.

/// What a partition's node says.
struct PlacementNode {
  HostIds wanted = {};    ///< Who shall have a replica.
  HostIds assigned = {};  ///< Who has one, or makes one: all of `wanted`, and those whose replicas shall go.

  bool moving() const { return wanted != assigned; }
  friend bool operator==(const PlacementNode&, const PlacementNode&) = default;
};

/// What is known of the hosts, and since when. A host that goes keeps its place until it has been away for a while, and one
/// that comes gets nothing before it has been there for a while. All that is found at the beginning counts as news.
class ZKRECIPES_INTERNAL_API HostBook {
 public:
  using Time = std::chrono::nanoseconds;  ///< Of any clock that never goes back.

  explicit HostBook(std::chrono::milliseconds settle) : settle_(settle) {}

  /// These hosts are there now, and no other ones.
  void see(const std::vector<ReplicaHost>& present, Time now);
  /// The hosts that count: `assigned` are those that have, or shall have, a replica. nullopt: nobody can say so far, because
  /// one of those is away for too short a time, and its rack is not known.
  std::optional<std::vector<ReplicaHost>> counting(const std::vector<std::string>& assigned, Time now) const;
  /// How long until counting() may say something else, by time alone; nullopt: it will not.
  std::optional<Time> until_settled(Time now) const;

 private:
  struct Known {
    ReplicaHost host;
    bool present = true;
    Time since{0};
  };
  bool settled(Time since, Time now) const { return now - since >= settle_; }

  std::chrono::milliseconds settle_;
  std::optional<Time> began_;
  std::map<std::string, Known, std::less<>> known_;
};

struct PlacementRules {
  std::size_t replicas = 3;
  std::size_t minimum = 1;  ///< Fewer are never wanted, and with fewer that are ready nothing is taken away.
  std::size_t max_moving = 1;
};

struct PartitionFacts {
  std::string name;
  std::optional<PlacementNode> node = {};  ///< nullopt: it has none so far.
  /// Who has every acknowledged write, as the state of its group says; nullopt: there is no state that can be read.
  std::optional<HostIds> in_sync = {};
  HostIds ready = {};    ///< Those of them that are members of the group, with the storage that the state names.
  HostIds members = {};  ///< All members of the group.
  bool refused = false;  ///< The server refuses its step, and will for a while.
  bool late = false;     ///< Its move has waited for long for hosts. Perhaps they never come.

  /// Members are in sync, but none of them is there: until one is back, nobody can be the primary.
  bool nobody_serves() const { return in_sync && ready.empty(); }
};

/// Since when moves wait: for wanted hosts to join their groups, or for one in sync to be there, so that it can take the
/// wanted ones in. One that is dead never serves again. A host with a handler that does not return hangs: it joins no other
/// group either.
class ZKRECIPES_INTERNAL_API JoinBook {
 public:
  using Time = HostBook::Time;

  explicit JoinBook(Time patience) : patience_(patience) {}

  /// Says which partitions are late. Result: the hosts that hang, ordered. Moves have waited for them for long, and they
  /// have joined no group meanwhile.
  HostIds see(std::vector<PartitionFacts>& partitions, Time now);
  /// How long until see() may say something else, by time alone; nullopt: it will not.
  std::optional<Time> until_late(Time now) const;

 private:
  using ByHost = std::map<std::string, Time>;
  struct Waiting {
    HostIds wanted;
    Time since{0};
    ByHost missing = {};  // Since when: those of them that are no members.
  };
  void note_joins(const HostIds& members, const Waiting& before, Time now);
  Time waits_since(const ByHost::value_type& missing) const;

  const Time patience_;
  std::map<std::string, Waiting> waiting_;  // By partition.
  ByHost joined_;                           // When moves have last seen them join a group.
};

struct PlacementStep {
  std::string partition;
  PlacementNode next;
  bool rests_on_state = false;  ///< A replica goes, because of what in_sync said.
  HostIds rests_on_ready = {};  ///< A replica goes, because these are ready: `minimum` at least.

  friend bool operator==(const PlacementStep&, const PlacementStep&) = default;
};

/// Where all replicas shall end. Stays what it is while the same hosts count, so that moves come to an end.
class ZKRECIPES_INTERNAL_API PlacementGoal {
 public:
  /// Works it out anew if the hosts that count, or the partitions, are others than the last time.
  const Placement& reach(const std::vector<ReplicaHost>& hosts, const std::vector<PartitionFacts>& partitions,
                         std::size_t replicas);

 private:
  std::optional<std::vector<ReplicaHost>> hosts_;
  std::vector<std::string> names_;
  Placement goal_;
};

/// Ends a move whose wanted replicas are all ready; begins others, while fewer than max_moving are on their way: first
/// those of partitions with the fewest ready replicas, but those that nobody serves come last. One that is late does not
/// count as being on its way. Those that wait for no hosts but some that hang count among themselves. A move under way gets
/// another goal when that has changed.
///
/// A goal below the minimum counts for nothing: there are too few hosts, and what is there stays. So does one with a host
/// that is still a member of the group, though it was told to close its replica: until it has left. If all that are in
/// sync, and are there, were told to close their replicas, all that are in sync are called back at once. A partition whose
/// step is refused has none, and leaves its place among those that move to others. A node that is missing though there is a
/// group was removed by hand: it begins with all who may have acknowledged writes, since whom it leaves out closes its
/// replica. `goal` has all partitions. `hanging`: as JoinBook says.
ZKRECIPES_INTERNAL_API std::vector<PlacementStep> decide_placement(const std::vector<PartitionFacts>& partitions,
                                                                   const Placement& goal, const PlacementRules& rules,
                                                                   const HostIds& hanging = {});

// --- A host ----------------------------------------------------------------------------------------------------------

/// What a process has of a partition.
enum class HostedStage {
  none,    ///< Nothing, as far as it knows.
  open,    ///< A replica.
  closed,  ///< A copy. Its replica has left the group, or is about to.
};
enum class HostedStep { nothing, open, close };

/// What a host is told next. `placed`: whether its partition's node names it; nullopt: the node does not say.
/// `present`: no other process has its id.
ZKRECIPES_INTERNAL_API HostedStep decide_hosted(HostedStage stage, std::optional<bool> placed, bool present);

/// What a majority says, read in this order, after close() has returned.
struct ErasureFacts {
  bool member = true;                      ///< The host has a member's node in the group.
  std::optional<PlacementNode> node = {};  ///< Of the partition; nullopt: it does not say.
  std::optional<HostIds> in_sync = {};     ///< As PartitionFacts has it.
  HostIds ready = {};                      ///< Likewise, of the hosts that are wanted.
};

/// Whether a host may erase a closed copy. The rule of all placements: it has left the group, its partition is not placed
/// there, and the state, read afterwards, does not name it, but all that are wanted are ready. Each of these has all that
/// was acknowledged. Less is not enough: a replica that was told to close may be the primary, take out the wanted ones that
/// it cannot reach, and leave its last writes to one other copy. And one that the state names may have lost its disk since
/// then. A wanted host that does not come back is replaced by the placer, so the copy does not stay for ever. And no placer
/// takes this copy for one that has all: it is no member, and will not be one before it was opened again, which ends the
/// permission.
ZKRECIPES_INTERNAL_API bool may_erase(const std::string& id, const ErasureFacts& facts);

}  // namespace zkrecipes::detail
