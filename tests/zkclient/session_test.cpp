#include <zkclient/session.hpp>

#include <atomic>
#include <functional>
#include <future>
#include <set>
#include <thread>

#include <zkrecipes/mutex.hpp>
#include <zktesting/expire.hpp>

#include "tests/support/given_up.hpp"
#include "tests/support/ipv6_door.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::SessionCredentials;
using zkclient::StateChange;

class SessionTest : public testkit::FaultTest {
 protected:
  /// A session that ends, and whose connection breaks, by nothing but what the test does.
  static constexpr auto calm = std::chrono::milliseconds(30'000);
  /// One for those who wait for its end, which a server that pauses does not cost its connection.
  static constexpr auto brief = std::chrono::milliseconds(6000);

  Client with(std::chrono::milliseconds timeout) {
    return Client(proxy.connect_string(), {.session_timeout = timeout});
  }
  // All states that a client went through, from the subscription on.
  class Log {
   public:
    explicit Log(const Client& client)
        : subscription_(client.on_state_change([this](const StateChange& change) { changes_.put(change); })) {}
    StateChange next() { return changes_.take(); }
    StateChange until(ConnectionState state) {
      return changes_.take_until([state](const StateChange& change) { return change.state == state; });
    }
    bool empty() const { return changes_.empty(); }

   private:
    Box<StateChange> changes_;
    zkclient::Subscription subscription_;
  };

  /// `client` goes through the proxy.
  void expect_given_up_session_to_be_closed(const Client& client) {
    const Session old = client.connect();
    client.create("/e", "", {.mode = CreateMode::ephemeral});
    const std::size_t closes = proxy.request_count(RequestType::close_session);
    testkit::cut_off_and_keep_session(client, proxy, server);
    ASSERT_TRUE(testkit::stopped(old.lost()));
    proxy.refuse(false);
    EXPECT_TRUE(proxy.wait_for_requests(RequestType::close_session, closes + 1, testkit::patience));
    EXPECT_TRUE(eventually([&] { return !client.exists("/e", {.deadline = testkit::soon()}); }));
    EXPECT_NE(client.session(), old);
  }

  void expire(const Session& session) const {
    const SessionCredentials credentials = session.credentials();
    zktesting::expire(server.connect_string(), credentials.id, credentials.password);
  }
};

TEST_F(SessionTest, StatesComeInOrder) {
  server.stop();
  Client client = with(calm);
  Log log(client);
  EXPECT_EQ(log.next().state, ConnectionState::connecting);
  const Session session = client.session();
  EXPECT_EQ(session.id(), 0);
  EXPECT_EQ(session.timeout(), calm) << "the requested one, until the server grants another";
  server.start();
  const StateChange connected = log.next();
  EXPECT_EQ(connected.state, ConnectionState::connected);
  EXPECT_EQ(connected.session, session);
  EXPECT_NE(session.id(), 0);
  proxy.cut();
  EXPECT_EQ(log.next().state, ConnectionState::suspended);
  EXPECT_EQ(log.next().state, ConnectionState::connected);
  EXPECT_EQ(client.session(), session);
  client.close();
  const StateChange closed = log.next();
  EXPECT_EQ(closed.state, ConnectionState::closed);
  EXPECT_EQ(closed.session, session);
  EXPECT_TRUE(log.empty()) << "a state was told twice";
}

TEST_F(SessionTest, AListenerGetsTheCurrentStateFirst) {
  const Client client = with(calm);
  const Session session = client.connect();
  Log log(client);
  const StateChange first = log.next();
  EXPECT_EQ(first.state, ConnectionState::connected);
  EXPECT_EQ(first.session, session);
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(log.next().state, ConnectionState::suspended);
  Log late(client);
  EXPECT_EQ(late.next().state, ConnectionState::suspended);
  proxy.refuse(false);
  EXPECT_EQ(late.next().state, ConnectionState::connected);
}

TEST_F(SessionTest, NoStateIsDroppedForASlowListener) {
  const Client client = with(calm);
  client.connect();
  Box<ConnectionState> seen;
  Box<bool> entered;
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  const auto subscription = client.on_state_change([&, released](const StateChange& change) {
    if (seen.empty()) entered.put(true);
    released.wait_for(testkit::patience);
    seen.put(change.state);
  });
  entered.take();
  Log fast(client);
  fast.until(ConnectionState::connected);
  constexpr int cuts = 5;
  for (int i = 0; i < cuts; ++i) {
    proxy.cut();
    EXPECT_EQ(fast.next().state, ConnectionState::suspended) << "held up by the slow listener";
    EXPECT_EQ(fast.next().state, ConnectionState::connected);
  }
  release.set_value();
  EXPECT_EQ(seen.take(), ConnectionState::connected);
  for (int i = 0; i < cuts; ++i) {
    EXPECT_EQ(seen.take(), ConnectionState::suspended);
    EXPECT_EQ(seen.take(), ConnectionState::connected);
  }
  EXPECT_TRUE(seen.empty());
}

TEST_F(SessionTest, AListenerThatIsDroppedHearsNothingMore) {
  const Client client = with(calm);
  client.connect();
  std::atomic<int> calls{0};
  {
    Box<bool> first;
    const auto subscription = client.on_state_change([&](const StateChange&) {
      ++calls;
      first.put(true);
    });
    first.take();
  }
  const int before = calls;
  Log log(client);
  log.until(ConnectionState::connected);
  proxy.cut();
  log.until(ConnectionState::suspended);
  log.until(ConnectionState::connected);
  EXPECT_EQ(calls, before);
}

TEST_F(SessionTest, AListenerMayEndItsOwnSubscription) {
  const Client client = proxied();
  client.connect();
  std::mutex mutex;
  std::optional<zkclient::Subscription> own;
  Box<bool> called;
  {
    const std::lock_guard lock(mutex);
    own = client.on_state_change([&](const StateChange&) {
      {
        const std::lock_guard guard(mutex);
        own.reset();
      }
      called.put(true);  // The last thing: the test may be over then.
    });
  }
  EXPECT_TRUE(called.take());
}

TEST_F(SessionTest, TheServerLimitsTheTimeout) {
  const Client small(server.connect_string(), {.session_timeout = 800ms});
  EXPECT_EQ(small.connect().timeout(), 1000ms);
  const Client large(server.connect_string(), {.session_timeout = 1h});
  EXPECT_EQ(large.connect().timeout(), 60s);
}

TEST_F(SessionTest, ReconnectingKeepsTheSessionAndItsNodes) {
  const Client client = with(calm);
  const Session session = client.connect();
  client.create("/e", "", {.mode = CreateMode::ephemeral});
  const std::int64_t id = session.id();
  Log log(client);
  log.until(ConnectionState::connected);
  for (int i = 0; i < 5; ++i) {
    proxy.cut();
    log.until(ConnectionState::suspended);
    log.until(ConnectionState::connected);
  }
  EXPECT_EQ(client.session(), session);
  EXPECT_EQ(session.id(), id);
  EXPECT_FALSE(session.lost().stop_requested());
  EXPECT_EQ(client.exists("/e")->ephemeral_owner, id);
}

TEST_F(SessionTest, AnExpiredSessionIsLostAndReplaced) {
  const Client client(proxy.connect_string(), {.session_timeout = 10s});  // It ends by nothing else.
  const Session old = client.connect();
  client.create("/e", "", {.mode = CreateMode::ephemeral});
  client.create("/n");
  Box<WatchEventType> events;
  const auto watched = client.get_and_watch("/n", [&](const WatchEvent& event) { events.put(event.type); });
  Log log(client);
  log.until(ConnectionState::connected);
  expire(old);
  const StateChange lost = log.until(ConnectionState::lost);
  EXPECT_EQ(lost.session, old);
  const StateChange connecting = log.next();
  EXPECT_EQ(connecting.state, ConnectionState::connecting);
  EXPECT_NE(connecting.session, old);
  const StateChange connected = log.next();
  EXPECT_EQ(connected.state, ConnectionState::connected);
  EXPECT_EQ(connected.session, connecting.session);
  EXPECT_EQ(client.session(), connected.session);
  EXPECT_NE(connected.session.id(), old.id());
  EXPECT_EQ(old.state(), ConnectionState::lost) << "final";
  EXPECT_TRUE(testkit::stopped(old.lost()));
  EXPECT_FALSE(connected.session.lost().stop_requested());
  EXPECT_EQ(events.take(), WatchEventType::session_lost);
  EXPECT_FALSE(watched.watch().armed());
  EXPECT_FALSE(client.exists("/e"));
  client.set("/n", "x");
  EXPECT_TRUE(events.empty());
}

// Whatever made the server give it another one: the session that the nodes and leases belong to is not there.
TEST_F(SessionTest, AChangedSessionIdAfterReconnectIsALoss) {
  const Client client = with(10s);
  const Session old = client.connect();
  client.create("/e", "", {.mode = CreateMode::ephemeral});
  // Again, if the attempt was given up before the forged answer came.
  EXPECT_TRUE(eventually([&] {
    zktesting::Fault forged = proxy.forge_next_session();
    proxy.cut();
    EXPECT_TRUE(forged.wait(testkit::patience));
    return eventually([&] { return old.state() == ConnectionState::lost; }, 3s);
  }));
  EXPECT_TRUE(testkit::stopped(old.lost()));
  const Session next = client.connect({.deadline = testkit::soon()});
  EXPECT_NE(next, old);
  EXPECT_NE(next.id(), old.id());
  EXPECT_TRUE(eventually([&] { return !client.exists("/e"); })) << "nothing is left of a session that was given up";
}

TEST_F(SessionTest, LostFiresOnce) {
  Client client = with(10s);  // It ends by nothing else.
  const Session session = client.connect();
  std::atomic<int> calls{0};
  const std::stop_callback callback(session.lost(), [&] { ++calls; });
  expire(session);
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  client.connect({.deadline = testkit::soon()});
  client.close();
  EXPECT_EQ(calls, 1);
}

TEST_F(SessionTest, CallsThatWaitGoToTheNextSession) {
  const Client client(proxy.connect_string(), {.session_timeout = 10s});  // It ends by nothing else.
  const Session old = client.connect();
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return old.state() == ConnectionState::suspended; }));
  Box<zkclient::Result<zkclient::Created>> created;
  client.async_create("/n", "x", {},
                      [&](zkclient::Result<zkclient::Created> result) { created.put(std::move(result)); },
                      {.deadline = testkit::soon()});
  const auto guarded = zkclient::Transaction().check({.path = "/", .session = old});
  Box<Errc> bound;
  client.async_commit(guarded, [&](const auto& result) { bound.put(result.error().errc()); },
                      {.deadline = testkit::soon()});
  expire(old);
  proxy.refuse(false);
  EXPECT_EQ(created.take()->path, "/n");
  EXPECT_EQ(bound.take(), Errc::session_lost) << "what is bound to a session must not run on another";
}

