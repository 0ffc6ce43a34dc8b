// What inspect() makes of the recipes that have more than contenders, or none.

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/inspect.hpp>
#include <zkrecipes/latch.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/migrations.hpp>
#include <zkrecipes/periodic_job.hpp>
#include <zkrecipes/persistent_node.hpp>
#include <zkrecipes/placement.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Hosts = std::vector<std::string>;

class InspectFolders : public testkit::RecipeTest {
 protected:
  InspectFolders() : RecipeTest("/place") {}

  Inspection look(const Path& at = "/place") { return inspect(client(), at, {.deadline = soon()}); }
  RecipeKind kind(const Path& at = "/place") { return look(at).kind; }
  void put(const Path& node, const std::string& data, CreateMode mode = CreateMode::persistent) {
    client().create(node, data, {.mode = mode, .parents = true});
  }
};

// --- Latch --------------------------------------------------------------------------------------------------------

TEST_F(InspectFolders, LatchThatWasCountedDown) {
  client().create(path(), "");
  EXPECT_EQ(kind(), RecipeKind::unknown) << "an empty node may be anything";
  Latch latch(client(), path(), 3);
  latch.count_down();
  const Inspection begun = look();
  EXPECT_EQ(begun.kind, RecipeKind::latch);
  EXPECT_EQ(begun.naming, NodeNaming::own);
  ASSERT_TRUE(begun.latch);
  EXPECT_EQ(begun.latch->generation, 1);
  EXPECT_EQ(begun.latch->count, 3);
  EXPECT_EQ(begun.latch->left, 2);
  EXPECT_TRUE(begun.contenders.empty());
  latch.count_down(5);
  EXPECT_EQ(look().latch->left, 0);
  client().set(path(), "generation=1 count=3 left=4");
  EXPECT_EQ(kind(), RecipeKind::unknown) << "more than its count is left";
}

// --- Periodic job -------------------------------------------------------------------------------------------------

class InspectJob : public InspectFolders {
 protected:
  static JobTime firing(int number) {
    return std::chrono::sys_days(std::chrono::year(2001) / 1 / 1) + std::chrono::hours(number);
  }
  /// The firings 1 to `count`, which are due.
  static Schedule schedule(int count) {
    return [count](JobTime after) -> std::optional<JobTime> {
      const JobTime next = every(1h)(after).value();
      return next > firing(count) ? std::nullopt : std::optional(next);
    };
  }
  static PeriodicJobOptions options() { return {.missed = MissedFirings::all, .id = "me"}; }
  void settle_before_the_first() { put("/place/state", R"({"settled":"2001-01-01T00:00:00.000Z"})"); }
};

TEST_F(InspectJob, RunsThatAreOnRecord) {
  settle_before_the_first();
  EXPECT_EQ(kind(), RecipeKind::periodic_job) << "it says when its next firing is looked for";
  PeriodicJob job(
      client(), path(), schedule(12),
      [](const std::stop_token&, const JobFiring& firing) {
        if (firing.time() == InspectJob::firing(11)) throw std::runtime_error("disk full");
      },
      options());
  job.start();
  EXPECT_TRUE(eventually([&] { return job.status(patient())->settled == firing(12); }));
  job.close(patient());
  const Inspection found = look();
  ASSERT_EQ(found.kind, RecipeKind::periodic_job);
  ASSERT_TRUE(found.job && found.job->status);
  EXPECT_EQ(found.job->status->settled, firing(12));
  EXPECT_FALSE(found.job->status->running);
  EXPECT_FALSE(found.job->abandoned);
  EXPECT_TRUE(found.contenders.empty());
  EXPECT_EQ(found.job->records, 12U);
  ASSERT_EQ(found.job->runs.size(), 10U);
  EXPECT_EQ(found.job->runs[0].firing, firing(12));
  EXPECT_EQ(found.job->runs[0].outcome, JobOutcome::succeeded);
  EXPECT_EQ(found.job->runs[0].runner, "me");
  EXPECT_EQ(found.job->runs[1].outcome, JobOutcome::failed);
  EXPECT_EQ(found.job->runs[1].error, "disk full");
  EXPECT_EQ(found.job->runs[9].firing, firing(3));
}

