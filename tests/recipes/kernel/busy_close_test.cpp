// Closing a client in the middle of everything: each call ends, and no coroutine is left.

#include <atomic>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/id_blocks.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/latch.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/migrations.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/optimistic.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/periodic_job.hpp>
#include <zkrecipes/persistent_node.hpp>
#include <zkrecipes/placement.hpp>
#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/primary.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/replica_group.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/two_phase_commit.hpp>
#include <zkrecipes/unfair_leader_election.hpp>
#include <zkrecipes/unfair_mutex.hpp>
#include <zkrecipes/worker_id.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/recipe_test.hpp"
#include "zkclient/detail/loop/awaitable.hpp"

namespace zkrecipes {
namespace {

using zkclient::Client;
using zkclient::detail::coroutine::frames;

// How many calls were begun, and how many of their handlers have run.
class Calls {
 public:
  template <typename T>
  zkclient::Handler<T> handler() {
    ++begun_;
    return [ended = ended_](zkclient::Result<T>) { ++*ended; };
  }
  bool all_ended() const { return *ended_ == begun_; }

 private:
  int begun_ = 0;
  const std::shared_ptr<std::atomic<int>> ended_ = std::make_shared<std::atomic<int>>(0);
};

// One recipe of each kind, of one client.
struct Recipes {
  explicit Recipes(const Client& client)
      : mutex(client, "/mutex"),
        unfair(client, "/unfair"),
        shared(client, "/shared"),
        semaphore(client, "/semaphore", 1),
        election(client, "/election"),
        unfair_election(client, "/unfair-election"),
        naming(client, "/names"),
        counter(client, "/numbers/one"),
        value(client, "/numbers/value"),
        migrations(client, "/migrations/locks", "/migrations/records"),
        latch(client, "/numbers/latch", 1'000'000),
        ids(client, "/numbers/ids", {.block = 3}),
        workers(client, "/workers", {.layout = {.worker_bits = 4}}),
        bank(client, "/bank"),
        coherent(client, "/coherent"),
        configuration(client, "/config"),
        partitioner(client, "/partitions", PartitionSource::numbered(8), [](const Partition&) {}),
        partition_map(client, "/partitions"),
        primary(client, "/roles", [](const Primary&) {}),
        monitor(client, "/roles", {"one", "two"}),
        placer(client, "/placed", {"one"}, {.replicas = 1, .settle = std::chrono::milliseconds(1)}),
        hosted(client, "/placed", {"a"}, {[](const HostedReplica&) {}, [](const HostedReplica&) {}}),
        placement_map(client, "/placed"),
        replicas(client, "/replicas", {"a", "disk"}, {[](const PrimaryTerm&) {}, [](const SecondaryTerm&) {}}),
        node(client, "/node"),
        ttl_node(client, "/ttl-node", std::chrono::seconds(1)),
        job(client, "/job", every(std::chrono::milliseconds(20)), [](const std::stop_token&, const JobFiring&) {}),
        barrier(client, "/barrier"),
        round(client, "/round", 2),
        queue(client, "/queue"),
        priorities(client, "/priorities"),
        delays(client, "/delays"),
        ids_queue(client, "/ids-queue"),
        coordinator(client, "/commit"),
        participant(client, "/commit", "ann", std::make_shared<testkit::MemoryLog>("ann")) {}

