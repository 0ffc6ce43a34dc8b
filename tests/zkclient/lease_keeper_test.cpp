#include "zkclient/detail/lease/lease_keeper.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/memory.hpp"

namespace {

using namespace std::chrono_literals;
using zkclient::BootClock;
using zkclient::ConnectionState;
using zkclient::Errc;
using zkclient::detail::EventLoop;
using zkclient::detail::LeaseKeeper;
using zkclient::detail::Op;
using zkclient::detail::Reply;
using zkclient::detail::Request;
using zkclient::detail::SessionState;

class LeaseKeeperTest : public ::testing::Test {
 protected:
  void SetUp() override { make({}); }
  void TearDown() override { keeper->stop(); }

  void make(std::optional<std::chrono::milliseconds> tick) {
    keeper = std::make_shared<LeaseKeeper>(events, session, tick, [this](const Request& request, Op::Done done) {
      checked = request.operations.size();
      sent.push_back(std::move(done));
    });
  }
  void connect(std::chrono::milliseconds timeout) {
    session->set_identity(1, timeout, "");
    session->set_state(ConnectionState::connected);
    keeper->connected(BootClock::now());
  }
  LeaseKeeper::HoldId hold(const std::string& path) {
    return keeper->hold(path, {.gone = [this, path] { log.push_back("gone " + path); },
                               .expired = [this, path](const std::string&) { log.push_back("expired " + path); }});
  }
  void answer(Reply reply) {
    ASSERT_FALSE(sent.empty());
    Op::Done done = std::move(sent.back());
    sent.pop_back();
    done(std::move(reply));
  }
  // A session of 600 ms, proven: again, if that took so long that little is left of it. After a silence the first write
  // is no proof.
  void prove_brief_session(bool after_silence = false) {
    for (bool quick = false; !quick;) {
      const auto begun = BootClock::now();
      connect(600ms);
      keeper->acknowledged(BootClock::now());
      if (after_silence && !keeper->proven()) {
        run_for(std::chrono::ceil<std::chrono::milliseconds>(keeper->pause_before_proof()));
        keeper->acknowledged(BootClock::now());
      }
      const bool proven = keeper->proven();
      quick = BootClock::now() - begun < 100ms;
      ASSERT_TRUE(proven || !quick);
    }
  }
  // Lets the timers do their work.
  void run_for(std::chrono::milliseconds time) {
    zkclient::detail::Timer end(events);
    end.set_after(time, [this] { events.interrupt(); });
    EXPECT_FALSE(events.run());
  }
  // The same until `met`: after a pause of this process all timers are due at once.
  void run_until(const std::function<bool()>& met) {
    const auto end = BootClock::now() + 30s;
    while (!met() && BootClock::now() < end)
      run_for(10ms);
  }

