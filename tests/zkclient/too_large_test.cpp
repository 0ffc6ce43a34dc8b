// Requests over the server's own jute.maxbuffer, of which no client knows: the server drops the connection.

#include <gtest/gtest.h>

#include <zkrecipes/mutex.hpp>
#include <zkrecipes/queue.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;

class TooLarge : public ::testing::Test {
 protected:
  static zktesting::ServerOptions narrow() {
    zktesting::ServerOptions options;
    options.jvm_flags = {"-Djute.maxbuffer=16384"};
    return options;
  }
  Client make() { return Client(server_.connect_string(), {.operation_timeout = testkit::patience}); }
  static std::size_t losses(const Client& client, const std::function<void()>& action) {
    std::atomic<std::size_t> count{0};
    const auto listener = client.on_state_change([&](const zkclient::StateChange& change) {
      if (change.state == zkclient::ConnectionState::suspended) ++count;
    });
    action();
    return count;
  }

  const std::string large_ = std::string(20'000, 'x');

 private:
  zktesting::Server server_{narrow()};
};

TEST_F(TooLarge, WhatIsRepeatedIsGivenUpAfterTwoConnections) {
  const Client client = make();
  zkrecipes::Mutex mutex(client, "/unrelated");
  const zkrecipes::Lease lease = mutex.acquire();
  const auto lost = losses(client, [&] {
    try {
      client.create("/n", large_, {.mode = zkclient::CreateMode::ephemeral_sequential, .protection = true});
      ADD_FAILURE() << "the server took it";
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::too_large) << error.what();
      EXPECT_NE(error.detail().find("the server's jute.maxbuffer"), std::string::npos) << error.what();
    }
  });
  EXPECT_LE(lost, 10U) << "two or three, and some that prove nothing, since the server pauses";
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(client.children("/").names.size(), 2U) << "the lock, and ZooKeeper's own";
  client.create("/small", std::string(8'000, 'x'));
}

TEST_F(TooLarge, WhatIsNeverSentTwiceIsRefusedAtTheThirdCall) {
  const Client client = make();
  client.connect();
  // The third, but for connections that a busy machine loses by itself: those are no proof against the size.
  int in_doubt = 0;
  std::optional<Errc> error;
  while ((error = error_of([&] { client.create("/n", large_); })) == Errc::in_doubt && in_doubt < 20)
    ++in_doubt;
  EXPECT_EQ(error, Errc::too_large);
  EXPECT_GE(in_doubt, 2);
  EXPECT_FALSE(client.exists("/n"));
}

// Whoever has small requests on their way at the time loses them twice or three times, and goes on.
TEST_F(TooLarge, OthersAreNotKeptFromTheirWork) {
  const Client client = make();
  client.create("/work");
  std::atomic<bool> ended{false};
  std::atomic<int> reads{0};
  std::vector<std::future<void>> crew;
  for (int i = 0; i < 4; ++i) {
    crew.push_back(testkit::in_thread([&] {
      while (!ended) {
        client.get("/work");
        ++reads;
      }
    }));
  }
  zkrecipes::Queue queue(client, "/queue");
  const auto lost = losses(client, [&] {
    for (int i = 0; i < 3; ++i)
      try {
        queue.push(large_);
      } catch (const Error& error) {
        EXPECT_EQ(error.errc(), Errc::too_large) << error.what();
      }
  });
  EXPECT_LE(lost, 8U) << "three for the first item, not for each; and some that prove nothing, since the server pauses";
  const int before = reads;
  EXPECT_TRUE(testkit::eventually([&] { return reads > before + 100; }));
  ended = true;
  for (auto& member : crew)
    testkit::result_of(member);
  queue.push("small");
  EXPECT_EQ(queue.pop(), "small");
}

// Calls that overlap share a transaction, which may be too large where none of them is.
TEST_F(TooLarge, CallsThatAreTooLargeTogetherAreMadeApart) {
  const Client client = make();
  zkrecipes::Queue queue(client, "/queue");
  queue.push("first");
  std::vector<std::future<void>> crew;
  for (int i = 0; i < 24; ++i)
    crew.push_back(testkit::in_thread([&] { queue.push(std::string(2'000, 'x')); }));
  for (auto& member : crew)
    testkit::result_of(member);
  EXPECT_EQ(queue.size(), 25U);
}

TEST_F(TooLarge, ManyOfOneSizeCostNoMoreConnections) {
  const Client client = make();
  client.connect();
  constexpr std::size_t tries = 20;  // A connection that ends late, since the server pauses, proves nothing.
  std::size_t tried = 0;
  std::vector<std::future<std::optional<Errc>>> crew;
  const auto lost = losses(client, [&] {
    for (std::size_t i = 0; i < 10; ++i) {
      crew.push_back(testkit::in_thread([&, i] {
        return error_of([&] { client.create(zkclient::Path("/n" + std::to_string(i)), large_ + std::string(i, 'x')); });
      }));
    }
    for (auto& member : crew) {
      const auto error = testkit::result_of(member);
      EXPECT_TRUE(error == Errc::in_doubt || error == Errc::too_large);
    }
    // Perhaps none of them was alone in flight twice.
    std::optional<Errc> error;
    for (; tried < tries && error != Errc::too_large; ++tried)
      error = error_of([&] { client.create("/again", large_); });
    EXPECT_EQ(error, Errc::too_large);
    EXPECT_EQ(error_of([&] { client.create("/again", large_ + large_); }), Errc::too_large);
  });
  EXPECT_LE(lost, 9U + tried);
}

}  // namespace
