#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <zktesting/expire.hpp>

#include "tests/support/given_up.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::Created;
using zkclient::CreateOptions;
using zkclient::ErrorKind;
using zkclient::NodeData;
using zkclient::OperationResult;
using zktesting::HeldReply;

const testkit::OnRealServers client_on_real_servers{
    "ClientFaultsTest.FiveOutagesInARow",
    "ClientFaultsTest.AReconfigWhoseReplyIsLostIsInDoubt",
    "Each/WriteFaultsTest.LostReplyIsInDoubtAndAppliedOnce/create",
    "Each/WriteFaultsTest.LostRequestIsInDoubtAndNotApplied/commit",
    "ProtectedCreateTest.ResolvesLostRepliesAndRequestsWithExactlyOneNode",
    "GuaranteedDeleteTest.SurvivesLostRepliesAndRequests"};

class ClientFaultsTest : public testkit::FaultTest {
 protected:
  // The create request that the client sends: with a Stat in the reply.
  static constexpr RequestType create_request = RequestType::create2;

  /// As proxied(), for what must not lose its connection where it loses none: on a busy machine everybody may be silent
  /// for a second or two.
  Client steady(std::chrono::milliseconds timeout = 20s) {
    return Client(proxy.connect_string(), {.session_timeout = timeout, .server_tick = testkit::server_tick});
  }
  /// The error of a call that is sent and whose reply is `held` until its deadline. A busy machine may not even send it
  /// in time: once more, with more time.
  static std::optional<Error> missed_deadline(const HeldReply& held,
                                              const std::function<void(const CallOptions&)>& call) {
    std::optional<Error> error;
    for (const auto limit : {500ms, 5000ms}) {
      error.reset();
      try {
        call({.deadline = SteadyClock::now() + limit});
      } catch (const Error& caught) {
        error = caught;
      }
      if (!error || error->errc() != Errc::deadline_exceeded || held.happened()) break;
    }
    return error;
  }
  void disconnect(const Client& client) {
    proxy.refuse(true);
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return client.session().state() != ConnectionState::connected; }));
  }

  const Client observer{server.connect_string(), {.session_timeout = 20s}};
};

// One writing operation, and how to tell whether it happened.
struct Write {
  const char* name;
  RequestType request;
  std::function<void(const Client&, const CallOptions&)> blocking;
  std::function<void(const Client&, std::function<void(std::error_code)>)> asynchronous;
  std::function<int(const Client&)> applied;  // How often.
};

const Write writes[] = {
    {"create", RequestType::create2,
     [](const Client& c, const CallOptions& call) {
       c.create("/w/new-", "", {.mode = CreateMode::persistent_sequential}, call);
     },
     [](const Client& c, std::function<void(std::error_code)> done) {
       c.async_create("/w/new-", "", {.mode = CreateMode::persistent_sequential},
                      [done](const Result<Created>& result) { done(result.code()); });
     },
     [](const Client& c) { return c.exists("/w")->children_count - 1; }},
    {"set", RequestType::set_data,
     [](const Client& c, const CallOptions& call) { c.set("/w/node", "new", any_version, call); },
     [](const Client& c, std::function<void(std::error_code)> done) {
       c.async_set("/w/node", "new", any_version, [done](const Result<Stat>& result) { done(result.code()); });
     },
     [](const Client& c) { return c.exists("/w/node")->version; }},
    {"remove", RequestType::remove,
     [](const Client& c, const CallOptions& call) { c.remove("/w/node", any_version, call); },
     [](const Client& c, std::function<void(std::error_code)> done) {
       c.async_remove("/w/node", any_version, [done](const Result<void>& result) { done(result.code()); });
     },
     [](const Client& c) { return c.exists("/w/node") ? 0 : 1; }},
    {"commit", RequestType::multi,
     [](const Client& c, const CallOptions& call) { c.commit(Transaction().check("/w").set("/w/node", "new"), call); },
     [](const Client& c, std::function<void(std::error_code)> done) {
       c.async_commit(Transaction().check("/w").set("/w/node", "new"),
                      [done](const Result<std::vector<OperationResult>>& result) { done(result.code()); });
     },
     [](const Client& c) { return c.exists("/w/node")->version; }},
    {"set_acl", RequestType::set_acl,
     [](const Client& c, const CallOptions& call) { c.set_acl("/w/node", zkclient::open_acl(), any_version, call); },
     [](const Client& c, std::function<void(std::error_code)> done) {
       c.async_set_acl("/w/node", zkclient::open_acl(), any_version,
                       [done](const Result<void>& result) { done(result.code()); });
     },
     [](const Client& c) { return c.exists("/w/node")->acl_version; }},
};

class WriteFaultsTest : public ClientFaultsTest, public ::testing::WithParamInterface<Write> {
 protected:
  void SetUp() override {
    observer.create("/w");
    observer.create("/w/node", "old");
    client.connect();
  }
  // Nothing is sent a second time, now or after the reconnection.
  void expect_sent_once(const Client& sender) {
    sender.sync("/", patient());
    EXPECT_EQ(proxy.request_count(GetParam().request), 1u);
  }
  void expect_sent_once() { expect_sent_once(client); }
  const Client client = steady();
};

