#include <atomic>
#include <cstdio>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <zkrecipes/mutex.hpp>

#include "tests/support/memory.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using testkit::resident_bytes;
using testkit::sanitized;
using zkclient::Watch;

const auto never = testkit::SteadyClock::now() + 10min;

class LimitsTest : public testkit::FaultTest {
 protected:
  // For what takes its time on a slow machine.
  static zkclient::ClientOptions calm() { return {.session_timeout = 30s, .operation_timeout = 10min}; }
};

TEST_F(LimitsTest, TenThousandWatchesAreRenewedAndFireOnce) {
  constexpr int count = 10'000;
  const auto path = [](int i) { return Path("/w/n" + std::to_string(i)); };
  std::atomic<int> done{0};
  std::vector<std::atomic<int>> fired(count);
  std::atomic<int> events{0};
  std::vector<Watch> watches(count);
  std::atomic<int> armed{0};
  const Client client(proxy.connect_string(), calm());
  const Client writer(server.connect_string(), calm());
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
  ASSERT_TRUE(eventually([&] { return done == count / 100; }, 2min));
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    client.async_get_and_watch(
        path(i),
        [&fired, &events, index](const WatchEvent& event) {
          if (event.type == WatchEventType::data_changed) ++fired[index];
          ++events;
        },
        [&watches, &armed, index](auto result) {
          if (result) watches[index] = std::move(result->watch());
          ++armed;
        });
  }
  ASSERT_TRUE(eventually([&] { return armed == count; }, 2min));
  EXPECT_EQ(server.watch_count(), static_cast<std::size_t>(count));
  const auto session = client.session().id();
  proxy.cut();
  client.sync("/");
  EXPECT_EQ(client.session().id(), session);
  // Those of the connection that was cut may be there for a moment longer.
  EXPECT_TRUE(eventually([&] { return server.watch_count() == static_cast<std::size_t>(count); })) << "renewed";
  done = 0;
  for (int i = 0; i < count; i += 100) {
    Transaction batch;
    for (int k = i; k < i + 100; ++k)
      batch.set(path(k), "x").set(path(k), "y");
    writer.async_commit(batch, [&](const auto&) { ++done; });
  }
  ASSERT_TRUE(eventually([&] { return done == count / 100 && events >= count; }, 2min)) << events;
  client.sync("/");
  EXPECT_EQ(events, count);
  for (const auto& times : fired)
    ASSERT_EQ(times, 1);
  EXPECT_EQ(server.watch_count(), 0u);
}

// Hundreds of megabytes take ThreadSanitizer minutes on a busy machine, and say nothing of threads.
#if defined(__SANITIZE_THREAD__)
constexpr bool memory_takes_minutes = true;
#else
constexpr bool memory_takes_minutes = false;
#endif