TEST_F(InspectJob, RunnerAtWorkAndGone) {
  settle_before_the_first();
  Box<int> begun;
  std::stop_source stop;
  const std::stop_token until = stop.get_token();
  PeriodicJob job(
      client(), path(), schedule(1),
      [&](const std::stop_token&, const JobFiring&) {
        begun.put(1);
        EXPECT_TRUE(stopped(until));
      },
      options());
  job.start();
  (void)begun.take();
  const Inspection at_work = look();
  ASSERT_TRUE(at_work.job && at_work.job->status && at_work.job->status->running);
  EXPECT_EQ(at_work.job->status->running->runner, "me");
  EXPECT_FALSE(at_work.job->abandoned);
  ASSERT_EQ(at_work.contenders.size(), 1U);
  EXPECT_TRUE(at_work.contenders[0].holds);
  EXPECT_EQ(at_work.contenders[0].session_id, client().session().id());
  EXPECT_TRUE(at_work.contenders[0].data.starts_with("id=me host="));
  const std::string state = client().get("/place/state").data;
  stop.request_stop();
  job.close(patient());
  // As a process leaves it that dies.
  client().set("/place/state", state);
  const Inspection gone = look();
  ASSERT_TRUE(gone.job);
  EXPECT_TRUE(gone.job->abandoned);
  EXPECT_TRUE(gone.contenders.empty());
}

TEST_F(InspectJob, StateThatIsNoneOfOurs) {
  put("/place/state", "");
  EXPECT_EQ(kind(), RecipeKind::unknown) << "a node of that name may be anything";
  client().set("/place/state", "{}");
  EXPECT_EQ(kind(), RecipeKind::unknown);
  put("/place/history/2001-01-01T01:00:00.000Z-1", "nothing");
  const Inspection found = look();
  ASSERT_EQ(found.kind, RecipeKind::periodic_job);
  EXPECT_FALSE(found.job->status);
  EXPECT_EQ(found.job->records, 1U);
  EXPECT_TRUE(found.job->runs.empty());
}

// --- Migrations ---------------------------------------------------------------------------------------------------

TEST_F(InspectFolders, RecordsOfMigrations) {
  Migrations migrations(client(), "/locks", path());
  MigrationSet users("users");
  users.add("first", Transaction().create("/a", "")).add("second", Transaction().create("/b", ""));
  MigrationSet orders("orders");
  orders.add("first", [](OptimisticView& view) { view.create("/c", ""); });
  migrations.migrate(users, patient());
  migrations.migrate(orders, patient());
  client().create("/place/later", "", {.mode = CreateMode::container});
  const Inspection all = look();
  ASSERT_EQ(all.kind, RecipeKind::migrations);
  EXPECT_EQ(all.naming, NodeNaming::curator);
  ASSERT_EQ(all.migrations.size(), 3U);
  EXPECT_EQ(all.migrations[0].name, "later");
  EXPECT_EQ(all.migrations[1].name, "orders");
  EXPECT_EQ(all.migrations[1].steps.size(), 1U);
  const Inspection one = look("/place/users");
  ASSERT_EQ(one.migrations.size(), 1U);
  EXPECT_EQ(one.migrations[0].name, "users");
  ASSERT_EQ(one.migrations[0].steps.size(), 2U);
  const InspectedStep& step = one.migrations[0].steps[1];
  EXPECT_EQ(step.node, "meta-0000000001");
  EXPECT_EQ(step.digest, client().get("/place/users/meta-0000000001").data);
  EXPECT_FALSE(step.foreign);
}

TEST_F(InspectFolders, RecordsThatAreNone) {
  put("/place/set/meta-0000000000", std::string(32, 'x'));
  put("/place/set/meta-0000000001", "not a digest");
  put("/place/set/notes", std::string(32, 'x'));
  const Inspection found = look();
  ASSERT_EQ(found.kind, RecipeKind::migrations);
  ASSERT_EQ(found.migrations.at(0).steps.size(), 3U);
  EXPECT_FALSE(found.migrations[0].steps[0].foreign);
  EXPECT_TRUE(found.migrations[0].steps[1].foreign);
  EXPECT_TRUE(found.migrations[0].steps[2].foreign) << "Curator reads it as a record";
  put("/place/other/child", "");
  EXPECT_EQ(kind(), RecipeKind::unknown) << "not all of its children are sets";
}

// --- Placement ----------------------------------------------------------------------------------------------------

class InspectPlacement : public InspectFolders {
 protected:
  void put_member(const std::string& partition, const std::string& id, const std::string& storage) {
    put(path() / "groups" / partition / "members" / id, "replica 1 " + storage + " 1000 0 at-" + id,
        CreateMode::ephemeral);
  }
  void put_state(const std::string& partition, const std::string& replicas) {
    put(path() / "groups" / partition / "state",
        "replicas 1 epoch=7 primary=a minimum=2 forced=0 leaving=0\n" + replicas);
  }
};