TEST_P(WriteFaultsTest, LostReplyIsInDoubtAndAppliedOnce) {
  const Fault fault = proxy.drop_next_reply(GetParam().request);
  EXPECT_EQ(error_of([&] { GetParam().blocking(client, patient()); }), Errc::in_doubt);
  EXPECT_TRUE(fault.wait(testkit::patience));
  expect_sent_once();
  EXPECT_EQ(GetParam().applied(observer), 1);
}

TEST_P(WriteFaultsTest, LostReplyIsInDoubtAsynchronously) {
  const Fault fault = proxy.drop_next_reply(GetParam().request);
  Box<std::error_code> done;
  GetParam().asynchronous(client, [&](std::error_code code) { done.put(code); });
  EXPECT_EQ(done.take(), ErrorKind::in_doubt);
  EXPECT_TRUE(fault.wait(testkit::patience));
  expect_sent_once();
  EXPECT_EQ(GetParam().applied(observer), 1);
  EXPECT_TRUE(done.empty());
}

TEST_P(WriteFaultsTest, LostRequestIsInDoubtAndNotApplied) {
  const Fault fault = proxy.drop_next_request(GetParam().request);
  EXPECT_EQ(error_of([&] { GetParam().blocking(client, patient()); }), Errc::in_doubt);
  EXPECT_TRUE(fault.wait(testkit::patience));
  expect_sent_once();
  EXPECT_EQ(GetParam().applied(observer), 0);
}

TEST_P(WriteFaultsTest, DeadlineAfterItWasSentIsInDoubt) {
  auto held = proxy.hold_next_reply(GetParam().request);
  const auto begin = SteadyClock::now();
  const auto error = missed_deadline(held, [&](const CallOptions& call) { GetParam().blocking(client, call); });
  ASSERT_TRUE(error) << "succeeded";
  EXPECT_EQ(error->errc(), Errc::in_doubt) << error->what();
  EXPECT_NE(error->detail().find("deadline"), std::string::npos) << error->what();
  EXPECT_LT(SteadyClock::now() - begin, 12s) << "the connection is given up after 13 s";
  ASSERT_TRUE(held.wait(testkit::patience));
  EXPECT_EQ(GetParam().applied(observer), 1);
  held.release();  // The late reply hurts nobody.
  expect_sent_once();
}

TEST_P(WriteFaultsTest, StopRequestAfterItWasSentIsInDoubt) {
  auto held = proxy.hold_next_reply(GetParam().request);
  std::stop_source source;
  std::thread stopper([&] {
    EXPECT_TRUE(held.wait(testkit::patience));
    source.request_stop();
  });
  EXPECT_EQ(error_of([&] { GetParam().blocking(client, {.deadline = testkit::soon(), .stop = source.get_token()}); }),
            Errc::in_doubt);
  stopper.join();
  held.release();
  expect_sent_once();
}

TEST_P(WriteFaultsTest, WhatWaitedForAConnectionIsNotInDoubt) {
  disconnect(client);
  EXPECT_EQ(error_of([&] { GetParam().blocking(client, {.deadline = SteadyClock::now() + 100ms}); }),
            Errc::deadline_exceeded);
  EXPECT_EQ(GetParam().applied(observer), 0);
  EXPECT_EQ(proxy.request_count(GetParam().request), 0u);
  std::thread healer([&] { proxy.refuse(false); });
  GetParam().blocking(client, patient());
  healer.join();
  EXPECT_EQ(GetParam().applied(observer), 1);
}

TEST_P(WriteFaultsTest, SilentServerIsInDoubtAfterTheConnectionIsGivenUp) {
  const Client hasty = steady(6s);  // The server may pause, and yet the session must not end before the write is done.
  hasty.connect(patient());
  // From this reply on, the connection is silent.
  auto held = proxy.hold_next_reply(GetParam().request);
  EXPECT_EQ(error_of([&] { GetParam().blocking(hasty, patient()); }), Errc::in_doubt);
  EXPECT_TRUE(eventually([&] { return GetParam().applied(observer) == 1; }));
  held.release();
  expect_sent_once(hasty);
}

INSTANTIATE_TEST_SUITE_P(Each, WriteFaultsTest, ::testing::ValuesIn(writes),
                         [](const auto& param) { return std::string(param.param.name); });

// ---- Reads ----------------------------------------------------------------------------------------------------------

