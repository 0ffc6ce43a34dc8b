// The recipes on an ensemble of three servers that loses its leader, a follower, or a link.
// All of them are simulated. Real ensembles break in never_two_leaders_test.cpp, and here under ThreadSanitizer.

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/ensembles.hpp"
#include "tests/support/fault_server.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using zktesting::Isolation;

// A new leader takes its time, and a loaded machine adds to it.
constexpr auto long_patience = 90s;
SteadyClock::time_point later() { return SteadyClock::now() + long_patience; }

class EnsembleFaults : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    zktesting::EnsembleOptions options;
    options.sync_limit = 8;  // So long, 4 s, an isolated follower goes on serving: past the end of every lease there.
    ensemble_ = testkit::make_ensemble(options);
  }
  static void TearDownTestSuite() { ensemble_.reset(); }
  void SetUp() override {
    static int counter = 0;
    path_ = Path("/test-" + std::to_string(counter++));
  }
  // Whatever the test did, the next one finds three healthy servers.
  void TearDown() override {
    if (HasFailure()) show_logs();
    for (std::size_t i = 0; i < ensemble().size(); ++i)
      ensemble().heal(i);
    testkit::restart_who_has_died(ensemble());
    ensemble().wait_for_all(long_patience);
  }

  static void show_logs() noexcept {
    for (std::size_t i = 0; i < ensemble().size(); ++i) {
      try {
        std::cerr << "--- log of server " << i << " ---\n" << ensemble().server(i).log() << "\n";
      } catch (const std::exception& error) {
        std::cerr << "no log of server " << i << ": " << error.what() << "\n";
      }
    }
  }

  static testkit::FaultEnsemble& ensemble() { return *ensemble_; }
  static std::size_t leader_of_ensemble() {
    std::optional<std::size_t> leader;
    EXPECT_TRUE(eventually([&] { return (leader = ensemble().leader()).has_value(); }, long_patience));
    return leader.value_or(0);
  }
  static std::size_t a_follower() {
    std::vector<std::size_t> followers;
    EXPECT_TRUE(eventually([&] { return !(followers = ensemble().followers()).empty(); }, long_patience));
    return followers.empty() ? 1 : followers.front();
  }
  /// Kills the leader, and waits until the others have a new one.
  static void kill_the_leader() {
    const std::size_t killed = leader_of_ensemble();
    ensemble().kill(killed);
    EXPECT_TRUE(eventually(
        [&] {
          testkit::restart_who_has_died(ensemble(), killed);
          return ensemble().leader().has_value();
        },
        long_patience));
    ensemble().wait_for_quorum(long_patience);
  }
  static Client connect(std::chrono::milliseconds timeout) {
    return Client(ensemble().connect_string(), {.session_timeout = timeout, .server_tick = testkit::server_tick});
  }
  static Client connect_to(std::size_t server, std::chrono::milliseconds timeout) {
    return Client(ensemble().connect_string(server), {.session_timeout = timeout, .server_tick = testkit::server_tick});
  }
  const Path& path() const { return path_; }

  /// What a lease says of itself and what the ensemble says do not contradict each other: while it is valid, its node
  /// is there.
  static void expect_truth(const Lease& lease) {
    const Client observer = connect(30s);
    observer.connect({.deadline = later()});
    observer.sync("/", {.deadline = later()});
    const auto stat = observer.exists(lease.node(), {.deadline = later()});
    if (!lease.valid()) return;
    ASSERT_TRUE(stat) << "valid, but its node is gone";
    EXPECT_EQ(stat->czxid, lease.token().value);
  }
  std::size_t nodes(const Client& client) {
    std::error_code error;
    return client.children(path(), {.deadline = later()}, error).names.size();
  }

  /// Contends from several clients until stopped.
  class Crew {
   public:
    Crew(const Path& path, std::size_t size, std::chrono::milliseconds timeout) {
      for (std::size_t i = 0; i < size; ++i) {
        threads_.emplace_back([this, path, timeout](const std::stop_token& stop) {
          const Client client = connect(timeout);
          Mutex mutex(client, path);
          while (!stop.stop_requested()) {
            try {
              Lease lease = mutex.acquire({.deadline = later(), .stop = stop});
              holdings.hold(lease, 3ms);
              std::error_code error;
              lease.release({.deadline = later()}, error);
              EXPECT_TRUE(!error || error == Errc::not_held) << error.message();
            } catch (const zkclient::Error& error) {
              const bool expected = error.errc() == Errc::session_lost || error.errc() == Errc::cancelled ||
                                    error.errc() == Errc::connection_too_slow;  // For a session that short.
              EXPECT_TRUE(expected) << error.what();
            }
          }
        });
      }
    }
    /// Waits until the crew has got the lock that many times more. `killed`: the server that is to stay so.
    [[nodiscard]] bool proceeds(std::size_t more, std::optional<std::size_t> killed = {}) {
      const std::size_t enough = holdings.size() + more;
      const auto enough_turns = [&] {
        testkit::restart_who_has_died(ensemble(), killed);
        return holdings.size() >= enough;
      };
      return eventually(enough_turns, long_patience);
    }
    void join() { threads_.clear(); }

    testkit::Holdings holdings;

   private:
    std::vector<std::jthread> threads_;
  };

 private:
  static inline std::unique_ptr<testkit::FaultEnsemble> ensemble_;
  Path path_;
};

