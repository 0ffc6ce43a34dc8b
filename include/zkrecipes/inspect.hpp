#pragma once

#include <cstddef>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/contender.hpp>

/// What a recipe has put at a path, for operators and their tools: nobody says beforehand which recipe it is. A recipe's
/// own listing (Acquirable::contenders(), Election::candidates(), QueueBase::list()) says more, and is for programs that
/// know what they use.
///
/// Guaranteed: nothing is written; what was acknowledged before the call is seen, as far as Client::sync() goes;
/// contenders stand in the recipe's own order, and hold by the recipe's own rule. The kind follows from the names of nodes alone: names that no recipe of
/// this library understands are listed as foreign, and nothing is said about who of them holds.
/// Not guaranteed: one instant (the nodes are read after the list of them; what vanishes between is left out); that a
/// path without contenders is known for what it is: a lock that is free looks like any node without children.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// nothing at the path                      RecipeKind::nothing
/// node vanishes between list and read      it is left out
/// names of no recipe                       RecipeKind::unknown, without contenders
/// names of Curator and of kazoo            NodeNaming::mixed; both are listed, in one order
/// no access to a node                      no_auth
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

/// What is at a path.
struct Inspection {
  RecipeKind kind = RecipeKind::nothing;  ///< The recipe whose nodes stand there.
  NodeNaming naming = NodeNaming::none;   ///< Whose names the nodes have.
  /// Holders and waiters, in the recipe's order, then the foreign ones. Of a semaphore: one for each lease, then who
  /// waits. Of a queue: the claims, each with its item's name. Of a double barrier: `holds` says that it is inside.
  /// Of a barrier: its raiser.
  std::vector<Contender> contenders = {};
  std::size_t items = 0;  ///< Of a queue: claimed ones included.
};

/// Looks at `path`. Blocks for a few round trips, whatever the number of contenders. Errors: no_auth (a node that may
/// not be read), and those common to all operations of Client. Thread safety: may be called from any thread.
ZKRECIPES_API Inspection inspect(const zkclient::Client& client, const zkclient::Path& path,
                                 const zkclient::CallOptions& call = {});
/// The same; `handler` is called exactly once, on the callback executor.
ZKRECIPES_API void async_inspect(const zkclient::Client& client, const zkclient::Path& path,
                                 zkclient::Handler<Inspection> handler, const zkclient::CallOptions& call = {});

}  // namespace zkrecipes
