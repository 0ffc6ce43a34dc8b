// The table of connection states in session.hpp: each of its rows, and nothing besides.

#include <future>
#include <iostream>
#include <random>
#include <stop_token>
#include <thread>

#include <zkrecipes/mutex.hpp>
#include <zktesting/expire.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::StateChange;
using zkclient::Subscription;

using enum ConnectionState;

bool is_in_table(ConnectionState from, ConnectionState to) {
  switch (from) {
    case connecting: return to == connected || to == lost || to == closed;
    case connected: return to == suspended || to == lost || to == closed;
    case suspended: return to == connected || to == lost || to == closed;
    case lost:
    case closed: return false;
  }
  return false;
}

// Hears every change, slowly if asked to, and checks it against the table.
class Listener {
 public:
  explicit Listener(const Client& client, std::chrono::milliseconds slowness = 0ms)
      : subscription_(client.on_state_change([this, slowness](const StateChange& change) {
          if (slowness != 0ms) std::this_thread::sleep_for(slowness);  // What is tested, not a wait.
          if (last_ && last_->session == change.session) {
            EXPECT_TRUE(is_in_table(last_->state, change.state))
                << to_string(last_->state) << " to " << to_string(change.state);
          } else if (last_) {
            EXPECT_EQ(last_->state, lost) << "one session was not over when the next one came";
            EXPECT_EQ(change.state, connecting);
          }
          last_ = change;
          changes_.put(change);
        })) {}

  StateChange next() { return changes_.take(); }
  Session until(ConnectionState state) {
    return changes_.take_until([state](const StateChange& change) { return change.state == state; }).session;
  }

 private:
  std::optional<StateChange> last_;
  Box<StateChange> changes_;
  Subscription subscription_;
};

class StatesTest : public testkit::FaultTest {
 protected:
  /// Its connection breaks by nothing but what the test does.
  Client calm_proxied() { return Client(proxy.connect_string(), {.session_timeout = 30s}); }
  void expire(const Session& session) const {
    const auto credentials = session.credentials();
    zktesting::expire(server.connect_string(), credentials.id, credentials.password);
  }
};

TEST_F(StatesTest, ConnectingToConnectedToSuspendedToConnectedToClosed) {
  Client client = calm_proxied();
  Listener listener(client);
  listener.until(connected);
  proxy.cut();
  EXPECT_EQ(listener.next().state, suspended);
  EXPECT_EQ(listener.next().state, connected);
  client.close();
  EXPECT_EQ(listener.next().state, closed);
}

TEST_F(StatesTest, ConnectingToClosed) {
  proxy.refuse(true);
  Client client = proxied();
  Listener listener(client);
  EXPECT_EQ(listener.next().state, connecting);
  client.close();
  EXPECT_EQ(listener.next().state, closed);
}

TEST_F(StatesTest, ConnectingToLostWhenThereIsNothingToResume) {
  ClientOptions resuming = options();
  resuming.resume = zkclient::SessionCredentials{42, std::string(16, 'x')};
  proxy.refuse(true);
  const Client client(proxy.connect_string(), resuming);
  Listener listener(client);
  const StateChange first = listener.next();
  EXPECT_EQ(first.state, connecting);
  proxy.refuse(false);
  const StateChange second = listener.next();
  EXPECT_EQ(second.state, lost);
  EXPECT_EQ(second.session, first.session);
  EXPECT_EQ(listener.next().state, connecting);
  EXPECT_EQ(listener.next().state, connected);
}

TEST_F(StatesTest, TheLeaseClockEndsTheLeaseAndNotTheSession) {
  bool in_time = false;  // It was told while the session lasted: five seconds, which a busy machine may need.
  for (int attempt = 0; attempt < 5 && !in_time; ++attempt) {
    Box<ConnectionState> states;
    const Client client(proxy.connect_string(), {.session_timeout = 12s});
    zkrecipes::Mutex mutex(client, "/lock");
    const zkrecipes::Lease lease = mutex.acquire({.deadline = testkit::soon()});
    const Session session = *lease.session();
    Listener listener(client);
    EXPECT_EQ(listener.next().state, connected);
    const std::stop_callback told(lease.lost(), [&] {
      const ConnectionState state = session.state();
      in_time = zkclient::BootClock::now() < session.valid_until() + 4s;
      states.put(state);
    });
    proxy.stall(zktesting::Direction::to_client);
    const ConnectionState when_told = states.take();
    EXPECT_TRUE(when_told != lost || !in_time);
    const StateChange change = listener.next();
    EXPECT_EQ(change.state, suspended) << "the C client has noticed the silence";
    EXPECT_NE(change.reason, "");
    proxy.unstall(zktesting::Direction::to_client);
  }
  EXPECT_TRUE(in_time);
}