  EventLoop events;
  std::shared_ptr<SessionState> session = std::make_shared<SessionState>(40s);
  std::shared_ptr<LeaseKeeper> keeper;
  std::vector<Op::Done> sent;
  std::size_t checked = 0;
  std::vector<std::string> log;
};

using Log = std::vector<std::string>;

// A server that was started again with a lower limit grants less, and may end the session sooner than was promised.
TEST_F(LeaseKeeperTest, AShorterSessionEndsWhatRestsOnTheLongerOne) {
  connect(40s);
  keeper->acknowledged(BootClock::now());
  ASSERT_TRUE(keeper->proven());
  hold("/lock/a");
  connect(40s);
  EXPECT_EQ(log, Log());
  connect(60s);
  EXPECT_EQ(log, Log());
  connect(4s);
  EXPECT_EQ(log, (Log{"expired /lock/a"}));
  EXPECT_FALSE(keeper->holding());
}

TEST_F(LeaseKeeperTest, AShorterSessionStartsTheProofAnewWhenNothingIsHeld) {
  connect(40s);
  keeper->acknowledged(BootClock::now());
  ASSERT_TRUE(keeper->proven());
  connect(4s);
  EXPECT_FALSE(keeper->proven());
  keeper->acknowledged(BootClock::now());
  EXPECT_TRUE(keeper->proven());
  EXPECT_LT(session->valid_until(), BootClock::now() + 4s);
}

TEST_F(LeaseKeeperTest, OnlyARefusedCheckMeansThatANodeIsGone) {
  connect(40s);
  keeper->acknowledged(BootClock::now());
  hold("/lock/a");
  hold("/lock/b");
  connect(40s);  // Sends a heartbeat.
  Reply throttled;
  throttled.error = Errc::throttled;
  answer(std::move(throttled));
  EXPECT_EQ(log, Log());
  connect(40s);
  Reply refused;
  refused.error = Errc::transaction_failed;
  refused.codes = {0, -101};
  answer(std::move(refused));
  EXPECT_EQ(log, (Log{"gone /lock/b"}));
}

// All that is held ends, the session goes on, and what is held later rests on a proof of its own.
TEST_F(LeaseKeeperTest, WhenTheClockRunsOutAllLeasesEndAndTheNextOneIsProvenAnew) {
  make(100ms);
  prove_brief_session();
  const auto valid_until = session->valid_until();
  hold("/lock/a");
  hold("/lock/b");
  run_until([this] { return !log.empty(); });
  EXPECT_EQ(log, (Log{"expired /lock/a", "expired /lock/b"}));
  EXPECT_FALSE(keeper->holding());
  EXPECT_FALSE(session->over());
  EXPECT_EQ(session->valid_until(), valid_until);
  EXPECT_FALSE(keeper->proven());
  log.clear();
  sent.clear();
  prove_brief_session(true);
  hold("/lock/c");
  EXPECT_EQ(log, Log());
}

// The acknowledgement comes when the time is up and before the timer has said so: it revives nothing.
TEST_F(LeaseKeeperTest, AnAcknowledgementThatComesTooLateRevivesNothing) {
  make(100ms);
  connect(600ms);
  keeper->acknowledged(BootClock::now());
  hold("/lock/a");
  while (BootClock::now() < session->valid_until())
    continue;
  keeper->acknowledged(BootClock::now());
  EXPECT_EQ(log, (Log{"expired /lock/a"}));
}

// A process that stood still may look at a lease before the timer, which is late as well.
TEST_F(LeaseKeeperTest, AnEndIsNoticedBeforeTheTimerAndOnce) {
  make(100ms);
  prove_brief_session();
  hold("/lock/a");
  hold("/lock/b");
  keeper->notice_end();
  const bool early = BootClock::now() < session->valid_until();
  EXPECT_TRUE(log.empty() || !early);
  while (BootClock::now() < session->valid_until()) {  // Nothing runs the timers.
  }
  keeper->notice_end();
  EXPECT_EQ(log, (Log{"expired /lock/a", "expired /lock/b"}));
  keeper->notice_end();
  run_for(1ms);
  EXPECT_EQ(log.size(), 2u);
}

TEST_F(LeaseKeeperTest, WhoWaitsIsProvenAndLosesNothing) {
  make(100ms);
  connect(600ms);
  keeper->acknowledged(BootClock::now());
  const auto waiting = keeper->stay_proven("/lock");
  EXPECT_FALSE(keeper->holding());
  EXPECT_EQ(keeper->size(), 0U);
  run_until([this] { return !sent.empty(); });
  EXPECT_EQ(sent.size(), 1U);  // A heartbeat.
  EXPECT_EQ(checked, 1U);
  run_for(600ms);
  EXPECT_EQ(log, Log());
  keeper->drop(waiting);
  sent.clear();
  run_for(200ms);
  EXPECT_EQ(sent.size(), 0U);
}

// --- What makes a lease impossible -----------------------------------------------------------------------------------

TEST_F(LeaseKeeperTest, AShortTimeoutIsRefusedUnlessTheTickIsKnownToBeShort) {
  connect(1500ms);
  auto why = keeper->obstacle();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, Errc::timeout_too_short);
  EXPECT_EQ(why->detail,
            "the server granted a session timeout of 1500 ms, and its tick may be 2000 ms: ask for 2000 ms or more "
            "(ClientOptions::session_timeout), or say what the tick is (ClientOptions::server_tick)");
  make(500ms);
  connect(1500ms);
  EXPECT_FALSE(keeper->obstacle());
  make(2000ms);
  connect(1500ms);
  why = keeper->obstacle();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->detail,
            "the server granted a session timeout of 1500 ms, and its tick is 2000 ms: ask for 2000 ms or more "
            "(ClientOptions::session_timeout)");
}

