// Replica groups on an ensemble of three servers: what the primary on a cut-off follower believes.

#include <gtest/gtest.h>

#include <thread>

#include <zktesting/ensemble.hpp>

#include "tests/recipes/replication/replica_support.hpp"
#include "tests/support/ensembles.hpp"
#include "tests/support/stall_watch.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using testkit::LastAllowed;
using testkit::TestReplica;
using zkclient::BootClock;
using zkclient::Client;
using zktesting::Isolation;

constexpr auto long_patience = 90s;  // A new leader takes its time, and a loaded machine adds to it.

class ReplicaEnsemble : public testing::TestWithParam<Isolation> {
 protected:
  static void SetUpTestSuite() {
    zktesting::EnsembleOptions options;
    options.sync_limit = 8;  // So long, 4 s, an isolated follower goes on serving.
    ensemble_ = new zktesting::Ensemble(options);
  }
  static void TearDownTestSuite() {
    delete ensemble_;
    ensemble_ = nullptr;
  }
  void TearDown() override {
    for (std::size_t i = 0; i < ensemble().size(); ++i)
      ensemble().heal(i);
    testkit::restart_who_has_died(ensemble());
    ensemble().wait_for_all(long_patience);
    const Client client(ensemble().connect_string());
    std::error_code error;
    client.remove_tree("/replicas", {.deadline = testkit::SteadyClock::now() + long_patience}, error);
  }
  static zktesting::Ensemble& ensemble() { return *ensemble_; }
  static Client connect_to(std::size_t server, std::chrono::milliseconds timeout) {
    return Client(ensemble().connect_string(server), {.session_timeout = timeout, .server_tick = testkit::server_tick});
  }

 private:
  static zktesting::Ensemble* ensemble_;
};

zktesting::Ensemble* ReplicaEnsemble::ensemble_ = nullptr;

TEST_P(ReplicaEnsemble, ThePrimaryStopsBeforeTheNextOneIsTold) {
  std::optional<std::size_t> leader;
  std::size_t follower = 0;
  const auto roles_are_known = [&] {
    const auto followers = ensemble().followers();
    leader = ensemble().leader();
    if (!leader || followers.empty()) return false;
    follower = followers.front();
    return follower != *leader;
  };
  ASSERT_TRUE(eventually(roles_are_known, long_patience));
  const Client cut_off = connect_to(follower, testkit::contended_session);
  const Client other = connect_to(*leader, 30s);
  ReplicaGroupOptions options;
  options.settle = 100ms;
  options.read_term = 1s;
  TestReplica a(cut_off, "a", options);
  ASSERT_TRUE(a.may_write());
  TestReplica b(other, "b", options);
  testkit::take_in(a, b, "b");
  const testkit::StallWatch stalls;
  const LastAllowed writes([&] { return a->may_write(); });
  ensemble().isolate(follower, GetParam());
  ASSERT_TRUE(eventually([&] { return b->may_write(); }, long_patience));
  const PrimaryTerm old = a.primary_terms().back().second;  // A session as short as this may have had another before.
  const auto taken = b.primary_terms().back();
  EXPECT_FALSE(a->may_write());
  EXPECT_TRUE(writes.at() < taken.first || stalls.seen());
  EXPECT_TRUE(old.lost.stop_requested() || stalls.seen());
  EXPECT_GT(taken.second.token, old.token);
  EXPECT_EQ(taken.second.epoch, old.epoch + 1);
  ensemble().heal(follower);
  EXPECT_TRUE(eventually([&] { return a->role() == ReplicaRole::secondary; }, long_patience));
}
INSTANTIATE_TEST_SUITE_P(EveryWay, ReplicaEnsemble,
                         testing::Values(Isolation::freeze, Isolation::deaf, Isolation::mute, Isolation::sever),
                         [](const auto& way) {
                           switch (way.param) {
                             case Isolation::freeze: return "freeze";
                             case Isolation::deaf: return "deaf";
                             case Isolation::mute: return "mute";
                             default: return "sever";
                           }
                         });

}  // namespace
}  // namespace zkrecipes
