#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/periodic_job.hpp>
#include <zkrecipes/place_replicas.hpp>

/// What a recipe has put at a path, for operators and their tools: nobody says beforehand which recipe it is. A recipe's
/// own listing (Acquirable::contenders(), Election::candidates(), QueueBase::list()) says more, and is for programs that
/// know what they use.
///
/// Guaranteed: nothing is written; what was acknowledged before the call is seen, as far as Client::sync() goes;
/// contenders stand in the recipe's own order, and hold by the recipe's own rule. The kind follows from the names of nodes,
/// and from what this library writes into them: names that no recipe of this library understands are listed as foreign, and
/// nothing is said about who of them holds.
/// Not guaranteed: one instant (the nodes are read after the list of them; what vanishes between is left out); that a
/// path without contenders is known for what it is: a lock that is free looks like any node without children, and so does a
/// latch that nobody has counted down. A job is known from its first run on, a node that outlives sessions only by an id
/// before its name, and an ephemeral one without such an id only if at most 20 nodes are kept in its folder. What only a
/// program knows cannot be read: a job's schedule, the steps of a migration set, how many replicas a placer wants.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// nothing at the path                      RecipeKind::nothing
/// node vanishes between list and read      it is left out
/// names of no recipe                       RecipeKind::unknown, without contenders
/// names of Curator and of kazoo            NodeNaming::mixed; both are listed, in one order
/// no access to a node                      no_auth
/// a job's state is none of ours            RecipeKind::periodic_job, without InspectedJob::status
/// record of a migration is none            InspectedStep::foreign
/// placement or group is none of ours       InspectedPartition::problem
namespace zkrecipes {

/// The recipe whose nodes stand at a path.
enum class RecipeKind {
  nothing,          ///< There is no node.
  unknown,          ///< No recipe that is known has nodes there now.
  mutex,            ///< Mutex, RecursiveMutex, LeaderSelector; kazoo's Lock and Election.
  shared_mutex,     ///< SharedMutex.
  unfair_mutex,     ///< UnfairMutex.
  semaphore,        ///< Semaphore, as long as its two directories are there.
  election,         ///< LeaderElection.
  unfair_election,  ///< UnfairLeaderElection.
  barrier,          ///< Barrier of this library: one that another library has raised is a plain node.
  double_barrier,   ///< DoubleBarrier.
  queue,            ///< Queue.
  priority_queue,   ///< PriorityQueue; also kazoo's queues, whose items all have priorities.
  delay_queue,      ///< DelayQueue; also an IdQueue whose ids all look like times.
  id_queue,         ///< IdQueue.
  latch,            ///< Latch, once it was counted down.
  periodic_job,     ///< PeriodicJob, from its first run on.
  migrations,       ///< Migrations: the records of one set, or of all.
  placement,        ///< Placer and HostedReplicas.
  /// An ephemeral node that a process makes again whenever it goes: PersistentNode, and the node of a Group's member. Or any
  /// node with an id before its name (PersistentNodeOptions::protection, also Curator's).
  persistent_node,
  persistent_ttl_node,  ///< PersistentTtlNode, also Curator's, whose child has the default name.
};

/// Whose names they are.
enum class NodeNaming {
  none,       ///< There are no names to tell by.
  own,        ///< Of a recipe that shares its path with no other library.
  curator,    ///< Apache Curator's.
  kazoo,      ///< Stock kazoo's.
  zookeeper,  ///< Of ZooKeeper's own recipes.
  mixed,      ///< Curator's and kazoo's. Stock kazoo does not see the former, and Curator not the latter.
};

ZKRECIPES_API const char* to_string(RecipeKind kind) noexcept;
ZKRECIPES_API const char* to_string(NodeNaming naming) noexcept;

/// What is left of a latch.
struct InspectedLatch {
  std::int64_t generation = 0;  ///< Which use of the path it is.
  std::int64_t count = 0;       ///< Of this generation.
  std::int64_t left = 0;        ///< 0: it is open.
};

/// Where a periodic job stands. Its runner is the only contender.
struct InspectedJob {
  std::optional<JobStatus> status = {};  ///< nullopt: the state is none of ours, so no process can go on.
  /// JobStatus::running has no runner: its process died, or lost its session, and no other one has taken the job over
  /// yet. A process that stands by does so within some round trips, and no node tells whether there is one: look again
  /// before you raise an alarm.
  bool abandoned = false;
  std::vector<JobRun> runs = {};  ///< The last ten on record, the latest firing first.
  std::size_t records = 0;        ///< So many runs are on record.
};

/// A record of a migration set: a step that was applied.
struct InspectedStep {
  std::string node;                                    ///< Its name.
  std::string digest = {};                             ///< 32 bytes. What the step was is not on record.
  std::chrono::system_clock::time_point applied = {};  ///< By the server's clock.
  /// It is no such record. If its name begins with "meta-", Migrations::migrate() refuses the set (foreign_node); if not,
  /// only Curator's programs do.
  bool foreign = false;
};
/// The records of a set, in order. Whether a program's steps still are those that were applied, only that program can say:
/// Migrations::pending().
struct InspectedMigrationSet {
  std::string name;                       ///< The set's.
  std::vector<InspectedStep> steps = {};  ///< What was applied.
};

/// A host of a placement.
struct InspectedHost {
  ReplicaHost host;                                  ///< Weight 0: it is drained.
  std::int64_t session_id = 0;                       ///< Its session's.
  std::chrono::system_clock::time_point since = {};  ///< When it came, by the server's clock.
  std::size_t replicas = 0;                          ///< So many partitions shall have a replica here.
  std::size_t leaving = 0;                           ///< So many have one that shall go.
};
/// A partition of a placement.
struct InspectedPartition {
  std::string name;                         ///< Its name.
  std::vector<std::string> wanted = {};     ///< The hosts that shall have a replica.
  std::vector<std::string> leaving = {};    ///< Those that have one that shall go, once all wanted ones are in sync.
  std::vector<std::string> in_sync = {};    ///< Those that have every acknowledged write, and are there.
  std::size_t minimum = 0;                  ///< With fewer in sync, nothing is written. 0: its group has no state.
  std::optional<std::string> primary = {};  ///< The host of its primary; nullopt: there is none at the moment.
  std::string problem = {};                 ///< What of its nodes is none of ours. "": nothing.