TEST_F(LimitsTest, AHundredThousandPipelinedOperations) {
  constexpr int count = sanitized ? 10'000 : 100'000;
  std::atomic<int> succeeded{0};
  std::atomic<int> done{0};
  const Client client(server.connect_string(), calm());
  client.create("/n");
  const std::size_t before = resident_bytes();
  std::size_t most = before;
  for (int i = 0; i < count; ++i) {
    if (i % 1000 == 0) most = std::max(most, resident_bytes());
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
  const auto all_done = [&] {
    most = std::max(most, resident_bytes());
    return done == count;
  };
  ASSERT_TRUE(eventually(all_done, 2min)) << done;
  EXPECT_EQ(succeeded, count);
  const std::size_t each = (most - before) / count;
  GTEST_LOG_(INFO) << each << " bytes per operation at most";
  if (!sanitized) {
    EXPECT_LT(each, 3000u);
  }
}

constexpr std::size_t window = 2048;  // Of requests that are on their way.

TEST_F(LimitsTest, WhatIsBeyondTheWindowWaitsInTheClientAndCanBeTakenBack) {
  constexpr std::size_t more = 100;
  Box<std::error_code> sent;
  Box<std::error_code> waiting;
  const Client client(proxy.connect_string(), {.session_timeout = 30s});
  client.create("/n");
  std::stop_source stop;
  auto held = proxy.hold_next_reply(RequestType::set_data);
  for (std::size_t i = 0; i < window + more; ++i) {
    client.async_set("/n", "x", any_version,
                     [&box = i < window ? sent : waiting](const Result<Stat>& result) { box.put(result.code()); },
                     {.deadline = never, .stop = stop.get_token()});
  }
  ASSERT_TRUE(held.wait(testkit::patience));
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::set_data, window, testkit::patience));
  stop.request_stop();
  for (std::size_t i = 0; i < more; ++i)
    EXPECT_EQ(waiting.take(), Errc::cancelled) << "it was not sent";
  for (std::size_t i = 0; i < window; ++i)
    EXPECT_EQ(sent.take(), Errc::in_doubt);
  held.release();
  EXPECT_EQ(client.exists("/n", {.deadline = testkit::soon()})->version, static_cast<std::int32_t>(window));
  EXPECT_EQ(proxy.request_count(RequestType::set_data), window);
}

TEST_F(LimitsTest, AHeartbeatGoesBeforeWhatWaits) {
  constexpr int count = 3000;
  std::atomic<int> done{0};
  const Client client(proxy.connect_string(), {.session_timeout = 24s});
  zkrecipes::Mutex mutex(client, "/lock");
  const zkrecipes::Lease lease = mutex.acquire({.deadline = testkit::soon()});
  const std::size_t heartbeats = proxy.request_count(RequestType::multi);
  const std::size_t reads = proxy.request_count(RequestType::exists);
  auto held = proxy.hold_next_reply(RequestType::exists);
  for (int i = 0; i < count; ++i)
    client.async_exists("/", [&](const Result<std::optional<Stat>>&) { ++done; }, {.deadline = never});
  ASSERT_TRUE(held.wait(testkit::patience));
  // Full, except for places that the lock may have taken.
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::exists, reads + window - 8, testkit::patience));
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, heartbeats + 1, testkit::patience));
  EXPECT_LE(proxy.request_count(RequestType::exists), reads + window) << "the others wait, on the first connection";
  held.release();
  EXPECT_TRUE(eventually([&] { return done == count; }));
}

TEST_F(LimitsTest, ARecursiveDeleteHas128DeletesOnTheirWay) {
  constexpr std::size_t nodes = 1000;
  const Client observer(server.connect_string(), {.session_timeout = 20s});
  observer.create("/wide");
  for (std::size_t i = 0; i < nodes; i += 100) {
    Transaction batch;
    for (std::size_t k = i; k < i + 100; ++k)
      batch.create(Path("/wide/n" + std::to_string(k)));
    observer.commit(batch);
  }
  Box<std::error_code> done;
  const Client client(proxy.connect_string(), {.session_timeout = 30s});
  auto listed = proxy.hold_next_reply(RequestType::get_children2);
  client.async_remove_tree("/wide", [&](const Result<void>& result) { done.put(result.code()); },
                           {.deadline = testkit::soon()});
  ASSERT_TRUE(listed.wait(testkit::patience));
  const std::size_t before = proxy.request_count(RequestType::remove);  // One, which found that there are children.
  auto removed = proxy.hold_next_reply(RequestType::remove);
  listed.release();
  ASSERT_TRUE(removed.wait(testkit::patience));
  // All that it sends without an answer is sent before this.
  client.async_exists("/", [](const Result<std::optional<Stat>>&) {});
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::exists, 1, testkit::patience));
  EXPECT_EQ(proxy.request_count(RequestType::remove), before + 128);
  removed.release();
  EXPECT_FALSE(done.take());
  EXPECT_EQ(proxy.request_count(RequestType::remove), before + nodes + 1) << "each node once";
  EXPECT_FALSE(observer.exists("/wide"));
}

