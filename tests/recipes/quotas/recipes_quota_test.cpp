// Recipes on a server that enforces quotas: what only frees or replaces works when the quota is full, also when replies are lost.

#include <gtest/gtest.h>

#include <string>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/optimistic.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/quota_test.hpp"

namespace zkrecipes {
namespace {

using testkit::eventually;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Error;
using zktesting::RequestType;

class RecipesQuota : public testkit::QuotaTest {
 protected:
  static ConfigurationUpdate change(const std::string& value) {
    ConfigurationUpdate update;
    update.values["key"] = value;
    return update;
  }
  /// The detail of what `action` throws.
  template <typename Action>
  static std::string refusal_of(Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      const bool of_transaction = error.errc() == Errc::transaction_failed;
      EXPECT_TRUE(error.errc() == Errc::quota_exceeded || of_transaction) << error.what();
      return error.detail();
    }
    ADD_FAILURE() << "there was room";
    return {};
  }
  /// Nodes below root() that go with their sessions.
  std::size_t ephemerals() {
    std::size_t count = 0;
    const std::string dump = server().four_letter_word("dump");
    for (std::size_t at = dump.find(root().str() + "/"); at != std::string::npos;
         at = dump.find(root().str() + "/", at + 1))
      ++count;
    return count;
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

TEST_F(RecipesQuota, DurableCounterIsLoweredAcrossSessions) {
  CounterOptions options;
  options.durable = true;
  Counter(the_operator(), root() / "numbers/one", options).set(100, patient());
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

TEST_F(RecipesQuota, LeadersResign) {
  LeaderElection election(proxied(), root() / "election");
  Leadership leadership = election.campaign(patient());
  allow_nothing();
  election.resign(patient());
  EXPECT_FALSE(leadership.valid());
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

TEST_F(RecipesQuota, WhatNeedsRoomSaysWhichQuotaIsFull) {
  the_operator().create(root() / "leases", "");
  allow_no_node();
  Mutex mutex(proxied(), root() / "leases/mutex");
  Counter counter(proxied(), root() / "numbers/new");
  const Client client = proxied();
  const std::string full = "the quota of " + root().str() + ": ";
  EXPECT_NE(refusal_of([&] { (void)mutex.acquire(patient()); }).find(full), std::string::npos);
  EXPECT_NE(refusal_of([&] { counter.add(1, patient()); }).find(full), std::string::npos);
  EXPECT_NE(refusal_of([&] { client.create(root() / "node", "", {}, patient()); }).find(full), std::string::npos);
  EXPECT_NE(
      refusal_of([&] { client.commit(zkclient::Transaction().create(root() / "node", ""), patient()); }).find(full),
      std::string::npos);
}

TEST_F(RecipesQuota, ByteLimitsAreToldApart) {
  the_operator().create(root() / "node", "abc");
  allow_no_byte();
  const Client client = proxied();
  client.set(root() / "node", "xyz", zkclient::any_version, patient());
  const std::string refusal =
      refusal_of([&] { client.set(root() / "node", "more", zkclient::any_version, patient()); });
  EXPECT_NE(refusal.find("the quota of " + root().str() + ": 3 of 3 bytes"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace zkrecipes
