#include <gtest/gtest.h>

#include "tests/simulation/raw_client.hpp"

// What makes several servers one: schedules that each catch a model in which one rule of the agreement is broken.
// scripts/broken_models.sh breaks them one by one.

namespace zktesting::simulated {
namespace {

using namespace std::chrono_literals;

struct Agreement : World {
  explicit Agreement(std::uint64_t seed, int servers = 3) : World(seed, options(servers)) { EXPECT_TRUE(serve()); }
  static EnsembleOptions options(int servers) {
    EnsembleOptions options;
    options.servers = servers;
    options.tick = 500;
    return options;
  }
  bool has(int server, const std::string& path) const { return ensemble.tree(server).stat(path).has_value(); }
  int other_follower() const { return 6 - leader() - follower(); }
  bool leads_with(int one, int other, Nanos limit = 20s) {
    return until([&] { return leader() != 0 && ensemble.serving(one) && ensemble.serving(other); }, limit);
  }
};

// Server `late` comes back while a write is outstanding. It has the write on its disk, and has not yet entered the epoch, when
// it loses sight of the leader. If its acknowledgement counts, the write is lost with the leader: the third server, which never
// saw the write, is in the epoch, and wins the election.
TEST(EnsembleAgreement, AnAcknowledgementCountsOnlyInsideTheEpoch) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Agreement world(seed);
    const int late = world.follower();
    const int third = world.other_follower();
    const int leader = world.leader();
    world.ensemble.kill(late);
    world.ensemble.kill(leader);
    world.ensemble.start(leader);
    ASSERT_TRUE(world.leads_with(leader, third));
    ASSERT_EQ(world.leader(), leader);
    RawClient& client = world.connected(leader, 10000);
    world.network.cut(leader, third);
    const auto written = client.create("/a", "x");
    world.pass(5ms);
    world.ensemble.start(late);
    ASSERT_TRUE(world.until(
        [&] { return world.ensemble.disk(late).last_zxid() == world.ensemble.disk(leader).last_zxid(); }, 2s));
    world.network.cut(leader, late);
    world.pass(20ms);
    const bool acknowledged = client.answer(written) != nullptr;
    EXPECT_FALSE(acknowledged) << seed;
    world.ensemble.kill(leader);
    ASSERT_TRUE(world.leads_with(late, third));
    EXPECT_TRUE(!acknowledged || world.has(world.leader(), "/a")) << seed;
  }
}

// The deposed leader has one write more than those who lead now. They die too, and one of them meets it: the newer epoch wins,
// although the log is shorter. Else a write would come back that the epoch between did not have.
TEST(EnsembleAgreement, AnEpochOutlivesACrash) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Agreement world(seed);
    const int old = world.leader();
    const int one = world.follower();
    const int other = world.other_follower();
    RawClient& client = world.connected(old, 10000);
    world.cut(old, one);
    world.cut(old, other);
    client.create("/late", "x");
    world.pass(50ms);
    ASSERT_TRUE(world.until(
        [&] {
          return world.ensemble.serving(one) && world.ensemble.serving(other) && world.leader() != 0 &&
                 world.leader() != old;
        },
        20s));
    EXPECT_FALSE(world.has(world.leader(), "/late"));
    for (int server = 1; server <= 3; ++server)
      world.ensemble.kill(server);
    world.mend(old, one);
    world.mend(old, other);
    world.pass(100ms);
    world.ensemble.start(old);
    world.ensemble.start(one);
    ASSERT_TRUE(world.leads_with(old, one));
    EXPECT_EQ(world.leader(), one) << seed;
    EXPECT_FALSE(world.has(one, "/late")) << seed;
    EXPECT_FALSE(world.has(old, "/late")) << seed;
  }
}

TEST(EnsembleAgreement, ZxidsGrowAcrossTheDeathOfAll) {
  Agreement world(3);
  for (int round = 0; round < 4; ++round) {
    RawClient& client = world.connected(world.leader());
    const std::string path = "/n" + std::to_string(round);
    const auto before = world.answer(client, client.create(path, "x"));
    ASSERT_TRUE(before);
    for (int server = 1; server <= 3; ++server)
      world.ensemble.kill(server);
    world.pass(100ms);
    for (int server = 1; server <= 3; ++server)
      world.ensemble.start(server);
    ASSERT_TRUE(world.serve());
    RawClient& next = world.connected(world.leader());
    const auto after = world.answer(next, next.set(path, "y"));
    ASSERT_TRUE(after);
    EXPECT_EQ(after->error, code::ok);
    EXPECT_GT(after->zxid >> 32, before->zxid >> 32);
  }
}

TEST(EnsembleAgreement, AWriteWaitsForTheDisksOfAMajority) {
  Agreement world(4);
  RawClient& client = world.connected(world.leader());
  for (const int slow : {world.follower(), world.other_follower()})
    world.ensemble.set_fsync_latency(slow, {300ms, 300ms});
  const auto written = client.create("/a", "x");
  EXPECT_FALSE(world.answer(client, written, 299ms));
  EXPECT_TRUE(world.answer(client, written, 10ms));
  // The leader's own disk counts as one of them: that of another one is not enough.
  world.ensemble.set_fsync_latency(world.leader(), {300ms, 300ms});
  world.ensemble.set_fsync_latency(world.follower(), {100us, 100us});
  const auto second = client.create("/b", "x");
  EXPECT_FALSE(world.answer(client, second, 299ms));
  EXPECT_TRUE(world.answer(client, second, 10ms));
}

TEST(EnsembleAgreement, ASyncWaitsForWhatIsOutstanding) {
  Agreement world(5);
  RawClient& writer = world.connected(world.other_follower());
  RawClient& reader = world.connected(world.follower());
  for (int server = 1; server <= 3; ++server)
    world.ensemble.set_fsync_latency(server, {300ms, 300ms});
  writer.create("/a", "x");
  world.pass(10ms);
  const auto synced = reader.sync("/");
  const auto looked = reader.exists("/a");
  EXPECT_FALSE(world.answer(reader, synced, 200ms));
  ASSERT_TRUE(world.answer(reader, looked, 200ms));
  EXPECT_EQ(reader.answer(looked)->error, code::ok);
}

// Of five, the leader and one other have the write on their disks. That one comes back, has to write it anew, and has not done
// so when a third one has it: two of five.
TEST(EnsembleAgreement, WhatAServerAcknowledgedBeforeItCameBackDoesNotCount) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Agreement world(seed, 5);
    const int leader = world.leader();
    std::vector<int> others;
    for (int server = 1; server <= 5; ++server)
      if (server != leader) others.push_back(server);
    world.ensemble.set_fsync_latency(others[1], {2s, 2s});
    for (const std::size_t slow : {2u, 3u})
      world.ensemble.set_fsync_latency(others[slow], {20s, 20s});
    RawClient& client = world.client();
    client.connect(leader, 10000);
    ASSERT_FALSE(world.until([&] { return client.connected(); }, 1s));  // Its session waits for a majority, too.
    ASSERT_EQ(world.ensemble.disk(others[0]).durable_zxid(), world.ensemble.disk(leader).last_zxid());
    world.ensemble.set_fsync_latency(others[0], {20s, 20s});
    world.ensemble.break_connections(leader, others[0]);
    EXPECT_FALSE(world.until([&] { return client.connected(); }, 1200ms)) << seed;
    EXPECT_EQ(world.ensemble.disk(others[1]).durable_zxid(), world.ensemble.disk(leader).last_zxid());
    EXPECT_EQ(world.leader(), leader);
  }
}

}  // namespace
}  // namespace zktesting::simulated