// The holder first, then the server, which gives the node to the next one when it hears of it.
TEST_F(StatesTest, ALostLeaseIsToldToItsHolderBeforeItsNodeGoes) {
  constexpr auto telling = 1s;  // From the end of the lease on: then the node goes, told or not.
  const auto end = testkit::soon();
  for (bool in_time = false; !in_time;) {
    ASSERT_LT(testkit::SteadyClock::now(), end) << "it never stayed until its holder was told";
    Box<bool> early;
    const Client client(proxy.connect_string(), {.session_timeout = 12s});
    zkrecipes::Mutex mutex(client, "/lock");
    const zkrecipes::Lease lease = mutex.acquire({.deadline = testkit::soon()});
    const Session session = *lease.session();
    const std::size_t before = proxy.request_count(zktesting::RequestType::remove);
    const auto removed = [&] { return proxy.request_count(zktesting::RequestType::remove) > before; };
    const std::stop_callback told(lease.lost(), [&] {
      const auto lost_at = session.valid_until();
      proxy.unstall(zktesting::Direction::to_client);  // Now nothing else is in the way.
      const bool gone = testkit::eventually(removed, 300ms);
      in_time = !gone || zkclient::BootClock::now() < lost_at + telling;
      early.put(gone);
    });
    proxy.stall(zktesting::Direction::to_client);
    const bool was_early = early.take();
    EXPECT_FALSE(was_early && in_time);
    EXPECT_TRUE(testkit::eventually(removed));
  }
}

TEST_F(StatesTest, ALossIsToldWhileEveryCallbackThreadBlocks) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  Box<bool> entered;
  zkclient::Runtime runtime({.max_callback_threads = 1});
  const Client client(runtime, server.connect_string(), {.session_timeout = 10s});  // It ends by nothing else.
  const Session session = client.connect({.deadline = testkit::soon()});
  client.async_get("/", [&, released](const zkclient::Result<zkclient::NodeData>&) {
    entered.put(true);
    released.wait();
  });
  entered.take();
  expire(session);
  EXPECT_TRUE(testkit::stopped(session.lost()));
  release.set_value();
}

TEST_F(StatesTest, LostWhenTheServerRefusesTheCredentials) {
  const Client client = calm_proxied();
  Listener listener(client);
  const Session session = listener.until(connected);
  client.async_add_auth("no-such-scheme", "x", [](const zkclient::Result<void>&) {});
  EXPECT_EQ(listener.until(lost), session);
  EXPECT_EQ(listener.next().state, connecting);
  EXPECT_EQ(listener.next().state, connected);
}

TEST_F(StatesTest, AResumedSessionThatIsLostLaterIsNotResumedAgain) {
  ClientOptions resuming{.session_timeout = 10s};
  Client first(proxy.connect_string(), resuming);
  resuming.resume = first.connect({.deadline = testkit::soon()}).credentials();
  proxy.refuse(true);  // So that the first client cannot end the session when it is closed.
  proxy.cut();
  first.close();
  const Client second(server.connect_string(), resuming);
  Listener listener(second);
  const Session session = listener.until(connected);
  ASSERT_EQ(session.id(), resuming.resume->id);
  expire(session);
  EXPECT_EQ(listener.until(lost), session);
  EXPECT_EQ(listener.next().state, connecting);
  const StateChange next = listener.next();
  EXPECT_EQ(next.state, connected) << "the next one is a new one";
  EXPECT_NE(next.session.id(), session.id());
}

TEST_F(StatesTest, SuspendedToLostWhenTheServerEndedTheSession) {
  const Client client(proxy.connect_string(), {.session_timeout = 10s});  // It ends by nothing else.
  Listener listener(client);
  const Session session = listener.until(connected);
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(listener.next().state, suspended);
  expire(session);
  proxy.refuse(false);
  EXPECT_EQ(listener.next().state, lost);
  EXPECT_EQ(listener.next().state, connecting);
}

TEST_F(StatesTest, SuspendedToLostWhenNobodyIsHeardForAWholeTimeout) {
  const Client client(proxy.connect_string(), {.session_timeout = 6s});
  Listener listener(client);
  listener.until(connected);
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(listener.next().state, suspended);
  const StateChange change = listener.next();
  EXPECT_EQ(change.state, lost);
  EXPECT_EQ(change.reason,
            "no server was heard for its whole timeout: " + proxy.connect_string() + " refused the connection");
}

TEST_F(StatesTest, SuspendedToClosed) {
  Client client = calm_proxied();
  Listener listener(client);
  listener.until(connected);
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(listener.next().state, suspended);
  client.close();
  EXPECT_EQ(listener.next().state, closed);
}

TEST_F(StatesTest, AFewRandomOutagesFollowTheTable) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::minstd_rand random(seed);
  zktesting::Proxy second(server.connect_string());
  Client client(proxy.connect_string(), {.session_timeout = 10s});  // Its sessions end by nothing else.
  Listener fast(client);
  Listener slow(client, 5ms);
  for (int round = 0; round < 30; ++round) {
    const Session session = client.connect({.deadline = testkit::soon()});
    switch (random() % 4) {
      case 0:
        proxy.cut();
        second.cut();
        break;
      case 1:
        expire(session);
        EXPECT_TRUE(testkit::stopped(session.lost()));
        break;
      case 2: client.update_servers(second.connect_string(), {.deadline = testkit::soon()}); break;
      default: client.update_servers(proxy.connect_string(), {.deadline = testkit::soon()}); break;
    }
  }
  client.close();
  fast.until(closed);
  slow.until(closed);
}

}  // namespace
