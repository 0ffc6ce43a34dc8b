// What a test may do to the disks and the cables of the world's servers.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include <zkclient/client.hpp>
#include <zkclient/error.hpp>
#include <zktesting/error.hpp>
#include <zktesting/simulation.hpp>

namespace zktesting {
namespace {

using namespace std::chrono_literals;

/// Counts the writes of one client that writes all the time, and remembers how long the last one took.
struct Beat {
  void run(const std::string& servers, const std::stop_token& stop) {
    zkclient::Client client(servers, {.session_timeout = 10s});
    while (!stop.stop_requested()) {
      const auto began = std::chrono::steady_clock::now();
      try {
        client.create("/n-", "", {.mode = zkclient::CreateMode::persistent_sequential}, {.deadline = began + 30s});
        took = std::chrono::steady_clock::now() - began;
        ++done;
      } catch (const zkclient::Error&) {
        std::this_thread::sleep_for(10ms);
      }
    }
  }
  std::atomic<int> done{0};
  std::atomic<std::chrono::nanoseconds> took{};
};

struct Beating {
  explicit Beating(int servers)
      : world({.seed = 1, .servers = servers}),
        process(world.process("p", [this](SimulatedProcess& me) { beat.run(me.servers(), me.stop_token()); })) {
    EXPECT_TRUE(writes(10));
  }
  bool writes(int count, std::chrono::nanoseconds limit = 30s) {
    const int end = beat.done + count;
    return world.run_until([&] { return beat.done >= end; }, limit);
  }

  Beat beat;  // Outlives the world's threads.
  Simulation world;
  SimulatedProcess& process;
};

TEST(DisksAndLinks, ASlowDiskSlowsWrites) {
  Beating one(1);
  EXPECT_LT(one.beat.took.load(), 20ms);
  one.world.slow_disk(0, 100ms);
  ASSERT_TRUE(one.writes(2));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(one.writes(1));
    EXPECT_GE(one.beat.took.load(), 50ms);
    EXPECT_LT(one.beat.took.load(), 170ms);
  }
  one.world.heal_disk(0);
  ASSERT_TRUE(one.writes(2));
  EXPECT_LT(one.beat.took.load(), 20ms);
  one.world.stall_disk(0, 2s);
  ASSERT_FALSE(one.writes(2, 1900ms));
  EXPECT_TRUE(one.writes(2, 200ms));
}

TEST(DisksAndLinks, ASingleServerWhoseDiskRefusesEnds) {
  Beating one(1);
  one.world.refuse_fsync(0);
  EXPECT_FALSE(one.writes(2, 5s));
  EXPECT_EQ(one.world.leader(), -1);
  one.world.heal_disk(0);
  one.world.start_server(0);
  EXPECT_TRUE(one.writes(2));
}

TEST(DisksAndLinks, AnEmptiedServerIsFilledByTheOthers) {
  Beating three(3);
  const int emptied = (three.world.leader() + 1) % 3;
  ASSERT_TRUE(three.world.run_until([&] { return three.world.may_wipe(emptied); }, 10s));
  three.world.wipe_server(emptied);
  EXPECT_FALSE(three.world.may_wipe((emptied + 1) % 3));
  EXPECT_TRUE(three.writes(10));
  three.world.start_server(emptied);
  EXPECT_TRUE(three.world.run_until([&] { return three.world.may_wipe((emptied + 1) % 3); }, 10s));
}

TEST(DisksAndLinks, ASlowLinkSlowsEverything) {
  Beating one(1);
  one.world.slow_link(one.process, 50ms, 100ms);
  ASSERT_TRUE(one.writes(2));
  EXPECT_GE(one.beat.took.load(), 100ms);
  one.world.heal(one.process);
  ASSERT_TRUE(one.writes(2));
  EXPECT_LT(one.beat.took.load(), 20ms);
}

TEST(DisksAndLinks, AStalledConnectionDeliversLater) {
  Beating one(1);
  one.world.stall_connections(one.process, 2s);
  EXPECT_FALSE(one.writes(2, 1990ms));
  EXPECT_TRUE(one.writes(2, 100ms));
}

TEST(DisksAndLinks, ALeaderThatIsNotHeardIsReplaced) {
  Beating three(3);
  const int leader = three.world.leader();
  for (int server = 0; server < 3; ++server)
    if (server != leader) three.world.cut_link(leader, server);
  EXPECT_TRUE(three.world.run_until([&] { return three.world.leader() != leader && three.world.leader() >= 0; }, 60s));
  EXPECT_TRUE(three.writes(2, 60s));
  three.world.heal_server(leader);
  EXPECT_TRUE(three.world.run_until([&] { return three.world.may_wipe(0); }, 120s));
}

TEST(DisksAndLinks, SlowServersAnswerLate) {
  Beating three(3);
  const int leader = three.world.leader();
  for (int server = 0; server < 3; ++server)
    if (server != leader) three.world.slow_link(leader, server, 200ms, 300ms);
  ASSERT_TRUE(three.writes(2));
  EXPECT_GE(three.beat.took.load(), 200ms);
  three.world.heal_server(leader);
  ASSERT_TRUE(three.writes(2));
  EXPECT_LT(three.beat.took.load(), 50ms);
}

TEST(DisksAndLinks, NonsenseIsRefused) {
  Simulation world({.seed = 1, .servers = 3});
  SimulatedProcess& process = world.process("p", [](SimulatedProcess&) {});
  for (const int server : {-1, 3, std::numeric_limits<int>::max()}) {
    EXPECT_THROW(world.kill_server(server), Error);
    EXPECT_THROW(world.start_server(server), Error);
    EXPECT_THROW(world.pause_server(server), Error);
    EXPECT_THROW(world.resume_server(server), Error);
    EXPECT_THROW(world.isolate_server(server), Error);
    EXPECT_THROW(world.heal_server(server), Error);
    EXPECT_THROW(world.cut_link(0, server), Error);
    EXPECT_THROW(world.slow_link(server, 0, 1ms, 2ms), Error);
    EXPECT_THROW(world.slow_disk(server, 1ms), Error);
    EXPECT_THROW(world.stall_disk(server, 1ms), Error);
    EXPECT_THROW(world.refuse_fsync(server), Error);
    EXPECT_THROW(world.heal_disk(server), Error);
    EXPECT_THROW(world.wipe_server(server), Error);
    EXPECT_THROW(static_cast<void>(world.may_wipe(server)), Error);
  }
  EXPECT_THROW(world.cut_link(1, 1), Error);
  EXPECT_THROW(world.slow_link(1, 1, 1ms, 2ms), Error);
  EXPECT_THROW(world.slow_link(0, 1, 2ms, 1ms), Error);
  EXPECT_THROW(world.slow_link(process, -1ms, 1ms), Error);
  EXPECT_THROW(world.slow_disk(0, -1ns), Error);
  EXPECT_THROW(world.stall_disk(0, -1ns), Error);
  EXPECT_THROW(world.stall_connections(process, -1ns), Error);
}

}  // namespace
}  // namespace zktesting
