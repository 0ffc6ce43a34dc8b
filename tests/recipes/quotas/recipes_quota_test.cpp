// Recipes on a server that enforces quotas: what only frees or replaces works when the quota is full, also when replies
// are lost.

#include <gtest/gtest.h>

#include <string>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/latch.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/migrations.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/optimistic.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/unfair_leader_election.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/quota_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class RecipesQuota : public testkit::QuotaTest {
 protected:
  static ConfigurationUpdate change(const std::string& value) {
    ConfigurationUpdate update;
    update.values["key"] = value;
    return update;
  }
};

TEST_F(RecipesQuota, CounterIsLoweredOnce) {
  Counter(the_operator(), root() / "numbers/one").set(100, patient());
  allow_no_node();
  {
    Counter counter(proxied(), root() / "numbers/one");
    const auto lost = proxy.drop_next_reply(RequestType::multi);
    EXPECT_EQ(counter.add(-1, patient()).after, 99);
    EXPECT_TRUE(lost.happened());
    EXPECT_EQ(counter.get(patient()), 99);
  }
  EXPECT_TRUE(eventually([&] { return stand_ins() == 0; }));
}

TEST_F(RecipesQuota, LatchIsCountedDown) {
  Latch(the_operator(), root() / "latches/one", 100).count_down(1, patient());
  allow_nothing();
  const Client client = proxied();
  Latch latch(client, root() / "latches/one", 100);
  const auto lost = proxy.drop_next_reply(RequestType::multi);
  EXPECT_EQ(latch.count_down(1, patient()), 98);
  EXPECT_TRUE(lost.happened());
  Latch fresh(client, root() / "latches/two", 1);
  EXPECT_EQ(error_of([&] { fresh.count_down(1, patient()); }), Errc::quota_exceeded);
  EXPECT_EQ(fresh.left(patient()), 1);
}

TEST_F(RecipesQuota, MigrationsAreRefused) {
  MigrationSet set("shop");
  set.add("one", Transaction().create(root() / "one"));
  const auto make = [this](const Client& client) { return Migrations(client, "/migration-locks", root() / "records"); };
  EXPECT_EQ(make(the_operator()).migrate(set, patient()).size(), 1U);
  set.add("two", Transaction().create(root() / "two"));
  allow_no_node();
  const Client client = proxied();
  EXPECT_EQ(error_of([&] { make(client).migrate(set, patient()); }), Errc::quota_exceeded);
  EXPECT_EQ(make(client).pending(set, patient()).size(), 1U);
  EXPECT_FALSE(the_operator().exists(root() / "two"));
  allow_all();
  EXPECT_EQ(make(client).migrate(set, patient()).size(), 1U);
}

TEST_F(RecipesQuota, SharedValueIsReplaced) {
  SharedValue(the_operator(), root() / "values/one").set("abc", patient());
  allow_nothing();
  SharedValue value(proxied(), root() / "values/one");
  const auto lost = proxy.drop_next_reply(RequestType::multi);
  value.set("xyz", patient());
  EXPECT_TRUE(lost.happened());
  EXPECT_EQ(value.get(patient()).data, "xyz");
}

TEST_F(RecipesQuota, OptimisticRemoves) {
  the_operator().create(root() / "a", "1");
  the_operator().create(root() / "b", "2");
  allow_nothing();
  {
    Optimistic optimistic(proxied(), root() / "optimistic");
    const auto lost = proxy.drop_next_reply(RequestType::multi);
    optimistic.atomically(
        [&](OptimisticView& view) {
          if (view.get(root() / "b") == "2") view.remove(root() / "a");
        },
        patient());
    EXPECT_TRUE(lost.happened());
  }
  EXPECT_FALSE(the_operator().exists(root() / "a"));
  EXPECT_TRUE(eventually([&] { return stand_ins() == 0; }));
}