TEST_F(ClientFaultsTest, ReadsAreRepeatedAndSucceed) {
  observer.create("/n", "x");
  const Client client = steady();
  client.connect();
  const std::pair<RequestType, std::function<void()>> reads[] = {
      {RequestType::get_data, [&] { EXPECT_EQ(client.get("/n", patient()).data, "x"); }},
      {RequestType::exists, [&] { EXPECT_TRUE(client.exists("/n", patient())); }},
      {RequestType::get_children2, [&] { EXPECT_EQ(client.children("/n", patient()).names.size(), 0u); }},
      {RequestType::sync, [&] { client.sync("/n", patient()); }},
      {RequestType::get_data,
       [&] {
         EXPECT_TRUE(client
                         .get_and_watch(
                             "/n", [](const WatchEvent&) {}, patient())
                         .watch()
                         .armed());
       }},
  };
  for (const auto& [type, read] : reads) {
    const std::size_t before = proxy.request_count(type);
    const Fault reply = proxy.drop_next_reply(type);
    const Fault request = proxy.drop_next_request(type);
    read();
    EXPECT_TRUE(reply.happened() || request.happened());
    read();
    EXPECT_TRUE(reply.happened() && request.happened());
    EXPECT_EQ(proxy.request_count(type), before + 4);
  }
}

TEST_F(ClientFaultsTest, ReadsGiveUpWhenTheirBudgetIsSpent) {
  observer.create("/n", "x");
  ClientOptions two = options();
  two.session_timeout = 20s;
  two.retry = {.initial = 1ms, .max = 1ms, .max_attempts = 2};
  const Client client(proxy.connect_string(), two);
  client.connect();
  const Fault first = proxy.drop_next_reply(RequestType::get_data);
  const Fault second = proxy.drop_next_reply(RequestType::get_data);
  try {
    client.get("/n", patient());
    FAIL() << "succeeded";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::connection_loss) << error.what();
    EXPECT_EQ(error.kind(), ErrorKind::retryable);
    EXPECT_NE(error.detail().find("2 attempts"), std::string::npos) << error.what();
  }
  EXPECT_EQ(client.get("/n", patient()).data, "x");
}

TEST_F(ClientFaultsTest, StallsInOneDirectionAreSurvived) {
  observer.create("/n", "x");
  const Client client = proxied();
  for (const Direction direction : {Direction::to_server, Direction::to_client}) {
    client.connect(patient());
    proxy.stall(direction);
    Box<Result<NodeData>> got;
    client.async_get(
        "/n", [&](Result<NodeData> result) { got.put(std::move(result)); }, patient());
    ASSERT_TRUE(eventually([&] { return client.session().state() != ConnectionState::connected; }))
        << "the silence was not noticed";
    proxy.unstall(direction);
    EXPECT_EQ(got.take()->data, "x");
  }
}

// ---- Connecting -----------------------------------------------------------------------------------------------------

TEST_F(ClientFaultsTest, AnOutageDoesNotBecomeAStorm) {
  Box<Errc> ended;
  ClientOptions calm = options();
  calm.session_timeout = 20s;
  const Client client(proxy.connect_string(), calm);
  client.connect();
  // Ops that wait must not make the client connect more often.
  const auto ask = [&] {
    for (int i = 0; i < 500; ++i) {
      client.async_get("/", [&](const Result<NodeData>& result) { ended.put(result ? Errc{} : result.error().errc()); },
                       {.deadline = SteadyClock::now() + 2s});
    }
  };
  ask();
  // Accept and reset, so that the attempts can be counted.
  server.kill();
  const std::size_t before = proxy.accepted_connections();
  ask();
  EXPECT_TRUE(eventually([&] { return ended.size() == 1000; }));
  EXPECT_TRUE(eventually([&] { return proxy.accepted_connections() > before; })) << "it does not try";
  EXPECT_LT(proxy.accepted_connections() - before, 200u) << "in about two seconds";
}

// As a server does that is just starting: it accepts, and says nothing.
TEST_F(ClientFaultsTest, ASilentServerIsGivenUpSoonAndTriedAgain) {
  ClientOptions calm = options();
  calm.session_timeout = 24s;
  proxy.stall(Direction::to_client);
  const Client client(proxy.connect_string(), calm);
  ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() >= 1; }));
  EXPECT_TRUE(eventually([&] { return proxy.accepted_connections() >= 2; }, 12s)) << "the C client would wait for 16 s";
  proxy.unstall(Direction::to_client);
  EXPECT_TRUE(client.connect({.deadline = testkit::soon()}).id() != 0);
}

TEST_F(ClientFaultsTest, OneSessionIsOneConnection) {
  const auto end = testkit::soon();
  for (int quick = 0; quick < 3;) {
    const auto begin = SteadyClock::now();
    ASSERT_LT(begin, end) << "no session is granted within a second";
    const std::size_t before = proxy.accepted_connections();
    steady(30s).connect(patient());
    // An attempt that takes a second is given up, and the next one is another connection.
    if (SteadyClock::now() - begin > 900ms) continue;
    EXPECT_EQ(proxy.accepted_connections(), before + 1);
    ++quick;
  }
}