TEST_F(EnsembleFaults, LeaderKilledWhileHoldingAndWaiting) {
  // Clients on each of the three servers, so that some lose their connection and some do not.
  const Client holder = connect_to(a_follower(), 60s);
  Mutex mutex(holder, path());
  Lease held = mutex.acquire({.deadline = later()});
  const Client waiting_client = connect(60s);
  Mutex waiting_mutex(waiting_client, path());
  auto waiting = in_thread([&] { return waiting_mutex.acquire({.deadline = later()}); });
  ASSERT_TRUE(eventually([&] { return nodes(holder) == 2; }));
  kill_the_leader();
  // Leases of a third of a minute outlive the election.
  ASSERT_TRUE(eventually([&] { return held.state() == LeaseState::held; }, long_patience)) << to_string(held.state());
  expect_truth(held);
  EXPECT_FALSE(held.lost().stop_requested());
  EXPECT_NE(waiting.wait_for(0ms), std::future_status::ready);
  held.release({.deadline = later()});
  ASSERT_EQ(waiting.wait_for(long_patience), std::future_status::ready);
  const Lease next = waiting.get();
  EXPECT_GT(next.token(), held.token());
}

TEST_F(EnsembleFaults, LeaderKilledWhileLeading) {
  const Client leading_client = connect(60s);
  LeaderElection election(leading_client, path(), {.id = "a"});
  Leadership leadership = election.campaign({.deadline = later()});
  leadership.proclaim("before", {.deadline = later()});
  const Client other = connect(60s);
  LeaderElection second(other, path(), {.id = "b"});
  auto waiting = in_thread([&] { return second.campaign({.deadline = later()}); });
  ASSERT_TRUE(eventually([&] { return nodes(other) == 2; }));
  kill_the_leader();
  ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::held; }, long_patience));
  expect_truth(leadership);
  std::optional<Leader> seen = second.leader({.deadline = later()});
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->id, "a");
  EXPECT_EQ(seen->value, "before");
  election.resign({.deadline = later()});
  ASSERT_EQ(waiting.wait_for(long_patience), std::future_status::ready);
  const Leadership next = waiting.get();
  EXPECT_GT(next.token(), leadership.token());
  seen = second.leader({.deadline = later()});
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->id, "b");
  EXPECT_FALSE(seen->value);
}

TEST_F(EnsembleFaults, FollowerInUseKilledWhileHolding) {
  const auto follower = a_follower();
  const Client client(ensemble().connect_string(follower) + "," + ensemble().connect_string(leader_of_ensemble()),
                      {.session_timeout = 30s});
  Mutex mutex(client, path());
  Lease held = mutex.acquire({.deadline = later()});
  ensemble().kill(follower);
  expect_truth(held);
  ASSERT_TRUE(eventually([&] { return held.state() == LeaseState::held; }, long_patience));
  const auto before = held.valid_until();
  ASSERT_TRUE(eventually([&] { return held.valid_until() > before; }, long_patience)) << "it is proven anew";
  EXPECT_FALSE(held.lost().stop_requested());
  held.release({.deadline = later()});
}

