#include "zktesting/proxy.hpp"

#include <gtest/gtest.h>

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <numeric>
#include <thread>
#include <vector>

#include "testing_support.hpp"
#include "zktesting/detail/event_loop.hpp"
#include "zktesting/detail/frames.hpp"
#include "zktesting/detail/socket.hpp"
#include "zktesting/environment.hpp"

namespace zktesting {
namespace {

using detail::FrameScanner;
using detail::Socket;

constexpr auto long_time = 20s;
constexpr auto moment = 150ms;  ///< Within which what must not come would have come.

/// A client through a proxy, and another one that goes directly.
class ProxyTest : public testing::Test {
 protected:
  void SetUp() override { std::ignore = direct_.create("/p", "", WireClient::persistent); }
  void TearDown() override {
    for (const char* path : {"/p/1", "/p/2", "/p/3", "/p"}) {
      std::ignore = direct_.remove(path);
    }
  }

  WireClient connect() { return connect_to(proxy_.connect_string()); }

  const std::string address_ = one_server();
  WireClient direct_ = connect_to(address_);
  Proxy proxy_{address_};
};

TEST_F(ProxyTest, PassesBytesAndCountsThem) {
  EXPECT_NE(proxy_.connect_string(), address_);
  WireClient client = connect();
  EXPECT_EQ(client.create("/p/1", "abc", WireClient::persistent), 0);
  EXPECT_EQ(client.get_data("/p/1"), "abc");
  EXPECT_EQ(client.ping(), 0);
  EXPECT_EQ(proxy_.request_count(RequestType::connect), 1u);
  EXPECT_EQ(proxy_.request_count(RequestType::create), 1u);
  EXPECT_EQ(proxy_.request_count(RequestType::get_data), 1u);
  EXPECT_EQ(proxy_.request_count(RequestType::ping), 1u);
  EXPECT_EQ(proxy_.request_count(RequestType::set_data), 0u);
  EXPECT_EQ(proxy_.request_count(RequestType::any), 2u);
  EXPECT_TRUE(proxy_.wait_for_requests(RequestType::create, 1, 0ms));
  EXPECT_FALSE(proxy_.wait_for_requests(RequestType::create, 2, 1ms));
  const auto up = proxy_.byte_count(Direction::to_server);
  EXPECT_EQ(client.ping(), 0);
  EXPECT_EQ(proxy_.byte_count(Direction::to_server), up + 12);
  EXPECT_EQ(proxy_.byte_count(Direction::both), up + 12 + proxy_.byte_count(Direction::to_client));
  EXPECT_EQ(proxy_.connections(), 1u);
}

TEST_F(ProxyTest, DropsExactlyOneReplyOfARequestThatWasApplied) {
  WireClient client = connect();
  WireClient bystander = connect();
  Fault fault = proxy_.drop_next_reply(RequestType::create);
  EXPECT_EQ(client.exists("/p"), 0) << "other kinds pass";
  EXPECT_FALSE(fault.happened());

  EXPECT_THROW(client.create("/p/1", "", WireClient::persistent), detail::ConnectionClosed);

  EXPECT_TRUE(fault.wait(long_time));
  EXPECT_EQ(direct_.exists("/p/1"), 0) << "the server did create it";
  EXPECT_EQ(proxy_.dropped_replies(), 1u);
  EXPECT_EQ(proxy_.request_count(RequestType::create), 1u);
  EXPECT_EQ(bystander.create("/p/2", "", WireClient::persistent), 0) << "only the next one";
  WireClient again = connect_to(proxy_.connect_string(), 20s, client.session());
  EXPECT_TRUE(again.connected());
  EXPECT_EQ(again.create("/p/1", "", WireClient::persistent), WireClient::node_exists);
}

TEST_F(ProxyTest, AFaultHasHappenedOnceItsClientSeesIt) {
  for (int round = 0; round < 200; ++round) {
    WireClient client = connect();
    const Fault fault = proxy_.drop_next_reply(RequestType::exists);
    EXPECT_THROW(client.exists("/p"), detail::ConnectionClosed);
    ASSERT_TRUE(fault.happened()) << round;
  }
}

TEST_F(ProxyTest, DeliversTheRepliesBeforeADroppedOne) {
  WireClient client = connect();
  Fault fault = proxy_.drop_next_reply(RequestType::create);
  std::vector<std::int32_t> reads;
  for (int i = 0; i < 50; ++i) {
    reads.push_back(client.send(3, WireClient::path_body("/p", false)));
  }
  const auto create = client.send(1, WireClient::create_body("/p/1", "", WireClient::persistent));
  const auto later = client.send(3, WireClient::path_body("/p", false));
  for (const auto xid : reads) {
    EXPECT_EQ(client.receive(xid), 0);
  }
  EXPECT_THROW(client.receive(create), detail::ConnectionClosed);
  EXPECT_THROW(client.receive(later), detail::ConnectionClosed);
  EXPECT_TRUE(fault.wait(long_time));
}

TEST_F(ProxyTest, DropsARequestThatTheServerNeverSees) {
  bool answered = false;
  std::size_t attempts = 0;
  for (; attempts < 5 && !answered; ++attempts) {
    WireClient client = connect();
    Fault fault = proxy_.drop_next_request(RequestType::create);
    const auto begin = Clock::now();
    const auto first = client.send(3, WireClient::path_body("/p", false));
    const auto lost = client.send(1, WireClient::create_body("/p/1", "", WireClient::persistent));
    const auto later = client.send(1, WireClient::create_body("/p/2", "", WireClient::persistent));
    try {
      EXPECT_EQ(client.receive(first), 0);
      answered = true;
    } catch (const detail::ConnectionClosed&) {
      EXPECT_GE(Clock::now() - begin, 1s) << "for so long the proxy waits for the server: once more";
    }
    EXPECT_THROW(client.receive(lost), detail::ConnectionClosed);
    EXPECT_THROW(client.receive(later), detail::ConnectionClosed);
    EXPECT_TRUE(fault.wait(long_time));
  }
  EXPECT_TRUE(answered) << "what precedes is answered";
  EXPECT_EQ(proxy_.dropped_requests(), attempts);
  // A round trip through a new connection: the server is past all that the old one brought.
  EXPECT_EQ(connect().exists("/p/1"), WireClient::no_node);
  EXPECT_EQ(direct_.exists("/p/2"), WireClient::no_node) << "nothing overtakes a lost request";
}

TEST_F(ProxyTest, DropsTheReplyToTheHandshake) {
  const auto sessions = [&] { return proxy_.request_count(RequestType::connect); };
  Fault fault = proxy_.drop_next_reply(RequestType::connect);
  EXPECT_THROW(connect(), detail::ConnectionClosed);
  EXPECT_TRUE(fault.wait(long_time));
  EXPECT_EQ(sessions(), 1u);
  EXPECT_TRUE(connect().connected());
}

TEST_F(ProxyTest, ForgesTheSessionOfAHandshake) {
  WireClient real = connect();
  Fault fault = proxy_.forge_next_session();
  const WireClient client(detail::parse_endpoint(proxy_.connect_string()), 10s, long_time, real.session());
  EXPECT_TRUE(fault.wait(long_time));
  EXPECT_TRUE(client.connected());
  EXPECT_NE(client.session().id, real.session().id);
  EXPECT_TRUE(connect().connected());
  EXPECT_EQ(proxy_.dropped_replies(), 0u);
}

TEST_F(ProxyTest, FaultsHappenOneByOneAndCanBeCancelled) {
  Fault first = proxy_.drop_next_reply(RequestType::any);
  Fault second = proxy_.drop_next_reply(RequestType::exists);
  Fault never = proxy_.drop_next_reply(RequestType::exists);
  never.cancel();
  WireClient a = connect();
  EXPECT_EQ(a.ping(), 0) << "any is neither connect nor ping";
  EXPECT_THROW(a.exists("/p"), Error);
  EXPECT_TRUE(first.wait(long_time));
  EXPECT_FALSE(second.happened());
  WireClient b = connect();
  EXPECT_THROW(b.exists("/p"), Error);
  EXPECT_TRUE(second.wait(long_time));
  EXPECT_EQ(connect().exists("/p"), 0);
  EXPECT_FALSE(never.happened());
  EXPECT_FALSE(never.wait(1ms));
}

TEST_F(ProxyTest, HoldsAReplyUntilReleased) {
  WireClient client = connect();
  WireClient bystander = connect();
  constexpr std::size_t exists_reply = 4 + 16 + 68;
  constexpr std::size_t create_reply = 4 + 16 + 4 + 4;
  const auto bytes = proxy_.byte_count(Direction::to_client);
  HeldReply held = proxy_.hold_next_reply(RequestType::create);
  const auto before = client.send(3, WireClient::path_body("/p", false));
  const auto create = client.send(1, WireClient::create_body("/p/1", "", WireClient::persistent));
  const auto after = client.send(3, WireClient::path_body("/p", false));
  ASSERT_TRUE(held.wait(long_time));
  EXPECT_EQ(direct_.exists("/p/1"), 0) << "applied";
  EXPECT_EQ(client.receive(before), 0);
  EXPECT_EQ(bystander.create("/p/2", "", WireClient::persistent), 0);
  EXPECT_EQ(proxy_.byte_count(Direction::to_client), bytes + exists_reply + create_reply)
      << "the reply before the held one, and the bystander's";
  held.release();
  EXPECT_EQ(client.receive(create), 0);
  EXPECT_EQ(client.receive(after), 0);
}

TEST_F(ProxyTest, AHeldReplyIsReleasedByTheDestructorAndOutlivesItsProxy) {
  WireClient client = connect();
  {
    HeldReply held = proxy_.hold_next_reply(RequestType::exists);
    const auto xid = client.send(3, WireClient::path_body("/p", false));
    ASSERT_TRUE(held.wait(long_time));
    { const HeldReply gone = std::move(held); }
    EXPECT_EQ(client.receive(xid), 0);
  }
  auto proxy = std::make_unique<Proxy>(address_);
  WireClient other = connect_to(proxy->connect_string());
  HeldReply held = proxy->hold_next_reply(RequestType::exists);
  std::ignore = other.send(3, WireClient::path_body("/p", false));
  ASSERT_TRUE(held.wait(long_time));
  proxy.reset();
  held.release();
}

TEST_F(ProxyTest, DropsExactlyOneEventAndBreaksItsConnection) {
  WireClient client = connect();
  for (const char* path : {"/p/1", "/p/2", "/p/3"}) {
    EXPECT_EQ(client.exists(path, true), WireClient::no_node);
  }
  const Fault reply = proxy_.drop_next_reply(RequestType::create);
  Fault never = proxy_.drop_next_event();
  never.cancel();
  const Fault fault = proxy_.drop_next_event(1);
  constexpr std::int32_t event = -1;
  std::string body;
  EXPECT_EQ(direct_.create("/p/1", "", WireClient::persistent), 0);
  EXPECT_EQ(client.receive(event, &body), 0);
  EXPECT_NE(body.find("/p/1"), std::string::npos);
  EXPECT_FALSE(fault.happened());
  EXPECT_EQ(direct_.create("/p/2", "", WireClient::persistent), 0);
  EXPECT_EQ(direct_.create("/p/3", "", WireClient::persistent), 0);
  EXPECT_THROW(client.receive(event), detail::ConnectionClosed);
  EXPECT_TRUE(fault.wait(long_time));
  EXPECT_FALSE(never.happened());
  EXPECT_FALSE(reply.happened()) << "an event is no reply";
  EXPECT_EQ(proxy_.dropped_replies(), 0u);
  EXPECT_TRUE(connect_to(proxy_.connect_string(), 20s, client.session()).connected());
}

TEST_F(ProxyTest, StampsEventsAndReadsHandshakes) {
  constexpr std::int64_t stamp = 0x1122334455667788;
  const auto deadline = Clock::now() + long_time;
  Socket socket(detail::parse_endpoint(proxy_.connect_string()), deadline);
  std::string handshake = WireClient::connect_frame(20s, {});
  handshake[15] = 1;  // The last byte of the zxid.
  EXPECT_EQ(proxy_.last_seen_zxid(), 0);
  socket.write(handshake, deadline);
  EXPECT_NE(detail::read_connect_reply(socket, deadline).session.id, 0);
  EXPECT_EQ(proxy_.last_seen_zxid(), 1);
  const auto event_of = [&](const char* path) {
    socket.write(WireClient::request_frame(1, 3, WireClient::path_body(path, true)), deadline);
    EXPECT_EQ(detail::get_int32(detail::read_frame(socket, deadline), 0), 1);
    EXPECT_EQ(direct_.create(path, "", WireClient::persistent), 0);
    std::string frame = detail::read_frame(socket, deadline);
    EXPECT_EQ(detail::get_int32(frame, 0), -1);
    EXPECT_NE(frame.find(path), std::string::npos);
    return frame;
  };
  proxy_.stamp_events(stamp);
  const std::string stamped = event_of("/p/1");
  EXPECT_EQ(detail::get_int64(stamped, 4), stamp);
  proxy_.stamp_events(std::nullopt);
  const std::string plain = event_of("/p/2");
  EXPECT_NE(detail::get_int64(plain, 4), stamp);
  EXPECT_EQ(stamped.substr(12, 12), plain.substr(12, 12)) << "nothing else is touched";
  connect();
  EXPECT_EQ(proxy_.last_seen_zxid(), 0) << "a new session has seen nothing";
}

TEST_F(ProxyTest, CutResetsEveryConnection) {
  WireClient one = connect();
  WireClient two = connect();
  proxy_.cut();
  EXPECT_EQ(proxy_.connections(), 0u);
  EXPECT_NE(error_of([&] { one.exists("/p"); }).find("reset"), std::string::npos);
  EXPECT_NE(error_of([&] { two.exists("/p"); }).find("reset"), std::string::npos);
  EXPECT_EQ(connect_to(proxy_.connect_string(), 20s, one.session()).exists("/p"), 0);
  EXPECT_EQ(proxy_.accepted_connections(), 3u);
}

TEST_F(ProxyTest, RefusesNewConnectionsOnly) {
  WireClient client = connect();
  const auto address = proxy_.connect_string();
  for (int i = 0; i < 20; ++i) {
    proxy_.refuse(true);
    EXPECT_NE(error_of([&] { connect(); }).find("refused"), std::string::npos);
    EXPECT_EQ(client.exists("/p"), 0);
    proxy_.refuse(false);
    EXPECT_EQ(proxy_.connect_string(), address);
    EXPECT_EQ(connect().exists("/p"), 0);
  }
}

TEST_F(ProxyTest, StallTowardsTheClientHoldsReplies) {
  WireClient client = connect();
  proxy_.stall(Direction::to_client);
  const auto create = client.send(1, WireClient::create_body("/p/1", "", WireClient::persistent));
  EXPECT_TRUE(eventually([&] { return direct_.exists("/p/1") == 0; })) << "the server got it";
  const auto bytes = proxy_.byte_count(Direction::to_client);
  proxy_.unstall(Direction::to_client);
  EXPECT_EQ(client.receive(create), 0);
  EXPECT_GT(proxy_.byte_count(Direction::to_client), bytes);
}

TEST_F(ProxyTest, StallTowardsTheServerHoldsRequests) {
  WireClient client = connect();
  proxy_.stall(Direction::to_server);
  const auto bytes = proxy_.byte_count(Direction::to_server);
  const auto create = client.send(1, WireClient::create_body("/p/1", "", WireClient::persistent));
  EXPECT_FALSE(proxy_.wait_for_requests(RequestType::create, 1, moment));
  EXPECT_EQ(direct_.exists("/p/1"), WireClient::no_node);
  EXPECT_EQ(proxy_.byte_count(Direction::to_server), bytes);
  proxy_.unstall(Direction::both);
  EXPECT_EQ(client.receive(create), 0) << "held, not lost";
}

TEST_F(ProxyTest, AStallHoldsNewConnectionsToo) {
  proxy_.stall(Direction::both);
  std::thread late([&] { EXPECT_EQ(connect().exists("/p"), 0); });
  {
    const Socket impatient(detail::parse_endpoint(proxy_.connect_string()), Clock::now() + 10s);
    EXPECT_TRUE(eventually([&] { return proxy_.connections() == 2; }));
  }
  EXPECT_EQ(proxy_.request_count(RequestType::connect), 0u);
  proxy_.unstall(Direction::both);
  late.join();
  EXPECT_TRUE(eventually([&] { return proxy_.connections() == 0; }));
}

TEST_F(ProxyTest, CutWorksDuringAStall) {
  WireClient client = connect();
  proxy_.stall(Direction::both);
  const auto xid = client.send(3, WireClient::path_body("/p", false));
  proxy_.cut();
  EXPECT_THROW(client.receive(xid), Error);
}

TEST_F(ProxyTest, DelaysADirection) {
  WireClient client = connect();
  proxy_.delay(Direction::to_server, moment);
  proxy_.delay(Direction::to_client, moment);
  auto begin = Clock::now();
  EXPECT_EQ(client.exists("/p"), 0);
  EXPECT_GE(Clock::now() - begin, 2 * moment);
  begin = Clock::now();
  constexpr int many = 100;  // One after the other they would take longer than a busy machine.
  std::vector<std::int32_t> xids;
  for (int i = 0; i < many; ++i) {
    xids.push_back(client.send(3, WireClient::path_body("/p", false)));
  }
  for (const auto xid : xids) {
    EXPECT_EQ(client.receive(xid), 0);
  }
  EXPECT_LT(Clock::now() - begin, many * moment) << "a delay is not a queue";
  proxy_.delay(Direction::both, 0ms);
  EXPECT_EQ(client.exists("/p"), 0);
  EXPECT_NE(error_of([&] { proxy_.delay(Direction::both, -1ms); }), "");
}

TEST_F(ProxyTest, PassesFourLetterWords) {
  {
    Socket socket(detail::parse_endpoint(proxy_.connect_string()), Clock::now() + 10s);
    socket.write("srvr", Clock::now() + 10s);
    EXPECT_NE(socket.read_all(Clock::now() + 10s).find("Mode:"), std::string::npos);
  }
  EXPECT_EQ(proxy_.request_count(RequestType::any), 0u);
  EXPECT_TRUE(eventually([&] { return proxy_.connections() == 0; }));
}

TEST_F(ProxyTest, FollowsItsServersEnd) {
  Server server;
  const Proxy proxy(server.connect_string());
  WireClient client = connect_to(proxy.connect_string());
  server.kill();
  EXPECT_THROW(client.exists("/"), detail::ConnectionClosed);
  EXPECT_THROW(connect_to(proxy.connect_string()), Error);
  server.start();
  EXPECT_EQ(connect_to(proxy.connect_string()).exists("/"), 0);
}

TEST_F(ProxyTest, FramesMayComeInPiecesAndMayBeBig) {
  const std::string big(900'000, 'x');
  const auto deadline = Clock::now() + long_time;
  Socket socket(detail::parse_endpoint(proxy_.connect_string()), deadline);
  const std::string bytes =
      WireClient::connect_frame(20s, {}) +
      WireClient::request_frame(1, 1, WireClient::create_body("/p/1", "", WireClient::persistent)) +
      WireClient::request_frame(2, 3, WireClient::path_body("/p/1", false));
  for (const char byte : bytes) {
    socket.write({&byte, 1}, deadline);
  }
  EXPECT_NE(detail::read_connect_reply(socket, deadline).session.id, 0);
  EXPECT_EQ(detail::get_int32(detail::read_frame(socket, deadline), 0), 1);
  EXPECT_EQ(detail::get_int32(detail::read_frame(socket, deadline), 0), 2);
  WireClient client = connect();
  EXPECT_EQ(client.create("/p/2", big, WireClient::persistent), 0);
  EXPECT_EQ(client.get_data("/p/2"), big);
  EXPECT_EQ(proxy_.request_count(RequestType::create), 2u);
  Fault fault = proxy_.drop_next_reply(RequestType::get_data);
  EXPECT_THROW(client.get_data("/p/2"), Error);
  EXPECT_TRUE(fault.happened() || fault.wait(long_time));
}

TEST_F(ProxyTest, KeepsCountUnderLoadFromManyThreads) {
  constexpr int threads = 4;
  constexpr int window = 64;
  constexpr int rounds = 40;
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    // Connected before the proxy begins to refuse.
    workers.emplace_back([&, client = connect()]() mutable {
      for (int round = 0; round < rounds; ++round) {
        std::vector<std::int32_t> xids(window);
        for (auto& xid : xids) {
          xid = client.send(3, WireClient::path_body("/p", false));
        }
        for (const auto xid : xids) {
          EXPECT_EQ(client.receive(xid), 0);
        }
      }
    });
  }
  while (!proxy_.wait_for_requests(RequestType::exists, threads * window * rounds, 1ms)) {
    proxy_.stall(Direction::both);
    proxy_.refuse(true);
    proxy_.refuse(false);
    proxy_.unstall(Direction::both);
  }
  for (auto& worker : workers) {
    worker.join();
  }
  EXPECT_EQ(proxy_.request_count(RequestType::exists), static_cast<std::size_t>(threads * window * rounds));
}

TEST(Proxy, PassesAnyBytesWhenNotParsing) {
  // Echoes through a listener of our own: nothing here looks like ZooKeeper.
  const auto listener = detail::listen_on({"127.88.7.6", 0});
  ProxyOptions options;
  options.parse = false;
  options.listen_address = "127.88.7.7";
  Proxy proxy(detail::local_endpoint(listener.get()).text(), options);
  EXPECT_TRUE(proxy.connect_string().starts_with("127.88.7.7:"));
  EXPECT_NE(error_of([&] { proxy.drop_next_reply(RequestType::any); }).find("parse"), std::string::npos);
  EXPECT_NE(error_of([&] { proxy.drop_next_event(); }).find("parse"), std::string::npos);
  EXPECT_NE(error_of([&] { proxy.stamp_events(1); }).find("parse"), std::string::npos);
  Socket socket(detail::parse_endpoint(proxy.connect_string()), Clock::now() + 10s);
  socket.write(std::string(3, '\xff'), Clock::now() + 10s);
  EXPECT_TRUE(eventually([&] { return proxy.byte_count(Direction::to_server) == 3; }));
}

TEST(Proxy, RefusesABadTarget) {
  for (const char* bad :
       {"", "host", ":1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:1x", "no such host:1"}) {
    EXPECT_NE(error_of([&] { Proxy{bad}; }), "") << bad;
  }
}

// The program's handlers run on the program's threads.
std::atomic<pid_t> test_thread{0};
std::atomic<int> taken_by_others{0};
void note_thread(int) {
  if (::gettid() != test_thread) ++taken_by_others;
}

TEST(EventLoop, TakesNoSignalOfTheProgramNotEvenWhileItBegins) {
  test_thread = ::gettid();
  struct sigaction note {};
  struct sigaction former_action {};
  note.sa_handler = note_thread;
  ASSERT_EQ(::sigaction(SIGUSR1, &note, &former_action), 0);
  sigset_t signal;
  sigset_t former_mask;
  ::sigemptyset(&signal);
  ::sigaddset(&signal, SIGUSR1);
  for (int round = 0; round < 100; ++round) {
    {
      const detail::EventLoop loop;
      // Blocked only now, so that the new thread does not inherit it: a signal of the process is for that thread, then.
      ::pthread_sigmask(SIG_BLOCK, &signal, &former_mask);
      ::kill(::getpid(), SIGUSR1);
    }
    ::pthread_sigmask(SIG_SETMASK, &former_mask, nullptr);
  }
  ::sigaction(SIGUSR1, &former_action, nullptr);
  EXPECT_EQ(taken_by_others, 0);
}

TEST(FrameScanner, FindsFramesInAnyPieces) {
  const std::string stream = WireClient::connect_frame(1s, {}) + WireClient::request_frame(-2, 11, "") +
                             WireClient::request_frame(7, 1, std::string(100, 'x')) + std::string("\0\0\0\0", 4) +
                             WireClient::request_frame(8, 2, "y");
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameScanner scanner;
    std::string input;
    std::vector<std::optional<std::int32_t>> types;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      input += stream.substr(at, piece);
      std::size_t position = 0;
      while (scanner.next(input, position) == FrameScanner::Step::head) {
        types.push_back(scanner.head().first ? -10 : scanner.head().type);
        scanner.accept();
      }
      input.erase(0, position);
    }
    EXPECT_EQ(types, (std::vector<std::optional<std::int32_t>>{-10, 11, 1, std::nullopt, 2}));
  }
}

TEST(FrameScanner, RecognisesWhatIsNotItsProtocol) {
  FrameScanner scanner;
  std::size_t position = 0;
  EXPECT_EQ(scanner.next("srv", position), FrameScanner::Step::need);
  EXPECT_EQ(scanner.next("srvr", position), FrameScanner::Step::not_ours);
}

}  // namespace
}  // namespace zktesting
