// A read that goes out behind a sync, while connections break.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <set>
#include <string>
#include <thread>

#include <zkclient/client.hpp>
#include <zktesting/ensemble.hpp>
#include <zktesting/simulation.hpp>

#include "zkclient/detail/calls/fresh.hpp"

namespace {

using namespace std::chrono_literals;
using zkclient::Client;
using zkclient::Created;
using zkclient::CreateMode;
using zkclient::Result;
using zktesting::SimulatedProcess;
using zktesting::Simulation;

/// A client creates nodes, and its replies are lost. For 4 s no server's disk confirms anything: the nodes are proposed and
/// not there yet, and a sync waits for them. Meanwhile the client's connection breaks again and again. Each of its requests
/// is sent again by itself, after a pause of its own. So a read may come to a server before the sync that was asked ahead of
/// it: that server does not wait, and answers with what it has, which is a folder without the nodes.
struct LostCreates {
  static constexpr std::ptrdiff_t nodes = 32;

  LostCreates(std::uint64_t seed, std::chrono::milliseconds its_patience)
      : patience(its_patience),
        world({.seed = seed, .servers = 3}),
        process(world.process("p", [this](SimulatedProcess& me) { create(me.servers()); })) {
    if (!world.run_until([this] { return connected.load(); }, 30s)) return;
    constexpr auto stalled = 4s;
    for (int server = 0; server < 3; ++server)
      world.stall_disk(server, stalled);
    const auto end = world.now() + stalled;
    stands_still.count_down();
    while (world.now() < end) {
      world.run_for(std::chrono::milliseconds(50 + world.random_below(250)));
      world.break_connections(process);
    }
    EXPECT_TRUE(world.run_until([this] { return listed.load(); }, 120s)) << "seed " << seed;
  }

  void create(const std::string& servers) {
    const Client client(servers, {.session_timeout = 20s, .retry = {.max_attempts = 100}});
    client.create("/folder");
    connected = true;
    stands_still.wait();
    std::latch answers(nodes);
    for (std::ptrdiff_t i = 0; i < nodes; ++i) {
      client.async_create("/folder/n-", "", {.mode = CreateMode::ephemeral_sequential, .protection = true},
                          [&](const Result<Created>& created) {
                            if (created) answered.insert(created->path);
                            answers.count_down();
                          },
                          {.deadline = patience});
    }
    answers.wait();
    std::this_thread::sleep_for(30s);  // Made time: all that the client does in the background is done.
    client.sync("/folder");
    for (const std::string& name : client.children("/folder").names)
      found.insert("/folder/" + name);
    listed = true;
  }

  const std::chrono::milliseconds patience;
  std::latch stands_still{1};
  std::set<std::string> answered;
  std::set<std::string> found;
  std::atomic<bool> connected{false};
  std::atomic<bool> listed{false};
  Simulation world;  // Ends before what its threads use.
  SimulatedProcess& process;
};

/// A leader is cut off from the others, who elect the next one. A client creates nodes there, and gives them up. Then it comes
/// to the old leader, which has not found out yet: it answers a sync at once, and shows a folder without the nodes.
struct OldLeader {
  static constexpr std::ptrdiff_t nodes = 8;

  explicit OldLeader(std::uint64_t seed)
      : world({.seed = seed, .servers = 3}),
        process(world.process("p", [this](SimulatedProcess& me) { create(me.servers()); })) {
    const auto they_serve = [this] { return world.serves((old + 1) % 3) && world.serves((old + 2) % 3); };
    if (!world.run_until([this] { return connected.load(); }, 30s)) return;
    old = world.leader();
    world.isolate_server(old, zktesting::Isolation::freeze);
    EXPECT_TRUE(world.run_until([&] { return !they_serve(); }, 60s)) << "seed " << seed;
    EXPECT_TRUE(world.run_until(they_serve, 60s)) << "seed " << seed;
    connect([this](int server) { return server >= 0 && server != old; });
    world.run_for(2ms);  // The C client has heard that it is connected.
    world.cut_replies(process);
    goes_on.count_down();
    world.run_for(10ms);
    world.break_connections(process);
    world.heal(process);
    connect([this](int server) { return server == old; });
    came_to_old = world.serves(old) && world.server_of(process) == old;
    world.run_for(1s);
    world.heal_server(old);
    EXPECT_TRUE(world.run_until([this] { return listed.load(); }, 200s)) << "seed " << seed;
  }

  /// By chance: it breaks connections to others.
  template <typename Wanted>
  void connect(Wanted wanted) {
    const auto end = world.now() + 700ms;
    while (world.now() < end && !wanted(world.server_of(process))) {
      if (world.server_of(process) >= 0) world.break_connections(process);
      world.run_for(5ms);
    }
  }

  void create(const std::string& servers) {
    const Client client(servers,
                        {.session_timeout = 30s, .retry = {.initial = 10ms, .max = 100ms, .max_attempts = 1000}});
    client.create("/folder");
    connected = true;
    goes_on.wait();
    std::latch answers(nodes);
    for (std::ptrdiff_t i = 0; i < nodes; ++i) {
      client.async_create("/folder/n-", "", {.mode = CreateMode::ephemeral_sequential, .protection = true},
                          [&](const Result<Created>&) { answers.count_down(); }, {.deadline = 8ms});
    }
    answers.wait();
    std::this_thread::sleep_for(60s);  // Made time: all that the client does in the background is done.
    client.sync("/folder");
    found = client.children("/folder").names.size();
    listed = true;
  }

  int old = -1;
  std::latch goes_on{1};
  bool came_to_old = false;
  std::size_t found = 0;
  std::atomic<bool> connected{false};
  std::atomic<bool> listed{false};
  Simulation world;  // Ends before what its threads use.
  SimulatedProcess& process;
};

TEST(OvertakenReads, TheOrderInWhichTheyWereSentTells) {
  using zkclient::detail::is_behind;
  zkclient::detail::Reply first;
  first.sent = zkclient::BootClock::time_point(1s);
  zkclient::detail::Reply second;
  second.sent = first.sent + 1ns;
  EXPECT_TRUE(is_behind(first, second));
  EXPECT_FALSE(is_behind(second, first));
  EXPECT_FALSE(is_behind(first, first));
}

TEST(OvertakenReads, ACreateWhoseReplyIsLostMakesOneNode) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const LostCreates lost(seed, 60s);
    EXPECT_EQ(lost.answered.size(), LostCreates::nodes) << "seed " << seed;
    EXPECT_EQ(lost.found, lost.answered) << "seed " << seed;
  }
}

TEST(OvertakenReads, ACreateThatIsGivenUpLeavesNoNode) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const LostCreates lost(seed, 100ms);
    EXPECT_EQ(lost.answered.size(), 0U) << "seed " << seed;
    EXPECT_EQ(lost.found.size(), 0U) << "seed " << seed;
  }
}

TEST(OvertakenReads, AnOldLeaderDoesNotSayThatNothingWasMade) {
  int came_to_old = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const OldLeader told(seed);
    if (told.came_to_old) ++came_to_old;
    EXPECT_EQ(told.found, 0U) << "seed " << seed;
  }
  EXPECT_GE(came_to_old, 3);  // By chance.
}

}  // namespace
