// What is left of objects that were moved from: empty ones, or ones that may only be assigned to or destroyed.

#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/group.hpp>
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
#include <zkrecipes/persistent_node.hpp>
#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/replica_group.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/worker_id.hpp>

#include "tests/support/recipe_test.hpp"

// NOLINTBEGIN(bugprone-use-after-move)

namespace zkrecipes {
namespace {

using testkit::error_of;
using testkit::patient;
using zkclient::Errc;

class MovedFrom : public testkit::RecipeTest {
 protected:
  MovedFrom() : RecipeTest("/recipe") {}
};

TEST_F(MovedFrom, ALeaseIsEmpty) {
  Mutex mutex(client(), "/lock");
  Lease lease = mutex.acquire(patient());
  const Lease holder = std::move(lease);
  EXPECT_EQ(lease.state(), LeaseState::released);
  EXPECT_FALSE(lease.valid());
  EXPECT_LT(lease.valid_until(), zkclient::BootClock::now());
  EXPECT_EQ(lease.token(), FencingToken());
  EXPECT_FALSE(lease.lost().stop_possible());
  EXPECT_FALSE(lease.revoke_requested().stop_possible());
  EXPECT_EQ(lease.node(), "");
  EXPECT_FALSE(lease.session());
  EXPECT_EQ(error_of([&] { (void)lease.guard(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { (void)lease.transaction(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { lease.release(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { lease.async_lost([](const zkclient::Result<void>&) {}); }), Errc::not_held);
  EXPECT_TRUE(holder.valid()) << "none of this concerns the one that it was moved to";
}

TEST_F(MovedFrom, ALeadershipIsEmpty) {
  Leadership leadership = LeaderElection(client(), "/election").campaign(patient());
  Leadership leader = std::move(leadership);
  EXPECT_FALSE(leadership.valid());
  EXPECT_EQ(error_of([&] { leadership.proclaim("me"); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { leadership.ready(); }), Errc::not_held);
  leader.ready(patient());
}

TEST_F(MovedFrom, AClaimIsEmpty) {
  Queue queue(client(), "/queue");
  queue.push("item", patient());
  Claim claim = queue.claim(patient());
  Claim worker = std::move(claim);
  EXPECT_FALSE(claim.valid());
  EXPECT_LT(claim.valid_until(), zkclient::BootClock::now());
  EXPECT_FALSE(claim.session());
  EXPECT_EQ(claim.data(), "");
  EXPECT_TRUE(claim.items().empty());
  EXPECT_EQ(claim.node(), "");
  EXPECT_EQ(claim.deliveries(), 0);
  EXPECT_EQ(error_of([&] { claim.commit(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { claim.give_back(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { claim.reject("empty"); }), Errc::not_held);
  worker.commit(patient());
}

TEST_F(MovedFrom, ANamingMayBeAssignedToOrDestroyed) {
  std::optional<Naming> left(std::in_place, client(), "/names");
  left->bind_permanent("one", "1", patient());
  Naming naming = std::move(*left);
  EXPECT_EQ(naming.rebind("one", "2", 0, patient()), 1);
  *left = std::move(naming);
  Lease lease = left->bind("two", "", patient());
  const Lease kept = std::move(lease);
  EXPECT_EQ(Naming::name_of(lease), "");
  EXPECT_EQ(Naming::name_of(kept), "two");
  const Naming last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.resolve("one", patient())->data, "2");
}

TEST_F(MovedFrom, ASharedValueMayBeAssignedToOrDestroyed) {
  std::optional<SharedValue> left(std::in_place, client(), "/value");
  left->set("1", patient());
  SharedValue value = std::move(*left);
  const zkclient::Subscription heard = value.on_change([](const VersionedValue&) {});
  value.set("2", patient());
  *left = std::move(value);
  const SharedValue last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.get(patient()).data, "2");
}

TEST_F(MovedFrom, ACounterMayBeAssignedToOrDestroyed) {
  std::optional<Counter> left(std::in_place, client(), "/number");
  left->add(1, patient());
  Counter counter = std::move(*left);
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{1, 2}));
  *left = std::move(counter);
  const Counter last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.get(patient()), 2);
}

TEST_F(MovedFrom, IdBlocksMayBeAssignedToOrDestroyed) {
  std::optional<IdBlocks> left(std::in_place, client(), "/ids");
  EXPECT_EQ(left->next(patient()), 1);
  IdBlocks ids = std::move(*left);
  EXPECT_EQ(ids.next(patient()), 2);
  *left = std::move(ids);
  IdBlocks last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.next(patient()), 3);
}

TEST_F(MovedFrom, WorkerIdsMayBeAssignedToOrDestroyed) {
  std::optional<WorkerIds> left(std::in_place, client(), "/workers");
  WorkerId first = left->acquire(patient());
  WorkerIds workers = std::move(*left);
  WorkerId second = workers.acquire(patient());
  *left = std::move(workers);
  first = std::move(second);
  EXPECT_EQ(second.number(), -1);
  EXPECT_EQ(first.number(), 1);
  WorkerIds last = std::move(*left);
  left.reset();
  (void)first.next();
}

TEST_F(MovedFrom, AnOptimisticMayBeAssignedToOrDestroyed) {
  std::optional<Optimistic> left(std::in_place, client(), "/bank");
  Optimistic bank = std::move(*left);
  bank.atomically([](OptimisticView& view) { view.create("/account", "1"); }, patient());
  *left = std::move(bank);
  Optimistic last = std::move(*left);
  left.reset();
  last.atomically([](OptimisticView& view) { view.set("/account", "2"); }, patient());
  EXPECT_EQ(client().get("/account").data, "2");
}

TEST_F(MovedFrom, ACoherentCacheMayBeAssignedToOrDestroyed) {
  std::optional<CoherentCache> left(std::in_place, client(), "/coherent");
  left->put("a", "1", patient());
  CoherentCache cache = std::move(*left);
  EXPECT_EQ(cache.get("a", patient())->data, "1");
  *left = std::move(cache);
  CoherentCache last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.get("a", patient())->data, "1");
}

TEST_F(MovedFrom, AReplicaGroupMayBeAssignedToOrDestroyed) {
  const auto make = [&](const char* path) {
    ReplicaHandlers handlers{[](const PrimaryTerm&) {}, [](const SecondaryTerm&) {}};
    return ReplicaGroup(client(), path, {"a", "disk"}, std::move(handlers));
  };
  std::optional<ReplicaGroup> left(make("/replicas"));
  ReplicaGroup group = std::move(*left);
  *left = make("/others");
  *left = std::move(group);
  const ReplicaGroup last = std::move(*left);
  left.reset();
  EXPECT_TRUE(testkit::eventually([&] { return last.may_write(); }));
  EXPECT_EQ(last.path(), zkclient::Path("/replicas"));
}

TEST_F(MovedFrom, APartitionIsEmptyAndAMapMayBeAssignedToOrDestroyed) {
  testkit::Box<Partition> got;
  Partitioner partitioner(client(), "/recipe", PartitionSource::list({"one"}),
                          [&](Partition partition) { got.put(std::move(partition)); });
  partitioner.start();
  Partition partition = got.take();
  const Partition kept = std::move(partition);
  EXPECT_FALSE(partition.valid());
  EXPECT_EQ(kept.name(), "one");
  EXPECT_TRUE(kept.valid());
  std::optional<PartitionMap> left(std::in_place, client(), "/recipe");
  PartitionMap map = std::move(*left);
  EXPECT_EQ(map.wait_owner("one", {}, patient()).id, partitioner.id());
  *left = std::move(map);
  const PartitionMap last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.wait_owner("one", {}, patient()).id, partitioner.id());
}

TEST_F(MovedFrom, AConfigurationMayBeAssignedToOrDestroyed) {
  ConfigurationUpdate update;
  update.values = {{"a", "1"}};
  std::optional<Configuration> left(std::in_place, client(), "/recipe/one");
  EXPECT_EQ(left->publish(update, 0, patient()), 1);
  Configuration config = std::move(*left);
  EXPECT_EQ(config.wait_for_revision(1, patient())->at("a"), "1");
  *left = Configuration(client(), "/recipe/two");
  *left = std::move(config);
  const Configuration last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.wait_live(patient())->revision, 1);
  EXPECT_EQ(last.path(), zkclient::Path("/recipe/one"));
}

TEST_F(MovedFrom, AGroupAndAMembershipMayBeAssignedToOrDestroyed) {
  std::optional<Group> left(std::in_place, client(), "/recipe");
  EXPECT_TRUE(left->members(patient()).members.empty());
  Group group = std::move(*left);
  std::optional<Membership> member(group.join("a", "1", patient()));
  Membership kept = std::move(*member);
  *member = group.join("b", "2", patient());
  kept = std::move(*member);  // "a" leaves, without being waited for.
  member.reset();
  EXPECT_EQ(kept.id(), "b");
  EXPECT_EQ(kept.state(), PresenceState::present);
  *left = std::move(group);
  const Group last = std::move(*left);
  left.reset();
  EXPECT_TRUE(remain(1));
  EXPECT_TRUE(testkit::eventually([&] { return last.members(patient()).members.size() == 1; }));
}

TEST_F(MovedFrom, APersistentNodeMayBeAssignedToOrDestroyed) {
  PersistentNodeOptions protection;
  protection.protection = true;
  std::optional<PersistentNode> left(std::in_place, client(), "/recipe/a", "1", protection);
  left->wait_created(patient());
  const std::string first(left->node()->name());
  PersistentNode kept = std::move(*left);
  *left = PersistentNode(client(), "/recipe/a", "2", protection);
  kept = std::move(*left);  // The first node goes, without being waited for.
  left.reset();
  kept.wait_created(patient());
  EXPECT_TRUE(remain(1));
  EXPECT_NE(kept.node()->name(), first);
  EXPECT_EQ(client().get(*kept.node()).data, "2");
}

TEST_F(MovedFrom, ATtlNodeMayBeAssignedToOrDestroyed) {
  const auto make = [&](const char* path) { return PersistentTtlNode(client(), path, std::chrono::hours(1)); };
  std::optional<PersistentTtlNode> left(make("/recipe"));
  PersistentTtlNode kept = std::move(*left);
  *left = make("/other");
  kept = std::move(*left);  // The first node is left to its time to live.
  left.reset();
  kept.wait_created(patient());
  EXPECT_EQ(kept.node(), zkclient::Path("/other"));
  kept.remove(patient());
}

TEST_F(MovedFrom, ALatchMayBeAssignedToOrDestroyed) {
  std::optional<Latch> left(std::in_place, client(), "/recipe", 3);
  EXPECT_EQ(left->count_down(1, patient()), 2);
  Latch latch = std::move(*left);
  EXPECT_EQ(latch.count_down(1, patient()), 1);
  *left = Latch(client(), "/other", 1);
  *left = std::move(latch);
  Latch last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.count_down(1, patient()), 0);
}

TEST_F(MovedFrom, MigrationsMayBeAssignedToOrDestroyed) {
  MigrationSet set("set");
  set.add("first", zkclient::Transaction().create("/recipe", ""));
  std::optional<Migrations> left(std::in_place, client(), "/locks", "/records");
  Migrations migrations = std::move(*left);
  EXPECT_EQ(migrations.migrate(set, patient()).size(), 1U);
  *left = Migrations(client(), "/other-locks", "/other-records");
  *left = std::move(migrations);
  Migrations last = std::move(*left);
  left.reset();
  EXPECT_TRUE(last.migrate(set, patient()).empty());
}

TEST_F(MovedFrom, QueuesOfTimesAndOfIdsMayBeAssignedToOrDestroyed) {
  std::optional<DelayQueue> delays(std::in_place, client(), "/delays");
  delays->push("1", {}, patient());
  DelayQueue due = std::move(*delays);
  *delays = std::move(due);
  DelayQueue last_due = std::move(*delays);
  delays.reset();
  EXPECT_EQ(last_due.pop(patient()), "1");
  std::optional<IdQueue> ids(std::in_place, client(), "/ids-queue");
  ids->push("1", "id", patient());
  IdQueue named = std::move(*ids);
  *ids = std::move(named);
  IdQueue last_named = std::move(*ids);
  ids.reset();
  EXPECT_EQ(last_named.remove("id", patient()), 1U);
}

TEST_F(MovedFrom, APlacementMapMayBeAssignedToOrDestroyed) {
  std::optional<PlacementMap> left(std::in_place, client(), "/recipe");
  PlacementMap map = std::move(*left);
  *left = PlacementMap(client(), "/other");
  *left = std::move(map);
  const PlacementMap last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.path(), zkclient::Path("/recipe"));
  EXPECT_TRUE(testkit::eventually([&] { return last.state() == CacheState::current; }));
}

TEST_F(MovedFrom, ADirectoryARegistrationAndAProviderMayBeAssignedToOrDestroyed) {
  // Not a container, which the server may take away when nobody is registered any more.
  client().ensure("/services/recipe", zkclient::CreateMode::persistent);
  std::optional<ServiceDirectory> left(std::in_place, client(), "/services");
  ServiceDirectory directory = std::move(*left);
  for (const ServiceType type : {ServiceType::dynamic, ServiceType::fixed}) {
    ServiceInstance instance{.name = "recipe", .id = "a"};
    instance.type = type;
    std::optional<Registration> registration(directory.register_instance(instance, patient()));
    Registration kept = std::move(*registration);
    instance.id = "b";
    *registration = directory.register_instance(instance, patient());
    kept = std::move(*registration);  // "a" is unregistered, without being waited for.
    registration.reset();
    EXPECT_EQ(kept.node(), "/services/recipe/b");
    EXPECT_EQ(kept.state(), PresenceState::present);
    EXPECT_TRUE(remain(1, "/services/recipe"));
    std::optional<ServiceProvider> provider(directory.provider("recipe"));
    ServiceProvider picker = std::move(*provider);
    *provider = directory.provider("recipe");
    picker = std::move(*provider);
    provider.reset();
    EXPECT_EQ(picker.wait_ready(patient()).instances.size(), 1U);
    EXPECT_EQ(picker.pick()->node, "b");
    kept.unregister(patient());
  }
  *left = std::move(directory);
  const ServiceDirectory last = std::move(*left);
  left.reset();
  EXPECT_EQ(last.services(patient()), std::vector<std::string>{"recipe"});
}

TEST_F(MovedFrom, AWatchIsEmpty) {
  testkit::Box<zkclient::WatchEvent> events;
  auto read = client().exists_and_watch("/node", [&](const zkclient::WatchEvent& event) { events.put(event); });
  zkclient::Watch kept;
  {
    zkclient::Watch watch = std::move(read).watch();
    kept = std::move(watch);
    EXPECT_FALSE(watch.armed());
  }
  EXPECT_TRUE(kept.armed());
  client().create("/node", "");
  EXPECT_EQ(events.take().type, zkclient::WatchEventType::created);
}

TEST_F(MovedFrom, AClientAndARecipeMayBeAssignedToOrDestroyed) {
  std::optional<zkclient::Client> moved(make_client());
  zkclient::Client mine = std::move(*moved);
  std::optional<Mutex> left(std::in_place, mine, "/lock");
  Mutex mutex = std::move(*left);
  EXPECT_TRUE(mutex.acquire(patient()).valid());
  *moved = mine;
  EXPECT_TRUE(moved->exists("/", patient()));
  *left = std::move(mutex);
  EXPECT_TRUE(left->acquire(patient()).valid());
  zkclient::Client again = std::move(*moved);
  const Mutex last = std::move(*left);
  moved.reset();
  left.reset();
}

}  // namespace
}  // namespace zkrecipes

// NOLINTEND(bugprone-use-after-move)
