#include <zkclient/log.hpp>

#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/features.hpp>
#include <zkrecipes/mutex.hpp>
#include <zktesting/expire.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"
#include "zkclient/detail/log.hpp"
#include "zkclient/detail/session/loop.hpp"

namespace {

using namespace testkit::words;
using zkclient::LogLevel;

// All messages of a test.
class Journal {
 public:
  explicit Journal(LogLevel level) {
    zkclient::set_log_handler([this](LogLevel of, std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::string(to_string(of)) + ": " + std::string(text));
    });
    zkclient::set_log_level(level);
  }
  ~Journal() {
    zkclient::set_log_level(LogLevel::error);
    zkclient::set_log_handler({});
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  bool has(const std::string& text) const {
    for (const std::string& line : lines()) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }
  std::ptrdiff_t count(const std::string& text) const {
    const std::vector<std::string> all = lines();
    return std::count_if(all.begin(), all.end(),
                         [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }
  std::string all() const {
    std::string text;
    for (const std::string& line : lines())
      text += line + "\n";
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

class LogTest : public testkit::FaultTest {
 protected:
  /// Its session ends, and its connection breaks, by nothing but what the test does.
  static constexpr auto calm = 10s;
  Client calm_direct() { return Client(server.connect_string(), {.session_timeout = calm}); }
  void expire(const Session& session) const {
    const auto credentials = session.credentials();
    zktesting::expire(server.connect_string(), credentials.id, credentials.password);
  }
};

std::string name_of(const Session& session) { return zkclient::detail::session_name(session.id()); }

TEST_F(LogTest, ASessionsLifeIsTold) {
  const Journal journal(LogLevel::info);
  {
    const Client client(proxy.connect_string(), {.session_timeout = 10s});  // It ends by nothing else.
    const Session session = client.connect({.deadline = testkit::soon()});
    const std::string name = name_of(session);
    EXPECT_TRUE(eventually([&] {
      return journal.has("info: " + name + ": opened at " + proxy.connect_string() + ", timeout 10000 ms");
    })) << journal.all();
    proxy.cut();
    EXPECT_TRUE(eventually([&] { return journal.has("warning: " + name + ": the connection was lost"); }));
    EXPECT_TRUE(eventually([&] { return journal.has("info: " + name + ": resumed at "); })) << journal.all();
    zktesting::Proxy second(server.connect_string());
    client.update_servers(second.connect_string(), {.deadline = testkit::soon()});
    EXPECT_TRUE(eventually([&] { return journal.has(": new servers: " + second.connect_string()); })) << journal.all();
    expire(session);
    EXPECT_TRUE(eventually([&] { return journal.has("warning: " + name + ": lost: the server ended it"); }))
        << journal.all();
    client.connect({.deadline = testkit::soon()});
  }
  EXPECT_TRUE(journal.has(": closed")) << "a runtime that is gone has delivered everything\n" << journal.all();
}

TEST_F(LogTest, AGuaranteedDeleteThatIsRefusedIsTold) {
  const Journal journal(LogLevel::warning);
  const Client client = calm_direct();
  client.create("/n");
  client.create("/n/child");
  client.remove_in_background("/n");
  EXPECT_TRUE(eventually([&] { return journal.has("a node that has to go is still there: /n"); })) << journal.all();
}

TEST_F(LogTest, AnUnknownNameAndALostLeaseAreWarnings) {
  const Journal journal(LogLevel::warning);
  const Client nowhere("no-such-host.invalid:2181");
  EXPECT_TRUE(eventually(
      [&] { return journal.has("warning: no connection, attempt 1: no-such-host.invalid:2181 has a name that "); },
      testkit::patience))
      << journal.all();
  const Client client(proxy.connect_string(), {.session_timeout = calm});
  zkrecipes::Mutex mutex(client, "/lock");
  const zkrecipes::Lease lease = mutex.acquire({.deadline = testkit::soon()});
  // Later it rests on heartbeats, and so ends seconds before the session does.
  ASSERT_TRUE(proxy.wait_for_requests(zktesting::RequestType::multi, 3, testkit::patience));
  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(eventually([&] {
    return journal.has("warning: lease lost: " + lease.node() +
                       ": its lease clock ran out, there is no connection: " + proxy.connect_string());
  })) << journal.all();
}

// What has one cause is one line: of 200 leases the first paths and the number.
TEST_F(LogTest, LeasesThatAreLostTogetherAreOneLine) {
  const Journal journal(LogLevel::warning);
  const Client client(proxy.connect_string(), {.session_timeout = calm});
  std::vector<zkrecipes::Mutex> mutexes;
  std::vector<zkrecipes::Lease> leases;
  for (int i = 0; i < 200; ++i) {
    mutexes.emplace_back(client, zkclient::Path("/lock" + std::to_string(i)));
    leases.push_back(mutexes.back().acquire({.deadline = testkit::soon()}));
  }
  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(testkit::stopped(leases.back().lost()));
  EXPECT_TRUE(eventually([&] { return journal.has(" and 197 more: its lease clock ran out"); })) << journal.all();
  EXPECT_TRUE(journal.has("warning: 200 leases lost: /lock")) << journal.all();
  EXPECT_EQ(journal.count("lease"), 1) << journal.all();
}

// A runtime that is closed has told what was still being gathered.
TEST_F(LogTest, LeasesThatWereLostRightBeforeTheEndAreTold) {
  const Journal journal(LogLevel::warning);
  {
    const Client client = calm_direct();
    zkrecipes::Mutex mutex(client, "/lock");
    const zkrecipes::Lease lease = mutex.acquire({.deadline = testkit::soon()});
    expire(client.session());
    EXPECT_TRUE(testkit::stopped(lease.lost()));
  }
  EXPECT_TRUE(journal.has("warning: lease lost: /lock")) << journal.all();
}

TEST_F(LogTest, RefusedCredentialsAreAnError) {
  const Journal journal(LogLevel::error);
  const Client client = calm_direct();
  const Session session = client.connect({.deadline = testkit::soon()});
  EXPECT_EQ(error_of([&] { client.add_auth("no-such-scheme", "x"); }), Errc::auth_failed);
  EXPECT_TRUE(eventually([&] {
    return journal.has("error: " + name_of(session) + ": the server refused the credentials");
  })) << journal.all();
}

TEST_F(LogTest, SilentByDefaultUntilThereWasNoServerForATimeout) {
  const Journal journal(LogLevel::error);
  const Client client(proxy.connect_string(), {.session_timeout = 12s});
  client.connect({.deadline = testkit::soon()});
  for (int i = 0; i < 3; ++i) {
    proxy.refuse(true);
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return client.trouble() != ""; }));
    proxy.refuse(false);
    client.connect({.deadline = testkit::soon()});
  }
  EXPECT_EQ(journal.all(), "");
  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(testkit::stopped(client.session().lost()));
  const std::string line = "error: no server for 12000 ms: " + proxy.connect_string() + " refused the connection\n";
  EXPECT_TRUE(eventually([&] { return journal.all() == line; })) << journal.all();
  proxy.refuse(false);
  client.connect({.deadline = testkit::soon()});
  EXPECT_EQ(journal.all(), line);
}

// Twenty attempts in a second are not twenty lines.
TEST_F(LogTest, AttemptsThatFailAreToldEverMoreSeldom) {
  const Journal journal(LogLevel::warning);
  server.stop();
  const Client client(server.connect_string(), {.session_timeout = 30s});
  const auto lines = [&] {
    const std::string all = journal.all();
    return std::count(all.begin(), all.end(), '\n');
  };
  ASSERT_TRUE(eventually([&] { return journal.has("no connection, attempt 1: "); })) << journal.all();
  std::error_code error;
  client.get("/", {.deadline = testkit::SteadyClock::now() + 3500ms}, error);  // The time that the experiment takes.
  EXPECT_EQ(error, Errc::deadline_exceeded);
  EXPECT_TRUE(eventually([&] { return lines() >= 2; })) << journal.all();
  EXPECT_LE(lines(), 4) << journal.all();
  server.start();
  client.connect({.deadline = testkit::soon()});
}

// What the C client says of each attempt is told once, and how often at the end.
TEST_F(LogTest, WhatTheCClientRepeatsIsCounted) {
  const Journal journal(LogLevel::info);
  server.stop();
  const Client client(server.connect_string(), {.session_timeout = 4s});
  std::error_code error;
  client.get("/", {.deadline = testkit::SteadyClock::now() + 3s}, error);  // The time that the experiment takes.
  EXPECT_EQ(error, Errc::deadline_exceeded);
  EXPECT_EQ(journal.count("C client: Socket " + server.connect_string()), 1) << journal.all();
  EXPECT_LE(journal.count("C client: "), 4) << journal.all();
  server.start();
  client.connect({.deadline = testkit::soon()});
  EXPECT_TRUE(eventually([&] { return journal.has(" more of these)"); })) << journal.all();
}

TEST_F(LogTest, TheCClientsMessagesComeAtTheLevelsAbove) {
  const Journal journal(LogLevel::debug);
  server.stop();
  const Client client(server.connect_string(), options());
  EXPECT_TRUE(eventually([&] { return journal.has("info: C client: "); })) << journal.all();
  server.start();
  client.connect({.deadline = testkit::soon()});
  EXPECT_TRUE(eventually([&] { return journal.has("debug: C client: "); })) << journal.all();
  EXPECT_FALSE(journal.has("ZOO_")) << "neither date nor process\n" << journal.all();
}

TEST_F(LogTest, NoMessageShowsASecret) {
  const Journal journal(LogLevel::debug);
  std::vector<std::string> secrets = {"kept-in-the-node", "ann's secret", "bob's secret"};
  {
    const Client client(proxy.connect_string(), {.session_timeout = calm});
    const Session session = client.connect({.deadline = testkit::soon()});
    secrets.push_back(session.credentials().password);
    client.create("/n", secrets[0], {.mode = CreateMode::ephemeral});
    client.add_auth("digest", "ann:" + secrets[1]);
    EXPECT_EQ(error_of([&] { direct().add_auth("no-such-scheme", "bob:" + secrets[2]); }), Errc::auth_failed);
    ClientOptions resuming{.session_timeout = calm};
    resuming.resume = session.credentials();
    const Client second(server.connect_string(), resuming);
    second.connect({.deadline = testkit::soon()});
    zktesting::Proxy moved(server.connect_string());
    second.update_servers(moved.connect_string(), {.deadline = testkit::soon()});
    expire(session);
    EXPECT_TRUE(testkit::stopped(session.lost()));
  }
  for (const std::string& secret : secrets) {
    EXPECT_FALSE(journal.has(secret));
  }
}

TEST_F(LogTest, ASlowHandlerDelaysNoRequest) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> entered{0};
  zkclient::set_log_handler([&, released](LogLevel, std::string_view) {
    ++entered;
    released.wait_for(testkit::patience);
  });
  zkclient::set_log_level(LogLevel::debug);
  const Client client = direct();
  client.connect({.deadline = testkit::soon()});
  EXPECT_TRUE(eventually([&] { return entered > 0; }));
  client.sync("/", {.deadline = testkit::soon()});
  release.set_value();
  zkclient::set_log_level(LogLevel::error);
  zkclient::set_log_handler({});
}

TEST_F(LogTest, AHandlerMayThrowAndMayCallTheLibrary) {
  const Client other = direct();
  std::atomic<int> calls{0};
  zkclient::set_log_handler([&](LogLevel, std::string_view) {
    other.sync("/", {.deadline = testkit::soon()});
    ++calls;
    throw std::runtime_error("no");
  });
  zkclient::set_log_level(LogLevel::info);
  direct().connect({.deadline = testkit::soon()});
  EXPECT_TRUE(eventually([&] { return calls >= 2; }));
  zkclient::set_log_level(LogLevel::error);
  zkclient::set_log_handler({});
}

TEST(LogHandlerTest, BeyondAThousandThatWaitMessagesAreCounted) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  testkit::Box<bool> entered;
  testkit::Box<std::string> lines;
  zkclient::set_log_handler([&, released](LogLevel, std::string_view text) {
    entered.put(true);
    released.wait();
    lines.put(std::string(text));
  });
  zkclient::set_log_level(LogLevel::info);
  {
    const zkclient::Runtime runtime;
    runtime.impl()->post([] { zkclient::detail::log(LogLevel::info, "message 0"); });
    entered.take();
    runtime.impl()->post([&] {
      for (int i = 1; i < 1500; ++i)
        zkclient::detail::log(LogLevel::info, "message " + std::to_string(i));
      release.set_value();
    });
  }
  zkclient::set_log_level(LogLevel::error);
  zkclient::set_log_handler({});
  ASSERT_EQ(lines.size(), 1001u);
  EXPECT_EQ(lines.take(), "message 0");
  EXPECT_EQ(lines.take(), "500 messages were left out: the log handler is too slow");
  for (int i = 1; i < 1000; ++i)
    EXPECT_EQ(lines.take(), "message " + std::to_string(i));
}