TEST_F(ClientFaultsTest, WaitingCallsHonourTheirDeadlines) {
  const Client client = proxied();
  client.connect();
  disconnect(client);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto begin = SteadyClock::now();
      EXPECT_EQ(error_of([&] { client.get("/", {.deadline = begin + i * 100ms}); }), Errc::deadline_exceeded);
      const auto took = SteadyClock::now() - begin;
      EXPECT_GE(took, i * 100ms);
      EXPECT_LT(took, i * 100ms + 10s);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

TEST_F(ClientFaultsTest, FiveOutagesInARow) {
  const Client client = steady();
  for (int i = 0; i < 5; ++i) {
    const std::string path = "/n" + std::to_string(i);
    client.create(path, "", {}, patient());
    server.kill();
    Box<Result<NodeData>> got;
    client.async_get(
        path, [&](Result<NodeData> result) { got.put(std::move(result)); }, patient());
    server.start();
    EXPECT_TRUE(got.take());
  }
}

TEST_F(ClientFaultsTest, WatchesSurviveFlapping) {
  observer.create("/n", "0");
  const Client client = steady();
  Box<WatchEventType> events;
  for (int round = 1; round <= 10; ++round) {
    const auto watched = client.get_and_watch(
        "/n", [&](const WatchEvent& event) { events.put(event.type); }, patient());
    proxy.cut();
    observer.set("/n", std::to_string(round));  // Perhaps while the client is away.
    EXPECT_EQ(events.take(), WatchEventType::data_changed);
  }
  EXPECT_TRUE(events.empty());
}

// ---- Protected create -----------------------------------------------------------------------------------------------

class ProtectedCreateTest : public ClientFaultsTest {
 protected:
  void SetUp() override {
    observer.create("/d");
    client.connect();
  }
  static CreateOptions options(CreateMode mode) { return {.mode = mode, .protection = true}; }
  std::vector<std::string> nodes() { return observer.children("/d").names; }
  const Client client = steady();
};

TEST_F(ProtectedCreateTest, ResolvesLostRepliesAndRequestsWithExactlyOneNode) {
  std::size_t made = 0;
  for (const CreateMode mode : {CreateMode::ephemeral_sequential, CreateMode::persistent_sequential,
                                CreateMode::ephemeral, CreateMode::persistent}) {
    for (const bool reply : {true, false}) {
      for (const bool blocking : {true, false}) {
        const Fault fault = reply ? proxy.drop_next_reply(create_request) : proxy.drop_next_request(create_request);
        Created created;
        if (blocking) {
          created = client.create("/d/n-", "x", options(mode), patient());
        } else {
          Box<Result<Created>> box;
          client.async_create(
              "/d/n-", "x", options(mode), [&](Result<Created> result) { box.put(std::move(result)); }, patient());
          created = box.take().value();
        }
        EXPECT_TRUE(fault.wait(testkit::patience));
        ++made;
        const auto stat = observer.exists(created.path);
        ASSERT_TRUE(stat) << created.path;
        EXPECT_EQ(stat->czxid, created.stat.czxid);
        EXPECT_EQ(nodes().size(), made);
      }
    }
  }
}

TEST_F(ProtectedCreateTest, SeveralLossesInARowAreResolved) {
  std::vector<Fault> faults;
  for (int i = 0; i < 3; ++i)
    faults.push_back(proxy.drop_next_request(create_request));
  faults.push_back(proxy.drop_next_reply(create_request));
  faults.push_back(proxy.drop_next_reply(RequestType::get_children2));
  client.create("/d/n-", "x", options(CreateMode::ephemeral_sequential), patient());
  for (const Fault& fault : faults)
    EXPECT_TRUE(fault.wait(testkit::patience));
  EXPECT_EQ(nodes().size(), 1u);
}

TEST_F(ProtectedCreateTest, AnEphemeralNodeIsNeverLeftToAnOlderSession) {
  // The session ends between the create and its resolution.
  const Session old = client.session();
  auto held = proxy.hold_next_reply(create_request);
  Box<Result<Created>> created;
  client.async_create(
      "/d/n-", "x", options(CreateMode::ephemeral_sequential),
      [&](Result<Created> result) { created.put(std::move(result)); }, patient());
  ASSERT_TRUE(held.wait(testkit::patience));
  ASSERT_EQ(nodes().size(), 1u);
  const auto credentials = old.credentials();
  zktesting::expire(server.connect_string(), credentials.id, credentials.password);
  held.release();
  const Result<Created> result = created.take();
  if (result) {  // The reply got through before the session's end was known, or it was made again.
    const bool stale = result->stat.ephemeral_owner == old.id();
    EXPECT_EQ(nodes().size(), stale ? 0u : 1u);
  } else {
    EXPECT_EQ(result.code(), ErrorKind::session_lost) << result.error().what();
    EXPECT_EQ(nodes().size(), 0u);
  }
}

// Its session, which would see it, is over; and whether it comes to light later nobody knows.
TEST_F(ProtectedCreateTest, IsNotRepeatedOnAnotherSession) {
  const Session old = client.session();
  const Fault fault = proxy.drop_next_request(create_request);
  Box<Result<Created>> created;
  proxy.refuse(true);  // From the cut on.
  client.async_create(
      "/d/n-", "x", options(CreateMode::persistent_sequential),
      [&](Result<Created> result) { created.put(std::move(result)); }, patient());
  ASSERT_TRUE(fault.wait(testkit::patience));
  const auto credentials = old.credentials();
  zktesting::expire(server.connect_string(), credentials.id, credentials.password);
  proxy.refuse(false);
  EXPECT_EQ(created.take().code(), Errc::in_doubt);
  EXPECT_NE(client.connect(patient()), old);
  EXPECT_EQ(proxy.request_count(create_request), 1u);
  EXPECT_TRUE(nodes().empty());
}

// As if a server that stood still had handed the create on after the look for its node.
TEST_F(ProtectedCreateTest, WhatALostSessionBringsToLightLaterIsRemoved) {
  const Client brief = proxied();
  const Session old = brief.connect(patient());
  const std::size_t looks = proxy.request_count(RequestType::get_children2);
  const Fault fault = proxy.drop_next_reply(create_request);
  proxy.refuse(true);  // From the cut on.
  Box<Result<Created>> created;
  brief.async_create(
      "/d/n-", "x", options(CreateMode::persistent), [&](Result<Created> result) { created.put(std::move(result)); },
      patient());
  ASSERT_TRUE(fault.wait(testkit::patience));
  ASSERT_EQ(nodes().size(), 1u);
  const Path node = Path("/d") / nodes().front();
  observer.remove(node);
  const auto credentials = old.credentials();
  zktesting::expire(server.connect_string(), credentials.id, credentials.password);
  proxy.refuse(false);
  EXPECT_EQ(created.take().code(), Errc::in_doubt);
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::get_children2, looks + 2, testkit::patience));
  brief.sync("/", patient());  // Behind the look.
  observer.create(node, "x");
  EXPECT_TRUE(eventually([&] { return nodes().empty(); }));
}

