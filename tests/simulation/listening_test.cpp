// What processes of a simulated world say to each other: sockets that listen, and so the proxy, which loses what a test wants
// to be lost.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include <zkclient/client.hpp>
#include <zkrecipes/counter.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/simulation.hpp>

namespace {

using namespace std::chrono_literals;
using zktesting::RequestType;
using zktesting::SimulatedProcess;
using zktesting::Simulation;

sockaddr_in address_at(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = ::inet_addr("10.9.9.9");
  return address;
}
const sockaddr* generic(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }
int new_socket() { return ::socket(AF_INET, SOCK_STREAM, 0); }

int listen_at(std::uint16_t port) {
  const int listener = new_socket();
  const sockaddr_in address = address_at(port);
  if (::bind(listener, generic(address), sizeof address) != 0 || ::listen(listener, 5) != 0) return -1;
  return listener;
}
int connect_to(std::uint16_t port) {
  const int socket = new_socket();
  const sockaddr_in address = address_at(port);
  return ::connect(socket, generic(address), sizeof address) == 0 ? socket : -1;
}
std::string read_from(int socket) {
  char bytes[16];
  const ssize_t size = ::read(socket, bytes, sizeof bytes);
  return size < 0 ? "error " + std::to_string(errno) : std::string(bytes, static_cast<std::size_t>(size));
}

TEST(SimulatedListening, ProcessesTalkToEachOther) {
  Simulation world({.seed = 3});
  std::string heard;
  std::string answer;
  world.process("echo", [&](SimulatedProcess&) {
    const int listener = listen_at(80);
    const int client = ::accept(listener, nullptr, nullptr);
    heard = read_from(client);
    EXPECT_EQ(::write(client, "pong", 4), 4);
    EXPECT_EQ(read_from(client), "") << "the end";
  });
  world.run_for(1ms);
  world.process("caller", [&](SimulatedProcess&) {
    const int server = connect_to(80);
    EXPECT_EQ(::write(server, "ping", 4), 4);
    answer = read_from(server);
    ::close(server);
  });
  EXPECT_TRUE(world.run_until([&] { return answer == "pong"; }, 1s));
  world.run_for(1s);
  EXPECT_EQ(heard, "ping");
}

TEST(SimulatedListening, APlaceIsTakenOnceAndFreeAfterwards) {
  Simulation world({.seed = 4});
  bool done = false;
  world.process("a", [&](SimulatedProcess&) {
    EXPECT_EQ(connect_to(80), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
    const int listener = listen_at(80);
    EXPECT_EQ(listen_at(80), -1);
    EXPECT_EQ(errno, EADDRINUSE);
    ::close(listener);
    EXPECT_EQ(connect_to(80), -1);
    const int any = listen_at(0);
    sockaddr_in own{};
    socklen_t size = sizeof own;
    ::getsockname(any, reinterpret_cast<sockaddr*>(&own), &size);
    EXPECT_NE(own.sin_port, 0);
    EXPECT_NE(connect_to(ntohs(own.sin_port)), -1);
    done = true;
  });
  world.run_for(1s);
  EXPECT_TRUE(done);
}

TEST(SimulatedListening, AResetIsSeenAsOne) {
  Simulation world({.seed = 5});
  std::string seen;
  world.process("a", [&](SimulatedProcess&) {
    const int listener = listen_at(80);
    const int client = connect_to(80);
    const int server = ::accept(listener, nullptr, nullptr);
    const linger at_once{1, 0};
    ::setsockopt(server, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(server);
    seen = read_from(client);
  });
  world.run_for(1s);
  EXPECT_EQ(seen, "error " + std::to_string(ECONNRESET));
}

TEST(SimulatedListening, WhoListenedAndIsKilledIsGone) {
  Simulation world({.seed = 6});
  std::string seen = "nothing";
  SimulatedProcess& server = world.process("server", [&](SimulatedProcess&) {
    const int listener = listen_at(80);
    read_from(::accept(listener, nullptr, nullptr));
  });
  world.run_for(1ms);
  world.process("client", [&](SimulatedProcess&) {
    const int connection = connect_to(80);
    seen = read_from(connection);
    EXPECT_EQ(connect_to(80), -1);
  });
  world.run_for(10ms);
  EXPECT_EQ(seen, "nothing");
  world.kill(server);
  world.run_for(10ms);
  EXPECT_EQ(seen, "");
}

TEST(SimulatedListening, TheProxyLosesTheVeryReplyThatATestWantsToBeLost) {
  for (const bool request : {true, false}) {
    Simulation world({.seed = 7});
    zktesting::Proxy proxy("10.0.0.1:2181");
    const zktesting::Fault lost =
        request ? proxy.drop_next_request(RequestType::multi) : proxy.drop_next_reply(RequestType::multi);
    std::optional<zkrecipes::CounterChange> change;
    world.process("a", [&](SimulatedProcess&) {
      const zkclient::Client client(proxy.connect_string(), {.session_timeout = 10s});
      zkrecipes::Counter counter(client, "/hits");
      change = counter.add(1, {.deadline = std::chrono::steady_clock::now() + 30s});
    });
    ASSERT_TRUE(world.run_until([&] { return change.has_value(); }, 30s));
    EXPECT_EQ(*change, (zkrecipes::CounterChange{0, 1})) << "once, whether it was the request or the reply";
    EXPECT_TRUE(lost.happened());
  }
}

TEST(SimulatedServers, ASilentOneIsHeardByNobody) {
  Simulation world({.seed = 8, .servers = 3});
  ASSERT_TRUE(world.run_until([&] { return world.leader() >= 0; }, 10s));
  const int silent = world.leader();
  const zkclient::Client client("10.0.0." + std::to_string(silent + 1) + ":2181", {.session_timeout = 4s});
  const zkclient::Session session = client.connect({.deadline = std::chrono::steady_clock::now() + 10s});
  world.silence_server(silent);
  EXPECT_TRUE(world.run_until([&] { return session.state() != zkclient::ConnectionState::connected; }, 4s));
  EXPECT_TRUE(world.run_until([&] { return world.leader() >= 0 && world.leader() != silent; }, 60s));
  world.heal_server(silent);
  EXPECT_TRUE(world.run_until([&] { return world.serves(silent); }, 60s)) << "it follows the new one";
}

TEST(SimulatedServers, AWipedOneHasNothing) {
  Simulation world({.seed = 9});
  world.run_until([&] { return world.serves(0); }, 10s);
  const zkclient::CallOptions call{.deadline = std::chrono::steady_clock::now() + 60s};
  {
    const zkclient::Client client("10.0.0.1:2181");
    client.create("/a", "", {}, call);
  }
  world.wipe_server(0);
  EXPECT_FALSE(world.serves(0));
  world.start_server(0);
  const zkclient::Client client("10.0.0.1:2181");
  EXPECT_FALSE(client.exists("/a", call));
}

}  // namespace