// A node shows that there is none, or no other one.
TEST_F(RecipesQuota, OptimisticNeedsRoomForSomeChecks) {
  the_operator().create(root() / "a", "1");
  the_operator().create(root() / "folder", "");
  the_operator().create(root() / "folder/b", "");
  allow_no_node();
  Optimistic optimistic(proxied(), root() / "optimistic");
  expect_full([&] {
    optimistic.atomically(
        [&](OptimisticView& view) {
          if (!view.find(root() / "missing")) view.remove(root() / "a");
        },
        patient());
  });
  expect_full([&] {
    optimistic.atomically(
        [&](OptimisticView& view) {
          for (const std::string& name : view.children(root() / "folder"))
            view.remove(root() / "folder" / name);
        },
        patient());
  });
  EXPECT_TRUE(the_operator().exists(root() / "a"));
  EXPECT_EQ(children(root() / "folder"), 1U);
}

TEST_F(RecipesQuota, DurableCounterIsLoweredAcrossSessions) {
  CounterOptions options;
  options.durable = true;
  Counter(the_operator(), root() / "numbers/one", options).set(100, patient());
  // The marker of that one goes in the background, then the servers remove the folders. Each would make room.
  ASSERT_TRUE(eventually([&] { return children(root() / "numbers") == 1; }));
  allow_no_node();
  const Client client = proxied();
  {
    Counter counter(client, root() / "numbers/one", options);
    EXPECT_EQ(counter.add(-1, patient()).after, 99);
    EXPECT_EQ(beside("-marker-"), 1U);
    expire(client);
    EXPECT_EQ(counter.add(-1, patient()).after, 98);
  }
  EXPECT_TRUE(eventually([&] { return beside("-marker-") == 0 && stand_ins() == 0; }));
}

TEST_F(RecipesQuota, LeasesAreReleased) {
  Mutex mutex(proxied(), root() / "mutex");
  SharedMutex shared(proxied(), root() / "shared");
  Semaphore semaphore(proxied(), root() / "semaphore", 3);
  UnfairMutex unfair(proxied(), root() / "unfair");
  Lease first = mutex.acquire(patient());
  Lease second = shared.acquire(patient());
  Lease third = semaphore.acquire(patient());
  Lease fourth = unfair.acquire(patient());
  allow_nothing();
  for (Lease* lease : {&first, &second, &third, &fourth}) {
    EXPECT_TRUE(lease->valid());
    lease->release(patient());
  }
  EXPECT_EQ(ephemerals(), 0U);
}

// Only a new node tells all readers, and the writer's cannot go first.
TEST_F(RecipesQuota, AWriterThatMayNotBecomeAReaderStaysAWriter) {
  SharedMutex mutex(proxied(), root() / "shared");
  SharedMutex other(the_operator(), root() / "shared");
  Lease lease = mutex.acquire(patient());
  const std::string node = lease.node();
  allow_no_node();
  expect_full([&] { mutex.downgrade(lease, patient()); });
  Box<Result<Lease>> ended;
  mutex.async_downgrade(
      lease, [&](Result<Lease> result) { ended.put(std::move(result)); }, patient());
  EXPECT_EQ(ended.take().error().errc(), Errc::quota_exceeded);
  EXPECT_EQ(lease.state(), LeaseState::held);
  EXPECT_EQ(lease.node(), node);
  allow_all();
  EXPECT_FALSE(other.try_acquire_shared(patient()));
  mutex.downgrade(lease, patient());
  EXPECT_TRUE(other.try_acquire_shared(patient()));
}

TEST_F(RecipesQuota, AWriterBecomesAReaderWithoutBytes) {
  SharedMutex mutex(proxied(), root() / "shared");
  Lease lease = mutex.acquire(patient());
  const std::string data = the_operator().get(lease.node()).data;
  ASSERT_NE(data, "");
  allow_no_byte();
  const auto lost = proxy.drop_next_request(RequestType::multi);
  mutex.downgrade(lease, patient());
  EXPECT_TRUE(lost.happened());
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(the_operator().get(lease.node()).data, data);
  allow_all();
  EXPECT_TRUE(SharedMutex(the_operator(), root() / "shared").try_acquire_shared(patient()));
}

TEST_F(RecipesQuota, LeadersResign) {
  LeaderElection election(proxied(), root() / "election");
  UnfairLeaderElection unfair(proxied(), root() / "unfair");
  const Leadership first = election.campaign(patient());
  const Leadership second = unfair.campaign(patient());
  allow_nothing();
  election.resign(patient());
  unfair.resign(patient());
  EXPECT_FALSE(first.valid());
  EXPECT_FALSE(second.valid());
  EXPECT_EQ(ephemerals(), 0U);
}