TEST_F(SessionTest, CredentialsResumeTheSession) {
  ClientOptions resuming = options();
  resuming.session_timeout = 20s;
  Client first(proxy.connect_string(), resuming);
  first.create("/e", "x", {.mode = CreateMode::ephemeral});
  const SessionCredentials credentials = first.session().credentials();
  EXPECT_EQ(credentials.password.size(), 16u);
  proxy.refuse(true);  // So that the first client cannot end the session when it is closed.
  proxy.cut();
  first.close();
  resuming.resume = credentials;
  const Client second(server.connect_string(), resuming);
  const Session session = second.connect({.deadline = testkit::soon()});
  EXPECT_EQ(session.id(), credentials.id);
  EXPECT_EQ(second.exists("/e")->ephemeral_owner, credentials.id);
}

TEST_F(SessionTest, ASessionThatIsGoneCannotBeResumed) {
  SessionCredentials credentials;
  {
    const Client first(server.connect_string(), {.session_timeout = 10s});  // It ends by nothing else.
    credentials = first.connect().credentials();
    expire(first.session());
  }
  for (const bool known : {true, false}) {
    ClientOptions resuming = options();
    resuming.resume = credentials;
    if (!known) resuming.resume->password.assign(16, 'x');
    proxy.refuse(true);  // Until its first session was looked at.
    const Client second(proxy.connect_string(), resuming);
    const Session resumed = second.session();
    Log log(second);
    proxy.refuse(false);
    const StateChange connected = log.until(ConnectionState::connected);
    EXPECT_NE(connected.session.id(), credentials.id);
    EXPECT_NE(connected.session, resumed);
    EXPECT_EQ(resumed.state(), ConnectionState::lost);
  }
}