// The quorum is gone for longer than the lease: the holder gives up, whatever the server that it is connected to says.
TEST_F(EnsembleFaults, QuorumLostWhileHolding) {
  const auto leader = leader_of_ensemble();
  const auto follower = a_follower();
  const Client client = connect_to(follower, 10s);
  Mutex mutex(client, path());
  const Lease held = mutex.acquire({.deadline = later()});
  for (std::size_t i = 0; i < ensemble().size(); ++i) {
    if (i != leader && i != follower) ensemble().kill(i);
  }
  ensemble().kill(leader);
  EXPECT_TRUE(stopped(held.lost(), long_patience));
  EXPECT_EQ(held.state(), LeaseState::lost);
}

// A follower that does not hear its leader shows its clients a lock that nobody has. Who revokes it does not believe that.
TEST_F(EnsembleFaults, TheServerOfWhoRevokesLagsBehind) {
  const auto follower = a_follower();
  const Client holder = connect_to(leader_of_ensemble(), 30s);
  const Client revoker = connect_to(follower, 30s);
  holder.create(path(), "", {}, {.deadline = later()});
  revoker.sync("/", {.deadline = later()});
  ensemble().isolate(follower, Isolation::deaf);
  Lease fair = Mutex(holder, path() / "fair").acquire({.deadline = later()});
  Lease unfair = UnfairMutex(holder, path() / "unfair").acquire({.deadline = later()});
  std::vector<std::future<RevokeOutcome>> asking;
  for (const Lease* lease : {&fair, &unfair}) {
    const Path node = lease->node();
    asking.push_back(in_thread([&revoker, node] { return revoke(revoker, node, {}, {.deadline = later()}); }));
    asking.push_back(
        in_thread([&revoker, node] { return revoke_holders(revoker, node.parent(), {}, {.deadline = later()}); }));
  }
  testkit::let_age(1s);  // In which the follower would have shown that there is nothing.
  ensemble().heal(follower);
  for (auto& one : asking)
    EXPECT_EQ(result_of(one), RevokeOutcome::requested);
  EXPECT_TRUE(stopped(fair.revoke_requested(), long_patience));
  EXPECT_TRUE(stopped(unfair.revoke_requested(), long_patience));
}

// A follower that is cut off from the ensemble goes on answering its clients for a while. Whoever holds a lease
// there knows that it is over before anybody on the other side holds the next one.
class IsolatedFollower : public EnsembleFaults, public testing::WithParamInterface<Isolation> {
 protected:
  /// Looks at the lease again and again, until it is lost.
  static void hold_until_lost(const Lease& lease, testkit::Holdings& holdings) {
    if (!ensemble().is_simulated()) {
      EXPECT_FALSE(holdings.hold(lease, long_patience));
      return;
    }
    testkit::Holding holding{lease.token().value, SteadyClock::now(), {}};
    for (SteadyClock::time_point now = holding.acquired; lease.valid(); now = SteadyClock::now()) {
      holding.last_valid = now;
      std::this_thread::sleep_for(200us);  // Only waits let seconds pass there.
    }
    holdings.add(holding);
  }
};

