#include <algorithm>
#include <atomic>
#include <future>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include <zktesting/expire.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"
#include "zkclient/detail/session/loop.hpp"

namespace {

using namespace testkit::words;
using zkclient::Acl;
using zkclient::AclList;
using zkclient::NodeAcl;

class AclTest : public testkit::ServerTest {
 protected:
  static AclList only_creator() { return zkclient::creator_all_acl(); }
};

TEST_F(AclTest, IsReadAndReplaced) {
  const Client client = make_client();
  client.create("/n");
  const NodeAcl before = client.get_acl("/n");
  EXPECT_EQ(before.acl, zkclient::open_acl());
  EXPECT_EQ(before.stat.acl_version, 0);
  const AclList two = {{Acl::read | Acl::admin, "world", "anyone"}, {Acl::all, "ip", "127.0.0.1"}};
  client.set_acl("/n", two, 0);
  const NodeAcl after = client.get_acl("/n");
  EXPECT_EQ(after.acl, two);
  EXPECT_EQ(after.stat.acl_version, 1);
  EXPECT_EQ(error_of([&] { client.set_acl("/n", zkclient::open_acl(), 0); }), Errc::bad_version);
}

TEST_F(AclTest, AllFormsReportErrors) {
  const Client client = make_client();
  std::error_code error;
  (void)client.get_acl("/missing", {}, error);
  EXPECT_EQ(error, Errc::no_node);
  client.set_acl("/missing", zkclient::open_acl(), any_version, {}, error);
  EXPECT_EQ(error, Errc::no_node);
  EXPECT_EQ(error_of([&] { client.set_acl("/missing", {}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { client.set_acl("/missing", zkclient::open_acl(), -2); }), Errc::no_node);
  EXPECT_EQ(error_of([&] {
              client.set_acl("/missing", {{Acl::all, std::string("wor\0ld", 6), "x"}});
            }),
            Errc::invalid_acl);
  client.create("/n");
  EXPECT_EQ(error_of([&] { client.set_acl("/n", {{Acl::all, "no-such-scheme", "x"}}); }), Errc::invalid_acl);
  std::promise<std::error_code> set;
  client.async_set_acl("/n", zkclient::read_only_acl(), any_version,
                       [&](const Result<void>& result) { set.set_value(result.code()); });
  EXPECT_FALSE(set.get_future().get());
  std::promise<AclList> got;
  client.async_get_acl("/n", [&](Result<NodeAcl> result) { got.set_value(result.value().acl); });
  EXPECT_EQ(got.get_future().get(), zkclient::read_only_acl());
}

TEST_F(AclTest, AnIdentityOpensWhatOthersMayNot) {
  const Client alice = make_client();
  alice.add_auth("digest", "alice:secret");
  alice.create("/private", "x", {.acl = only_creator()});
  const Client mallory = make_client();
  EXPECT_EQ(error_of([&] { mallory.get("/private"); }), Errc::no_auth);
  std::error_code error;
  mallory.add_auth("digest", "alice:guessed", {}, error);
  EXPECT_FALSE(error) << "a digest is not checked, it only names somebody else";
  EXPECT_EQ(error_of([&] { mallory.get("/private"); }), Errc::no_auth);
  std::promise<std::error_code> added;
  mallory.async_add_auth("digest", "alice:secret", [&](const Result<void>& result) { added.set_value(result.code()); });
  EXPECT_FALSE(added.get_future().get());
  EXPECT_EQ(mallory.get("/private").data, "x");
  alice.remove("/private");
}

TEST_F(AclTest, IdentitiesAddUp) {
  const Client one = make_client();
  one.add_auth("digest", "one:1");
  one.create("/one", "", {.acl = only_creator()});
  const Client two = make_client();
  two.add_auth("digest", "two:2");
  two.create("/two", "", {.acl = only_creator()});
  two.add_auth("digest", "one:1");
  two.add_auth("digest", "one:1");
  EXPECT_NO_THROW(two.get("/one"));
  EXPECT_NO_THROW(two.get("/two"));
}

TEST_F(AclTest, AddedWhileManyRequestsAreOnTheirWay) {
  const Client client = make_client();
  client.create("/n");
  const std::string value(20'000, 'x');
  std::atomic<int> failures{0};
  std::atomic<int> done{0};
  for (int i = 0; i < 500; ++i) {
    client.async_set("/n", value, any_version,
                     [&](const Result<zkclient::Stat>& result) {
                       if (!result) ++failures;
                       ++done;
                     },
                     {.deadline = testkit::soon()});
    if (i == 250) client.async_add_auth("digest", "late:comer", [&](const Result<void>&) { ++done; });
  }
  EXPECT_TRUE(testkit::eventually([&] { return done == 501; }));
  EXPECT_EQ(failures, 0) << "the authentication was put into the middle of a request";
  client.create("/mine", "", {.acl = only_creator()});
}

TEST_F(AclTest, BadIdentitiesAreRefusedBeforeTheyAreSent) {
  const Client client = make_client();
  EXPECT_EQ(error_of([&] { client.add_auth("", "x"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { client.add_auth(std::string("a\0b", 3), "x"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { client.add_auth("digest", std::string(70'000, 'x')); }), Errc::invalid_argument);
}

TEST_F(AclTest, ARefusedIdentityIsAnErrorThatDoesNotShowIt) {
  const Client client = make_client();
  client.add_auth("digest", "good:one");
  const Session before = client.session();
  try {
    client.add_auth("no-such-scheme", "hunter2");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::auth_failed) << error.what();
    EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(testkit::stopped(before.lost())) << "the C client gives the session up";
  // The next session has what was accepted before, and is not troubled by the other again.
  client.create("/mine", "", {.acl = only_creator()});
  const Session next = client.connect({.deadline = testkit::soon()});
  client.sync("/");
  EXPECT_EQ(next.state(), ConnectionState::connected);
}

TEST_F(AclTest, EnsureNeedsNoRightsWhereNothingIsMissing) {
  const Client client = make_client();
  client.create("/closed");
  client.create("/closed/there");
  client.set_acl("/closed", {{Acl::all & ~Acl::create, "world", "anyone"}});
  EXPECT_NO_THROW(client.ensure("/closed/there"));
  EXPECT_NO_THROW(client.ensure("/closed/there/below"));
  EXPECT_EQ(error_of([&] { client.ensure("/closed/missing"); }), Errc::no_auth);
  EXPECT_EQ(error_of([&] { client.ensure("/closed/missing/below"); }), Errc::no_auth);
  EXPECT_FALSE(client.exists("/closed/missing"));
}

TEST_F(AclTest, ParentsHaveRightsOfTheirOwn) {
  const Client client = make_client();
  const AclList no_admin = {{Acl::all & ~Acl::admin, "world", "anyone"}};
  client.create("/a/b/c", "", {.acl = zkclient::read_only_acl(), .parents = true});
  EXPECT_EQ(client.get_acl("/a").acl, zkclient::open_acl());
  EXPECT_EQ(client.get_acl("/a/b").acl, zkclient::open_acl());
  EXPECT_EQ(client.get_acl("/a/b/c").acl, zkclient::read_only_acl());
  client.create("/p/q", "", {.parents = true, .parent_acl = no_admin});
  EXPECT_EQ(client.get_acl("/p").acl, no_admin);
  EXPECT_EQ(client.get_acl("/p/q").acl, zkclient::open_acl());
  EXPECT_EQ(error_of([&] { client.create("/x/y", "", {.parents = true, .parent_acl = {}}); }), Errc::invalid_acl);
}

class AuthSessionTest : public testkit::FaultTest {
 protected:
  /// A session so long that a server that pauses costs neither it nor its connection.
  static constexpr auto calm = 30s;

  Client calm_proxied() { return Client(proxy.connect_string(), {.session_timeout = calm}); }
};

TEST_F(AuthSessionTest, IdentitiesAreProvenAgainOnEachNewSession) {
  const Client client(server.connect_string(), {.session_timeout = calm});  // It ends by nothing else.
  client.add_auth("digest", "alice:secret");
  client.create("/private", "x", {.acl = zkclient::creator_all_acl()});
  const Session first = client.session();
  ASSERT_TRUE(first.id() != 0);
  const auto secret = first.credentials();
  zktesting::expire(server.connect_string(), secret.id, secret.password);
  ASSERT_TRUE(testkit::stopped(first.lost()));
  EXPECT_EQ(client.get("/private", {.deadline = testkit::soon()}).data, "x") << "the very first request";
  EXPECT_NE(client.session().id(), first.id());
}

TEST_F(AuthSessionTest, IdentitiesSurviveAReconnection) {
  const Client client = calm_proxied();
  client.add_auth("digest", "alice:secret");
  client.create("/private", "x", {.acl = zkclient::creator_all_acl()});
  for (int i = 0; i < 3; ++i) {
    proxy.cut();
    EXPECT_EQ(client.get("/private", {.deadline = testkit::soon()}).data, "x");
  }
}

// The handshake's answer and the end of the connection arrive together, so that nothing can be sent in between.
TEST_F(AuthSessionTest, AConnectionThatBreaksAtOnceCostsNoIdentity) {
  zkclient::Runtime runtime;
  const Client client(runtime, proxy.connect_string(), {.session_timeout = calm});
  client.add_auth("digest", "ann:secret");
  client.create("/mine", "x", {.acl = zkclient::creator_all_acl()});
  zktesting::Proxy second(server.connect_string());
  auto held = second.hold_next_reply(zktesting::RequestType::connect);
  client.async_update_servers(second.connect_string(), [](const Result<void>&) {});
  ASSERT_TRUE(held.wait(testkit::patience));
  std::promise<void> entered;
  std::promise<void> go_on;
  runtime.impl()->post([&] {
    entered.set_value();
    go_on.get_future().wait();
  });
  entered.get_future().wait();
  held.release();
  // Nothing is left to be answered if the attempt was given up: it is, after a second.
  EXPECT_TRUE(testkit::eventually(
      [&] { return second.byte_count(zktesting::Direction::to_client) > 0 || second.connections() == 0; }));
  second.cut();
  go_on.set_value();
  EXPECT_EQ(client.get("/mine", {.deadline = testkit::soon()}).data, "x");
}

TEST_F(AuthSessionTest, AddingBeforeTheServerIsReachableWaitsForIt) {
  proxy.refuse(true);
  const Client client = calm_proxied();
  Box<std::error_code> added;
  client.async_add_auth("digest", "alice:secret", [&](const Result<void>& result) { added.put(result.code()); },
                        {.deadline = testkit::soon()});
  EXPECT_EQ(error_of([&] { client.add_auth("digest", "b:c", {.deadline = testkit::SteadyClock::now() + 50ms}); }),
            Errc::deadline_exceeded);
  proxy.refuse(false);
  EXPECT_FALSE(added.take());
  client.create("/private", "x", {.acl = zkclient::creator_all_acl()});
}

TEST_F(AuthSessionTest, ACallThatIsGivenUpCostsAnotherOneNothing) {
  proxy.refuse(true);
  const Client client = calm_proxied();
  Box<std::error_code> added;
  client.async_add_auth("digest", "alice:secret", [&](const Result<void>& result) { added.put(result.code()); },
                        {.deadline = testkit::soon()});
  const auto soon = testkit::SteadyClock::now() + 50ms;
  EXPECT_EQ(error_of([&] { client.add_auth("digest", "alice:secret", {.deadline = soon}); }), Errc::deadline_exceeded);
  proxy.refuse(false);
  EXPECT_FALSE(added.take());
  client.create("/private", "x", {.acl = zkclient::creator_all_acl()});
  const Session first = client.session();
  const auto secret = first.credentials();
  zktesting::expire(server.connect_string(), secret.id, secret.password);
  ASSERT_TRUE(testkit::stopped(first.lost()));
  EXPECT_EQ(client.get("/private", {.deadline = testkit::soon()}).data, "x") << "not proven on the next session";
}

TEST_F(AuthSessionTest, ALostAnswerIsAskedForAgain) {
  const Client client = calm_proxied();
  client.connect();
  const auto fault = proxy.drop_next_request(zktesting::RequestType::auth);
  client.add_auth("digest", "alice:secret", {.deadline = testkit::soon()});
  EXPECT_TRUE(fault.happened());
  client.create("/private", "x", {.acl = zkclient::creator_all_acl()});
}

// The server's refusal overtakes the answers to what was sent before, which it works off all the same.
TEST_F(AuthSessionTest, WritesOnTheirWayAreInDoubtWhenAnIdentityIsRefused) {
  constexpr int sets = 300;
  struct Round {
    std::vector<std::optional<Errc>> outcomes = std::vector<std::optional<Errc>>(sets);
    std::atomic<int> done{0};
    Box<Errc> read;
    Box<Errc> refused;
  };
  std::list<Round> rounds;
  const Client client = calm_proxied();
  client.create("/n", "");
  bool met = false;
  while (!met && rounds.size() < 20) {
    Round& round = rounds.emplace_back();
    const std::int32_t before = client.get("/n").stat.version;
    proxy.stall(zktesting::Direction::to_server);  // They arrive as one.
    for (std::optional<Errc>& outcome : round.outcomes) {
      client.async_set("/n", "x", any_version, [&](const Result<zkclient::Stat>& result) {
        if (!result) outcome = result.error().errc();
        ++round.done;
      });
    }
    client.async_get("/n", [&](const Result<zkclient::NodeData>& result) {
      round.read.put(result ? Errc{} : result.error().errc());
    });
    client.async_add_auth("no-such-scheme", "x", [&](const Result<void>& result) {
      round.refused.put(result ? Errc{} : result.error().errc());
    });
    proxy.unstall(zktesting::Direction::to_server);
    EXPECT_EQ(round.refused.take(), Errc::auth_failed);
    ASSERT_TRUE(testkit::eventually([&] { return round.done == sets; }));
    EXPECT_EQ(round.read.take(), Errc{}) << "a read is repeated";
    client.sync("/");
    const std::int32_t applied = client.get("/n").stat.version - before;
    const auto succeeded = std::count(round.outcomes.begin(), round.outcomes.end(), std::nullopt);
    const auto in_doubt = std::count(round.outcomes.begin(), round.outcomes.end(), Errc::in_doubt);
    EXPECT_EQ(succeeded + in_doubt, sets) << "no other outcome";
    EXPECT_LE(succeeded, applied);
    met = in_doubt > 0;
  }
  EXPECT_TRUE(met) << "the refusal never came first";
}

TEST_F(AuthSessionTest, TheServerOfTheSessionIsKnown) {
  const Client client = calm_proxied();
  client.connect();
  EXPECT_EQ(client.server(), proxy.connect_string());
  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(testkit::eventually([&] { return !client.server(); }));
  proxy.refuse(false);
  client.sync("/", {.deadline = testkit::soon()});
  EXPECT_EQ(client.server(), proxy.connect_string());
  Client copy = client;
  copy.close();
  EXPECT_FALSE(client.server());
}

}  // namespace