TEST_F(SessionTest, CredentialsAreNotInErrors) {
  const Client client = direct();
  const std::string password = client.connect().credentials().password;
  try {
    client.get("/missing");
    FAIL();
  } catch (const zkclient::Error& error) {
    EXPECT_EQ(std::string(error.what()).find(password), std::string::npos);
  }
}

TEST_F(SessionTest, AServerRestartKeepsTheSession) {
  // Long enough for a restart on a busy machine.
  const Client client(server.connect_string(), {.session_timeout = 30s});
  const Session session = client.connect();
  client.create("/e", "", {.mode = CreateMode::ephemeral});
  for (int i = 0; i < 3; ++i) {
    server.restart();
    client.sync("/", {.deadline = testkit::soon()});
    ASSERT_EQ(client.session(), session) << "round " << i;
  }
  EXPECT_EQ(client.exists("/e")->ephemeral_owner, session.id());
}

TEST_F(SessionTest, AWipedServerEndsTheSession) {
  const Client client(server.connect_string(), {.session_timeout = 8s});  // No write is lost because the server pauses.
  const Session old = client.connect();
  for (int i = 0; i < 20; ++i)
    client.create(Path("/n" + std::to_string(i)));
  Log log(client);
  log.until(ConnectionState::connected);
  server.restart_wiped();
  EXPECT_EQ(log.until(ConnectionState::lost).session, old);
  const StateChange connected = log.until(ConnectionState::connected);
  EXPECT_NE(connected.session, old);
  EXPECT_FALSE(client.exists("/n0"));
  client.create("/n0");
}