TEST(LogHandlerTest, TheFormerHandlerIsNotCalledAnyMore) {
  std::atomic<bool> gone{false};
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> mine{true};
    zkclient::set_log_handler([&mine, &gone](LogLevel, std::string_view) {
      if (!mine) gone = true;
    });
    std::jthread speaker([] { zkclient::detail::log(LogLevel::error, "x"); });
    zkclient::set_log_handler([](LogLevel, std::string_view) {});
    mine = false;
  }
  zkclient::set_log_handler({});
  EXPECT_FALSE(gone);
}

TEST(LogHandlerTest, AHandlerMayReplaceItself) {
  std::atomic<int> calls{0};
  zkclient::set_log_handler([&](LogLevel, std::string_view) {
    ++calls;
    zkclient::set_log_handler([](LogLevel, std::string_view) {});
  });
  zkclient::detail::log(LogLevel::error, "x");
  zkclient::detail::log(LogLevel::error, "y");
  zkclient::set_log_handler({});
  EXPECT_EQ(calls, 1);
}

TEST(FeaturesTest, WhatIsAbsentIsRefusedByName) {
  EXPECT_TRUE(zkclient::features().c_client_version.starts_with("3."));
  ClientOptions encrypted;
  encrypted.tls = zkclient::TlsOptions{"ca.pem", "client.pem", "key.pem", "a passphrase"};
  ClientOptions authenticated;
  authenticated.sasl = zkclient::SaslOptions{"DIGEST-MD5", "user", "a passphrase"};
  const auto check = [](const ClientOptions& options, const char* name) {
    try {
      const Client client("127.0.0.1:1", options);
      ADD_FAILURE() << name << " was accepted";
    } catch (const zkclient::Error& error) {
      EXPECT_EQ(error.errc(), Errc::unsupported);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("passphrase"), std::string::npos) << error.what();
    }
  };
  if (!zkclient::features().tls) check(encrypted, "ClientOptions::tls");
  if (!zkclient::features().sasl) check(authenticated, "ClientOptions::sasl");
}

}  // namespace