TEST_F(ProtectedCreateTest, ADeadlineInTheMiddleLeavesNothingBehind) {
  for (const CreateMode mode : {CreateMode::ephemeral_sequential, CreateMode::persistent_sequential}) {
    auto held = proxy.hold_next_reply(create_request);
    const auto error =
        missed_deadline(held, [&](const CallOptions& call) { client.create("/d/n-", "x", options(mode), call); });
    ASSERT_TRUE(error) << "succeeded";
    EXPECT_EQ(error->errc(), Errc::in_doubt) << error->what();
    ASSERT_TRUE(held.wait(testkit::patience));
    EXPECT_EQ(nodes().size(), 1u);
    held.release();
    EXPECT_TRUE(eventually([&] { return nodes().empty(); })) << "the node was not cleaned up";
  }
}

TEST_F(ProtectedCreateTest, ParentsAreMadeInSpiteOfLosses) {
  const Fault fault = proxy.drop_next_reply(RequestType::create_container);
  const CreateOptions careful{.mode = CreateMode::ephemeral_sequential, .parents = true, .protection = true};
  const Created created = client.create("/d/a/b/n-", "x", careful, patient());
  EXPECT_TRUE(observer.exists(created.path));
  EXPECT_EQ(observer.children("/d/a/b").names.size(), 1u);
}

// ---- Guaranteed delete ----------------------------------------------------------------------------------------------

class GuaranteedDeleteTest : public ClientFaultsTest {
 protected:
  bool gone(const Path& path) {
    return eventually([&] { return !observer.exists(path); });
  }
};

TEST_F(GuaranteedDeleteTest, SurvivesLostRepliesAndRequests) {
  const Client client = steady();
  client.create("/n");
  const Fault request = proxy.drop_next_request(RequestType::remove);
  const Fault reply = proxy.drop_next_reply(RequestType::remove);
  client.remove_in_background("/n");
  EXPECT_TRUE(request.wait(testkit::patience));
  EXPECT_TRUE(reply.wait(testkit::patience));
  EXPECT_TRUE(gone("/n"));
}

TEST_F(GuaranteedDeleteTest, RefusesTheSessionOfAnotherClient) {
  const Client client = steady();
  EXPECT_EQ(error_of([&] { client.remove_in_background("/n", observer.connect()); }), Errc::invalid_argument);
  client.remove_in_background("/n", client.connect());
}

TEST_F(GuaranteedDeleteTest, SurvivesAnOutage) {
  const Client client = steady();
  client.create("/n");
  disconnect(client);
  client.remove_in_background("/n");
  EXPECT_TRUE(observer.exists("/n"));
  proxy.refuse(false);
  EXPECT_TRUE(gone("/n"));
}

TEST_F(GuaranteedDeleteTest, GoesOnUntilItIsAllowed) {
  const Client client = steady();
  client.create("/n");
  client.create("/n/child");
  client.remove_in_background("/n");
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::remove, 2, testkit::patience));
  EXPECT_TRUE(observer.exists("/n"));
  observer.remove("/n/child");
  EXPECT_TRUE(gone("/n"));
}

