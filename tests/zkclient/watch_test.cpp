#include <atomic>
#include <set>
#include <thread>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::Children;
using zkclient::NodeData;
using zkclient::Watch;
using zkclient::Watched;

// With a server of its own, whose watches can be counted.
class WatchTest : public testkit::FaultTest {
 protected:
  WatchTest() { client.connect(); }
  static void ignore(const WatchEvent&) {}

  Box<WatchEvent> events;  // It outlives the clients, which tell it.
  // Nothing here waits for a session to end.
  const Client client{proxy.connect_string(), {.session_timeout = 20s}};
  const Client other{server.connect_string(), {.session_timeout = 20s}};
  zkclient::WatchHandler record() {
    return [this](const WatchEvent& event) { events.put(event); };
  }
};

// ---- Asynchronous forms ---------------------------------------------------------------------------------------------

TEST_F(WatchTest, AsynchronousReadsArmWatches) {
  client.create("/n", "x");
  Box<Result<Watched<NodeData>>> data;
  Box<Result<Watched<std::optional<Stat>>>> absent;
  Box<Result<Watched<Children>>> children;
  client.async_get_and_watch("/n", record(), [&](auto result) { data.put(std::move(result)); });
  client.async_exists_and_watch("/m", record(), [&](auto result) { absent.put(std::move(result)); });
  client.async_children_and_watch("/", record(), [&](auto result) { children.put(std::move(result)); });
  const auto got = data.take();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->value().data, "x");
  EXPECT_TRUE(got->watch().armed());
  const auto none = absent.take();
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->value());
  const auto list = children.take();
  ASSERT_TRUE(list);
  other.set("/n", "y");
  EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  other.create("/m");
  std::set<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    const WatchEvent event = events.take();
    seen.insert(event.path + " " + to_string(event.type));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"/m created", "/ children_changed"}));
  EXPECT_FALSE(got->watch().armed());
}

TEST_F(WatchTest, ReadsWhoseReplyIsLostAreRepeatedAndArmOneWatch) {
  const zkclient::CallOptions patient{.deadline = testkit::soon()};
  client.create("/n", "x");
  std::vector<Watch> kept;
  const std::pair<RequestType, std::function<void()>> reads[] = {
      {RequestType::exists, [&] { kept.push_back(client.exists_and_watch("/n", record(), patient).watch()); }},
      {RequestType::get_children2, [&] { kept.push_back(client.children_and_watch("/n", record(), patient).watch()); }},
      {RequestType::get_data, [&] { kept.push_back(client.get_config_and_watch(record(), patient).watch()); }},
      {RequestType::get_data, [&] { client.get_config(patient); }},
      {RequestType::get_acl, [&] { EXPECT_EQ(client.get_acl("/n", patient).acl, zkclient::open_acl()); }},
  };
  for (const auto& [type, read] : reads) {
    const std::size_t before = proxy.request_count(type);
    const auto fault = proxy.drop_next_reply(type);
    read();
    EXPECT_TRUE(fault.happened());
    EXPECT_EQ(proxy.request_count(type), before + 2);
  }
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 3; })) << server.four_letter_word("wchp");
  other.set("/n", "y");
  EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  other.create("/n/child");
  EXPECT_EQ(events.take().type, WatchEventType::children_changed);
  client.sync("/", patient);
  EXPECT_TRUE(events.empty());
}

TEST_F(WatchTest, AsynchronousReadsThatFailArmNothing) {
  Box<Result<Watched<NodeData>>> data;
  client.async_get_and_watch("/missing", record(), [&](auto result) { data.put(std::move(result)); });
  EXPECT_EQ(data.take().code(), Errc::no_node);
  EXPECT_EQ(error_of([&] { client.async_get_and_watch("/n", nullptr, [](const auto&) {}); }), Errc::invalid_argument);
  other.create("/missing");
  client.sync("/");
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(server.watch_count(), 0u);
}

TEST_F(WatchTest, TheEventWaitsForTheHandlerThatGetsTheWatch) {
  client.create("/n");
  std::atomic<bool> returned{false};
  Box<Watch> kept;
  Box<bool> order;
  client.async_get_and_watch(
      "/n", [&](const WatchEvent&) { order.put(returned); },
      [&](Result<Watched<NodeData>> result) {
        ASSERT_TRUE(result);
        kept.put(std::move(result->watch()));
        other.set("/n", "changed");
        client.sync("/");  // The event has come by now.
        returned = true;
      });
  EXPECT_TRUE(order.take());
}