TEST_F(LimitsTest, AListLongerThanARequestMayBeComesBackWhole) {
  constexpr std::size_t count = 1500;
  const std::string padding(1000, 'p');  // All names together: 1.5 MB.
  const Client client(server.connect_string(), {.session_timeout = 30s});
  client.create("/list");
  for (std::size_t i = 0; i < count; i += 100) {
    Transaction batch;
    for (std::size_t k = i; k < i + 100; ++k)
      batch.create(Path("/list/" + padding + std::to_string(k)));
    client.commit(batch);
  }
  const std::vector<std::string> names = client.children("/list", {.deadline = testkit::soon()}).names;
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), count);
  client.remove_tree("/list", {.deadline = testkit::soon()});
}

// A server that refuses what has waited too long in its own queue.
TEST(ThrottledTest, WhatTheServerThrottlesIsRetryableAndWasNotDone) {
  zktesting::ServerOptions options;
  options.jvm_flags = {"-Dzookeeper.request_throttle_max_requests=1", "-Dzookeeper.throttled_op_wait_time=10"};
  const zktesting::Server server(options);
  const Client client(server.connect_string());
  const auto succeeds = [](const std::function<void(std::error_code&)>& call) {
    std::error_code error;
    call(error);
    EXPECT_TRUE(!error || error == Errc::throttled) << error.message();
    return !error;
  };
  ASSERT_TRUE(eventually(
      [&] { return succeeds([&](std::error_code& error) { (void)client.create("/n", "", {}, {}, error); }); }));
  int written = 0;
  int throttled = 0;
  EXPECT_TRUE(eventually([&] {
    constexpr int count = 2000;
    Box<std::error_code> results;
    for (int i = 0; i < count; ++i) {
      client.async_set("/n", "x", any_version, [&](const Result<Stat>& result) { results.put(result.code()); },
                       {.deadline = testkit::soon()});
    }
    for (int i = 0; i < count; ++i) {
      const std::error_code code = results.take();
      EXPECT_TRUE(!code || code == Errc::throttled) << code.message();
      ++(code ? throttled : written);
    }
    return throttled > 0;
  }));
  std::optional<Stat> stat;
  ASSERT_TRUE(
      eventually([&] { return succeeds([&](std::error_code& error) { stat = client.exists("/n", {}, error); }); }));
  EXPECT_EQ(stat->version, written);
}

TEST(OverloadTest, CallsBeyondTheLimitAreRefusedAtOnce) {
  constexpr int limit = 200'000;
  if (sanitized) GTEST_SKIP() << "so many calls take minutes";
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
  if (memory_takes_minutes) GTEST_SKIP() << "so much data takes minutes";
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
  if (memory_takes_minutes) GTEST_SKIP() << "so much data takes minutes";
  Client client("127.0.0.1:1");
  const std::string megabyte(1'000'000, 'x');
  const std::size_t before = resident_bytes();
  std::atomic<int> refused{0};
  for (int i = 0; i < 300; ++i) {
    const auto count = [&](const Result<zkclient::Created>& result) {
      if (result.code() == Errc::overloaded) ++refused;
    };
    // On a busy machine the first ones would be given up before the last ones are made.
    client.async_create("/n-", megabyte, {.protection = true}, count, {.deadline = never});
  }
  EXPECT_TRUE(eventually([&] { return refused == 300 - 268; }, 2min)) << refused;
  if (!sanitized) {
    EXPECT_LT(resident_bytes(), before + 500'000'000) << "each is there once, whatever its steps keep";
  }
  client.close();
}