  Mutex mutex;
  UnfairMutex unfair;
  SharedMutex shared;
  Semaphore semaphore;
  LeaderElection election;
  UnfairLeaderElection unfair_election;
  Naming naming;
  Counter counter;
  SharedValue value;
  Migrations migrations;
  Latch latch;
  IdBlocks ids;
  WorkerIds workers;
  Optimistic bank;
  CoherentCache coherent;
  Configuration configuration;
  Partitioner partitioner;
  PartitionMap partition_map;
  PrimaryNode primary;
  PrimaryMonitor monitor;
  Placer placer;
  HostedReplicas hosted;
  PlacementMap placement_map;
  ReplicaGroup replicas;
  PersistentNode node;
  PersistentTtlNode ttl_node;
  PeriodicJob job;
  Barrier barrier;
  DoubleBarrier round;
  Queue queue;
  PriorityQueue priorities;
  DelayQueue delays;
  IdQueue ids_queue;
  CommitCoordinator coordinator;
  CommitParticipant participant;
};

// Calls that wait for other clients, which do nothing.
void begin_waits(Recipes& recipes, Calls& calls) {
  for (int i = 0; i < 5; ++i) {
    recipes.mutex.async_acquire(calls.handler<Lease>());
    recipes.unfair.async_acquire(calls.handler<Lease>());
    recipes.shared.async_acquire(calls.handler<Lease>());
    recipes.shared.async_acquire_shared(calls.handler<Lease>());
    recipes.semaphore.async_acquire(calls.handler<Lease>());
    recipes.election.async_campaign(calls.handler<Leadership>());
    recipes.unfair_election.async_campaign(calls.handler<Leadership>());
    recipes.election.async_wait_for_change({}, calls.handler<std::optional<Leader>>());
    recipes.naming.async_bind("one", "waits", calls.handler<Lease>());
    recipes.node.async_wait_created(calls.handler<void>());
    recipes.configuration.async_wait_live(calls.handler<ConfigurationPtr>());
    recipes.configuration.async_wait_for_revision(1000, calls.handler<ConfigurationPtr>());
    recipes.configuration.async_wait_applied(1000, {"somebody"}, calls.handler<ConfigurationRollOut>());
    recipes.partition_map.async_wait_owner("no such one", {}, calls.handler<PartitionOwner>());
    recipes.placement_map.async_wait_primary("no such one", {}, calls.handler<PartitionReplicas>());
    recipes.barrier.async_wait(calls.handler<void>());
    recipes.latch.async_wait(calls.handler<void>());
    recipes.queue.async_pop(calls.handler<std::string>());
    recipes.queue.async_claim(calls.handler<Claim>());
    recipes.priorities.async_pop(calls.handler<std::string>());
    recipes.delays.async_pop(calls.handler<std::string>());
    recipes.ids_queue.async_pop(calls.handler<std::string>());
  }
  recipes.round.async_enter(calls.handler<Round>());
  recipes.migrations.async_migrate(MigrationSet("set"), calls.handler<std::vector<std::string>>());
  recipes.participant.async_serve({[](const CommitTransaction&) { return CommitVote::yes(); },
                                   [](const CommitTransaction&) {}, [](const CommitTransaction&) {}},
                                  calls.handler<void>());
}

// Requests that are on their way when the client is closed.
void begin_requests(const Client& client, Recipes& recipes, Calls& calls) {
  for (int i = 0; i < 20; ++i) {
    client.async_create("/item-", "x", {.mode = zkclient::CreateMode::persistent_sequential},
                        calls.handler<zkclient::Created>());
    client.async_get("/", calls.handler<zkclient::NodeData>());
    client.async_children_and_watch(
        "/", [](const zkclient::WatchEvent&) {}, calls.handler<zkclient::Watched<zkclient::Children>>());
    client.async_ensure("/a/b/c/d", zkclient::CreateMode::persistent, calls.handler<void>());
    recipes.mutex.async_try_acquire(calls.handler<std::optional<Lease>>());
    recipes.mutex.async_contenders(calls.handler<std::vector<Contender>>());
    recipes.naming.async_bind_permanent("name-" + std::to_string(i), "data", calls.handler<void>());
    recipes.naming.async_rebind("name-" + std::to_string(i), "next", 0, calls.handler<std::int32_t>());
    recipes.naming.async_unbind("name-" + std::to_string(i), zkclient::any_version, calls.handler<void>());
    recipes.counter.async_add(1, calls.handler<CounterChange>());
    recipes.counter.async_get(calls.handler<std::int64_t>());
    recipes.value.async_set("x", calls.handler<void>());
    recipes.value.async_get(calls.handler<VersionedValue>());
    recipes.value.async_compare_set({}, "y", calls.handler<bool>());
    recipes.latch.async_count_down(1, calls.handler<std::int64_t>());
    recipes.migrations.async_pending(MigrationSet("set"), calls.handler<std::vector<PendingStep>>());
    recipes.latch.async_left(calls.handler<std::int64_t>());
    recipes.ids.async_next(calls.handler<std::int64_t>());
    recipes.workers.async_acquire(calls.handler<WorkerId>());
    recipes.bank.async_atomically([](OptimisticView& view) { view.exists("/bank"); }, calls.handler<void>());
    recipes.counter.async_update([](std::int64_t number) { return number + 1; }, calls.handler<CounterChange>());
    recipes.coherent.async_get("item-" + std::to_string(i % 3), calls.handler<CoherentItemPtr>());
    recipes.coherent.async_put("item-" + std::to_string(i % 2), "x", calls.handler<void>());
    recipes.coherent.async_compare_remove("item-" + std::to_string(i % 2), 1, calls.handler<bool>());
    recipes.node.async_set_data(std::to_string(i), calls.handler<void>());
    recipes.ttl_node.async_set_data(std::to_string(i), calls.handler<void>());
    recipes.job.async_status(calls.handler<std::optional<JobStatus>>());
    recipes.job.async_history(calls.handler<std::vector<JobRun>>());
    if (i == 19) recipes.ttl_node.async_remove(calls.handler<void>());
    ConfigurationUpdate update;
    update.values = {{"key", std::to_string(i)}};
    recipes.configuration.async_publish(update, any_revision, calls.handler<std::int64_t>());
    recipes.configuration.async_roll_back(0, calls.handler<std::int64_t>());
    recipes.replicas.async_report_version(static_cast<std::uint64_t>(i), calls.handler<void>());
    recipes.primary.async_update_status(std::to_string(i), calls.handler<void>());
    recipes.monitor.async_move("one", i % 2 == 0 ? recipes.primary.id() : "nobody", calls.handler<void>());
    recipes.hosted.async_drain(calls.handler<void>());
    recipes.replicas.async_shrink({"b"}, calls.handler<void>());
    recipes.configuration.async_history(calls.handler<std::vector<ConfigurationRevision>>());
    recipes.queue.async_try_pop(calls.handler<std::optional<std::string>>());
    recipes.queue.async_push("item", calls.handler<void>());
    recipes.priorities.async_push("item", i, calls.handler<void>());
    recipes.delays.async_push("item", std::chrono::system_clock::now(), calls.handler<void>());
    recipes.ids_queue.async_push("item", "x", calls.handler<void>());
    recipes.ids_queue.async_remove("x", calls.handler<std::size_t>());
    recipes.coordinator.async_run({"ann"}, "payload", {}, calls.handler<CommitOutcome>());
    recipes.coordinator.async_transactions(calls.handler<std::vector<CommitStatus>>());
  }
}

class BusyClose : public ::testing::Test {
 protected:
  zktesting::Server server;
};

TEST_F(BusyClose, LeavesNoCoroutine) {
  ASSERT_EQ(frames(), 0U);
  for (int round = 0; round < 10; ++round) {
    Calls calls;
    {
      Client other(server.connect_string());
      Recipes of_other(other);
      const Lease lock = of_other.mutex.acquire();
      const Lease unfair = of_other.unfair.acquire();
      const Lease name = of_other.naming.bind("one", "held");
      const Lease shared = of_other.shared.acquire();
      const Lease permit = of_other.semaphore.acquire();
      const Leadership leader = of_other.election.campaign();
      const Leadership unfair_leader = of_other.unfair_election.campaign();
      (void)of_other.barrier.raise();
      Client busy(server.connect_string());
      Recipes recipes(busy);
      recipes.primary.start();
      recipes.monitor.start();
      recipes.placer.start();
      recipes.hosted.start();
      recipes.job.start();
      begin_waits(recipes, calls);
      // In every second round the waits have begun to wait.
      const auto all_queue_up = [&] { return of_other.mutex.contenders().size() == 6; };
      if (round % 2 == 0) {
        EXPECT_TRUE(testkit::eventually(all_queue_up));
      }
      begin_requests(busy, recipes, calls);
      recipes.partitioner.start();
      if (round % 3 == 0) recipes.partitioner.async_leave(calls.handler<void>());
      if (round % 3 == 1) recipes.primary.async_leave(calls.handler<void>());
      busy.close();
      EXPECT_TRUE(testkit::eventually([&] { return calls.all_ended(); }));
    }
    EXPECT_TRUE(testkit::eventually([] { return frames() == 0; })) << "round " << round << ", " << frames();
  }
}

}  // namespace
}  // namespace zkrecipes