TEST_F(GuaranteedDeleteTest, OfANodeThatIsNotThereDoesNothing) {
  const Client client = steady();
  client.connect();
  client.remove_in_background("/missing");
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::exists, 1, testkit::patience));
  client.sync();
  EXPECT_EQ(proxy.request_count(RequestType::exists), 1u);
  EXPECT_EQ(proxy.request_count(RequestType::remove), 0u);
}

TEST_F(GuaranteedDeleteTest, ANodeMadeInItsPlaceStays) {
  const Client client = steady();
  client.create("/n");
  const Fault reply = proxy.drop_next_reply(RequestType::remove);
  proxy.refuse(true);
  client.remove_in_background("/n");
  ASSERT_TRUE(reply.wait(testkit::patience));
  observer.create("/n", "somebody else's");
  proxy.refuse(false);
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::exists, 2, testkit::patience));
  client.sync("/", patient());
  EXPECT_EQ(proxy.request_count(RequestType::remove), 1u);
  EXPECT_EQ(observer.get("/n").data, "somebody else's");
}

TEST_F(GuaranteedDeleteTest, BoundToASessionItEndsWithIt) {
  const Client client = steady();
  const Session old = client.connect();
  client.create("/n", "", {.mode = CreateMode::ephemeral});
  disconnect(client);
  client.remove_in_background("/n", old);
  const auto credentials = old.credentials();
  zktesting::expire(server.connect_string(), credentials.id, credentials.password);
  observer.create("/n", "somebody else's");
  proxy.refuse(false);
  ASSERT_TRUE(eventually([&] { return client.session() != old && client.session().id() != 0; }));
  client.sync("/", patient());
  EXPECT_EQ(proxy.request_count(RequestType::remove), 0u) << "it was sent on another session";
  EXPECT_TRUE(observer.exists("/n"));
}

TEST_F(GuaranteedDeleteTest, DoesNotKeepAClientFromClosing) {
  Client client = steady();
  client.create("/n");
  client.create("/n/child");
  client.remove_in_background("/n");  // Will be refused, again and again.
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::remove, 3, testkit::patience));
  const auto begin = SteadyClock::now();
  client.close();
  EXPECT_LT(SteadyClock::now() - begin, 10s);
}

// ---- A flapping link ------------------------------------------------------------------------------------------------

// A counter whose writes carry their number and name the version that they replace. Whatever the link does, what the
// client is told must be true.
TEST_F(ClientFaultsTest, EveryResultIsTrueWhileTheLinkFlaps) {
  observer.create("/counter", "0");
  const Client client = steady();  // Of a session that is given up a write may come after the look for it.
  client.connect();
  std::atomic<bool> ended{false};
  std::thread flapper([&] {
    for (int i = 0; i < 20 && !ended; ++i) {
      const std::size_t seen = proxy.request_count(RequestType::any);
      // In the middle of the traffic, wherever that is.
      (void)proxy.wait_for_requests(RequestType::any, seen + 7 + static_cast<std::size_t>(i % 5), 2s);
      proxy.cut();
    }
  });
  int value = 0;
  int doubts = 0;
  std::int32_t version = 0;
  for (int i = 0; i < 200; ++i) {
    std::error_code error;
    const Stat stat = client.set("/counter", std::to_string(value + 1), version, patient(), error);
    if (!error) {
      ++value;
      ++version;
      ASSERT_EQ(stat.version, version);
      continue;
    }
    ASSERT_EQ(error, Errc::in_doubt) << error.message();
    ++doubts;
    client.sync("/counter", patient());
    const NodeData now = client.get("/counter", patient());
    ASSERT_TRUE(now.stat.version == version || now.stat.version == version + 1) << now.stat.version;
    if (now.stat.version == version + 1) {
      ++value;
      ++version;
    }
    ASSERT_EQ(now.data, std::to_string(value));
  }
  ended = true;
  flapper.join();
  EXPECT_EQ(observer.get("/counter").data, std::to_string(value));
  EXPECT_EQ(observer.get("/counter").stat.version, version);
  GTEST_LOG_(INFO) << doubts << " writes were in doubt";
}

// For more than a session timeout the connection that is to close it reaches no server: that proves nothing.
TEST_F(ClientFaultsTest, AGivenUpSessionIsPursuedThoughNoServerIsReachedAtFirst) {
  const Client client = steady();
  const zkclient::Session old = client.connect(patient());
  testkit::cut_off_and_keep_session(client, proxy, server);
  ASSERT_TRUE(testkit::stopped(old.lost()));
  auto own = proxy.hold_next_reply(RequestType::connect);
  proxy.refuse(false);
  ASSERT_TRUE(own.wait(testkit::patience));
  const auto to_close = proxy.hold_next_reply(RequestType::connect);
  own.release();
  ASSERT_TRUE(to_close.wait(testkit::patience));
  proxy.refuse(true);  // What is connected stays.
  testkit::let_age(22s);
  const std::size_t attempts = proxy.request_count(RequestType::connect);
  proxy.refuse(false);
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::connect, attempts + 1, testkit::patience));
  EXPECT_EQ(client.session().state(), ConnectionState::connected) << "it was another connection";
}