TEST_F(RecipesQuota, MembersLeave) {
  Group group(proxied(), root() / "group");
  Membership member = group.join("me", "payload", patient());
  allow_nothing();
  const auto lost = proxy.drop_next_reply(RequestType::multi);
  member.leave(patient());
  EXPECT_TRUE(lost.happened());
  EXPECT_EQ(ephemerals(), 0U);
}

TEST_F(RecipesQuota, MembersAreBackAfterALostSession) {
  const Client client = proxied();
  Group group(client, root() / "group");
  Membership member = group.join("me", "payload", patient());
  allow_nothing();
  const auto session = client.connect(patient());
  expire(client);
  EXPECT_TRUE(eventually([&] {
    const auto node = the_operator().exists(root() / "group/me");
    return node && node->ephemeral_owner != session.id();
  }));
  member.leave(patient());
}

TEST_F(RecipesQuota, AMemberReplacesAnotherOne) {
  Group group(the_operator(), root() / "group");
  Membership before = group.join("me", "payload", patient());
  allow_nothing();
  GroupOptions options;
  options.conflict = Conflict::replace;
  const Client client = proxied();
  Group other(client, root() / "group", options);
  Membership after = other.join("me", "payload", patient());
  EXPECT_EQ(the_operator().exists(root() / "group/me")->ephemeral_owner, client.connect(patient()).id());
  after.leave(patient());
}

TEST_F(RecipesQuota, NamesAreReleased) {
  Naming naming(proxied(), root() / "names");
  Lease lease = naming.bind("printer", "10.0.0.8", patient());
  allow_nothing();
  lease.release(patient());
  EXPECT_EQ(ephemerals(), 0U);
}

TEST_F(RecipesQuota, PermanentNamesChangeWithoutBytes) {
  Naming naming(proxied(), root() / "names");
  naming.bind_permanent("printer", "10.0.0.8", patient());
  allow_no_byte();
  {
    const auto lost = proxy.drop_next_reply(RequestType::multi);
    EXPECT_EQ(naming.rebind("printer", "10.0.0.9", 0, patient()), 1);
    EXPECT_TRUE(lost.happened());
  }
  EXPECT_EQ(naming.resolve("printer", patient())->data, "10.0.0.9");
  expect_full([&] { naming.rebind("printer", "10.0.0.10", 1, patient()); });
  const auto lost = proxy.drop_next_reply(RequestType::multi);
  naming.unbind("printer", 1, patient());
  EXPECT_TRUE(lost.happened());
  EXPECT_EQ(naming.resolve("printer", patient()), std::nullopt);
}

// A node below it shows that no holder has the name.
TEST_F(RecipesQuota, PermanentNamesNeedRoomForTheirCheck) {
  Naming naming(proxied(), root() / "names");
  naming.bind_permanent("printer", "10.0.0.8", patient());
  allow_no_node();
  expect_full([&] { naming.rebind("printer", "10.0.0.9", any_version, patient()); });
  expect_full([&] { naming.unbind("printer", any_version, patient()); });
  EXPECT_EQ(naming.resolve("printer", patient())->data, "10.0.0.8");
  allow_all();
  naming.unbind("printer", 0, patient());
  EXPECT_EQ(naming.resolve("printer", patient()), std::nullopt);
}

TEST_F(RecipesQuota, BarriersAreLowered) {
  Barrier barrier(proxied(), root() / "barrier");
  barrier.raise(BarrierLife::persistent, patient());
  allow_nothing();
  const auto lost = proxy.drop_next_reply(RequestType::remove);
  barrier.lower(patient());
  EXPECT_TRUE(lost.happened());
}

TEST_F(RecipesQuota, ConfigurationGivesHistoryForRoom) {
  Configuration configuration(proxied(), root() / "configuration");
  for (const char* value : {"a", "b", "c"})
    configuration.publish(change(value), any_revision, patient());
  const std::size_t kept = configuration.history(patient()).size();
  allow_no_node();
  configuration.publish(change("d"), any_revision, patient());
  const auto history = configuration.history(patient());
  EXPECT_EQ(history.size(), kept);
  EXPECT_EQ(the_operator().get(root() / "configuration/key").data, "d");
}