TEST_F(InspectPlacement, HostsAndPartitions) {
  put("/place/hosts/a", "host 1 2 rack-1", CreateMode::ephemeral);
  put("/place/hosts/b", "host 1 0 -", CreateMode::ephemeral);
  put("/place/hosts/c", "host 1 1 -");
  put("/place/hosts/d", "words", CreateMode::ephemeral);
  put("/place/placement/p0", "placement 1\na wanted\nb wanted\n");
  put_state("p0", "a disk-a 1000\nb disk-b 1000\n");
  put_member("p0", "a", "disk-a");
  put_member("p0", "b", "disk-b");
  put("/place/groups/p0/primary/owner", "a", CreateMode::ephemeral);
  put("/place/placement/p1", "placement 1\na wanted\nb leaving\nx wanted\n");
  put_state("p1", "a disk-a 1000\nb disk-b 1000\n");
  put_member("p1", "a", "disk-a");
  put_member("p1", "b", "emptied");
  put("/place/placement/p2", "words");
  put("/place/groups/p3/state", "words");
  put("/place/groups/p3/members/a", "words");
  put("/place/placement/p4", "placement 1\na wanted\n");
  put("/place/groups/p4/state", "words");
  const Inspection found = look();
  ASSERT_EQ(found.kind, RecipeKind::placement);
  EXPECT_EQ(found.naming, NodeNaming::own);
  ASSERT_TRUE(found.placement);
  const InspectedPlacement& placement = *found.placement;
  EXPECT_EQ(placement.foreign_hosts, (Hosts{"c", "d"}));
  ASSERT_EQ(placement.hosts.size(), 2U);
  EXPECT_EQ(placement.hosts[0].host, (ReplicaHost{"a", "rack-1", 2}));
  EXPECT_EQ(placement.hosts[0].session_id, client().session().id());
  EXPECT_EQ(placement.hosts[0].replicas, 3U);
  EXPECT_EQ(placement.hosts[1].host.weight, 0U);
  EXPECT_EQ(placement.hosts[1].replicas, 1U);
  EXPECT_EQ(placement.hosts[1].leaving, 1U);
  ASSERT_EQ(placement.partitions.size(), 5U);
  const InspectedPartition& good = placement.partitions[0];
  EXPECT_EQ(good.name, "p0");
  EXPECT_EQ(good.wanted, (Hosts{"a", "b"}));
  EXPECT_EQ(good.in_sync, (Hosts{"a", "b"}));
  EXPECT_EQ(good.minimum, 2U);
  EXPECT_EQ(good.primary, "a");
  EXPECT_FALSE(good.below_minimum());
  EXPECT_FALSE(good.moving());
  EXPECT_EQ(good.problem, "");
  const InspectedPartition& moving = placement.partitions[1];
  EXPECT_EQ(moving.wanted, (Hosts{"a", "x"}));
  EXPECT_EQ(moving.leaving, Hosts{"b"});
  EXPECT_EQ(moving.in_sync, Hosts{"a"}) << "the disk of b was emptied";
  EXPECT_TRUE(moving.below_minimum());
  EXPECT_TRUE(moving.moving());
  EXPECT_FALSE(moving.primary);
  EXPECT_EQ(placement.partitions[2].problem, "its placement is none of this library");
  EXPECT_EQ(placement.partitions[3].problem, "it has no placement");
  EXPECT_EQ(placement.partitions[4].problem, "the state of its group is none of this library");
  EXPECT_TRUE(placement.partitions[4].below_minimum());
}

TEST_F(InspectPlacement, ItsPlacersAreTheContenders) {
  Placer placer(client(), path(), {}, {.id = "placer-1", .minimum = 1});
  HostedReplicas host(client(), path(), {"a", "rack-1"}, {[](const HostedReplica&) {}, [](const HostedReplica&) {}});
  host.start();
  placer.start();
  Inspection found;
  EXPECT_TRUE(eventually([&] {
    found = look();
    return found.placement && found.placement->hosts.size() == 1 && found.contenders.size() == 1;
  }));
  EXPECT_EQ(found.kind, RecipeKind::placement);
  EXPECT_TRUE(found.contenders.at(0).holds);
  EXPECT_EQ(found.contenders[0].data, "placer-1");
  EXPECT_TRUE(found.placement->partitions.empty());
}

// --- Persistent nodes ---------------------------------------------------------------------------------------------

