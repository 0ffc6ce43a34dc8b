// Links that are slow and steady: up to a limit leases live on them, above it there are none, and the error says why.

#include <gtest/gtest.h>

#include <zkrecipes/mutex.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/testkit.hpp"

namespace {

using namespace std::chrono_literals;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Error;
using zktesting::Direction;

class SlowLink : public testkit::FaultTest {
 protected:
  static constexpr auto timeout = std::chrono::milliseconds(6000);

  Client make() { return Client(proxy.connect_string(), {.session_timeout = timeout, .operation_timeout = 60s}); }
  void take(std::chrono::milliseconds round_trip) {
    for (const Direction direction : {Direction::to_server, Direction::to_client})
      proxy.delay(direction, round_trip / 2);
  }
};

TEST_F(SlowLink, LeasesLiveWithARoundTripOfNearlyAFifthOfTheTimeout) {
  take(timeout / 5 - 150ms);  // What a busy machine adds; the lease clock's simulation goes up to the limit.
  const Client client = make();
  zkrecipes::Mutex fair(client, "/fair");
  zkrecipes::UnfairMutex unfair(client, "/unfair");
  const zkrecipes::Lease first = fair.acquire();
  // While heartbeats are on their way all the time.
  const zkrecipes::Lease second = unfair.acquire();
  const auto lost = first.lost();
  std::this_thread::sleep_for(2 * timeout);  // The claim is that nothing happens.
  EXPECT_TRUE(first.valid());
  EXPECT_TRUE(second.valid());
  EXPECT_FALSE(lost.stop_requested());
}

// With two seconds, too, if the server's tick is known to be short: without that it may be two seconds as well.
TEST_F(SlowLink, LeasesOfAShortSessionLiveNearAFifthOfItWhenTheTickIsKnown) {
  take(session_timeout * 18 / 100);
  const Client client(proxy.connect_string(), {.session_timeout = session_timeout,
                                               .server_tick = testkit::server_tick,
                                               .operation_timeout = testkit::patience});
  const zkrecipes::Lease lease = zkrecipes::Mutex(client, "/lock").acquire();
  std::this_thread::sleep_for(3 * session_timeout);  // The claim is that nothing happens.
  EXPECT_TRUE(lease.valid());
  EXPECT_FALSE(lease.lost().stop_requested());
  const Client ignorant(proxy.connect_string(), {.session_timeout = session_timeout});
  EXPECT_EQ(testkit::error_of([&] { (void)zkrecipes::Mutex(ignorant, "/other").acquire(); }),
            Errc::connection_too_slow);
}

TEST_F(SlowLink, AboveTheLimitTheErrorSaysSoAtOnceAndTheSessionLivesOn) {
  take(timeout * 3 / 10);
  const Client client = make();
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
    EXPECT_LT(testkit::SteadyClock::now() - begun, testkit::patience / 2) << "a few round trips";
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
  const Client client = make();
  const zkclient::Session session = client.connect();
  client.create("/mine", "", {.mode = zkclient::CreateMode::ephemeral});
  const zkrecipes::Lease lease = zkrecipes::Mutex(client, "/lock").acquire();
  take(timeout * 3 / 10);
  EXPECT_TRUE(testkit::eventually([&] { return !lease.valid(); }));
  EXPECT_EQ(client.session().id(), session.id());
  EXPECT_EQ(client.session().state(), zkclient::ConnectionState::connected);
  EXPECT_TRUE(client.exists("/mine"));
}

}  // namespace