TEST_F(RecipesQuota, CachedItemsAreReplacedAndRemoved) {
  CoherentCache cache(proxied(), root() / "cache", {.shards = 1});
  for (const char* name : {"a", "b"})
    cache.put(name, "old", patient());
  allow_nothing();
  {
    const auto lost = proxy.drop_next_reply(RequestType::multi);
    cache.put("a", "new", patient());
    EXPECT_TRUE(lost.happened());
  }
  Box<Result<void>> removed;
  cache.async_remove(
      "b", [&](Result<void> result) { removed.put(std::move(result)); }, patient());
  EXPECT_TRUE(removed.take());
  EXPECT_TRUE(eventually([&] { return the_operator().exists(root() / "cache/holders/0").has_value(); }));
  allow_no_node();
  expect_full([&] { cache.create("c", "new", patient()); });
  EXPECT_EQ(cache.get("a", patient())->data, "new");
  EXPECT_FALSE(cache.get("b", patient())->exists);
}

// A closing needs a node of the writer's.
TEST_F(RecipesQuota, CachedItemsStayWhileOthersReadThem) {
  CoherentCache cache(proxied(), root() / "cache", {.shards = 1});
  cache.put("a", "old", patient());
  CoherentCache other(the_operator(), root() / "cache");
  ASSERT_EQ(other.get("a", patient())->data, "old");
  ASSERT_EQ(other.statistics().leases, 1U);
  allow_no_node();
  expect_full([&] { cache.put("a", "new", patient()); });
  EXPECT_EQ(other.get("a", patient())->data, "old");
  other.close();
  EXPECT_TRUE(eventually([&] { return children(root() / "cache/holders/0") == 0; }));
  cache.put("a", "new", patient());
  EXPECT_EQ(cache.get("a", patient())->data, "new");
}

// Others had taken its room.
TEST_F(RecipesQuota, TheFolderOfReadersIsMadeAgain) {
  const Path holders = root() / "cache/holders/0";
  CoherentCache cache(proxied(), root() / "cache", {.shards = 1});
  cache.put("a", "old", patient());
  the_operator().remove(holders);
  allow_no_node();
  expect_full([&] { cache.put("a", "new", patient()); });
  CoherentCache other(the_operator(), root() / "cache");
  EXPECT_EQ(other.get("a", patient())->data, "old");
  EXPECT_EQ(other.statistics().leases, 0U);
  allow_all();
  EXPECT_EQ(other.get("a", patient())->data, "old");
  EXPECT_EQ(other.get("a", patient())->data, "old");
  EXPECT_EQ(other.statistics().leases, 1U);
  other.close();
  EXPECT_TRUE(eventually([&] { return children(holders) == 0; }));
  the_operator().remove(holders);
  cache.put("a", "new", patient());
  EXPECT_TRUE(the_operator().exists(holders));
  EXPECT_EQ(cache.get("a", patient())->data, "new");
}

TEST_F(RecipesQuota, WhatNeedsRoomSaysWhichQuotaIsFull) {
  the_operator().create(root() / "leases", "");
  allow_no_node();
  Mutex mutex(proxied(), root() / "leases/mutex");
  Counter counter(proxied(), root() / "numbers/new");
  const Client client = proxied();
  expect_full([&] { (void)mutex.acquire(patient()); });
  expect_full([&] { counter.add(1, patient()); });
  expect_full([&] { client.create(root() / "node", "", {}, patient()); });
  expect_full([&] { client.commit(Transaction().create(root() / "node", ""), patient()); });
}

TEST_F(RecipesQuota, ByteLimitsAreToldApart) {
  the_operator().create(root() / "node", "abc");
  allow_no_byte();
  const Client client = proxied();
  client.set(root() / "node", "xyz", any_version, patient());
  expect_full([&] { client.set(root() / "node", "more", any_version, patient()); }, "3 of 3 bytes");
}

}  // namespace
}  // namespace zkrecipes