TEST_F(InspectFolders, EphemeralNodeThatIsKept) {
  put("/folder/by-hand", "words", CreateMode::ephemeral);
  EXPECT_EQ(kind("/folder/by-hand"), RecipeKind::unknown) << "nobody makes it again";
  const PersistentNode node(client(), "/folder/kept", "words");
  node.wait_created(patient());
  const Inspection found = look("/folder/kept");
  EXPECT_EQ(found.kind, RecipeKind::persistent_node);
  EXPECT_EQ(found.naming, NodeNaming::own);
  ASSERT_EQ(found.contenders.size(), 1U);
  EXPECT_TRUE(found.contenders[0].holds);
  EXPECT_EQ(found.contenders[0].node, "kept");
  EXPECT_EQ(found.contenders[0].data, "words");
  EXPECT_EQ(found.contenders[0].session_id, client().session().id());
  EXPECT_EQ(kind("/folder/by-hand"), RecipeKind::unknown) << "it is not the one that is kept beside it";
}

// All nodes of a folder are looked at by some tools: each must not cost a read of all others.
TEST_F(InspectFolders, NodeThatIsKeptBesideManyIsNotKnown) {
  const PersistentNode node(client(), "/folder/kept", "words");
  node.wait_created(patient());
  for (int i = 1; i < 20; ++i)
    put("/folder-presence/" + std::to_string(i), "");
  EXPECT_EQ(kind("/folder/kept"), RecipeKind::persistent_node);
  put("/folder-presence/20", "");
  EXPECT_EQ(kind("/folder/kept"), RecipeKind::unknown);
}

TEST_F(InspectFolders, NodesWithAnIdBeforeTheirName) {
  PersistentNode lasting(client(), "/folder/kept", "words", {.mode = CreateMode::persistent, .protection = true});
  PersistentNode ephemeral(client(), "/folder/kept", "", {.protection = true});
  lasting.wait_created(patient());
  ephemeral.wait_created(patient());
  const Inspection found = look(*lasting.node());
  EXPECT_EQ(found.kind, RecipeKind::persistent_node);
  EXPECT_EQ(found.naming, NodeNaming::curator);
  EXPECT_EQ(found.contenders.at(0).session_id, 0);
  EXPECT_EQ(look(*ephemeral.node()).contenders.at(0).session_id, client().session().id());
  PersistentNode plain(client(), "/folder/plain", "words", {.mode = CreateMode::persistent});
  plain.wait_created(patient());
  EXPECT_EQ(kind("/folder/plain"), RecipeKind::unknown) << "nothing tells it from any other node";
  lasting.remove(patient());
  plain.remove(patient());
}

// Holders of locks have such names, and two nodes made at once, as well.
TEST_F(InspectFolders, NodesOfHoldersAreNotKept) {
  const Lease lease = UnfairMutex(client(), path()).acquire(patient());
  for (const std::string& name : names())
    EXPECT_EQ(kind(path() / name), RecipeKind::unknown) << name;
  put("/other/_c_11111111-2222-3333-4444-555555555555-lock-0000000001", "", CreateMode::ephemeral);
  EXPECT_EQ(kind("/other/_c_11111111-2222-3333-4444-555555555555-lock-0000000001"), RecipeKind::unknown);
}

TEST_F(InspectFolders, MemberOfAGroupIsKept) {
  Group group(client(), path());
  const Membership membership = group.join("me", "words", patient());
  EXPECT_EQ(kind("/place/me"), RecipeKind::persistent_node);
}

TEST_F(InspectFolders, NodeWithATimeToLive) {
  put("/place/touch", "words");
  EXPECT_EQ(kind(), RecipeKind::unknown) << "the child that shows that an owner lives is empty";
  client().set("/place/touch", "");
  client().set(path(), "data");
  const Inspection found = look();
  EXPECT_EQ(found.kind, RecipeKind::persistent_ttl_node);
  ASSERT_EQ(found.contenders.size(), 1U);
  EXPECT_EQ(found.contenders[0].data, "data");
  EXPECT_EQ(found.contenders[0].session_id, 0);
  const std::chrono::milliseconds touched(client().exists("/place/touch")->mtime_ms);
  EXPECT_EQ(found.touched, std::chrono::system_clock::time_point(touched));
}

// A barrier may be called as folders of other recipes are.
TEST_F(InspectFolders, BarrierWithTheNameOfAFolder) {
  for (const char* name : {"/place/state", "/place/touch", "/place/history"}) {
    Barrier barrier(client(), name);
    barrier.raise();
    EXPECT_EQ(kind(name), RecipeKind::barrier) << name;
    barrier.lower();
  }
}

}  // namespace
}  // namespace zkrecipes
