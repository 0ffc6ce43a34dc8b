// Links that are slow and steady: up to a limit leases live on them, above it there are none, and the error says why.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <zkrecipes/mutex.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;

// Notes for how long this process or the server paused at the most: how late a write on the straight way was.
class Pace {
 public:
  explicit Pace(const std::string& hosts) : client_(hosts, {.session_timeout = 30s}) {
    client_.ensure("/pace");
    thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }
  testkit::SteadyClock::duration finish() {
    thread_.request_stop();
    thread_.join();
    return worst_;
  }

 private:
  void watch(const std::stop_token& stop) {
    constexpr auto interval = 5ms;
    while (!stop.stop_requested()) {
      const auto begin = testkit::SteadyClock::now();
      std::this_thread::sleep_for(interval);  // The measurement itself.
      std::error_code ignored;
      client_.set("/pace", "", zkclient::any_version, {.deadline = testkit::soon()}, ignored);
      worst_ = std::max(worst_, testkit::SteadyClock::now() - begin - interval);
    }
  }
  const Client client_;
  testkit::SteadyClock::duration worst_{0};
  std::jthread thread_;
};

const testkit::OnRealServers slow_link_on_real_servers{
    "SlowLink.AboveTheLimitTheErrorSaysSoAtOnceAndTheSessionLivesOn"};

class SlowLink : public testkit::FaultTest {
 protected:
  static constexpr auto timeout = std::chrono::milliseconds(6000);
  /// Of a session that outlives a pause beside a link that is too slow for its leases.
  static constexpr auto calm = std::chrono::milliseconds(10'000);

  Client make(std::chrono::milliseconds session = timeout) {
    return Client(proxy.connect_string(), {.session_timeout = session, .operation_timeout = 60s});
  }
  /// So near the limit a lease stands no pause: once more, at other paths, if it was lost in one longer than `spare`. A
  /// machine that is never without one says nothing of the library.
  void expect_to_live(std::chrono::milliseconds spare, const std::function<bool(const std::string& suffix)>& lives) {
    const auto end = testkit::SteadyClock::now() + 2min;
    for (int attempt = 0;; ++attempt) {
      Pace pace(server.connect_string());
      bool lived = false;
      std::string error;
      try {
        lived = lives(std::to_string(attempt));
      } catch (const Error& refusal) {
        error = refusal.what();
      }
      const auto worst = pace.finish();
      if (lived) return;
      ASSERT_GT(worst, spare) << "a lease was lost or refused: " << error;
      if (testkit::SteadyClock::now() > end) GTEST_SKIP() << "there was no time without a pause";
    }
  }
  void take(std::chrono::milliseconds round_trip) {
    for (const Direction direction : {Direction::to_server, Direction::to_client})
      proxy.delay(direction, round_trip / 2);
  }
};

TEST_F(SlowLink, LeasesLiveWithARoundTripOfNearlyAFifthOfTheTimeout) {
  take(timeout / 5 - 150ms);  // What a busy machine adds; the lease clock's simulation goes up to the limit.
  expect_to_live(100ms, [&](const std::string& suffix) {
    const Client client = make();
    zkrecipes::Mutex fair(client, "/fair" + suffix);
    zkrecipes::UnfairMutex unfair(client, "/unfair" + suffix);
    const zkrecipes::Lease first = fair.acquire();
    // While heartbeats are on their way all the time.
    const zkrecipes::Lease second = unfair.acquire();
    const auto lost = first.lost();
    std::this_thread::sleep_for(2 * timeout);  // The claim is that nothing happens.
    return first.valid() && second.valid() && !lost.stop_requested();
  });
}

// With two seconds, too, if the server's tick is known to be short: without that it may be two seconds as well.
TEST_F(SlowLink, LeasesOfAShortSessionLiveNearAFifthOfItWhenTheTickIsKnown) {
  take(session_timeout * 18 / 100);
  expect_to_live(40ms, [&](const std::string& suffix) {
    const Client client(proxy.connect_string(), {.session_timeout = session_timeout,
                                                 .server_tick = testkit::server_tick,
                                                 .operation_timeout = testkit::patience});
    const zkrecipes::Lease lease = zkrecipes::Mutex(client, "/lock" + suffix).acquire();
    std::this_thread::sleep_for(3 * session_timeout);  // The claim is that nothing happens.
    return lease.valid() && !lease.lost().stop_requested();
  });
  const Client ignorant(proxy.connect_string(), {.session_timeout = session_timeout});
  std::optional<Errc> refusal;
  const auto refused = [&] {
    refusal =
        testkit::error_of([&] { (void)zkrecipes::Mutex(ignorant, "/other").acquire({.deadline = testkit::soon()}); });
    return refusal != Errc::session_lost;  // In a pause.
  };
  EXPECT_TRUE(testkit::eventually(refused));
  EXPECT_EQ(refusal, Errc::connection_too_slow);
}

TEST_F(SlowLink, AboveTheLimitTheErrorSaysSoAtOnceAndTheSessionLivesOn) {
  take(calm * 3 / 10);
  const Client client = make(calm);
  const zkclient::Session session = client.connect();
  client.create("/mine", "", {.mode = zkclient::CreateMode::ephemeral});
  zkrecipes::Mutex mutex(client, "/lock");
  for (int i = 0; i < 2; ++i) {
    const auto begun = testkit::SteadyClock::now();
    try {
      (void)mutex.acquire();
      ADD_FAILURE() << "it was granted";
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::connection_too_slow) << error.what();
      EXPECT_NE(error.detail().find("ms to answer a write"), std::string::npos) << error.what();
      EXPECT_NE(error.detail().find("within "), std::string::npos) << error.what();
      EXPECT_NE(error.detail().find("ask for a timeout of "), std::string::npos) << error.what();
    }
    EXPECT_LT(testkit::SteadyClock::now() - begun, 45s) << "a few round trips";
  }
  EXPECT_EQ(client.session().id(), session.id());
  EXPECT_EQ(client.session().state(), zkclient::ConnectionState::connected);
  EXPECT_TRUE(client.exists("/mine"));
  // What the error says helps.
  take(0ms);
  EXPECT_TRUE(testkit::eventually([&] {
    std::error_code error;
    try {
      return mutex.try_acquire().has_value();
    } catch (const Error& failure) {
      return failure.errc() != Errc::connection_too_slow;
    }
  }));
}

// A link that becomes slow costs the leases, and nothing else.
TEST_F(SlowLink, ALinkThatBecomesTooSlowCostsTheLeaseAlone) {
  const Client client = make(calm);
  const zkclient::Session session = client.connect();
  client.create("/mine", "", {.mode = zkclient::CreateMode::ephemeral});
  const zkrecipes::Lease lease = zkrecipes::Mutex(client, "/lock").acquire();
  take(calm * 3 / 10);
  EXPECT_TRUE(testkit::eventually([&] { return !lease.valid(); }));
  EXPECT_EQ(client.session().id(), session.id());
  EXPECT_EQ(client.session().state(), zkclient::ConnectionState::connected);
  EXPECT_TRUE(client.exists("/mine"));
}

}  // namespace
