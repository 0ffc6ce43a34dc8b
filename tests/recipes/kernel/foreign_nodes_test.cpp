// Nodes that other programs have put among those of a recipe: with names that no Path can have, with no data, and with a lot
// of it. No recipe fails, or ends the process; each goes on with its work.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/id_blocks.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/inspect.hpp>
#include <zkrecipes/latch.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/leader_selector.hpp>
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
#include <zkrecipes/revoke.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/service_provider.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/tree_cache.hpp>
#include <zkrecipes/two_phase_commit.hpp>
#include <zkrecipes/unfair_leader_election.hpp>
#include <zkrecipes/unfair_mutex.hpp>
#include <zkrecipes/worker_id.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
namespace zk = zkclient::detail;

const Path recipe_path = "/recipe";
constexpr std::size_t longer_than_any_path = 70'000;
constexpr std::size_t a_lot = 200'000;

zk::Awaitable<Result<std::string>> create_raw(std::shared_ptr<zk::ClientCore> client, std::string path,
                                              std::string data, CreateMode mode, zk::Call call) {
  zk::Request request = zk::make_request(zk::OpType::create, path);
  request.data = std::move(data);
  request.mode = mode;
  request.acl = zkclient::open_acl();
  const zk::Reply reply = co_await client->perform(std::move(request), call);
  if (!reply.ok() && !reply.failed(Errc::node_exists)) co_return zk::to_error(reply, "plant", path.substr(0, 100));
  co_return path;
}

/// Which strange nodes there are: where all short names are the user's, only long ones.
enum class Names { all, only_long };

/// Another program, which knows no rules.
class Stranger {
 public:
  Stranger(Client client, Names names) : client_(std::move(client)), names_(names) {}

  /// In each folder of the recipe, nodes that are nearly such as the recipe has.
  void plant() { plant_below(recipe_path.str()); }
  bool has_planted() const { return planted_ > 0; }

 private:
  void plant_below(const std::string& path) {
    const std::vector<std::string> before = list(path);
    const std::string padding(longer_than_any_path, 'x');
    create(zk::child_path(path, padding), "", CreateMode::persistent);
    if (names_ == Names::all) {
      create(zk::child_path(path, "foreign"), "", CreateMode::persistent);
      create(zk::child_path(path, "foreign-\xc3\xa4\xe2\x82\xac"), std::string(a_lot, '\xff'), CreateMode::persistent);
    }
    std::size_t left = 4;
    for (const std::string& name : before) {
      if (name.size() > 200 || left-- == 0) continue;
      const std::string original = zk::child_path(path, name);
      std::error_code gone;
      const std::string data = client_.get(original, patient(), gone).data;
      create(zk::child_path(path, name + padding), data, CreateMode::persistent);
      create(zk::child_path(path, padding + name), data, CreateMode::ephemeral);
      const auto stat = client_.exists(original, patient());
      const bool is_folder = stat && stat->children_count > 0 && !name.starts_with("foreign");
      if (is_folder) plant_below(original);
    }
  }
  std::vector<std::string> list(const std::string& path) {
    std::error_code gone;
    return client_.children(path, patient(), gone).names;
  }
  void create(const std::string& path, const std::string& data, CreateMode mode) {
    auto work = [core = client_.impl(), path, data, mode](zk::Call call) {
      return create_raw(core, path, data, mode, std::move(call));
    };
    const auto made = zk::CallForm(client_.impl(), "plant", "").result(patient(), work);
    if (made) ++planted_;
  }

  Client client_;
  const Names names_;
  int planted_ = 0;
};

/// What a recipe does, with the strangers' nodes coming wherever it calls `plant`.
struct Work {
  const char* name;
  void (*run)(const Client& client, const std::function<void()>& plant);
  Names strangers = Names::all;
};

template <typename AnyLock>
void take_and_give_back(AnyLock& lock, const std::function<void()>& plant) {
  {
    const Lease lease = lock.acquire(patient());
    plant();
    EXPECT_TRUE(lease.valid());
    EXPECT_EQ(lock.contenders(patient()).size(), 1U);
  }
  EXPECT_TRUE(lock.acquire(patient()).valid());
}