TEST_F(LimitsTest, RepliesThatNoHandlerHasTakenCountAsWell) {
  if (memory_takes_minutes) GTEST_SKIP() << "so much data takes minutes";
  std::promise<void> go_on;
  const std::shared_future<void> released = go_on.get_future().share();
  std::atomic<int> done{0};
  std::atomic<int> refused{0};
  zkclient::Runtime runtime({.max_callback_threads = 1});
  const Client client(runtime, server.connect_string(), calm());
  client.create("/big", std::string(1'000'000, 'x'));
  int asked = 0;
  // Each asks for more than the one before has brought, so that the limit is reached after 268 of them.
  while (refused == 0 && asked < 400) {
    ++asked;
    client.async_get("/big", [&, released](const Result<zkclient::NodeData>& result) {
      released.wait();
      if (result.code() == Errc::overloaded) ++refused;
      ++done;
    });
    // Known from the other side: a call that is refused is refused at once.
    std::error_code error;
    client.exists("/big", {.deadline = never}, error);
    if (error) {
      EXPECT_EQ(error, Errc::overloaded) << error.message();
      break;
    }
  }
  EXPECT_GE(asked, 260);
  EXPECT_LT(asked, 300);
  go_on.set_value();
  EXPECT_TRUE(eventually([&] { return done >= asked; }, 2min)) << done;
  EXPECT_EQ(client.exists("/big")->version, 0) << "there is room again";
}

TEST(OverloadTest, SoIsWhatHoldsTooMuchData) {
  if (memory_takes_minutes) GTEST_SKIP() << "so much data takes minutes";
  Client client("127.0.0.1:1");
  const std::string megabyte(1'000'000, 'x');
  std::atomic<int> refused{0};
  for (int i = 0; i < 300; ++i) {
    const auto count = [&](const Result<Stat>& result) {
      if (result.code() == Errc::overloaded) ++refused;
    };
    client.async_set("/n", megabyte, any_version, count, {.deadline = never});
  }
  EXPECT_TRUE(eventually([&] { return refused == 300 - 268; }, 2min)) << refused;
  client.close();
  EXPECT_EQ(refused, 300 - 268);
}

TEST_F(LimitsTest, AValueOfAlmostAMegabyteComesBackWhole) {
  const Client client(server.connect_string(), calm());
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
  EXPECT_EQ(proxy.request_count(RequestType::multi), 0u);
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

// ---- Handlers that throw --------------------------------------------------------------------------------------------

void throw_in_a_handler() {
  const Client client("127.0.0.1:1");
  client.async_exists("/", [](const Result<std::optional<Stat>>&) { throw std::runtime_error("thrown by a handler"); },
                      {.deadline = testkit::SteadyClock::now()});
  std::promise<void> nobody;
  nobody.get_future().wait_for(testkit::patience);
}

TEST(HandlerDeathTest, AnExceptionThatLeavesAHandlerEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(throw_in_a_handler(), "thrown by a handler");
}

TEST_F(LimitsTest, AnExecutorOfTheUsersOwnMayCatchWhatAHandlerThrows) {
  std::atomic<int> caught{0};
  std::mutex mutex;
  std::vector<std::jthread> threads;  // One for each task.
  {
    zkclient::Runtime runtime({.callback_executor = [&](std::function<void()> task) {
      const std::lock_guard lock(mutex);
      threads.emplace_back([&caught, task = std::move(task)] {
        try {
          task();
        } catch (const std::runtime_error&) {
          ++caught;
        }
      });
    }});
    const Client client(runtime, server.connect_string(), options());
    std::atomic<int> told{0};
    const auto listener = client.on_state_change([&](const zkclient::StateChange&) {
      ++told;
      throw std::runtime_error("of a listener");
    });
    client.async_exists("/", [](const Result<std::optional<Stat>>&) { throw std::runtime_error("of a handler"); });
    EXPECT_TRUE(eventually([&] { return caught > told && told > 0; }));
    EXPECT_TRUE(client.exists("/", {.deadline = testkit::soon()})) << "all goes on";
  }
  EXPECT_GE(caught, 2);
}

}  // namespace
