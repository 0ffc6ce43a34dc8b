// What a program is told when there is no server: who did what, in each error, to each listener, and in the log.

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <zkclient/client.hpp>
#include <zkrecipes/barrier.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/queue.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::StateChange;

// Somebody who listens at a port, and is no ZooKeeper server.
class Stranger {
 public:
  explicit Stranger(std::function<void(int client)> behave) : behave_(std::move(behave)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Stranger() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
    for (const int client : clients_)
      ::close(client);
  }
  std::string where() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void serve() {
    for (;;) {
      const int client = ::accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      behave_(client);
      clients_.push_back(client);
    }
  }
  std::function<void(int)> behave_;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
  std::vector<int> clients_;
};

void answers_as_a_web_server(int client) {
  std::array<char, 256> request;
  [[maybe_unused]] const ssize_t got = ::recv(client, request.data(), request.size(), 0);
  const std::string answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x');
  ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
}

zkclient::CallOptions within(std::chrono::milliseconds time) {
  return {.deadline = testkit::SteadyClock::now() + time};
}

// What the error of a call says, if it is the one that is expected.
std::string why(Errc expected, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), expected) << error.what();
    EXPECT_NE(std::string(error.what()).find(error.detail()), std::string::npos);
    return error.detail();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// What a call says whose limit is over. An attempt may take longer than that: then the next call says it.
void expect_reason(const std::function<bool(const std::string&)>& is_expected,
                   const std::function<void(const zkclient::CallOptions&)>& call) {
  std::string told;
  EXPECT_TRUE(eventually([&] { return is_expected(told = why(Errc::deadline_exceeded, [&] { call(within(300ms)); })); },
                         testkit::patience))
      << told;
}
void expect_reason(const std::string& expected, const std::function<void(const zkclient::CallOptions&)>& call) {
  expect_reason([&](const std::string& told) { return told == expected; }, call);
}

std::string nobody() {
  zktesting::Server server;
  std::string where = server.connect_string();
  server.stop();
  return where;
}

TEST(Unreachable, ARefusedConnectionIsNamed) {
  const std::string where = nobody();
  const Client client(where);
  expect_reason(where + " refused the connection", [&](const auto& call) { client.get("/", call); });
  EXPECT_EQ(client.trouble(), where + " refused the connection");
}

TEST(Unreachable, ARefusedConnectionIsNamedOfIPv6Too) {
  const Client client("[::1]:1");
  expect_reason(
      [](const std::string& told) {
        return told == "[::1]:1 refused the connection" || told.starts_with("[::1]:1 cannot be reached: ");
      },
      [&](const auto& call) { client.connect(call); });
  expect_reason([](const std::string& told) { return told.starts_with("[::1]:1 "); },
                [&](const auto& call) { client.get("/", call); });
  EXPECT_TRUE(client.trouble().starts_with("[::1]:1 ")) << client.trouble();
}

// A host whose queue of connections is full drops what comes: nobody refuses, and nobody answers.
class FullHost {
 public:
  FullHost() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_, generic, size), 0);
    EXPECT_EQ(::listen(listener_, 0), 0);
    ::getsockname(listener_, generic, &size);
    port_ = ntohs(address.sin_port);
    for (int& peer : peers_) {
      peer = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      ::connect(peer, generic, size);
    }
  }
  ~FullHost() {
    ::close(listener_);
    for (const int peer : peers_)
      ::close(peer);
  }
  FullHost(const FullHost&) = delete;
  FullHost& operator=(const FullHost&) = delete;
  std::string where() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  const int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
  std::array<int, 4> peers_{};
};

TEST(Unreachable, AHostThatDoesNotAnswerIsNamedFromTheFirstMomentOn) {
  const FullHost host;
  const Client client(host.where(), {.session_timeout = 30s});
  const std::string first = why(Errc::deadline_exceeded, [&] { client.get("/", within(50ms)); });
  EXPECT_TRUE(first == host.where() + " has not answered yet" || first.starts_with(host.where() + " does not answer"))
      << first;
  expect_reason([&](const std::string& told) { return told.starts_with(host.where() + " does not answer (for "); },
                [&](const auto& call) { client.get("/", call); });
}

// A network of its own, in which a thread can have what routes it likes.
class Network : public testing::Test {
 protected:
  /// Runs `test` in it, with the loopback address and nothing else.
  void in_network(const std::function<void()>& test) {
    bool allowed = false;
    std::thread inside([&] {
      allowed = ::unshare(CLONE_NEWNET) == 0 && run("ip link set lo up");
      if (allowed) test();
    });
    inside.join();
    if (!allowed) GTEST_SKIP() << "this process may not make a network of its own, or there is no program ip";
  }
  // The program inherits the thread's network.
  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) ==
           0;  // NOLINT: a test, without other threads' children.
  }
  /// What a call says that reaches its deadline, once an attempt has ended; so does Client::trouble().
  static void expect(const std::string& hosts, const std::string& reason) {
    const Client client(hosts, {.session_timeout = 4s});
    expect_reason(reason, [&](const auto& call) { client.connect(call); });
    expect_reason(reason, [&](const auto& call) { client.get("/", call); });
    EXPECT_TRUE(eventually([&] { return client.trouble() == reason; })) << client.trouble();
  }
};

