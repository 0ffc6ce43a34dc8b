#include <atomic>
#include <cstdio>
#include <fstream>
#include <future>
#include <map>
#include <set>

#include <unistd.h>

#include "tests/support/testkit.hpp"

namespace {

using namespace std::chrono_literals;
using testkit::Box;
using testkit::error_of;
using testkit::eventually;
using zkclient::any_version;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;
using zkclient::Stat;
using zkclient::Transaction;
using zkclient::Watch;
using zkclient::WatchEvent;
using zkclient::WatchEventType;

const auto never = testkit::SteadyClock::now() + 10min;

class LimitsTest : public testkit::FaultTest {};

TEST_F(LimitsTest, TenThousandWatchesAreRenewedAndFireOnce) {
  constexpr int count = 10'000;
  const auto path = [](int i) { return Path("/w/n" + std::to_string(i)); };
  std::atomic<int> done{0};
  std::vector<std::atomic<int>> fired(count);
  std::atomic<int> events{0};
  std::vector<Watch> watches(count);
  std::atomic<int> armed{0};
  const Client client = proxied();
  const Client writer = direct();
  client.connect();
  writer.create("/w");
  for (int i = 0; i < count; i += 100) {
    Transaction batch;
    for (int k = i; k < i + 100; ++k)
      batch.create(path(k));
    writer.async_commit(batch, [&](const auto& result) {
      EXPECT_TRUE(result);
      ++done;
    });
  }
  ASSERT_TRUE(eventually([&] { return done == count / 100; }));
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    client.async_get_and_watch(
        path(i),
        [&fired, &events, index](const WatchEvent& event) {
          if (event.type == WatchEventType::data_changed) ++fired[index];
          ++events;
        },
        [&watches, &armed, index](auto result) {
          if (result) watches[index] = std::move(result->watch);
          ++armed;
        });
  }
  ASSERT_TRUE(eventually([&] { return armed == count; }));
  EXPECT_EQ(server.watch_count(), static_cast<std::size_t>(count));
  const auto session = client.session().id();
  proxy.cut();
  client.sync("/", {.deadline = testkit::soon()});
  EXPECT_EQ(client.session().id(), session);
  EXPECT_EQ(server.watch_count(), static_cast<std::size_t>(count)) << "renewed";
  done = 0;
  for (int i = 0; i < count; i += 100) {
    Transaction batch;
    for (int k = i; k < i + 100; ++k)
      batch.set(path(k), "x").set(path(k), "y");
    writer.async_commit(batch, [&](const auto&) { ++done; });
  }
  ASSERT_TRUE(eventually([&] { return done == count / 100 && events >= count; })) << events;
  client.sync("/");
  EXPECT_EQ(events, count);
  for (const auto& times : fired)
    ASSERT_EQ(times, 1);
  EXPECT_EQ(server.watch_count(), 0u);
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(LimitsTest, AHundredThousandPipelinedOperations) {
  constexpr int count = 100'000;
  std::atomic<int> succeeded{0};
  std::atomic<int> done{0};
  const Client client = direct();
  client.create("/n");
  const std::size_t before = resident_bytes();
  std::size_t most = before;
  for (int i = 0; i < count; ++i) {
    if (i % 10'000 == 0) most = std::max(most, resident_bytes());
    const auto finished = [&](const auto& result) {
      if (result) ++succeeded;
      ++done;
    };
    const zkclient::CallOptions patient{.deadline = never};
    if (i % 4 == 0) {
      client.async_set("/n", "value", any_version, finished, patient);
    } else {
      client.async_get("/n", finished, patient);
    }
  }
  ASSERT_TRUE(eventually([&] {
    most = std::max(most, resident_bytes());
    return done == count;
  })) << done;
  EXPECT_EQ(succeeded, count);
  GTEST_LOG_(INFO) << (most - before) / count << " bytes per operation at most";
  EXPECT_LT(most, before + 600'000'000);
}

TEST(OverloadTest, CallsBeyondTheLimitAreRefusedAtOnce) {
  constexpr int limit = 200'000;
  Client client("127.0.0.1:1");
  std::atomic<int> refused{0};
  std::atomic<int> closed{0};
  for (int i = 0; i < limit + 5; ++i) {
    const auto count = [&](const Result<std::optional<Stat>>& result) {
      if (result.code() == Errc::overloaded) ++refused;
      if (result.code() == Errc::closed) ++closed;
    };
    client.async_exists("/n", count, {.deadline = never});
  }
  EXPECT_TRUE(eventually([&] { return refused == 5; }));
  EXPECT_EQ(error_of([&] { client.exists("/n"); }), Errc::overloaded);
  client.close();
  EXPECT_EQ(refused, 5);
  EXPECT_EQ(closed, limit);
}

TEST(OverloadTest, WhatWasGivenUpTakesNoMemory) {
  Client client("127.0.0.1:1");
  const std::string megabyte(1'000'000, 'x');
  const std::size_t before = resident_bytes();
  for (int round = 0; round < 4; ++round) {
    std::atomic<int> given_up{0};
    for (int i = 0; i < 200; ++i) {
      const auto count = [&](const Result<Stat>& result) { given_up += result.code() == Errc::deadline_exceeded; };
      client.async_set("/n", megabyte, any_version, count, {.deadline = testkit::SteadyClock::now() + 50ms});
    }
    EXPECT_TRUE(eventually([&] { return given_up == 200; })) << given_up;
  }
  EXPECT_LT(resident_bytes(), before + 500'000'000);
}

TEST(OverloadTest, CallsOfSeveralStepsCountAsWell) {
  Client client("127.0.0.1:1");
  const std::string megabyte(1'000'000, 'x');
  std::atomic<int> refused{0};
  for (int i = 0; i < 300; ++i) {
    client.async_create("/n-", megabyte, {.protection = true}, [&](const Result<zkclient::Created>& result) {
      if (result.code() == Errc::overloaded) ++refused;
    });
  }
  EXPECT_TRUE(eventually([&] { return refused == 300 - 268; })) << refused;
  client.close();
}

TEST_F(LimitsTest, RepliesThatNoHandlerHasTakenCountAsWell) {
  zkclient::Runtime runtime({.max_callback_threads = 1});
  const Client client(runtime, server.connect_string(), options());
  client.create("/big", std::string(1'000'000, 'x'));
  std::promise<void> go_on;
  const std::shared_future<void> released = go_on.get_future().share();
  std::atomic<int> done{0};
  std::atomic<int> refused{0};
  int asked = 0;
  // Each asks for more than the one before has brought, so that the limit is reached after 268 of them.
  for (; refused == 0 && asked < 400; ++asked) {
    client.async_get("/big", [&, released](const Result<zkclient::NodeData>& result) {
      released.wait();
      if (result.code() == Errc::overloaded) ++refused;
      ++done;
    });
    // Known from the other side: a call that is refused is refused at once.
    std::error_code error;
    client.exists("/big", {.deadline = never}, error);
    if (error == Errc::overloaded) break;
    ASSERT_FALSE(error) << error.message();
  }
  EXPECT_GE(asked, 260);
  EXPECT_LT(asked, 300);
  go_on.set_value();
  EXPECT_TRUE(eventually([&] { return done >= asked; })) << done;
  EXPECT_EQ(client.exists("/big")->version, 0) << "there is room again";
}

TEST(OverloadTest, SoIsWhatHoldsTooMuchData) {
  Client client("127.0.0.1:1");
  const std::string megabyte(1'000'000, 'x');
  std::atomic<int> refused{0};
  for (int i = 0; i < 300; ++i) {
    client.async_set("/n", megabyte, any_version, [&](const Result<Stat>& result) {
      if (result.code() == Errc::overloaded) ++refused;
    });
  }
  EXPECT_TRUE(eventually([&] { return refused == 300 - 268; })) << refused;
  client.close();
  EXPECT_EQ(refused, 300 - 268);
}

TEST_F(LimitsTest, AValueOfAlmostAMegabyteComesBackWhole) {
  const Client client = direct();
  std::string value(1'047'000, '\0');
  for (std::size_t i = 0; i < value.size(); ++i)
    value[i] = static_cast<char>(i * 7);
  client.create("/big", value);
  EXPECT_TRUE(client.get("/big").data == value);
  client.set("/big", std::nullopt);
  EXPECT_TRUE(client.get("/big").is_null);
  client.set("/big", "");
  EXPECT_FALSE(client.get("/big").is_null);
  try {
    client.set("/big", std::string(1'050'000, 'x'));
    FAIL() << "sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::too_large);
    EXPECT_NE(error.detail().find("1050"), std::string::npos) << error.what();
  }
}

// ---- Transactions ---------------------------------------------------------------------------------------------------

TEST_F(LimitsTest, TransactionsThatTheCClientCannotDoAreNeverSent) {
  const Client client = proxied();
  client.connect();
  const auto refuses = [&](zkclient::CreateOptions options) {
    try {
      Transaction().check("/a").create("/b/c", "", options);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.path(), "/b/c") << error.what();
      EXPECT_NE(std::string(error.what()).find("operation 2"), std::string::npos) << error.what();
    }
  };
  refuses({.mode = zkclient::CreateMode::container});
  refuses({.mode = zkclient::CreateMode::persistent_ttl, .ttl = 1000ms});
  refuses({.parents = true});
  refuses({.protection = true});
  refuses({.acl = {}});
  EXPECT_EQ(error_of([&] { Transaction().set("no-slash", ""); }), Errc::invalid_path);
  EXPECT_EQ(error_of([&] { client.commit(Transaction()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] {
              client.commit(Transaction().set("/a", std::string(600'000, 'x')).set("/b", std::string(600'000, 'x')));
            }),
            Errc::too_large);
  const Client deep(proxy.connect_string(), {.prefix = Path("/" + std::string(60'000, 'p'))});
  EXPECT_EQ(error_of([&] { deep.commit(Transaction().check("/a").check(Path("/" + std::string(10'000, 'q')))); }),
            Errc::invalid_path);
  EXPECT_EQ(proxy.request_count(zktesting::RequestType::multi), 0u);
}

TEST_F(LimitsTest, TransactionsThatWaitEndWithTheClient) {
  Client client = proxied();
  client.connect();
  const zkclient::Session session = client.session();
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return session.state() != zkclient::ConnectionState::connected; }));
  std::vector<Box<std::error_code>> codes(3);
  for (auto& box : codes) {
    client.async_commit(Transaction().create("/a").create("/b"),
                        [&box](const auto& result) { box.put(result.code()); });
  }
  ASSERT_TRUE(testkit::stopped(session.lost()));
  client.close();
  for (auto& box : codes)
    EXPECT_EQ(box.take(), Errc::closed);
}

}  // namespace