// ---- Writes that resolve a lost reply themselves, and those that cannot ---------------------------------------------

TEST_F(ClientFaultsTest, AReconfigWhoseReplyIsLostIsInDoubt) {
  const Client client = steady();
  client.connect();
  const Fault fault = proxy.drop_next_reply(RequestType::reconfig);
  EXPECT_EQ(error_of([&] { client.reconfig({.leaving = {"9"}}, patient()); }), Errc::in_doubt);
  EXPECT_TRUE(fault.wait(testkit::patience));
  client.sync("/", patient());
  EXPECT_EQ(proxy.request_count(RequestType::reconfig), 1u);
}

class ResolvingSetTest : public ClientFaultsTest {
 protected:
  void SetUp() override {
    observer.create("/n", "old");
    client.connect();
    before = observer.get("/n").stat;
  }
  const Client client = steady();
  Stat before;
};

TEST_F(ResolvingSetTest, ALostReplyIsFoundOutToBeSuccess) {
  const Fault fault = proxy.drop_next_reply(RequestType::set_data);
  const Stat stat = client.set_resolving("/n", "new 4711", before, patient());
  EXPECT_TRUE(fault.happened());
  EXPECT_EQ(stat.version, 1);
  EXPECT_EQ(observer.get("/n").stat, stat);
  EXPECT_EQ(proxy.request_count(RequestType::set_data), 1u);
}

TEST_F(ResolvingSetTest, ALostRequestIsSentAgain) {
  const Fault fault = proxy.drop_next_request(RequestType::set_data);
  std::error_code error;
  EXPECT_EQ(client.set_resolving("/n", "new 4711", before, patient(), error).version, 1);
  EXPECT_FALSE(error);
  EXPECT_TRUE(fault.happened());
  EXPECT_EQ(observer.get("/n").data, "new 4711");
}

// A leader that a majority has left answers a sync: so the look goes out behind a transaction, whose reply may be lost, too.
TEST_F(ResolvingSetTest, SeveralLossesInARowAreResolved) {
  const Fault first = proxy.drop_next_request(RequestType::set_data);
  const Fault second = proxy.drop_next_reply(RequestType::set_data);
  const Fault third = proxy.drop_next_reply(RequestType::multi);
  Box<Result<Stat>> results;
  client.async_set_resolving(
      "/n", "new 4711", before, [&](Result<Stat> result) { results.put(std::move(result)); }, patient());
  const auto result = results.take();
  ASSERT_TRUE(result) << result.error().what();
  EXPECT_EQ(result->version, 1);
  EXPECT_TRUE(first.happened() && second.happened() && third.happened());
}

TEST_F(ResolvingSetTest, AnotherWriterIsNeverTakenForOurs) {
  const Fault fault = proxy.drop_next_request(RequestType::set_data);
  proxy.refuse(true);  // From the cut on, until another client has written.
  Box<Result<Stat>> results;
  client.async_set_resolving(
      "/n", "ours 4711", before, [&](Result<Stat> result) { results.put(std::move(result)); }, patient());
  ASSERT_TRUE(fault.wait(testkit::patience));
  observer.set("/n", "theirs");
  proxy.refuse(false);
  EXPECT_EQ(results.take().code(), Errc::bad_version);
  EXPECT_EQ(observer.get("/n").data, "theirs");
}

TEST_F(ResolvingSetTest, WhatCannotBeToldStaysInDoubt) {
  struct Case {
    const char* what;
    std::function<void()> meddle;
  };
  const Case cases[] = {
      {"written again", [&] { observer.set("/n", "theirs"); }},
      {"removed", [&] { observer.remove("/n"); }},
      {"replaced",
       [&] {
         observer.remove("/n");
         observer.create("/n", "ours 4711");
         observer.set("/n", "ours 4711");
       }},
  };
  for (const Case& now : cases) {
    if (!observer.exists("/n")) observer.create("/n");
    before = observer.exists("/n").value();
    const Fault fault = proxy.drop_next_reply(RequestType::set_data);
    proxy.refuse(true);  // From the cut on.
    Box<Result<Stat>> results;
    client.async_set_resolving(
        "/n", "ours 4711", before, [&](Result<Stat> result) { results.put(std::move(result)); }, patient());
    ASSERT_TRUE(fault.wait(testkit::patience));
    now.meddle();
    proxy.refuse(false);
    EXPECT_EQ(results.take().code(), Errc::in_doubt) << now.what;
  }
}