TEST_F(SessionTest, SuspendedForAWholeTimeoutIsLost) {
  const auto begin = SteadyClock::now();  // Before it hears the server for the last time.
  const Client client = with(brief);
  const Session old = client.connect();
  Log log(client);
  log.until(ConnectionState::connected);
  proxy.refuse(true);
  proxy.cut();
  log.until(ConnectionState::suspended);
  EXPECT_EQ(log.next().state, ConnectionState::lost);
  EXPECT_GE(SteadyClock::now() - begin, brief - 200ms) << "given up too early";
  EXPECT_TRUE(testkit::stopped(old.lost()));
  EXPECT_EQ(log.next().state, ConnectionState::connecting);
  proxy.refuse(false);
  EXPECT_NE(log.until(ConnectionState::connected).session.id(), old.id());
}

TEST_F(SessionTest, AGivenUpSessionIsClosedAtTheServersOnceTheyServe) {
  expect_given_up_session_to_be_closed(with(brief));
}

TEST_F(SessionTest, AGivenUpSessionIsClosedOverIPv6Too) {
  const testkit::Ipv6Door door(proxy.connect_string());
  if (!door.open()) GTEST_SKIP() << "no IPv6";
  expect_given_up_session_to_be_closed(Client(door.connect_string(), {.session_timeout = brief}));
}

// Its server was silent when it was to be closed, while the client's own connection lasts.
TEST_F(SessionTest, AGivenUpSessionIsClosedLaterIfThatFailsAtFirst) {
  const Client client = with(brief);
  const Session old = client.connect();
  client.create("/e", "", {.mode = CreateMode::ephemeral});
  const std::size_t closes = proxy.request_count(RequestType::close_session);
  testkit::cut_off_and_keep_session(client, proxy, server);
  ASSERT_TRUE(testkit::stopped(old.lost()));
  zktesting::Fault lost = proxy.drop_next_request(RequestType::close_session);
  proxy.refuse(false);
  ASSERT_TRUE(lost.wait(testkit::patience));
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::close_session, closes + 2, testkit::patience));
  EXPECT_TRUE(eventually([&] { return !client.exists("/e", {.deadline = testkit::soon()}); }));
}

// Its server goes before it is connected for that, while the client finds another one at once.
TEST_F(SessionTest, AGivenUpSessionIsClosedAtTheNextServerIfTheFirstOneGoes) {
  zktesting::Proxy next(server.connect_string());
  next.refuse(true);
  const Client client(proxy.connect_string() + "," + next.connect_string(), {.session_timeout = brief});
  const Session old = client.connect();
  testkit::cut_off_and_keep_session(client, proxy, server);
  ASSERT_TRUE(testkit::stopped(old.lost()));
  auto own = proxy.hold_next_reply(RequestType::connect);
  proxy.refuse(false);
  ASSERT_TRUE(own.wait(testkit::patience));
  const auto to_close = proxy.hold_next_reply(RequestType::connect);
  own.release();
  ASSERT_TRUE(to_close.wait(testkit::patience));
  next.refuse(false);
  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(next.wait_for_requests(RequestType::close_session, 1, testkit::patience));
}