TEST_F(Network, WithoutARouteSaysSo) {
  in_network([] {
    expect("10.1.2.3:2181", "10.1.2.3:2181 cannot be reached: there is no route to it");
    expect("[fd00::1]:2181", "[fd00::1]:2181 cannot be reached: there is no route to it");
    expect("[::1]:1", "[::1]:1 refused the connection");
  });
}

TEST_F(Network, WithForbiddingRoutesSaysSo) {
  in_network([] {
    if (!run("ip route add prohibit 10.1.0.0/16") || !run("ip route add unreachable 10.2.0.0/16") ||
        !run("ip -6 route add prohibit fd00:1::/32") || !run("ip route add blackhole 10.3.0.0/16"))
      GTEST_SKIP() << "this kernel has no such routes";
    const std::string forbidden =
        " cannot be reached: a rule of this host or its network forbids it (Permission denied)";
    expect("10.1.2.3:2181", "10.1.2.3:2181" + forbidden);
    expect("[fd00:1::7]:2181", "[fd00:1::7]:2181" + forbidden);
    expect("10.2.2.3:2181", "10.2.2.3:2181 cannot be reached: there is no route to it");
    expect("10.3.2.3:2181", "10.3.2.3:2181 cannot be reached: Invalid argument");
  });
}

TEST_F(Network, EachServerIsToldUnderItsName) {
  in_network([] {
    if (!run("ip route add prohibit 10.1.0.0/16")) GTEST_SKIP() << "this kernel has no such routes";
    expect(
        "10.1.0.1:1,10.2.0.1:2,127.0.0.1:3,[::1]:4",
        "10.1.0.1:1 cannot be reached: a rule of this host or its network forbids it (Permission denied); 10.2.0.1:2 "
        "cannot be reached: there is no route to it; 127.0.0.1:3 refused the connection; [::1]:4 refused the "
        "connection");
  });
}

TEST(Unreachable, AnUnknownNameIsNamed) {
  const Client client("no-such-host.invalid:2182");
  expect_reason([](const std::string& told) { return told.starts_with("no-such-host.invalid:2182 has a name that "); },
                [&](const auto& call) { client.set("/", "x", -1, call); });
}

TEST(Unreachable, EachServerIsNamed) {
  const std::string where = nobody();
  const Stranger web(answers_as_a_web_server);
  const Client client(where + "," + web.where());
  const std::string both =
      where + " refused the connection; " + web.where() + " does not answer as a ZooKeeper server does";
  EXPECT_TRUE(eventually([&] { return client.trouble() == both; })) << client.trouble();
}

// The first bytes of its answer must not be taken for a session either.
TEST(Unreachable, APeerThatTalksGarbageIsNamedAndNotBelieved) {
  const Stranger web(answers_as_a_web_server);
  const Client client(web.where(), {.session_timeout = 6s});
  expect_reason(web.where() + " does not answer as a ZooKeeper server does",
                [&](const auto& call) { client.connect(call); });
  EXPECT_EQ(client.session().id(), 0);
  EXPECT_EQ(client.session().state(), ConnectionState::connecting);
}

// One that would pass for a session that may be read from: its last byte says so, in the C client's opinion.
TEST(Unreachable, APeerThatTalksTheRightLengthOfGarbageIsNotBelieved) {
  const Stranger web([](int peer) {
    std::string answer(41, '\0');
    answer[3] = 37;
    answer[8] = 0x10;  // A timeout of years.
    answer[23] = 16;
    ::send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
  });
  const Client client(web.where());
  expect_reason(web.where() + " does not answer as a ZooKeeper server does",
                [&](const auto& call) { client.connect(call); });
}

TEST(Unreachable, APeerThatClosesIsNamed) {
  const Stranger rude([](int peer) { ::shutdown(peer, SHUT_RDWR); });
  const Client client(rude.where());
  expect_reason(rude.where() + " closed the connection", [&](const auto& call) { client.get("/", call); });
}

TEST(Unreachable, APeerThatSaysNothingIsNamed) {
  const Stranger silent([](int) {});
  const Client client(silent.where(), {.session_timeout = 3s});
  const std::string reason = silent.where() + " accepted the connection, and did not grant a session within ";
  expect_reason([&](const std::string& told) { return told.starts_with(reason); },
                [&](const auto& call) { client.get("/", call); });
}

// It was fifteen attempts a second, for ever. The number of attempts has an upper bound, whatever is slow here.
TEST(Unreachable, AttemptsBackOff) {
  std::atomic<int> attempts{0};
  const Stranger rude([&](int peer) {
    ++attempts;
    ::shutdown(peer, SHUT_RDWR);
  });
  const Client client(rude.where(), {.session_timeout = 4s});
  EXPECT_EQ(error_of([&] { client.get("/", within(3s)); }), Errc::deadline_exceeded);
  EXPECT_LE(attempts, 25);
  EXPECT_TRUE(eventually([&] { return attempts >= 2; }));
}

