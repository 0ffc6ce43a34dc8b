// The election for one node: by itself, what goes wrong with it alone (elections_faults_test.cpp has what goes wrong
// with any election), and how many a takeover wakes, beside the fair election.

#include <zkrecipes/unfair_leader_election.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include <zkclient/error.hpp>
#include <zkclient/runtime.hpp>
#include <zkrecipes/leader_election.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

// The modelled servers do not count the packets that they send.
const testkit::OnRealServers unfair_on_real_servers{"UnfairLeaderElectionTest.WhomATakeoverWakes"};

using Seen = std::optional<Leader>;

class UnfairLeaderElectionTest : public testkit::RecipeFaultTest {
 protected:
  UnfairLeaderElectionTest() : RecipeFaultTest("/election") {}
  void TearDown() override {
    expect_nothing_left();
    RecipeFaultTest::TearDown();
  }
  static UnfairLeaderElection candidate(const Client& client, const std::string& id) {
    return {client, "/election", {.id = id}};
  }
  bool watches_the_leader(const Client& client) { return watches(client, "/election/leader"); }
};

// --- By itself ----------------------------------------------------------------------------------------------------

TEST_F(UnfairLeaderElectionTest, OneOfThoseWhoWaitLeadsNext) {
  constexpr std::size_t count = 4;
  std::vector<Client> clients;
  std::vector<UnfairLeaderElection> elections;
  Box<std::pair<std::size_t, Result<Leadership>>> won;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(calm_direct());
    elections.push_back(candidate(clients.back(), std::to_string(i)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    elections[i].async_campaign([&won, i](Result<Leadership> result) { won.put({i, std::move(result)}); });
  }
  FencingToken last;
  for (std::size_t turn = 0; turn < count; ++turn) {
    auto [who, result] = won.take();
    ASSERT_TRUE(result) << result.error().what();
    EXPECT_TRUE(won.empty()) << "one at a time";
    EXPECT_GT(result->token(), last) << "terms grow";
    last = result->token();
    result->proclaim(std::to_string(turn));
    result->ready();
    const Seen leader = elections[0].leader();
    ASSERT_TRUE(leader);
    EXPECT_EQ(leader->id, std::to_string(who));
    EXPECT_EQ(leader->term, last);
    EXPECT_EQ(leader->node, "leader");
    EXPECT_EQ(leader->session_id, clients[who].session().id());
    EXPECT_EQ(leader->value, std::to_string(turn));
    EXPECT_TRUE(leader->ready);
    const auto candidates = elections[0].candidates();
    ASSERT_EQ(candidates.size(), 1u) << "those who wait cannot be seen";
    EXPECT_TRUE(candidates[0].holds);
    EXPECT_EQ(candidates[0].token, last);
    EXPECT_EQ("/election/" + candidates[0].node, result->node());
    elections[who].resign({.deadline = soon()});
    EXPECT_FALSE(result->valid());
  }
  EXPECT_FALSE(elections[0].leader());
  EXPECT_TRUE(elections[0].candidates().empty());
}

TEST_F(UnfairLeaderElectionTest, ResignEndsItsCampaigns) {
  Client client = calm_direct();
  UnfairLeaderElection first = candidate(the_operator(), "a");
  UnfairLeaderElection second = candidate(client, "b");
  const Leadership leadership = first.campaign({.deadline = soon()});
  auto waiting = in_thread([&] { return error_of([&] { (void)second.campaign(); }); });
  ASSERT_TRUE(watches_the_leader(client));
  second.resign();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_TRUE(leadership.valid());
}

TEST_F(UnfairLeaderElectionTest, ObserverSeesEveryStepInOrder) {
  UnfairLeaderElection election = candidate(the_operator(), "a");
  Client client = calm_direct();
  const UnfairLeaderElection observed = candidate(client, "observer");
  the_operator().remove("/election");
  Box<Seen> seen;
  const auto subscription = observed.observe([&](const Seen& leader) { seen.put(leader); });
  EXPECT_EQ(seen.take(), std::nullopt) << "not even the election's node is there";
  for (int i = 0; i < 3; ++i) {
    Leadership leadership = election.campaign({.deadline = soon()});
    EXPECT_EQ(seen.take()->term, leadership.token());
    leadership.ready();
    EXPECT_TRUE(seen.take()->ready);
    EXPECT_EQ(observed.wait_for_leader().term, leadership.token());
    leadership.release();
    EXPECT_EQ(seen.take(), std::nullopt);
  }
}

TEST_F(UnfairLeaderElectionTest, BadInputIsRefused) {
  EXPECT_EQ(error_of([&] { UnfairLeaderElection(the_operator(), "/election", {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { (void)candidate(the_operator(), "a").observe({}); }), Errc::invalid_argument);
}

// --- What goes wrong ----------------------------------------------------------------------------------------------

// The same, and the leader that was robbed gives back what it takes for its own between the next one's create and the
// moment when that one can prevent it.
TEST_F(UnfairLeaderElectionTest, RobbedLeaderResignsWhileTheNextOneIsBeingElected) {
  const Path former = "/election/_c_00000000-0000-4000-8000-000000000000-leader";
  the_operator().create(former, "");
  Client client = calm_proxied();
  client.connect({.deadline = soon()});
  UnfairLeaderElection election = candidate(client, "a");
  proxy.stall(zktesting::Direction::to_client);
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  ASSERT_TRUE(eventually([&] { return names().size() == 3; })) << "it has its nodes, and does not know yet";
  the_operator().commit(zkclient::Transaction().remove(former).remove("/election/leader"));
  proxy.unstall(zktesting::Direction::to_client);
  const Leadership leadership = result_of(waiting);
  EXPECT_TRUE(leadership.valid());
  ASSERT_TRUE(election.leader()) << "it was told that it leads, so nobody else can";
  EXPECT_EQ(election.leader()->term, leadership.token());
}

TEST_F(UnfairLeaderElectionTest, ForeignChildNamedLeaderIsWaitedFor) {
  the_operator().create("/election/leader", "somebody");
  Client client = calm_direct();
  UnfairLeaderElection election = candidate(client, "a");
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  ASSERT_TRUE(watches_the_leader(client));
  the_operator().remove("/election/leader");
  EXPECT_TRUE(result_of(waiting).valid());
}

// --- How many a takeover wakes ------------------------------------------------------------------------------------

template <typename AnyElection>
class Field {
 public:
  Field(testkit::FaultServer& server, std::size_t size) : server_(server) {
    settle(0);  // What a former field left.
    for (std::size_t i = 0; i < size; ++i)
      clients_.emplace_back(runtime_, server.connect_string(), zkclient::ClientOptions{.session_timeout = 60s});
    for (const Client& client : clients_) {
      client.connect({.deadline = soon()});
      elections_.emplace_back(client, "/field");
      const std::size_t i = elections_.size() - 1;
      elections_[i].async_campaign([this, i](Result<Leadership> result) {
        if (result) won_.put({i, std::move(*result)});
      });
    }
  }
  /// Deletion notices that the server sent, and requests that it got, for one takeover; the mean over some.
  std::pair<double, double> takeover(std::size_t turns) {
    std::pair<std::size_t, Leadership> leader = won_.take();
    settle(clients_.size());
    const auto before = counts();
    for (std::size_t i = 0; i < turns; ++i) {
      elections_[leader.first].resign({.deadline = soon()});
      leader = won_.take();
      settle(clients_.size() - i - 1);
    }
    const auto after = counts();
    const auto mean = [&](std::size_t from, std::size_t to) {
      return static_cast<double>(to - from) / static_cast<double>(turns);
    };
    return {mean(before.first, after.first), mean(before.second, after.second)};
  }
  ~Field() {
    for (Client& client : clients_)
      client.close();
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

 private:
  std::pair<std::size_t, std::size_t> counts() const {
    ++questions_;  // The server counts this one, too.
    const auto stats = server_.stats();
    return {std::stoul(stats.at("zk_sum_node_deleted_watch_count")),
            std::stoul(stats.at("zk_packets_received")) - questions_};
  }
  /// Until those who are left have come to rest: each of them, the leader too, has one watch.
  void settle(std::size_t left) const {
    const auto at_rest = [&] {
      ++questions_;
      return server_.watch_count() == left;
    };
    EXPECT_TRUE(eventually(at_rest, patience)) << server_.four_letter_word("wchs");
  }

  mutable std::size_t questions_ = 0;
  testkit::FaultServer& server_;
  zkclient::Runtime runtime_;
  std::vector<Client> clients_;
  std::vector<AnyElection> elections_;
  Box<std::pair<std::size_t, Leadership>> won_;
};

// The figures in docs/elections.md. 1,000 candidates only on demand.
TEST_F(UnfairLeaderElectionTest, WhomATakeoverWakes) {
  std::vector<std::size_t> sizes{2, 10, 100};
  if (std::getenv("ZKRECIPES_SOAK") != nullptr) sizes.push_back(1000);
  for (const std::size_t size : sizes) {
    const std::size_t turns = std::min<std::size_t>(size - 1, 5);
    const auto [fair, fair_requests] = Field<LeaderElection>(server, size).takeover(turns);
    const auto [unfair, unfair_requests] = Field<UnfairLeaderElection>(server, size).takeover(turns);
    std::cout << size << " candidates: notices per takeover, fair " << fair << ", unfair " << unfair
              << "; requests, fair " << fair_requests << ", unfair " << unfair_requests << "\n";
    EXPECT_LE(fair, 2) << "the next one, and the leader itself";
    // Those who resigned are candidates no more.
    EXPECT_GE(unfair, static_cast<double>(size - turns));
    EXPECT_LE(unfair, static_cast<double>(size));
  }
}

// --- How many round trips a takeover takes ------------------------------------------------------------------------

/// From the leader's resign() to the next one's handler.
template <typename AnyElection>
SteadyClock::duration takeover_time(testkit::FaultServer& server, const Client& first, const Client& second) {
  AnyElection leader(first, "/election");
  AnyElection next(second, "/election");
  const Leadership leadership = leader.campaign({.deadline = soon()});
  const auto won = std::make_shared<Box<std::pair<SteadyClock::time_point, Leadership>>>();
  next.async_campaign([won](Result<Leadership> result) {
    const SteadyClock::time_point now = SteadyClock::now();
    if (result) won->put({now, std::move(*result)});
  });
  const bool fair = std::is_same_v<AnyElection, LeaderElection>;
  const Path obstacle = fair ? Path(leadership.node()) : Path("/election/leader");
  EXPECT_TRUE(testkit::watch_appears(server, second.session().id(), obstacle));
  const SteadyClock::time_point begin = SteadyClock::now();
  leader.resign({.deadline = soon()});
  const SteadyClock::duration took = won->take().first - begin;
  next.resign({.deadline = soon()});
  return took;
}

// The leader's deletion and its notice, and the next one's proof. Nothing can be faster than the network. How much slower
// it is, a machine that is slow itself does not show: only made time does.
TEST_F(UnfairLeaderElectionTest, TheNextOneLeadsAfterTwoRoundTrips) {
  if (!time_is_made()) GTEST_SKIP() << "the time of a machine tells nothing of round trips";
  constexpr auto one_way = 60ms;
  const Client first = calm_proxied();
  const Client second = calm_proxied();
  first.connect({.deadline = soon()});
  second.connect({.deadline = soon()});
  proxy.delay(zktesting::Direction::both, one_way);
  const auto fair = takeover_time<LeaderElection>(server, first, second);
  const auto unfair = takeover_time<UnfairLeaderElection>(server, first, second);
  for (const auto took : {fair, unfair}) {
    EXPECT_GE(took / 1ms, 4 * one_way / 1ms) << "the network is not as slow as it should be";
    EXPECT_LT(took / 1ms, 6 * one_way / 1ms);
  }
}

}  // namespace
}  // namespace zkrecipes