TEST_F(SessionTest, HoldersAreToldBeforeTheirSession) {
  const Client client = with(calm);
  const Session session = client.connect();
  zkrecipes::Mutex mutex(client, "/lock");
  const zkrecipes::Lease lease = mutex.acquire({.deadline = testkit::soon()});
  Box<std::string> told;
  const std::stop_callback of_session(session.lost(), [&] { told.put("session"); });
  const std::stop_callback of_lease(lease.lost(), [&] { told.put("lease"); });
  EXPECT_EQ(error_of([&] { client.add_auth("no-such-scheme", "x"); }), Errc::auth_failed);
  EXPECT_EQ(told.take(), "lease");
  EXPECT_EQ(told.take(), "session");
}

// That server closes it by itself.
TEST_F(SessionTest, AnExpiredSessionIsNotResumedToBeClosed) {
  const Client client = with(calm);
  const Session old = client.connect();
  proxy.refuse(true);  // One that came back in the very instant of the end would be left without an answer.
  expire(old);
  proxy.refuse(false);
  ASSERT_TRUE(testkit::stopped(old.lost()));
  const Session next = client.connect();
  client.sync("/");
  EXPECT_EQ(proxy.request_count(RequestType::close_session), 0u);
  EXPECT_EQ(client.session(), next);
}

TEST_F(SessionTest, ASilentServerIsNoticedAndLost) {
  const Client client = with(brief);
  const Session old = client.connect();
  Log log(client);
  log.until(ConnectionState::connected);
  proxy.stall(zktesting::Direction::both);
  EXPECT_EQ(log.next().state, ConnectionState::suspended);
  EXPECT_EQ(log.next().state, ConnectionState::lost);
  proxy.unstall(zktesting::Direction::both);
  EXPECT_NE(log.until(ConnectionState::connected).session.id(), old.id());
}

TEST_F(SessionTest, FiveSessionsInARow) {
  const Client client(proxy.connect_string(), {.session_timeout = 10s});  // They end by nothing else.
  std::set<std::int64_t> ids;
  Log log(client);
  for (int i = 0; i < 5; ++i) {
    const Session session = log.until(ConnectionState::connected).session;
    EXPECT_TRUE(ids.insert(session.id()).second);
    expire(session);
    EXPECT_EQ(log.until(ConnectionState::lost).session, session);
  }
  const Session last = log.until(ConnectionState::connected).session;
  EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 0; }));
  EXPECT_EQ(last, client.session());
}

TEST_F(SessionTest, ClosingWhileSuspendedOrBetweenSessionsIsPrompt) {
  for (const auto limit : {0ms, 300ms, 2500ms}) {
    Client client = proxied();
    client.connect();
    proxy.refuse(true);
    proxy.cut();
    EXPECT_EQ(error_of([&] { client.sync("/", {.deadline = SteadyClock::now() + limit}); }), Errc::deadline_exceeded);
    const auto begin = SteadyClock::now();
    client.close();
    EXPECT_LT(SteadyClock::now() - begin, 30s);
    proxy.refuse(false);
  }
}

TEST_F(SessionTest, WithoutLeasesTheLeaseClockClaimsNothing) {
  const Client client = with(calm);
  const Session session = client.connect();
  EXPECT_LE(session.valid_until(), zkclient::BootClock::now());
  EXPECT_EQ(session.state(), ConnectionState::connected);
}

TEST_F(SessionTest, AcknowledgedWritesProveTheSession) {
  using zkclient::BootClock;
  const Client client = with(calm);
  const Session session = client.connect();
  EXPECT_EQ(session.proven_at(), BootClock::time_point()) << "nothing was written yet";
  const auto begin = BootClock::now();
  client.create("/node", "");
  const auto proven = session.proven_at();
  EXPECT_GE(proven, begin);
  EXPECT_LE(proven, BootClock::now());
  EXPECT_TRUE(client.exists("/node"));
  std::error_code error;
  client.create("/node", "", {}, {}, error);
  EXPECT_EQ(error, Errc::node_exists);
  EXPECT_EQ(session.proven_at(), proven) << "a refusal is not counted";
  client.remove("/node");
  EXPECT_GT(session.proven_at(), proven);
}

}  // namespace