TEST_P(IsolatedFollower, ItsHolderLetsGoBeforeTheNextOneHolds) {
  // A session that short may end its leases before it is cut off.
  bool in_time = false;
  for (int attempt = 0; !in_time; ++attempt) {
    ASSERT_LT(attempt, 10) << "it never holds until it is cut off";
    const Path place = path() / std::to_string(attempt);
    const auto follower = a_follower();
    const Client cut_off = connect_to(follower, testkit::contended_session);
    const Client other = connect_to(leader_of_ensemble(), 30s);
    Mutex mutex(cut_off, place / "lock");
    Mutex other_mutex(other, place / "lock");
    LeaderElection election(cut_off, place / "election", {.id = "a"});
    LeaderElection other_election(other, place / "election", {.id = "b"});
    const Lease lease = mutex.acquire({.deadline = later()});
    const Leadership leadership = election.campaign({.deadline = later()});
    testkit::Holdings holdings;
    const testkit::StallWatch stalls;
    auto holding = in_thread([&] { hold_until_lost(lease, holdings); });
    auto waiting = in_thread([&] {
      Lease next = other_mutex.acquire({.deadline = later()});
      holdings.add({next.token().value, SteadyClock::now(), SteadyClock::now()});
      EXPECT_FALSE(lease.valid());
      EXPECT_TRUE(lease.lost().stop_requested() || stalls.seen());
      return next;
    });
    auto campaigning = in_thread([&] {
      Leadership next = other_election.campaign({.deadline = later()});
      EXPECT_FALSE(leadership.valid());
      EXPECT_TRUE(leadership.lost().stop_requested() || stalls.seen());
      return next;
    });
    ASSERT_TRUE(eventually([&] { return other_mutex.contenders().size() == 2 || !lease.valid(); }));
    ASSERT_TRUE(eventually([&] { return other_election.candidates().size() == 2 || !leadership.valid(); }));
    in_time = lease.valid() && leadership.valid();
    ensemble().isolate(follower, GetParam());
    ASSERT_EQ(waiting.wait_for(long_patience), std::future_status::ready);
    ASSERT_EQ(campaigning.wait_for(long_patience), std::future_status::ready);
    const Lease next = waiting.get();
    (void)campaigning.get();
    result_of(holding);
    EXPECT_GT(next.token(), lease.token());
    holdings.expect_no_overlap();
    ensemble().heal(follower);
    testkit::restart_who_has_died(ensemble());
    ensemble().wait_for_all(long_patience);
  }
}

std::string name_of(const testing::TestParamInfo<Isolation>& way) {
  constexpr const char* texts[] = {"Freeze", "Deaf", "Mute", "Sever"};
  return texts[static_cast<std::size_t>(way.param)];
}
INSTANTIATE_TEST_SUITE_P(EveryWay, IsolatedFollower,
                         testing::Values(Isolation::freeze, Isolation::deaf, Isolation::mute, Isolation::sever),
                         name_of);

TEST_F(EnsembleFaults, ContentionWhileServersComeAndGo) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::minstd_rand random(seed);
  Crew crew(path(), 4, 3s);
  ASSERT_TRUE(crew.proceeds(20));
  for (int round = 0; round < 3; ++round) {
    const std::size_t victim = random() % 2 == 0 ? leader_of_ensemble() : a_follower();
    ensemble().kill(victim);
    ASSERT_TRUE(crew.proceeds(10, victim)) << "two of three go on";
    ensemble().restart(victim);
    ensemble().wait_for_all(long_patience);
    ASSERT_TRUE(crew.proceeds(10));
  }
  crew.join();
  crew.holdings.expect_no_overlap();
  std::cout << crew.holdings.size() << " holdings\n";
  const Client observer = connect(30s);
  EXPECT_TRUE(eventually([&] { return nodes(observer) == 0; }, long_patience));
}

TEST_F(EnsembleFaults, ContentionWhileLinksBreak) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::minstd_rand random(seed);
  Crew crew(path(), 4, 3s);
  ASSERT_TRUE(crew.proceeds(20));
  constexpr Isolation ways[] = {Isolation::freeze, Isolation::deaf, Isolation::mute, Isolation::sever};
  for (int round = 0; round < 3; ++round) {
    const std::size_t victim = random() % ensemble().size();
    ensemble().isolate(victim, ways[random() % 4]);
    ASSERT_TRUE(crew.proceeds(10)) << "the majority goes on";
    ensemble().heal(victim);
    ensemble().wait_for_all(long_patience);
    ASSERT_TRUE(crew.proceeds(10));
  }
  crew.join();
  crew.holdings.expect_no_overlap();
  std::cout << crew.holdings.size() << " holdings\n";
  const Client observer = connect(30s);
  EXPECT_TRUE(eventually([&] { return nodes(observer) == 0; }, long_patience));
}

}  // namespace
}  // namespace zkrecipes
