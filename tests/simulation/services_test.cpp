// What a user's tests of a service look like in the simulated world; docs/simulation.md explains them.

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include <zkclient/asio.hpp>
#include <zkclient/client.hpp>
#include <zkclient/error.hpp>
#include <zkrecipes/asio.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/queue.hpp>
#include <zktesting/simulation.hpp>

namespace {

using namespace std::chrono_literals;
using zktesting::SimulatedProcess;
using zktesting::Simulation;

// --- A service with blocking calls and a thread of its own ---------------------------------------

/// Leads for as long as it may, and does a job each 100 ms while it leads.
class Service {
 public:
  void run(const std::string& servers, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      try {
        zkclient::Client client(servers, {.session_timeout = 10s});
        client.connect({.deadline = std::chrono::steady_clock::now() + 20s});
        zkrecipes::LeaderElection election(client, "/leader");
        const zkrecipes::Leadership leadership = election.campaign({.stop = stop});
        std::jthread worker([&] {
          while (leadership.valid()) {
            leads = true;
            std::this_thread::sleep_for(100ms);
          }
          leads = false;
        });
        while (leadership.valid() && !stop.stop_requested())
          std::this_thread::sleep_for(100ms);
      } catch (const zkclient::Error&) {
        std::this_thread::sleep_for(1s);
      }
    }
  }
  std::atomic<bool> leads{false};
};

TEST(SimulatedService, AnotherLeadsWhenTheLeaderIsPausedForLongerThanItsSession) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Simulation world({.seed = seed, .servers = 3});
    Service first;
    Service second;
    SimulatedProcess& a = world.process("a", [&](SimulatedProcess& me) { first.run(me.servers(), me.stop_token()); });
    ASSERT_TRUE(world.run_until([&] { return first.leads.load(); }, 30s)) << "seed " << seed;
    world.process("b", [&](SimulatedProcess& me) { second.run(me.servers(), me.stop_token()); });
    world.run_for(10s);
    EXPECT_FALSE(second.leads);

    world.pause(a);
    ASSERT_TRUE(world.run_until([&] { return second.leads.load(); }, 40s)) << "seed " << seed;
    world.resume(a);
    world.run_for(1s);
    EXPECT_FALSE(first.leads) << "seed " << seed;
  }
}

// --- A coroutine service on the user's own io_context --------------------------------------------

boost::asio::awaitable<void> lead(const zkclient::Client& client, std::atomic<int>& terms) {
  zkrecipes::LeaderElection election(client, "/leader");
  const zkrecipes::Leadership leadership = co_await zkrecipes::async_campaign(election, boost::asio::use_awaitable);
  ++terms;
  boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor, 1s);
  co_await pause.async_wait(boost::asio::use_awaitable);
}

TEST(SimulatedService, CoroutinesOfTheUsersIoContextTakeTurnsToLead) {
  Simulation world({.seed = 5, .servers = 1});
  std::atomic<int> terms{0};
  for (const char* name : {"a", "b", "c"}) {
    world.process(name, [&](SimulatedProcess& me) {
      boost::asio::io_context context;
      const zkclient::Client client(me.servers(), {.session_timeout = 10s});
      boost::asio::co_spawn(context, lead(client, terms), boost::asio::detached);
      context.run();
    });
  }
  EXPECT_TRUE(world.run_until([&] { return terms == 3; }, 60s));
}

// --- A pool of workers on a queue whose server dies ----------------------------------------------

TEST(SimulatedService, EachItemIsWorkedOnThoughServersDie) {
  Simulation world({.seed = 9, .servers = 3});
  std::multiset<std::string> done;
  world.process("producer", [&](SimulatedProcess& me) {
    const zkclient::Client client(me.servers(), {.session_timeout = 10s});
    zkrecipes::Queue queue(client, "/jobs");
    for (int i = 0; i < 50; ++i) {
      queue.push(std::to_string(i), {.deadline = std::chrono::steady_clock::now() + 60s});
      std::this_thread::sleep_for(200ms);
    }
  });
  for (const char* name : {"w0", "w1", "w2"}) {
    world.process(name, [&](SimulatedProcess& me) {
      const zkclient::Client client(me.servers(), {.session_timeout = 10s});
      zkrecipes::Queue queue(client, "/jobs");
      for (;;) {
        zkrecipes::Claim claim = queue.claim();
        std::this_thread::sleep_for(50ms);
        claim.commit({.deadline = std::chrono::steady_clock::now() + 60s});
        done.insert(claim.data());
      }
    });
  }
  for (int server = 0; server < 3; ++server) {
    world.run_for(2s);
    world.kill_server(server);
    world.run_for(2s);
    world.start_server(server);
  }
  ASSERT_TRUE(world.run_until([&] { return done.size() == 50; }, 120s)) << done.size();
  EXPECT_EQ(std::set<std::string>(done.begin(), done.end()).size(), 50u);
}

// --- Names -----------------------------------------------------------------------------------------

TEST(SimulatedService, ANameThatIsNotKnownAtFirstIsAskedForAgain) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Simulation world({.seed = seed, .servers = 3});
    world.name_servers("zk.example", {}, 2s);
    bool connected = false;
    world.process("p", [&](SimulatedProcess& me) {
      zkclient::Client client("zk.example:2181", {.session_timeout = 10s});
      client.connect({.deadline = std::chrono::steady_clock::now() + 2min, .stop = me.stop_token()});
      connected = true;
    });
    world.run_for(20s);
    EXPECT_FALSE(connected);
    world.name_servers("zk.example", {0, 1, 2}, 500ms);
    EXPECT_TRUE(world.run_until([&] { return connected; }, 60s)) << seed;
  }
}

}  // namespace