template <typename AnyQueue>
void push_and_take(AnyQueue& queue, const std::function<void()>& plant, const std::function<void(std::string)>& push) {
  push("a");
  push("b");
  plant();
  Claim claim = queue.claim(patient());
  plant();
  claim.commit(patient());
  EXPECT_EQ(queue.pop(patient()), "b");
  push("c");
  EXPECT_EQ(queue.pop(patient()), "c");
}

template <typename AnyElection>
void lead(AnyElection& election, const std::function<void()>& plant) {
  Leadership leadership = election.campaign(patient());
  plant();
  leadership.proclaim("here", patient());
  EXPECT_EQ(election.leader(patient())->value, "here");
  leadership.release(patient());
  EXPECT_TRUE(election.campaign(patient()).valid());
}

const std::vector<Work> works = {
    {"Mutex",
     [](const Client& client, const auto& plant) {
       Mutex mutex(client, recipe_path);
       take_and_give_back(mutex, plant);
     }},
    {"SharedMutex",
     [](const Client& client, const auto& plant) {
       SharedMutex mutex(client, recipe_path);
       take_and_give_back(mutex, plant);
       const Lease one = mutex.acquire_shared(patient());
       EXPECT_TRUE(mutex.acquire_shared(patient()).valid());
     }},
    {"UnfairMutex",
     [](const Client& client, const auto& plant) {
       UnfairMutex mutex(client, recipe_path);
       const Lease lease = mutex.acquire(patient());
       plant();
       EXPECT_EQ(revoke_holders(client, recipe_path, {}, patient()), RevokeOutcome::requested);
       EXPECT_TRUE(stopped(lease.revoke_requested()));
     }},
    {"Semaphore",
     [](const Client& client, const auto& plant) {
       Semaphore semaphore(client, recipe_path, 2);
       const Lease one = semaphore.acquire(patient());
       plant();
       const Lease two = semaphore.acquire(patient());
       EXPECT_FALSE(semaphore.try_acquire(patient()));
     },
     Names::only_long},
    {"Revocation",
     [](const Client& client, const auto& plant) {
       Mutex mutex(client, recipe_path);
       const Lease lease = mutex.acquire(patient());
       plant();
       EXPECT_EQ(revoke_holders(client, recipe_path, {}, patient()), RevokeOutcome::requested);
       EXPECT_TRUE(stopped(lease.revoke_requested()));
     }},
    {"LeaderElection",
     [](const Client& client, const auto& plant) {
       LeaderElection election(client, recipe_path);
       lead(election, plant);
     }},
    {"UnfairLeaderElection",
     [](const Client& client, const auto& plant) {
       UnfairLeaderElection election(client, recipe_path);
       lead(election, plant);
     }},
    {"LeaderSelector",
     [](const Client& client, const auto& plant) {
       Box<bool> led;
       LeaderSelector selector(client, recipe_path, [&led](const auto&, auto&) { led.put(true); }, {.requeue = false});
       selector.start();
       EXPECT_TRUE(led.take());
       plant();
       selector.requeue();
       EXPECT_TRUE(led.take());
     }},
    {"Barrier",
     [](const Client& client, const auto& plant) {
       Barrier barrier(client, recipe_path / "gate");
       barrier.raise(BarrierLife::persistent, patient());
       plant();
       EXPECT_TRUE(barrier.state(patient()));
     }},
    {"DoubleBarrier",
     [](const Client& client, const auto& plant) {
       DoubleBarrier first(client, recipe_path, 2);
       DoubleBarrier second(client, recipe_path, 2);
       for (int round = 0; round < 2; ++round) {
         auto other = in_thread([&second] { return second.enter(patient()); });
         EXPECT_TRUE(eventually([&] { return !client.children(recipe_path, patient()).names.empty(); }));
         plant();
         const Round entered = first.enter(patient());
         EXPECT_EQ(entered, result_of(other));
         plant();
         auto leaving = in_thread([&second] { second.leave(patient()); });
         first.leave(patient());
         result_of(leaving);
       }
     }},
    {"Queue",
     [](const Client& client, const auto& plant) {
       Queue queue(client, recipe_path);
       push_and_take(queue, plant, [&](const std::string& item) { queue.push(item, patient()); });
     }},
    {"PriorityQueue",
     [](const Client& client, const auto& plant) {
       PriorityQueue queue(client, recipe_path);
       push_and_take(queue, plant, [&](const std::string& item) { queue.push(item, 1, patient()); });
     }},
    {"DelayQueue",
     [](const Client& client, const auto& plant) {
       DelayQueue queue(client, recipe_path);
       push_and_take(queue, plant, [&](const std::string& item) { queue.push(item, {}, patient()); });
     }},
    {"IdQueue",
     [](const Client& client, const auto& plant) {
       IdQueue queue(client, recipe_path);
       push_and_take(queue, plant, [&](const std::string& item) { queue.push(item, item, patient()); });
     }},
    {"TwoPhaseCommit",
     [](const Client& client, const auto& plant) {
       testkit::TestParticipant ann(client, recipe_path, "ann");
       ann.on_prepare = [&](const auto&) {
         plant();
         return CommitVote::yes();
       };
       ann.start(client);
       CommitCoordinator coordinator(client, recipe_path);
       for (const CommitVariant variant : {CommitVariant::mediated, CommitVariant::all_to_all}) {
         client.set(recipe_path / "inbox/ann", std::string(longer_than_any_path, 'x'), any_version, patient());
         client.set(recipe_path / "inbox/ann", "no/id", any_version, patient());
         CommitOptions options;
         options.variant = variant;
         options.wait = CommitOptions::Wait::applied;
         EXPECT_TRUE(coordinator.run({"ann"}, "payload", options, patient()).committed);
       }
       EXPECT_NO_THROW((void)coordinator.recover(patient()));
       EXPECT_NO_THROW((void)coordinator.transactions(patient()));
     }},
    {"Counter",
     [](const Client& client, const auto& plant) {
       Counter counter(client, recipe_path / "one");
       counter.add(1, patient());
       plant();
       EXPECT_EQ(counter.add(1, patient()).after, 2);
     }},
    {"SharedValue",
     [](const Client& client, const auto& plant) {
       SharedValue value(client, recipe_path / "one");
       value.set("a", patient());
       plant();
       value.set("b", patient());
       EXPECT_EQ(value.get(patient()).data, "b");
     }},
    {"Latch",
     [](const Client& client, const auto& plant) {
       Latch latch(client, recipe_path / "one", 2);
       latch.count_down(1, patient());
       plant();
       EXPECT_EQ(latch.count_down(1, patient()), 0);
       latch.wait(patient());
     }},
    {"IdBlocks",
     [](const Client& client, const auto& plant) {
       IdBlocks ids(client, recipe_path / "ids", {.block = 1});
       const auto first = ids.next(patient());
       plant();
       EXPECT_GT(ids.next(patient()), first);
     }},
    {"WorkerIds",
     [](const Client& client, const auto& plant) {
       WorkerIds workers(client, recipe_path);
       WorkerId first = workers.acquire(patient());
       plant();
       WorkerId second = workers.acquire(patient());
       EXPECT_NE(first.next(), second.next());
     }},
    {"Optimistic",
     [](const Client& client, const auto& plant) {
       Optimistic bank(client, recipe_path);
       const auto add_one = [&] {
         bank.atomically(
             [](OptimisticView& view) {
               const std::size_t now = view.exists(recipe_path) ? view.children(recipe_path).size() : 0;
               view.create(recipe_path / ("made-" + std::to_string(now)), "");
             },
             patient());
       };
       add_one();
       plant();
       add_one();
     },
     Names::only_long},
    {"CoherentCache",
     [](const Client& client, const auto& plant) {
       CoherentCache first(client, recipe_path / "cache");
       CoherentCache second(client, recipe_path / "cache");
       first.put("item", "a", patient());
       EXPECT_EQ(second.get("item", patient())->data, "a");
       plant();
       first.put("item", "b", patient());
       EXPECT_EQ(second.get("item", patient())->data, "b");
       plant();
       second.put("item", "c", patient());
       EXPECT_EQ(first.get("item", patient())->data, "c");
     },
     Names::only_long},
    {"Configuration",
     [](const Client& client, const auto& plant) {
       Configuration configuration(client, recipe_path);
       for (int i = 1; i < 4; ++i) {
         ConfigurationUpdate update;
         update.values = {{"key", std::to_string(i)}};
         const auto revision = configuration.publish(update, any_revision, patient());
         EXPECT_TRUE(configuration.wait_for_revision(revision, patient()));
         plant();
       }
       EXPECT_NO_THROW((void)configuration.history(patient()));
       configuration.roll_back(1, patient());
     },
     Names::only_long},
    {"Group",
     [](const Client& client, const auto& plant) {
       Group group(client, recipe_path);
       const Membership one = group.join("one", "", patient());
       plant();
       const Membership two = group.join("two", "", patient());
       EXPECT_NE(group.wait_for_members(2, patient()).find("two"), nullptr);
     }},
    {"Discovery",
     [](const Client& client, const auto& plant) {
       ServiceDirectory directory(client, recipe_path);
       ServiceInstance instance;
       instance.name = "mail";
       instance.id = "one";
       const Registration registration = directory.register_instance(instance, patient());
       plant();
       const ServiceProvider provider = directory.provider("mail");
       EXPECT_FALSE(provider.wait_ready(patient()).instances.empty());
       plant();
       EXPECT_FALSE(directory.services(patient()).empty());
       EXPECT_FALSE(directory.instances("mail", patient()).instances.empty());
     }},
    {"Naming",
     [](const Client& client, const auto& plant) {
       Naming naming(client, recipe_path);
       const Lease one = naming.bind("one", "1", patient());
       naming.bind_permanent("two", "2", patient());
       plant();
       const Lease own = naming.make_unique("u-", "3", patient());
       EXPECT_EQ(naming.resolve("one", patient())->data, "1");
       EXPECT_FALSE(naming.list(patient()).empty());
       naming.bind_permanent("three", "3", patient());
       naming.unbind("three", any_version, patient());
     }},
    {"Caches",
     [](const Client& client, const auto& plant) {
       client.ensure(recipe_path / "a/b", CreateMode::persistent, patient());
       plant();
       const TreeCache tree(client, recipe_path);
       const ChildrenCache children(client, recipe_path);
       tree.wait_until([](const Snapshot& now) { return now.complete(); }, patient());
       plant();
       client.create(recipe_path / "a/c", "", {}, patient());
       tree.wait_until([](const Snapshot& now) { return now.find("a/c") != nullptr; }, patient());
       for (const CachedNodePtr& node : children.snapshot().children())
         EXPECT_NO_THROW((void)(recipe_path / node->name));
     }},
    {"Partitioner",
     [](const Client& client, const auto& plant) {
       client.ensure(recipe_path / "source/1", CreateMode::persistent, patient());
       Box<std::string> taken;
       std::vector<Partition> kept;
       Partitioner partitioner(client, recipe_path, PartitionSource::children_of(recipe_path / "source"),
                               [&](Partition partition) {
                                 taken.put(partition.name());
                                 kept.push_back(std::move(partition));
                               });
       partitioner.start();
       EXPECT_EQ(taken.take(), "1");
       const PartitionMap map(client, recipe_path);
       plant();
       client.create(recipe_path / "source/2", "", {}, patient());
       taken.take_until([](const std::string& name) { return name == "2"; });
       EXPECT_FALSE(map.wait_owner("2", {}, patient()).id.empty());
       partitioner.stop(patient());
     }},
    {"Primary",
     [](const Client& client, const auto& plant) {
       Box<std::string> taken;
       std::vector<Primary> kept;
       PrimaryNode node(client, recipe_path, [&](Primary primary) {
         taken.put(primary.role());
         kept.push_back(std::move(primary));
       });
       PrimaryMonitor monitor(client, recipe_path, {"one", "two"});
       node.start();
       EXPECT_TRUE(eventually([&] { return client.exists(recipe_path / "members").has_value(); }));
       plant();
       monitor.start();
       (void)taken.take();
       (void)taken.take();
       plant();
       node.update_status("busy", patient());
     }},
    {"ReplicaGroup",
     [](const Client& client, const auto& plant) {
       ReplicaGroup group(client, recipe_path, {"a", "disk"}, {[](const PrimaryTerm&) {}, [](const SecondaryTerm&) {}});
       EXPECT_TRUE(eventually([&] { return group.may_write(); }));
       plant();
       group.report_version(7, patient());
       EXPECT_TRUE(eventually([&] { return group.members().size() == 1 && group.members().front().version == 7; }));
     }},
    {"Placement",
     [](const Client& client, const auto& plant) {
       Box<std::string> opened;
       HostedReplicas host(
           client, recipe_path, {"a"},
           {[&](const HostedReplica& replica) { opened.put(replica.partition); }, [](const HostedReplica&) {}});
       Placer placer(client, recipe_path, {"one"}, {.replicas = 1, .settle = std::chrono::milliseconds(1)});
       host.start();
       EXPECT_TRUE(eventually([&] { return client.exists(recipe_path / "hosts/a").has_value(); }));
       plant();
       placer.start();
       EXPECT_EQ(opened.take_until([](const std::string& name) { return name == "one"; }), "one");
       const PlacementMap map(client, recipe_path);
       plant();
       EXPECT_NO_THROW((void)map.partitions());
     }},
    {"PeriodicJob",
     [](const Client& client, const auto& plant) {
       Box<bool> ran;
       PeriodicJob job(client, recipe_path, every(std::chrono::seconds(1)),
                       [&](const auto&, const auto&) { ran.put(true); });
       job.start();
       (void)ran.take();
       plant();
       (void)ran.take();
       (void)ran.take();
       EXPECT_NO_THROW((void)job.history(patient()));
       job.close(patient());
     }},
    {"Migrations",
     [](const Client& client, const auto& plant) {
       MigrationSet set("set");
       set.add("one", zkclient::Transaction().create("/made-one"));
       Migrations migrations(client, recipe_path / "locks", recipe_path / "records");
       migrations.migrate(set, patient());
       plant();
       set.add("two", zkclient::Transaction().create("/made-two"));
       EXPECT_EQ(migrations.migrate(set, patient()).size(), 1U);
     }},
    {"PersistentNode",
     [](const Client& client, const auto& plant) {
       PersistentNode node(client, recipe_path / "node", "first", {.protection = true});
       node.wait_created(patient());
       plant();
       node.set_data("next", patient());
       node.remove(patient());
     }},
    {"Inspection",
     [](const Client& client, const auto& plant) {
       const Lease lease = Mutex(client, recipe_path).acquire(patient());
       plant();
       EXPECT_EQ(inspect(client, recipe_path, patient()).contenders.size(), 1U);
     }},
};

void PrintTo(const Work& work, std::ostream* out) { *out << work.name; }

class ForeignNodes : public testkit::RecipeFaultTest, public ::testing::WithParamInterface<Work> {
 protected:
  ForeignNodes() : RecipeFaultTest(recipe_path) {}
};

TEST_P(ForeignNodes, AreNoConcernOfTheRecipe) {
  const Client client = calm_direct();
  Stranger stranger(the_operator(), GetParam().strangers);
  GetParam().run(client, [&] { stranger.plant(); });
  EXPECT_TRUE(stranger.has_planted());
}

INSTANTIATE_TEST_SUITE_P(All, ForeignNodes, ::testing::ValuesIn(works),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace zkrecipes