// Whatever the others do, and however long they did it: the one that is there is found without a pause.
TEST(Unreachable, OtherServersAreAskedAtOnce) {
  zktesting::Server server;
  const Client client(nobody(), {.session_timeout = 4s});
  EXPECT_EQ(error_of([&] { client.get("/", within(2s)); }), Errc::deadline_exceeded);
  const Client list(nobody() + "," + nobody() + "," + server.connect_string(), {.session_timeout = 4s});
  list.connect({.deadline = testkit::soon()});
  client.update_servers(server.connect_string(), {.deadline = testkit::soon()});
  EXPECT_TRUE(eventually([&] { return client.session().state() == ConnectionState::connected; }));
}

// Every error for want of a connection: of reads that were given up, of what waits, of recipes.
TEST(Unreachable, EveryErrorCarriesTheReason) {
  zktesting::Server server;
  Client client(server.connect_string(), {.session_timeout = 30s, .retry = {.max_attempts = 1}});
  zkrecipes::Mutex mutex(client, "/lock");
  zkrecipes::Queue queue(client, "/queue");
  zkrecipes::Barrier barrier(client, "/barrier");
  zkrecipes::LeaderElection election(client, "/election");
  barrier.raise();
  Box<StateChange> states;
  const auto listening = client.on_state_change([&](const StateChange& change) { states.put(change); });
  const std::string refused = server.connect_string() + " refused the connection";
  server.stop();
  const StateChange suspended =
      states.take_until([](const StateChange& change) { return change.state == ConnectionState::suspended; });
  EXPECT_EQ(suspended.reason, server.connect_string() + " closed the connection");
  ASSERT_TRUE(eventually([&] { return client.trouble() == refused; })) << client.trouble();
  const auto soon = 100ms;
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { client.get("/", within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { client.create("/x", "", {}, within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { client.commit(zkclient::Transaction().create("/x"), within(soon)); }),
            refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { client.connect(within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { client.ensure("/a/b", zkclient::CreateMode::container, within(soon)); }),
            refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { (void)mutex.acquire(within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { (void)mutex.try_acquire(within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { (void)mutex.contenders(within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { (void)queue.pop(within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { queue.push("x", within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { barrier.wait(within(soon)); }), refused);
  EXPECT_EQ(why(Errc::deadline_exceeded, [&] { (void)election.campaign(within(soon)); }), refused);
  server.start();
  client.connect({.deadline = testkit::soon()});
  EXPECT_EQ(client.trouble(), "");
  EXPECT_EQ(
      states.take_until([](const StateChange& change) { return change.state == ConnectionState::connected; }).reason,
      "");
}

// A write whose reply is lost waits for nothing any more: it ends when the connection does.
TEST(Unreachable, AWriteWhoseReplyWasLostCarriesTheReason) {
  const zktesting::Server server;
  zktesting::Proxy proxy(server.connect_string());
  const Client client(proxy.connect_string());
  client.connect({.deadline = testkit::soon()});
  const auto fault = proxy.drop_next_reply(zktesting::RequestType::create2);
  const auto create = [&] { client.create("/x", "", {}, {.deadline = testkit::soon()}); };
  EXPECT_EQ(why(Errc::in_doubt, create), proxy.connect_string() + " closed the connection");
}

// What is bound to a session ends with it, whether it waits then or comes later.
TEST(Unreachable, TheEndOfASessionCarriesTheReason) {
  const zktesting::Server server;
  zktesting::Proxy proxy(server.connect_string());
  const Client client(proxy.connect_string(), {.session_timeout = 8s});  // It ends by nothing else.
  const auto session = client.connect({.deadline = testkit::soon()});
  const auto guarded = zkclient::Transaction().check(zkclient::Check{"/", zkclient::any_version, session}).create("/x");
  const auto commit = [&] { client.commit(guarded, {.deadline = testkit::soon()}); };
  zkrecipes::Mutex mutex(client, "/lock");
  const Client other(server.connect_string());
  zkrecipes::Mutex others(other, "/lock");
  const zkrecipes::Lease held = others.acquire({.deadline = testkit::soon()});
  auto waiting = std::async(std::launch::async, [&] { (void)mutex.acquire({.deadline = testkit::soon()}); });
  ASSERT_TRUE(eventually([&] { return others.contenders().size() == 2; }));
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return session.state() == ConnectionState::suspended; }));
  const std::string reason =
      "no server was heard for its whole timeout: " + proxy.connect_string() + " refused the connection";
  EXPECT_EQ(why(Errc::session_lost, commit), reason);
  EXPECT_EQ(why(Errc::session_lost, [&] { waiting.get(); }), reason);
  EXPECT_EQ(session.state(), ConnectionState::lost);
  EXPECT_EQ(why(Errc::session_lost, commit), reason);
}

}  // namespace
