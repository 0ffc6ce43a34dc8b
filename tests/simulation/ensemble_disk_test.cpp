#include <gtest/gtest.h>

#include <set>

#include "tests/simulation/raw_client.hpp"

// What the servers' disks and cables do to them. What real servers (3.8.0) do was seen with a library in front of libc's
// fdatasync(), and with logs that were cut by hand.

namespace zktesting::simulated {
namespace {

using namespace std::chrono_literals;

EnsembleOptions some_servers(int count) {
  EnsembleOptions options;
  options.servers = count;
  options.tick = 500;
  return options;
}

struct ThreeDisks : World {
  explicit ThreeDisks(std::uint64_t seed) : World(seed, some_servers(3)) { EXPECT_TRUE(serve()); }
  bool has(int server, const std::string& path) const { return ensemble.tree(server).stat(path).has_value(); }
  int other_follower() const { return 6 - leader() - follower(); }
};

// --- fsync refused -------------------------------------------------------------------------------

TEST(EnsembleDisk, AStandaloneServerEndsWhenItsDiskRefuses) {
  World world(1, some_servers(1));
  ASSERT_TRUE(world.serve());
  RawClient& client = world.connected(1);
  world.ensemble.set_fsync_refused(1, true);
  client.create("/a", "x");
  ASSERT_TRUE(world.until([&] { return !world.ensemble.alive(1); }, 10ms));
  EXPECT_TRUE(client.answers.empty());
  world.ensemble.set_fsync_refused(1, false);
  world.ensemble.start(1);
  ASSERT_TRUE(world.serve());
  EXPECT_TRUE(world.ensemble.tree(1).stat("/a"));  // As on a real one: the write had reached the operating system.
}

TEST(EnsembleDisk, AFollowerWhoseDiskRefusesHasNoRoleUntilItIsWell) {
  ThreeDisks world(2);
  const int bad = world.follower();
  RawClient& lost = world.connected(bad);
  RawClient& client = world.connected(world.leader(), 10000);
  world.ensemble.set_fsync_refused(bad, true);
  ASSERT_TRUE(world.answer(client, client.create("/a", "x"), 10ms));
  ASSERT_TRUE(world.until([&] { return lost.closed; }, 260ms));
  EXPECT_FALSE(world.until([&] { return world.ensemble.serving(bad); }, 8s));
  EXPECT_TRUE(world.ensemble.alive(bad));
  EXPECT_TRUE(world.answer(client, client.create("/b", "x"), 10ms));  // A quorum serves.
  world.ensemble.set_fsync_refused(bad, false);
  ASSERT_TRUE(world.until([&] { return world.ensemble.serving(bad); }, 2s));
  EXPECT_TRUE(world.has(bad, "/b"));
}

// It has the newest write, and so the best vote.
TEST(EnsembleDisk, ALeaderWhoseDiskRefusesKeepsAllFromServing) {
  int without_a_leader = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ThreeDisks world(seed);
    const int bad = world.leader();
    RawClient& client = world.connected(world.follower());
    world.ensemble.set_fsync_refused(bad, true);
    ASSERT_TRUE(world.answer(client, client.create("/a", "x"), 20ms));  // By the other two.
    ASSERT_TRUE(world.until([&] { return !world.ensemble.serving(bad); }, 260ms));
    if (!world.until([&] { return world.leader() != 0; }, 4s)) ++without_a_leader;
    world.ensemble.set_fsync_refused(bad, false);
    ASSERT_TRUE(world.until([&] { return world.ensemble.complete(); }, 5s)) << seed;
    for (int server = 1; server <= 3; ++server)
      EXPECT_TRUE(world.has(server, "/a")) << seed;
  }
  EXPECT_GT(without_a_leader, 10);
}

/// Three that are down: the last one, which leads if it can, and another one, whose disk refuses, come back. It is elected,
/// and left.
struct Forsaken : ThreeDisks {
  explicit Forsaken(std::uint64_t seed) : ThreeDisks(seed) {
    for (int server = 1; server <= 3; ++server)
      ensemble.kill(server);
    ensemble.set_fsync_refused(1, true);
    ensemble.start(1);
    ensemble.start(3);
    EXPECT_TRUE(until([&] { return promised() == 2; }, 2s));
  }
  std::int64_t promised() const { return ensemble.disk(3).accepted_epoch; }
};

// As on real servers: it waits for others to acknowledge its epoch, and hears that nobody is left only when that is over.
TEST(EnsembleDisk, ALeaderThatIsLeftByItsFollowerWaitsForInitLimit) {
  Forsaken world(9);
  world.pass(100ms);
  world.ensemble.set_fsync_refused(1, false);
  const Nanos limit = std::chrono::milliseconds(500) * EnsembleOptions().init_limit;
  EXPECT_FALSE(world.until([&] { return world.leader() != 0; }, limit - 200ms));
  EXPECT_TRUE(world.until([&] { return world.leader() != 0; }, 1s));
}

// As on real servers, too: "Leaders epoch, 2 is less than accepted epoch, 3", until there is an election.
TEST(EnsembleDisk, AServerThatHasPromisedALaterEpochFollowsNoEarlierOne) {
  Forsaken world(10);
  ASSERT_TRUE(world.until([&] { return world.promised() == 3; }, 10s));
  world.pass(100ms);
  world.ensemble.kill(3);
  world.ensemble.set_fsync_refused(1, false);
  world.ensemble.start(2);
  ASSERT_TRUE(world.until([&] { return world.ensemble.serving(1) && world.ensemble.serving(2); }, 10s));
  world.ensemble.start(3);
  EXPECT_FALSE(world.until([&] { return world.ensemble.serving(3); }, 20s));
  world.ensemble.kill(1);
  world.ensemble.start(1);
  EXPECT_TRUE(world.until([&] { return world.ensemble.complete(); }, 10s));
}

// --- What a crash leaves -------------------------------------------------------------------------

/// Which of three writes are found again, when the server ends before the disk has confirmed any of them.
std::string found_after(Loss loss, std::uint64_t seed) {
  World world(seed, some_servers(1));
  EXPECT_TRUE(world.serve());
  RawClient& client = world.connected(1);
  world.ensemble.set_fsync_latency(1, {1s, 1s});
  for (const char* path : {"/a", "/b", "/c"})
    client.create(path, "x");
  world.pass(10ms);
  world.ensemble.kill(1, loss);
  EXPECT_TRUE(client.answers.empty());
  world.ensemble.start(1);
  EXPECT_TRUE(world.serve());
  std::string found;
  for (const char* path : {"/a", "/b", "/c"})
    if (world.ensemble.tree(1).stat(path)) found += path;
  return found;
}

TEST(EnsembleDisk, ACrashTakesWhatItsKindSays) {
  EXPECT_EQ(found_after(Loss::all, 1), "");
  EXPECT_EQ(found_after(Loss::last_one, 1), "/a/b");
  EXPECT_EQ(found_after(Loss::none, 1), "/a/b/c");
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    found.insert(found_after(Loss::any, seed));
  EXPECT_EQ(found, (std::set<std::string>{"", "/a", "/a/b", "/a/b/c"}));
}

TEST(EnsembleDisk, AStalledDiskConfirmsLater) {
  World world(3, some_servers(1));
  ASSERT_TRUE(world.serve());
  RawClient& client = world.connected(1, 10000);
  world.ensemble.stall_disk(1, world.events.now() + 3s);
  const auto first = client.create("/a", "x");
  EXPECT_FALSE(world.answer(client, first, 2990ms));
  EXPECT_TRUE(world.answer(client, first, 20ms));
  // Also one that begins while a write is under way.
  world.ensemble.set_fsync_latency(1, {100ms, 100ms});
  const auto second = client.create("/b", "x");
  world.pass(50ms);
  world.ensemble.stall_disk(1, world.events.now() + 2s);
  EXPECT_FALSE(world.answer(client, second, 1990ms));
  EXPECT_TRUE(world.answer(client, second, 20ms));
}

// --- An emptied disk -----------------------------------------------------------------------------

TEST(EnsembleDisk, ADiskIsExpendableWhenAllOthersHaveWhatItHas) {
  ThreeDisks world(4);
  RawClient& client = world.connected(world.leader());
  const int follower = world.follower();
  const int other = world.other_follower();
  ASSERT_TRUE(world.answer(client, client.create("/a", "x")));
  world.pass(100ms);
  for (int server = 1; server <= 3; ++server)
    EXPECT_TRUE(world.ensemble.expendable(server)) << server;
  // One disk lags: the others are needed.
  world.ensemble.set_fsync_latency(other, {1s, 1s});
  ASSERT_TRUE(world.answer(client, client.create("/b", "x")));
  EXPECT_FALSE(world.ensemble.expendable(follower));
  EXPECT_FALSE(world.ensemble.expendable(world.leader()));
  EXPECT_TRUE(world.ensemble.expendable(other));
  world.pass(2s);
  EXPECT_TRUE(world.ensemble.expendable(follower));
  // One is away, and then too.
  world.ensemble.kill(other);
  world.pass(100ms);
  EXPECT_FALSE(world.ensemble.expendable(follower));
  EXPECT_TRUE(world.ensemble.expendable(other));
  World single(5, some_servers(1));
  ASSERT_TRUE(single.serve());
  EXPECT_FALSE(single.ensemble.expendable(1));
}

// What a test must not demand to be kept: a quorum of an emptied server and one that was away elects, and knows nothing.
TEST(EnsembleDisk, AnEmptiedServerThatVotesLosesWhatWasAcknowledged) {
  ThreeDisks world(6);
  const int leader = world.leader();
  const int emptied = world.follower();
  const int away = world.other_follower();
  world.ensemble.kill(away);
  world.pass(100ms);
  RawClient& client = world.connected(leader);
  ASSERT_EQ(world.answer(client, client.create("/a", "x"))->error, code::ok);
  EXPECT_FALSE(world.ensemble.expendable(emptied));
  world.ensemble.wipe(emptied);
  world.ensemble.kill(leader);
  world.ensemble.start(emptied);
  world.ensemble.start(away);
  ASSERT_TRUE(world.until([&] { return world.leader() != 0; }, 5s));
  EXPECT_FALSE(world.has(world.leader(), "/a"));
  world.ensemble.start(leader);
  ASSERT_TRUE(world.until([&] { return world.ensemble.complete(); }, 5s));
  EXPECT_FALSE(world.has(leader, "/a"));
}

// --- Cables --------------------------------------------------------------------------------------

TEST(EnsembleDisk, AStalledConnectionHoldsUpWhatItCarriesAndNoOther) {
  World world(7, some_servers(1));
  ASSERT_TRUE(world.serve());
  RawClient& client = world.connected(1, 10000);
  const Nanos end = world.events.now() + 2s;
  constexpr Host its_host = 100;
  world.network.stall(its_host, 1, end);
  client.ping();
  EXPECT_FALSE(world.until([&] { return client.answer(xid::ping) != nullptr; }, 1990ms));
  EXPECT_TRUE(world.until([&] { return client.answer(xid::ping) != nullptr; }, 20ms));
  world.network.stall(its_host, 1, world.events.now() + 10s);
  client.connect(1, 10000);
  EXPECT_TRUE(world.until([&] { return client.connected(); }, 10ms));
}

TEST(EnsembleDisk, AServerThatIsCutOffInOneDirectionIsDropped) {
  ThreeDisks world(8);
  const int follower = world.follower();
  RawClient& client = world.connected(follower, 10000);
  world.network.cut(world.leader(), follower);  // It does not hear the leader, who hears it.
  EXPECT_FALSE(world.until([&] { return client.closed; }, 2s));
  EXPECT_TRUE(world.until([&] { return client.closed; }, 1s));
}

}  // namespace
}  // namespace zktesting::simulated