TEST_F(WatchTest, AWatchDroppedInTheHandlerStaysSilent) {
  client.create("/n");
  Box<bool> dropped;
  client.async_get_and_watch("/n", record(), [&](const Result<Watched<NodeData>>&) {
    other.set("/n", "changed");
    client.sync("/");
    dropped.put(true);
  });
  dropped.take();
  other.set("/n", "again");
  client.sync("/");
  EXPECT_TRUE(events.empty());
}

// ---- Removal --------------------------------------------------------------------------------------------------------

TEST_F(WatchTest, OneOfSeveralOnAPathIsRemovedAlone) {
  client.create("/n");
  auto first = client.get_and_watch("/n", record());
  const auto second = client.get_and_watch("/n", record());
  const auto children = client.children_and_watch("/n", record());
  first.watch() = Watch();
  // Longer than the server is left alone: another call still waits for the data.
  auto idle = client.exists_and_watch("/witness", ignore);
  idle.watch() = Watch();
  EXPECT_TRUE(eventually([&] { return proxy.request_count(RequestType::remove_watches) == 1; }));
  other.set("/n", "x");
  EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  other.create("/n/child");
  EXPECT_EQ(events.take().type, WatchEventType::children_changed);
  EXPECT_TRUE(events.empty());
}

TEST_F(WatchTest, NoneIsLeftAtTheServerAfterDropping) {
  client.create("/n");
  {
    const auto data = client.get_and_watch("/n", record());
    const auto absent = client.exists_and_watch("/missing", record());
    const auto children = client.children_and_watch("/n", record());
    EXPECT_EQ(server.watch_count(), 3u);
  }
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << server.four_letter_word("wchp");
  EXPECT_EQ(proxy.request_count(RequestType::remove_watches), 3u);
  other.create("/n/child");
  other.set("/n", "x");
  other.create("/missing");
  client.sync("/");
  EXPECT_TRUE(events.empty());
  // And the nodes can be watched again.
  const auto again = client.get_and_watch("/n", record());
  other.set("/n", "y");
  EXPECT_EQ(events.take().path, "/n");
}

TEST_F(WatchTest, NoneIsLeftAtTheServerAfterACallThatWasGivenUp) {
  client.create("/n");
  auto held = proxy.hold_next_reply(RequestType::get_data);
  std::stop_source stop;
  testkit::Box<std::error_code> given_up;
  client.async_get_and_watch("/n", record(), [&](const auto& result) { given_up.put(result.code()); },
                             {.deadline = testkit::soon(), .stop = stop.get_token()});
  ASSERT_TRUE(held.wait(testkit::patience));
  EXPECT_EQ(server.watch_count(), 1u);
  stop.request_stop();
  EXPECT_EQ(given_up.take(), Errc::cancelled);
  held.release();
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; }));
  EXPECT_TRUE(events.empty());
}

TEST_F(WatchTest, RemovalsWaitForTheConnection) {
  client.create("/n");
  const auto fault = proxy.drop_next_request(RequestType::remove_watches);
  { const auto watched = client.get_and_watch("/n", record()); }
  EXPECT_TRUE(fault.wait(testkit::patience));
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0 && proxy.connections() == 1; }))
      << "renewed by the reconnection, and removed after it";
}

// The watch that is armed while the removal of its predecessor is on its way must not go with it.
TEST_F(WatchTest, AWatchArmedDuringTheRemovalStays) {
  client.create("/n");
  for (int round = 0; round < 2; ++round) {
    auto held = proxy.hold_next_reply(RequestType::remove_watches);
    { const auto dropped = client.get_and_watch("/n", record()); }
    ASSERT_TRUE(held.wait(testkit::patience));
    Box<Result<Watched<NodeData>>> read;
    client.async_get_and_watch("/n", record(), [&](auto result) { read.put(std::move(result)); });
    held.release();
    const auto armed = read.take();
    ASSERT_TRUE(armed);
    EXPECT_EQ(server.watch_count(), 1u);
    other.set("/n", "x");
    EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  }
}

// Watches come and go on a few nodes while these change: none that is waited for is lost to a removal.
TEST_F(WatchTest, NoEventIsLostWhileWatchesComeAndGo) {
  constexpr int nodes = 4;
  for (int i = 0; i < nodes; ++i)
    client.create(Path("/n" + std::to_string(i)));
  const std::string padding(30'000, 'p');  // Beyond what may be idle, so that removals happen at once.
  for (int i = 0; i < nodes; ++i)
    client.create(Path("/" + padding + std::to_string(i)));
  for (int round = 0; round < 150; ++round) {
    const Path path("/n" + std::to_string(round % nodes));
    const Path wide("/" + padding + std::to_string(round % nodes));
    { const auto dropped = client.get_and_watch(wide, ignore); }
    { const auto dropped = client.get_and_watch(path, ignore); }
    const auto kept = client.get_and_watch(path, record());
    const auto wide_kept = client.get_and_watch(wide, record());
    other.set(path, std::to_string(round));
    EXPECT_EQ(events.take().path, path.str());
    other.set(wide, std::to_string(round));
    ASSERT_EQ(events.take().path, wide.str());
  }
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; }));
}

