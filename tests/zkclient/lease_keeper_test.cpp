#include "zkclient/detail/lease_keeper.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using zkclient::BootClock;
using zkclient::ConnectionState;
using zkclient::Errc;
using zkclient::detail::LeaseKeeper;
using zkclient::detail::Op;
using zkclient::detail::Reply;
using zkclient::detail::Request;
using zkclient::detail::SessionState;

class LeaseKeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LeaseKeeper::Hooks hooks;
    hooks.send = [this](const Request&, Op::Done done) { sent.push_back(std::move(done)); };
    hooks.lose = [this] { lost = true; };
    keeper = std::make_shared<LeaseKeeper>(events, session, std::move(hooks));
  }
  void TearDown() override { keeper->stop(); }

  void connect(std::chrono::milliseconds timeout) {
    session->set_identity(1, timeout, "");
    session->set_state(ConnectionState::connected);
    keeper->connected();
  }
  void answer(Reply reply) {
    ASSERT_FALSE(sent.empty());
    Op::Done done = std::move(sent.back());
    sent.pop_back();
    done(std::move(reply));
  }

  zkclient::detail::EventLoop events;
  std::shared_ptr<SessionState> session = std::make_shared<SessionState>(40s);
  std::shared_ptr<LeaseKeeper> keeper;
  std::vector<Op::Done> sent;
  bool lost = false;
};

// A server that was started again with a lower limit grants less, and may end the session sooner than was promised.
TEST_F(LeaseKeeperTest, AShorterSessionEndsWhatRestsOnTheLongerOne) {
  connect(40s);
  keeper->acknowledged(BootClock::now());
  ASSERT_TRUE(keeper->proven());
  keeper->hold("/lock/a", [] {}, {});
  connect(40s);
  EXPECT_FALSE(lost);
  connect(60s);
  EXPECT_FALSE(lost);
  connect(4s);
  EXPECT_TRUE(lost);
}

TEST_F(LeaseKeeperTest, AShorterSessionStartsTheProofAnewWhenNothingIsHeld) {
  connect(40s);
  keeper->acknowledged(BootClock::now());
  ASSERT_TRUE(keeper->proven());
  connect(4s);
  EXPECT_FALSE(lost);
  EXPECT_FALSE(keeper->proven());
  keeper->acknowledged(BootClock::now());
  EXPECT_TRUE(keeper->proven());
  EXPECT_LT(session->valid_until(), BootClock::now() + 4s);
}

TEST_F(LeaseKeeperTest, OnlyARefusedCheckMeansThatANodeIsGone) {
  connect(40s);
  keeper->acknowledged(BootClock::now());
  int gone = 0;
  keeper->hold("/lock/a", [&] { gone += 1; }, {});
  keeper->hold("/lock/b", [&] { gone += 10; }, {});
  connect(40s);  // Sends a heartbeat.
  Reply throttled;
  throttled.error = Errc::throttled;
  answer(std::move(throttled));
  EXPECT_EQ(gone, 0);
  connect(40s);
  Reply refused;
  refused.error = Errc::transaction_failed;
  refused.codes = {0, -101};
  answer(std::move(refused));
  EXPECT_EQ(gone, 10);
  EXPECT_FALSE(lost);
}

}  // namespace
