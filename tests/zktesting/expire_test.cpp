#include "zktesting/expire.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "testing_support.hpp"

namespace zktesting {
namespace {

class Expire : public testing::Test {
 protected:
  /// What is said of a session that is not there. A server that sits on an attempt leaves it open whether that was
  /// heard: then once more.
  std::string refusal_of(std::int64_t session_id, const std::string& password) const {
    std::string said;
    Clock::time_point begin;
    int attempts = 0;
    do {
      begin = Clock::now();
      said = error_of([&] { expire(address_, session_id, password); });
    } while (said.empty() && Clock::now() - begin >= 500ms && ++attempts < 5);
    return said;
  }

  const std::string address_ = one_server();
};

TEST_F(Expire, EphemeralsAreGoneOnReturn) {
  WireClient observer = connect_to(address_);
  for (int round = 0; round < 20; ++round) {
    WireClient victim = connect_to(address_);
    ASSERT_EQ(victim.create("/expire-me", "", WireClient::ephemeral), 0);
    expire(address_, victim.session().id, victim.session().password);
    EXPECT_EQ(observer.exists("/expire-me"), WireClient::no_node);
    EXPECT_FALSE(connect_to(address_, 20s, victim.session()).connected());
  }
}

TEST_F(Expire, TheOwnersConnectionIsDroppedAtOnce) {
  WireClient victim = connect_to(address_);
  expire(address_, victim.session().id, victim.session().password);
  const auto begin = Clock::now();
  EXPECT_THROW(victim.exists("/"), Error);
  EXPECT_LT(Clock::now() - begin, 15s) << "after 20 s it gives up by itself";
}

TEST_F(Expire, WinsAgainstAnOwnerThatKeepsReconnecting) {
  WireClient observer = connect_to(address_);
  for (int round = 0; round < 10; ++round) {
    detail::SessionId session;
    {
      WireClient victim = connect_to(address_);
      ASSERT_EQ(victim.create("/fought-for", "", WireClient::ephemeral), 0);
      session = victim.session();
    }
    std::atomic<bool> began = false;
    std::jthread owner([&](const std::stop_token& stop) {
      for (bool alive = true; alive && !stop.stop_requested();) {
        try {
          WireClient again(detail::parse_endpoint(address_), 20s, 1s, session);
          alive = again.connected();
          began = true;
          while (alive && !stop.stop_requested()) {
            alive = again.exists("/") != WireClient::session_expired;
          }
        } catch (const Error&) {
          // dropped: reconnect
        }
      }
    });
    ASSERT_TRUE(eventually([&] { return began.load(); }));
    EXPECT_EQ(error_of([&] { expire(address_, session.id, session.password); }), "");
    EXPECT_EQ(observer.exists("/fought-for"), WireClient::no_node);
  }
}

TEST_F(Expire, TriesEachServer) {
  const WireClient victim = connect_to(address_);
  const std::string dead = "127.99.99.99:1";
  expire(dead + "," + address_, victim.session().id, victim.session().password);
  EXPECT_FALSE(connect_to(address_, 20s, victim.session()).connected());
}

TEST_F(Expire, SaysWhatIsWrong) {
  WireClient victim = connect_to(address_);
  const auto id = victim.session().id;
  EXPECT_NE(error_of([&] { expire(address_, id, "short"); }).find("16 bytes"), std::string::npos);
  EXPECT_NE(refusal_of(id, std::string(16, 'x')).find("no session"), std::string::npos);
  EXPECT_NE(refusal_of(42, std::string(16, 'x')).find("no session"), std::string::npos);
  EXPECT_NE(error_of([&] { expire(address_, 0, victim.session().password); }), "");
  EXPECT_NE(error_of([&] { expire("nonsense", id, victim.session().password); }).find("host:port"), std::string::npos);
  EXPECT_NE(error_of([&] { expire("127.99.99.99:1", id, victim.session().password); }).find("cannot connect"),
            std::string::npos);
  EXPECT_EQ(connect_to(address_, 20s, victim.session()).exists("/"), 0) << "it lives";
  const auto session = victim.session();
  expire(address_, session.id, session.password);
  EXPECT_NE(refusal_of(session.id, session.password).find("no session"), std::string::npos);
}

TEST(ExpireTimeout, IsKept) {
  Server server;
  const WireClient victim = connect_to(server.connect_string());
  server.pause();
  const auto begin = Clock::now();
  EXPECT_NE(error_of([&] {
              expire(server.connect_string(), victim.session().id, victim.session().password, 300ms);
            }).find("in time"),
            std::string::npos);
  EXPECT_LT(Clock::now() - begin, 9s) << "10 s is what is usual";
}

}  // namespace
}  // namespace zktesting