TEST_F(WatchTest, ManyIdleOnesGoAtOnce) {
  const std::string padding(2'000, 'p');
  for (int i = 0; i < 400; ++i) {
    const auto dropped = client.exists_and_watch(Path("/" + padding + std::to_string(i)), ignore);
  }
  // 800 kB were watched, of which 100 kB may be left at any time: there is room for more.
  for (int i = 400; i < 800; ++i) {
    const auto dropped = client.exists_and_watch(Path("/" + padding + std::to_string(i)), ignore);
  }
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; }));
}

TEST_F(WatchTest, ReadsInFlightCountAgainstTheLimitOfPaths) {
  const std::string padding(20'000, 'p');
  constexpr int asked = 100;
  std::atomic<int> armed{0};
  std::atomic<int> refused{0};
  Box<Watch> kept;
  for (int i = 0; i < asked; ++i) {
    client.async_exists_and_watch(Path("/" + padding + std::to_string(i)), ignore, [&](auto result) {
      if (result) {
        kept.put(std::move(result->watch()));
        ++armed;
      } else {
        EXPECT_EQ(result.code(), Errc::overloaded) << result.error().what();
        ++refused;
      }
    });
  }
  ASSERT_TRUE(eventually([&] { return armed + refused == asked; }));
  EXPECT_EQ(armed, 44) << "900 kB";
  proxy.cut();
  client.sync("/", {.deadline = testkit::soon()});
  // The server ends those of the old connection when it gets to it.
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 44; })) << server.watch_count() << ": was it refused?";
}

// ---- Events that get lost -------------------------------------------------------------------------------------------

// The connection breaks between the two events of one transaction. When the client comes back, it names the newest
// transaction that a reply has shown, and so the server tells the event again that did not arrive. If it took the one
// that servers from 3.9 on name in an event, the second event would be lost: to be watched with each new C client.
TEST_F(WatchTest, TheSecondEventOfATransactionComesAgain) {
  client.create("/a");
  client.create("/b");
  for (const bool named : {false, true}) {
    const auto a = client.get_and_watch("/a", record());
    const auto b = client.get_and_watch("/b", record());
    const std::int64_t shown = b.value().stat.mzxid;  // The end of somebody's session may come behind it.
    proxy.stall(zktesting::Direction::to_client);
    zkclient::Transaction transaction;
    transaction.set("/a", "x").set("/b", "x");
    const std::int64_t zxid = other.commit(transaction).front().stat->mzxid;
    ASSERT_GT(zxid, shown);
    if (named) proxy.stamp_events(zxid);
    const auto lost = proxy.drop_next_event(1);
    proxy.unstall(zktesting::Direction::to_client);
    EXPECT_TRUE(lost.wait(testkit::patience));
    std::set<std::string> told;
    for (int i = 0; i < 2; ++i) {
      const WatchEvent event = events.take();
      EXPECT_EQ(event.type, WatchEventType::data_changed);
      told.insert(event.path);
    }
    EXPECT_EQ(told, (std::set<std::string>{"/a", "/b"}));
    EXPECT_GE(proxy.last_seen_zxid(), shown);
    EXPECT_LT(proxy.last_seen_zxid(), zxid) << "an event has moved it";
    // A reply moves it, and what has been told is not told again.
    client.get("/a");
    proxy.cut();
    client.sync("/", {.deadline = testkit::soon()});
    EXPECT_GE(proxy.last_seen_zxid(), zxid);
    EXPECT_TRUE(events.empty());
    proxy.stamp_events(std::nullopt);
  }
}

TEST_F(WatchTest, EveryWatchEndsOnce) {
  client.create("/n");
  std::vector<Watched<NodeData>> watches;
  for (int i = 0; i < 100; ++i)
    watches.push_back(client.get_and_watch("/n", record()));
  other.set("/n", "x");
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  watches.clear();
  for (int i = 0; i < 100; ++i)
    watches.push_back(client.get_and_watch("/n", record()));
  Client copy = client;
  copy.close();
  EXPECT_EQ(events.size(), 100u);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(events.take().type, WatchEventType::closed);
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; }));
}

}  // namespace