  /// With fewer in sync than its group wants, or without a state that can be read, nothing can be written.
  bool below_minimum() const noexcept { return in_sync.size() < minimum || minimum == 0; }
  /// A replica is on its way here, or away.
  ZKRECIPES_API bool moving() const noexcept;
};
/// All of a placement. Its placers are the contenders.
struct InspectedPlacement {
  std::vector<InspectedHost> hosts = {};            ///< Those that are there, ordered by id.
  std::vector<std::string> foreign_hosts = {};      ///< Nodes among the hosts that are none: placers pass over them.
  std::vector<InspectedPartition> partitions = {};  ///< Ordered by name.
};

/// What is at a path.
struct Inspection {
  RecipeKind kind = RecipeKind::nothing;  ///< The recipe whose nodes stand there.
  NodeNaming naming = NodeNaming::none;   ///< Whose names the nodes have.
  /// Holders and waiters, in the recipe's order, then the foreign ones. Of a semaphore: one for each lease, then who
  /// waits. Of a queue: the claims, each with its item's name. Of a double barrier: `holds` says that it is inside.
  /// Of a barrier: its raiser. Of a job: its runner. Of a placement: its placers. Of a persistent node: its owner.
  std::vector<Contender> contenders = {};
  std::size_t items = 0;                               ///< Of a queue: claimed ones included.
  std::optional<InspectedLatch> latch = {};            ///< Of a latch.
  std::optional<InspectedJob> job = {};                ///< Of a periodic job.
  std::vector<InspectedMigrationSet> migrations = {};  ///< Of migrations: all sets, or the one whose path it is.
  std::optional<InspectedPlacement> placement = {};    ///< Of a placement.
  /// Of a persistent node with a time to live: when its owner showed that it lives, by the server's clock.
  std::optional<std::chrono::system_clock::time_point> touched = {};
};

/// Looks at `path`. Blocks for a few round trips, whatever the number of contenders; it reads each of their nodes, and of a
/// placement four nodes for each partition and one for each replica. Errors: no_auth (a node that may
/// not be read), and those common to all operations of Client. Thread safety: may be called from any thread.
ZKRECIPES_API Inspection inspect(const zkclient::Client& client, const zkclient::Path& path,
                                 const zkclient::CallOptions& call = {});
/// The same; `handler` is called exactly once, on the callback executor.
ZKRECIPES_API void async_inspect(const zkclient::Client& client, const zkclient::Path& path,
                                 zkclient::Handler<Inspection> handler, const zkclient::CallOptions& call = {});

}  // namespace zkrecipes