TEST_F(ResolvingSetTest, WithoutALossItIsAnOrdinaryVersionedSet) {
  EXPECT_EQ(client.set_resolving("/n", "one", before, patient()).version, 1);
  EXPECT_EQ(error_of([&] { client.set_resolving("/n", "two", before, patient()); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { client.set_resolving("/n", "", before); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { client.set_resolving("/n", "x", Stat{}); }), Errc::invalid_argument);
}

class RemoveTreeTest : public ClientFaultsTest {
 protected:
  void SetUp() override {
    observer.create("/tree");
    for (int i = 0; i < 40; ++i)
      observer.create(Path("/tree/n" + std::to_string(i)));
    observer.create("/tree/n0/below");
    client.connect();
  }
  const Client client = steady();
};

TEST_F(RemoveTreeTest, LostRepliesAndRequestsAreResolved) {
  const Fault faults[] = {proxy.drop_next_reply(RequestType::remove), proxy.drop_next_request(RequestType::remove),
                          proxy.drop_next_reply(RequestType::get_children2),
                          proxy.drop_next_reply(RequestType::remove)};
  client.remove_tree("/tree", patient());
  EXPECT_FALSE(observer.exists("/tree"));
  for (const Fault& fault : faults)
    EXPECT_TRUE(fault.happened());
}

TEST_F(RemoveTreeTest, SurvivesAFlappingLink) {
  std::atomic<bool> ended{false};
  std::thread flapper([&] {
    for (int i = 0; i < 30 && !ended; ++i) {
      const std::size_t seen = proxy.request_count(RequestType::any);
      (void)proxy.wait_for_requests(RequestType::any, seen + 10, 500ms);
      proxy.cut();
    }
  });
  client.remove_tree("/tree", patient());
  ended = true;
  flapper.join();
  EXPECT_FALSE(observer.exists("/tree"));
}

TEST_F(RemoveTreeTest, EndedInTheMiddleItIsInDoubt) {
  const Client calm = steady();
  calm.connect();
  auto held = proxy.hold_next_reply(RequestType::get_children2);
  Box<std::error_code> codes;
  std::stop_source stop;
  calm.async_remove_tree("/tree", [&](const Result<void>& result) { codes.put(result.code()); },
                         {.deadline = testkit::soon(), .stop = stop.get_token()});
  ASSERT_TRUE(held.wait(testkit::patience));
  stop.request_stop();
  EXPECT_EQ(codes.take(), Errc::cancelled) << "nothing was deleted yet";
  held.release();
  auto reply = proxy.hold_next_reply(RequestType::remove);
  // The first delete is that of the root, which has children.
  std::stop_source again;
  calm.async_remove_tree("/tree", [&](const Result<void>& result) { codes.put(result.code()); },
                         {.deadline = testkit::soon(), .stop = again.get_token()});
  ASSERT_TRUE(reply.wait(testkit::patience));
  again.request_stop();
  EXPECT_EQ(codes.take(), Errc::in_doubt);
  reply.release();
  calm.remove_tree("/tree", patient());
  EXPECT_FALSE(observer.exists("/tree"));
}

// Many requests in flight at each cut: every handler is called once, and no reply is taken for another request's.
TEST_F(ClientFaultsTest, NoReplyIsTakenForAnothersWhenTheLinkIsCutWhileSubmitting) {
  constexpr int nodes = 50;
  for (int i = 0; i < nodes; ++i)
    observer.create(Path("/n" + std::to_string(i)), std::to_string(i));
  const Client client = proxied();
  client.connect();
  std::atomic<bool> ended{false};
  std::thread flapper([&] {
    while (!ended) {
      const std::size_t seen = proxy.request_count(RequestType::any);
      (void)proxy.wait_for_requests(RequestType::any, seen + 40, 100ms);
      proxy.cut();
    }
  });
  constexpr int threads = 2;
  constexpr int rounds = 3000;
  std::vector<std::atomic<int>> calls(threads * rounds);
  std::atomic<int> done{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> submitters;
  for (int t = 0; t < threads; ++t) {
    submitters.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const int node = (i * 7 + t) % nodes;
        const Path path("/n" + std::to_string(node));
        auto& count = calls[static_cast<std::size_t>(t) * rounds + static_cast<std::size_t>(i)];
        const auto finished = [&count, &done] {
          ++count;
          ++done;
        };
        if (i % 3 != 0) {
          client.async_get(
              path,
              [&, finished, node](const Result<NodeData>& result) {
                if (result && result->data != std::to_string(node)) ++wrong;
                finished();
              },
              patient());
        } else if (i % 2 == 0) {
          client.async_exists(
              path,
              [&, finished](const Result<std::optional<Stat>>& result) {
                if (result && !*result) ++wrong;
                finished();
              },
              patient());
        } else {
          client.async_set(
              path, std::to_string(node), any_version,
              [&, finished](const Result<Stat>& result) {
                if (!result && result.code() != Errc::in_doubt) ++wrong;
                finished();
              },
              patient());
        }
        if (i % 64 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& submitter : submitters)
    submitter.join();
  ended = true;
  flapper.join();
  EXPECT_TRUE(eventually([&] { return done == threads * rounds; }, 2min)) << done << " of " << threads * rounds;
  for (const auto& count : calls)
    ASSERT_EQ(count, 1);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
