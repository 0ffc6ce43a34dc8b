// Partitions and primaries at a server that lags behind: a follower that does not hear its leader for a while, though the
// leader hears it. What its clients write is done, and they do not see it; what they read is old.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <zkclient/error.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/primary.hpp>
#include <zktesting/ensemble.hpp>

#include "tests/support/ensembles.hpp"
#include "tests/support/partition_test.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;

class LaggingServer : public testing::Test {
 protected:
  static constexpr auto long_patience = 90s;  // A new leader takes its time, and a loaded machine adds to it.
  /// An experiment of this length is over before the follower and its leader give each other up.
  static constexpr auto while_it_lags = 1700ms;

  static void SetUpTestSuite() {
    zktesting::EnsembleOptions options;
    options.sync_limit = 16;  // For 8 s they may not hear of each other.
    ensemble_ = new zktesting::Ensemble(options);
  }
  static void TearDownTestSuite() {
    delete ensemble_;
    ensemble_ = nullptr;
  }
  void SetUp() override {
    const auto roles_are_known = [this] {
      const auto followers = ensemble_->followers();
      const auto leader = ensemble_->leader();
      if (followers.empty() || !leader) return false;
      follower_ = followers.front();
      leader_ = *leader;
      return follower_ != leader_;
    };
    ASSERT_TRUE(testkit::eventually(roles_are_known, long_patience));
  }
  void TearDown() override { ensemble_->heal(follower_); }

  zkclient::Client at_the_follower() const { return connect_to(follower_); }
  zkclient::Client at_the_leader() const { return connect_to(leader_); }
  /// From here on, until catch_up().
  void lag() { ensemble_->isolate(follower_, zktesting::Isolation::deaf); }
  void catch_up() { ensemble_->heal(follower_); }

 private:
  static zkclient::Client connect_to(std::size_t server) {
    zkclient::Client client(ensemble_->connect_string(server),
                            {.session_timeout = 30s, .server_tick = testkit::server_tick});
    (void)client.connect(testkit::patient());
    return client;
  }

  static inline zktesting::Ensemble* ensemble_ = nullptr;
  std::size_t follower_ = 0;
  std::size_t leader_ = 0;
};

// V99: the others see the member, and hand over to it. It does not see itself, and neither takes nor ends. (It asks for the
// list behind the making of its node, by one session. So a server can keep both from it, but never shows it a list that
// lacks the node it was told of: for that see PartitionDecider.AMemberThatIsNotSeenWaits.)
TEST_F(LaggingServer, AServerThatLagsBehindHidesTheMember) {
  const auto ledger = std::make_shared<testkit::Ledger>();
  const auto join = [&](const zkclient::Client& client, const std::string& id) {
    PartitionerOptions options;
    options.id = id;
    options.settle = 50ms;
    options.grace = 60s;  // Nobody who gives back is too late.
    return std::make_unique<testkit::PartitionWorker>(client, "/parts", PartitionSource::numbered(8), options,
                                                      testkit::PartitionWorker::Behaviour{.ledger = ledger});
  };
  const zkclient::Client prompt = at_the_leader();
  const zkclient::Client late = at_the_follower();
  const auto b = join(prompt, "b");
  ASSERT_TRUE(testkit::eventually([&] { return b->count() == 8; }));
  late.sync("/", testkit::patient());  // The follower knows that b is a member, and nothing that comes now.
  lag();
  const auto a = join(late, "a");
  ASSERT_TRUE(testkit::eventually([&] { return b->count() == 4; })) << "b sees it";
  EXPECT_TRUE(prompt.exists("/parts/members/a", testkit::patient()));
  EXPECT_EQ(a->given(), 0);
  EXPECT_FALSE(a->partitioner().problem());
  const auto of_b = b->tokens();
  catch_up();
  EXPECT_TRUE(testkit::eventually([&] { return a->count() == 4; }));
  EXPECT_EQ(b->tokens(), of_b);
  EXPECT_EQ(b->lost(), 0);
}

/// Fails, so the monitor calls it again every half second. Counts how often it was shown the old name, and the new one.
class FailingChoice {
 public:
  ChoosePrimary choose() {
    return [this](const RoleState& state, const std::vector<Member>&) {
      if (state.named.empty()) return std::string("first");
      ++(state.named == "first" ? old_ : new_);
      throw std::runtime_error("again");
    };
  }
  int old_ones() const { return old_; }
  int new_ones() const { return new_; }

 private:
  std::atomic<int> old_{0};
  std::atomic<int> new_{0};
};

// V79: the monitor decides only on what was there when it began to look.
TEST_F(LaggingServer, MonitorsServerLagsBehind) {
  const zkclient::Client prompt = at_the_leader();
  const zkclient::Client late = at_the_follower();
  FailingChoice choice;
  PrimaryMonitorOptions options;
  options.choose = choice.choose();
  PrimaryMonitor monitor(late, "/app", {"r"}, options);
  monitor.start();
  ASSERT_TRUE(testkit::eventually([&] { return choice.old_ones() >= 2; }));
  lag();
  prompt.set("/app/roles/r", "second", zkclient::any_version, testkit::patient());
  const int before = choice.old_ones();
  testkit::let_age(while_it_lags);  // In which it would decide three times, on what its server still has.
  EXPECT_TRUE(monitor.leads());
  EXPECT_LE(choice.old_ones(), before + 1) << "one decision may have been on its way";
  EXPECT_EQ(choice.new_ones(), 0);
  catch_up();
  EXPECT_TRUE(testkit::eventually([&] { return choice.new_ones() >= 2; }));
  EXPECT_LE(choice.old_ones(), before + 1);
}

/// Names "first". Called again, it waits for go_on(), and then replaces "first" by "late".
class LateChoice {
 public:
  ChoosePrimary choose() {
    return [this](const RoleState& state, const std::vector<Member>&) {
      if (state.named.empty()) return std::string("first");
      if (state.named != "first") return state.named;
      waits_ = true;
      go_on_.wait(false);
      return std::string("late");
    };
  }
  bool waits() const { return waits_; }
  void go_on() {
    go_on_ = true;
    go_on_.notify_all();
  }

 private:
  std::atomic<bool> waits_{false};
  std::atomic<bool> go_on_{false};
};

// V79: the monitor looked before its server fell behind, and then writes through that server: the write is refused, since
// the role has another version by now.
TEST_F(LaggingServer, ALateDecisionIsRefused) {
  const zkclient::Client prompt = at_the_leader();
  const zkclient::Client late = at_the_follower();
  LateChoice choice;
  PrimaryMonitorOptions options;
  options.choose = choice.choose();
  PrimaryMonitor monitor(late, "/late", {"r"}, options);
  // The monitor's end waits for the choice, also when this test fails.
  const std::shared_ptr<void> at_the_end(nullptr, [&](std::nullptr_t) { choice.go_on(); });
  monitor.start();
  ASSERT_TRUE(testkit::eventually([&] { return choice.waits(); }));
  lag();
  const std::int32_t version = prompt.set("/late/roles/r", "second", zkclient::any_version, testkit::patient()).version;
  choice.go_on();
  testkit::let_age(while_it_lags);  // In which its write gets to the leader.
  EXPECT_EQ(prompt.get("/late/roles/r", testkit::patient()).data, "second");
  catch_up();
  late.sync("/", testkit::patient());  // Behind what it has written.
  const auto role = prompt.get("/late/roles/r", testkit::patient());
  EXPECT_EQ(role.data, "second");
  EXPECT_EQ(role.stat.version, version);
}

}  // namespace
}  // namespace zkrecipes
