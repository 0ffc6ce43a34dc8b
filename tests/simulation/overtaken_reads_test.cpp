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
#include <zktesting/simulation.hpp>

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

}  // namespace