TEST_F(LeaseKeeperTest, SlowAnswersAreRefusedAfterThree) {
  connect(4s);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(keeper->obstacle());
    keeper->acknowledged(BootClock::now() - 1300ms);
    EXPECT_EQ(keeper->seems_too_slow(), i < 2);
  }
  const auto why = keeper->obstacle();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, Errc::connection_too_slow);
  EXPECT_TRUE(why->detail.starts_with("the server takes ")) << why->detail;
  EXPECT_NE(why->detail.find("leases of a session of 4000 ms need an answer within "), std::string::npos)
      << why->detail;
  keeper->acknowledged(BootClock::now() - 100ms);
  EXPECT_FALSE(keeper->obstacle());
}

TEST_F(LeaseKeeperTest, ManyNodesAreCheckedInTurn) {
  connect(40s);
  keeper->acknowledged(BootClock::now());
  for (int i = 0; i < 1500; ++i)
    hold("/lock/" + std::to_string(i));
  connect(40s);
  EXPECT_EQ(checked, 1024U);
}

// ---- Heartbeats that are lost with their connection -----------------------------------------------------------------

class LargeHeartbeats : public LeaseKeeperTest {
 protected:
  void SetUp() override {
    LeaseKeeperTest::SetUp();
    connect(40s);
    keeper->acknowledged(BootClock::now());
    for (int i = 0; i < 1024; ++i)
      hold("/lock/" + std::string(300, 'x') + std::to_string(i));
  }
  // Sends a heartbeat; how many nodes it checks.
  std::size_t beat() {
    connect(40s);
    return checked;
  }
  void lose() {
    Reply lost;
    lost.error = Errc::in_doubt;
    answer(std::move(lost));
  }
  void acknowledge() {
    Reply reply;
    reply.sent = BootClock::now();
    answer(std::move(reply));
  }
};

TEST_F(LargeHeartbeats, OneThatIsLostSaysNothingOfItsSize) {
  const std::size_t usual = beat();
  lose();
  EXPECT_EQ(beat(), usual);
  acknowledge();
  beat();
  lose();
  EXPECT_EQ(beat(), usual) << "not two in a row";
}

TEST_F(LargeHeartbeats, AreSmallerAfterTwoInARowAndGrowAgain) {
  const std::size_t usual = beat();
  lose();
  beat();
  lose();
  const std::size_t half = beat();
  EXPECT_LT(half, usual * 3 / 5);
  lose();
  EXPECT_LT(beat(), half * 3 / 5) << "still none was answered";
  for (int i = 0; checked < usual && i < 20; ++i) {
    acknowledge();
    beat();
  }
  EXPECT_EQ(checked, usual);
}

// A server with a low limit drops the connection each time: that must not happen again and again.
TEST_F(LargeHeartbeats, AServerThatTakesLessIsSeldomAskedForMore) {
  const std::size_t limit = beat() / 3;
  const int beats = testkit::sanitized ? 300 : 1000;
  int lost = 0;
  for (int i = 0; i < beats; ++i) {
    if (checked > limit) {
      ++lost;
      lose();
    } else {
      acknowledge();
    }
    beat();
  }
  EXPECT_LT(lost, 30);
}

}  // namespace
