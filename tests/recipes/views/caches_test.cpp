// NodeCache, ChildrenCache, TreeCache against a server that is well. What happens when it is not:
// caches_faults_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "tests/recipes/views/cache_support.hpp"
#include "tests/support/memory.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::data_is;
using testkit::has_data;
using testkit::is_gone;
using testkit::resident_bytes;
using testkit::sanitized;
using testkit::States;
using testkit::Told;
using Kind = Change::Kind;

static_assert(std::is_move_constructible_v<TreeCache> && !std::is_copy_constructible_v<TreeCache>);

class Caches : public testkit::RecipeTest {
 protected:
  Caches() : RecipeTest("/cache") {}
  void TearDown() override {
    expect_no_watch_left();
    RecipeTest::TearDown();
  }
  void create(const std::string& path, const std::string& data = "", CreateMode mode = CreateMode::persistent) {
    client().create(path, data, {.mode = mode});
  }
};

TEST_F(Caches, NodeCacheFollowsANode) {
  create("/cache", "1");
  NodeCache cache(client(), "/cache");
  const Snapshot first = cache.wait_ready({.deadline = soon()});
  ASSERT_NE(first.root(), nullptr);
  EXPECT_EQ(first.root()->data, "1");
  EXPECT_EQ(first.root()->name, "cache");
  EXPECT_TRUE(first.exact() && first.complete());
  EXPECT_EQ(first.zxid(), client().get("/cache").stat.mzxid);
  EXPECT_EQ(cache.path(), Path("/cache"));
  client().set("/cache", "2");
  const Snapshot second = cache.wait_until(data_is("", "2"), {.deadline = soon()});
  EXPECT_GT(second.revision(), first.revision());
  EXPECT_EQ(first.root()->data, "1") << "a snapshot stays as it is";
  client().remove("/cache");
  EXPECT_EQ(cache.wait_until(is_gone(""), {.deadline = soon()}).root(), nullptr);
}

TEST_F(Caches, NodeCacheWithoutDataHasTheStat) {
  create("/cache", "secret");
  NodeCache cache(client(), "/cache", {.data = false});
  EXPECT_FALSE(cache.wait_ready({.deadline = soon()}).root()->has_data);
  client().set("/cache", "other");
  cache.wait_until([](const Snapshot& snapshot) { return snapshot.root()->stat.version == 1; }, {.deadline = soon()});
}

TEST_F(Caches, ChildrenCacheFollowsChildren) {
  create("/cache");
  create("/cache/a", "1", CreateMode::ephemeral);
  create("/cache/b", "2");
  create("/cache/b/below", "x");
  ChildrenCache cache(client(), "/cache");
  const Snapshot now = cache.wait_ready({.deadline = soon()});
  EXPECT_EQ(now.size(), 2U);
  ASSERT_EQ(now.children().size(), 2U);
  EXPECT_EQ(now.children()[0]->name, "a");
  EXPECT_EQ(now.children()[1]->data, "2");
  EXPECT_NE(now.find("/cache/a"), nullptr);
  EXPECT_NE(now.find("a"), nullptr);
  EXPECT_EQ(now.find("b/below"), nullptr);
  EXPECT_NE(now.root(), nullptr);
}

TEST_F(Caches, TreeCacheFollowsATree) {
  create("/cache", "root");
  create("/cache/a", "1");
  TreeCache cache(client(), "/cache");
  cache.wait_ready({.deadline = soon()});
  Transaction transaction;
  transaction.create("/cache/a/x", "2").create("/cache/b", "3").create("/cache/b/y", "4").set("/cache", "changed");
  client().commit(transaction);
  const Snapshot now = cache.wait_until(data_is("b/y", "4"), {.deadline = soon()});
  EXPECT_TRUE(testkit::has_data(now, "/cache/a/x", "2"));
  EXPECT_TRUE(testkit::has_data(now, "/cache", "changed")) << "what a transaction changes shows together";
  EXPECT_EQ(now.size(), 4U);
  std::vector<std::string> paths;
  now.for_each([&](const std::string& path, const CachedNode&) { paths.push_back(path); });
  EXPECT_EQ(paths, (std::vector<std::string>{"/cache", "/cache/a", "/cache/a/x", "/cache/b", "/cache/b/y"}));
}

TEST_F(Caches, TreeCacheOfALimitedDepth) {
  create("/cache");
  create("/cache/a", "1");
  create("/cache/a/x", "2");
  TreeCache cache(client(), "/cache", {.max_depth = 1});
  EXPECT_EQ(cache.wait_ready({.deadline = soon()}).size(), 1U);
}

TEST_F(Caches, NamesOnly) {
  create("/cache");
  create("/cache/a", "1");
  ChildrenCache cache(client(), "/cache", {.data = false});
  const Snapshot now = cache.wait_ready({.deadline = soon()});
  EXPECT_FALSE(now.find("a")->has_data);
  EXPECT_TRUE(now.complete());
  create("/cache/b");
  cache.wait_until([](const Snapshot& snapshot) { return snapshot.exists("b"); }, {.deadline = soon()});
}

// --- V rows ----------------------------------------------------------------------------------------------------------

// V4, V17, V18.
TEST_F(Caches, RootThatComesAndGoesFiveTimes) {
  NodeCache cache(client(), "/cache");
  Told told(cache);
  EXPECT_TRUE(told.next().changes.empty()) << "the first call comes, though there is nothing";
  for (int i = 0; i < 5; ++i) {
    create("/cache", std::to_string(i));
    EXPECT_EQ(told.until("added /cache").size(), 1U);
    EXPECT_TRUE(testkit::has_data(cache.snapshot(), "", std::to_string(i)));
    client().remove("/cache");
    EXPECT_EQ(told.until("removed /cache").size(), 1U);
  }
}

// V5, V35: nothing is added twice without having been removed, and the last state is exact.
TEST_F(Caches, RapidChangesOfOneName) {
  create("/cache");
  ChildrenCache cache(client(), "/cache");
  Told told(cache);
  told.next();
  for (int i = 0; i < 200; ++i) {
    client().async_create("/cache/a", std::to_string(i), {}, [](const auto&) {}, {.deadline = soon()});
    if (i % 3 == 0)
      client().async_set("/cache/a", "changed", zkclient::any_version, [](const auto&) {}, {.deadline = soon()});
    client().async_remove("/cache/a", zkclient::any_version, [](const auto&) {}, {.deadline = soon()});
  }
  create("/cache/a", "last");
  cache.wait_until(data_is("a", "last"), {.deadline = soon()});
  create("/cache/end");
  bool there = false;
  for (const std::string& change : told.until("added /cache/end")) {
    if (change == "added /cache/a") {
      EXPECT_FALSE(std::exchange(there, true));
    } else if (change == "removed /cache/a") {
      EXPECT_TRUE(std::exchange(there, false));
    } else if (change != "added /cache/end") {
      EXPECT_TRUE(there) << change;
    }
  }
  EXPECT_TRUE(there);
}

// V7.
TEST_F(Caches, ManyUpdatesOfOneNode) {
  create("/cache", "0");
  NodeCache cache(client(), "/cache");
  Told told(cache);
  std::int64_t mzxid = told.next().now.root()->stat.mzxid;
  constexpr int updates = 1000;
  for (int i = 1; i <= updates; ++i)
    client().async_set("/cache", std::to_string(i), zkclient::any_version, [](const auto&) {}, {.deadline = soon()});
  client().set("/cache", "last", zkclient::any_version, {.deadline = soon()});
  for (std::string data; data != "last";) {
    const testkit::Call call = told.next();
    ASSERT_EQ(call.changes.size(), 1U);
    EXPECT_GT(call.changes.front().after->stat.mzxid, mzxid);
    mzxid = call.changes.front().after->stat.mzxid;
    data = call.changes.front().after->data;
  }
}

// V9: a view creates nothing.
TEST_F(Caches, NothingIsEverCreated) {
  NEEDS_CONTROL();
  const std::size_t nodes = server().znode_count();
  NodeCache node(client(), "/cache/node");
  ChildrenCache children(client(), "/cache/children");
  TreeCache tree(client(), "/cache/tree");
  for (const Cache* cache : {static_cast<Cache*>(&node), static_cast<Cache*>(&children), static_cast<Cache*>(&tree)}) {
    EXPECT_EQ(cache->wait_ready({.deadline = soon()}).root(), nullptr);
    cache->refresh(ReadBarrier::quorum, {.deadline = soon()});
  }
  EXPECT_EQ(server().znode_count(), nodes);
}

// V12: nothing of a cache stays, while its client does.
TEST_F(Caches, OpenedAndClosedManyTimes) {
  NEEDS_CONTROL();
  create("/cache");
  for (const char* name : {"a", "b", "c"})
    create(std::string("/cache/") + name, name);
  for (int i = 0; i < 300; ++i) {
    TreeCache cache(client(), "/cache");
    if (i % 3 == 0) cache.wait_ready({.deadline = soon()});
    if (i % 3 == 1) cache.close();
  }
  EXPECT_TRUE(eventually([&] { return server().watch_count() == 0; })) << server().four_letter_word("wchp");
}

// Nor does its client keep anything of it in memory.
TEST_F(Caches, ClosedCachesTakeNoMemory) {
  if (sanitized) GTEST_SKIP() << "a sanitizer keeps what is freed";
  create("/cache");
  for (const char* name : {"a", "b", "c"})
    create(std::string("/cache/") + name, name);
  const auto token = std::make_shared<int>();
  const auto open_and_close = [&](int times) {
    for (int i = 0; i < times; ++i) {
      TreeCache cache(client(), "/cache");
      const auto changes = cache.on_change([token](const auto&...) {});
      const auto states = cache.on_state([token](CacheState) {});
      cache.async_wait_until([token](const Snapshot&) { return false; }, [token](const auto&) {});
      if (i % 4 == 0) cache.wait_ready({.deadline = soon()});
    }
    EXPECT_TRUE(eventually([&] { return token.use_count() == 1; })) << "listeners and predicates have gone";
  };
  // Handlers that wait for a busy executor take memory, too: not more than those of a few caches.
  const auto in_turns = [&](int turns) {
    for (int i = 0; i < turns; ++i)
      open_and_close(100);
  };
  in_turns(10);
  const std::size_t before = resident_bytes();
  in_turns(40);
  EXPECT_LT(resident_bytes(), before + 4'000'000);
}

// V23: created empty and filled at once; the difference is net.
TEST_F(Caches, OneAddedWithTheLastData) {
  create("/cache");
  ChildrenCache cache(client(), "/cache");
  Told told(cache);
  told.next();
  Transaction transaction;
  transaction.create("/cache/a", "").set("/cache/a", "full");
  client().commit(transaction);
  const testkit::Call call = told.next();
  ASSERT_EQ(call.changes.size(), 1U);
  EXPECT_EQ(call.changes.front().kind, Kind::added);
  EXPECT_EQ(call.changes.front().after->data, "full");
}

// V24: the first call brings everything.
TEST_F(Caches, FirstCallBringsEverythingAsAdded) {
  create("/cache");
  create("/cache/a");
  create("/cache/a/x");
  TreeCache cache(client(), "/cache");
  Told early(cache);
  cache.wait_ready({.deadline = soon()});
  Told late(cache);
  for (Told* told : {&early, &late}) {
    const auto all = told->until("added /cache/a/x");
    EXPECT_EQ(all, (std::vector<std::string>{"added /cache", "added /cache/a", "added /cache/a/x"}));
  }
}

// V25: a slow listener holds up no other one, and gets one net difference afterwards.
TEST_F(Caches, SlowListener) {
  create("/cache", "0");
  NodeCache cache(client(), "/cache");
  cache.wait_ready({.deadline = soon()});
  std::promise<void> wake;
  auto woken = wake.get_future().share();
  testkit::Box<std::vector<Change>> slow;
  const auto subscription =
      cache.on_change([&, first = true](const std::vector<Change>& changes, const Snapshot&) mutable {
        slow.put(changes);
        if (std::exchange(first, false)) woken.wait();
      });
  EXPECT_EQ(slow.take().size(), 1U);
  Told told(cache);
  for (int i = 1; i <= 100; ++i)
    client().set("/cache", std::to_string(i));
  while (!testkit::has_data(told.next().now, "", "100")) {
  }
  EXPECT_TRUE(slow.empty());
  wake.set_value();
  const std::vector<Change> changes = slow.take();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes.front().before->data, "0");
  EXPECT_EQ(changes.front().after->data, "100");
  EXPECT_TRUE(slow.empty());
}

// All others have gone, whatever the listener has missed.
TEST_F(Caches, SlowListenerKeepsTwoSnapshots) {
  create("/cache", "0");
  NodeCache cache(client(), "/cache");
  cache.wait_ready({.deadline = soon()});
  std::promise<void> wake;
  testkit::Box<bool> called;
  const auto slow =
      cache.on_change([&, woken = wake.get_future().share()](const std::vector<Change>&, const Snapshot&) {
        called.put(true);
        woken.wait();
      });
  called.take();
  constexpr int updates = 1000;
  std::mutex mutex;
  std::vector<std::weak_ptr<const void>> published;
  testkit::Box<std::string> told;
  const auto quick = cache.on_change([&](const std::vector<Change>&, const Snapshot& now) {
    const std::lock_guard lock(mutex);
    published.emplace_back(now.impl());
    told.put(now.root()->data);
  });
  const auto until_told = [&](int update) {
    told.take_until([&](const std::string& data) { return data == std::to_string(update); });
  };
  for (int i = 1; i <= updates; ++i) {
    client().set("/cache", std::to_string(i));
    if (i <= 3) until_told(i);  // A busy machine may leave out all that come then, but the last.
  }
  until_told(updates);
  const auto kept = [&] {
    const std::lock_guard lock(mutex);
    return std::count_if(published.begin(), published.end(), [](const auto& one) { return !one.expired(); });
  };
  EXPECT_TRUE(eventually([&] { return kept() <= 2; })) << kept() << " of " << published.size();
  EXPECT_GT(published.size(), 2U);
  wake.set_value();
  called.take();
}

// V33: no call, nothing removed.
TEST_F(Caches, RefreshChangesNothingThatDidNotChange) {
  create("/cache");
  create("/cache/a", "1");
  TreeCache cache(client(), "/cache");
  Told told(cache);
  told.next();
  for (const ReadBarrier barrier : {ReadBarrier::none, ReadBarrier::sync, ReadBarrier::quorum}) {
    EXPECT_TRUE(cache.refresh(barrier, {.deadline = soon()}).exact());
    EXPECT_EQ(told.calls(), 0U);
    // What was written before is in it.
    client().set("/cache/a", std::to_string(static_cast<int>(barrier)));
    EXPECT_TRUE(testkit::has_data(cache.refresh(barrier, {.deadline = soon()}), "a",
                                  std::to_string(static_cast<int>(barrier))));
    told.next();
  }
}

// V34.
TEST_F(Caches, SiblingsAreNotTold) {
  create("/cache");
  create("/cache/a");
  create("/cache/b");
  TreeCache cache(client(), "/cache");
  Told told(cache);
  told.next();
  create("/cache/c");
  const testkit::Call call = told.next();
  ASSERT_EQ(call.changes.size(), 1U);
  EXPECT_EQ(call.changes.front().path, "/cache/c");
}

// --- Calls -----------------------------------------------------------------------------------------------------------

TEST_F(Caches, WaitsEndEarly) {
  create("/cache", "x");
  NodeCache cache(client(), "/cache");
  const auto never = [](const Snapshot&) { return false; };
  EXPECT_EQ(error_of([&] { cache.wait_until(never, {.deadline = 50ms}); }), Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return cache.wait_until(never, {.stop = stop.get_token()}); });
  stop.request_stop();
  EXPECT_EQ(error_of([&] { (void)result_of(waiting); }), Errc::cancelled);
  const auto throws = [](const Snapshot&) -> bool { throw zkclient::Error(Errc::not_held, "predicate", ""); };
  EXPECT_EQ(error_of([&] { cache.wait_until(throws, {.deadline = soon()}); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { cache.wait_until({}, {.deadline = soon()}); }), Errc::invalid_argument);
  auto until_closed = in_thread([&] { return cache.wait_until(never); });
  cache.close();
  EXPECT_EQ(error_of([&] { (void)result_of(until_closed); }), Errc::closed);
  EXPECT_EQ(cache.state(), CacheState::closed);
  EXPECT_EQ(error_of([&] { cache.refresh(); }), Errc::closed);
}

TEST_F(Caches, AsynchronousForms) {
  create("/cache", "x");
  NodeCache cache(client(), "/cache");
  testkit::Box<zkclient::Result<Snapshot>> results;
  const auto handler = [&](zkclient::Result<Snapshot> result) { results.put(std::move(result)); };
  cache.async_wait_ready(handler, {.deadline = soon()});
  EXPECT_EQ(results.take()->root()->data, "x");
  client().set("/cache", "y");
  cache.async_refresh(ReadBarrier::sync, handler, {.deadline = soon()});
  EXPECT_EQ(results.take()->root()->data, "y");
  cache.async_wait_until(data_is("", "z"), handler, {.deadline = soon()});
  client().set("/cache", "z");
  EXPECT_EQ(results.take()->root()->data, "z");
  cache.async_wait_until([](const Snapshot&) { return false; }, handler);
  cache.close();
  EXPECT_EQ(results.take().error().errc(), Errc::closed);
}

TEST_F(Caches, NoCallAfterClose) {
  create("/cache", "x");
  std::optional<NodeCache> cache(std::in_place, client(), "/cache");
  Told told(*cache);
  States states(*cache);
  told.next();
  EXPECT_TRUE(eventually([&] { return cache->state() == CacheState::current; }));
  cache->close();
  const std::size_t calls = told.calls() + states.size();
  client().set("/cache", "y");
  client().sync("/cache");
  EXPECT_EQ(told.calls() + states.size(), calls);
  EXPECT_TRUE(testkit::has_data(cache->snapshot(), "", "x")) << "the last one stays";
  cache.reset();
}

TEST_F(Caches, ClosedByItsListener) {
  create("/cache", "x");
  NodeCache cache(client(), "/cache");
  testkit::Box<bool> told;
  const auto subscription = cache.on_change([&](const std::vector<Change>&, const Snapshot&) {
    cache.close();
    told.put(true);
  });
  EXPECT_TRUE(told.take());
  EXPECT_EQ(cache.state(), CacheState::closed);
}

// A call whose predicate is running when its time is over returns when the predicate has; one that is queued never
// runs.
TEST_F(Caches, NoPredicateRunsAfterItsCall) {
  create("/cache", "x");
  zkclient::Runtime runtime({.max_callback_threads = 1});
  zkclient::Client client(runtime, hosts(), {.prefix = prefix()});
  NodeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  std::promise<void> entered;
  std::promise<void> wake;
  std::atomic<bool> running{false};
  std::stop_source stop;
  auto waiting = in_thread([&] {
    const auto block = [&](const Snapshot&) {
      running = true;
      entered.set_value();
      wake.get_future().wait();
      running = false;
      return false;
    };
    try {
      cache.wait_until(block, {.stop = stop.get_token()});
    } catch (const zkclient::Error&) {
      return running.load();
    }
    return true;
  });
  entered.get_future().wait();
  // The only thread of the executor is taken, so this predicate stays in the queue.
  std::atomic<bool> called{false};
  const auto note = [&called](const Snapshot&) { return called = true; };
  EXPECT_EQ(error_of([&] { cache.wait_until(note, {.deadline = 50ms}); }), Errc::deadline_exceeded);
  stop.request_stop();
  client.sync("/", {.deadline = soon()});  // The call has heard of it, and waits.
  wake.set_value();
  EXPECT_FALSE(result_of(waiting)) << "its predicate still ran";
  client.close();
  EXPECT_FALSE(called) << "its call had ended";
}

TEST_F(Caches, PredicateThatThrowsSomethingElse) {
  create("/cache", "x");
  NodeCache cache(client(), "/cache");
  const auto throws = [](const Snapshot&) -> bool { throw 1; };
  EXPECT_EQ(error_of([&] { cache.wait_until(throws, {.deadline = soon()}); }), Errc::in_doubt);
}

// It owns the cache, whose end waits for a listener that needs the loop.
TEST_F(Caches, PredicateThatOwnsItsCache) {
  create("/cache", "x");
  testkit::Box<zkclient::Result<Snapshot>> results;
  auto cache = std::make_shared<NodeCache>(client(), "/cache");
  std::promise<void> entered;
  std::promise<void> wake;
  const auto subscription =
      cache->on_change([&, future = wake.get_future().share()](const std::vector<Change>&, const Snapshot&) {
        entered.set_value();
        future.wait();
        client().sync("/");
      });
  cache->wait_ready({.deadline = soon()});
  entered.get_future().wait();
  std::stop_source stop;
  const NodeCache& raw = *cache;
  raw.async_wait_until([owner = std::move(cache)](const Snapshot&) { return false; },
                       [&](zkclient::Result<Snapshot> result) { results.put(std::move(result)); },
                       {.stop = stop.get_token()});
  stop.request_stop();
  client().sync("/", {.deadline = soon()});  // The loop lives on, though the cache's end waits.
  wake.set_value();
  EXPECT_EQ(results.take().error().errc(), Errc::cancelled);
}

/// A cache that nobody owns but its own listener.
struct OwnedByItsListener {
  std::promise<void> made;
  std::shared_ptr<NodeCache> cache;
  zkclient::Subscription subscription;
};

// Neither waits for the other, and what the listener owns goes with it: the cache, and its own subscription, too.
TEST_F(Caches, ClosedByTheListenerThatOwnsIt) {
  create("/cache", "x");
  using Act = std::function<void(OwnedByItsListener&)>;
  const std::vector<Act> all = {[](OwnedByItsListener& owner) { owner.cache->close(); },
                                [](OwnedByItsListener& owner) { owner.cache.reset(); },
                                [](OwnedByItsListener& owner) { const auto ended = std::move(owner.subscription); }};
  for (const Act& act : all) {
    for (const bool of_state : {false, true}) {
      auto owner = std::make_shared<OwnedByItsListener>();
      owner->cache = std::make_shared<NodeCache>(client(), "/cache");
      auto listener = [&act, first = true](OwnedByItsListener& its) mutable {
        if (!std::exchange(first, false)) return;
        its.made.get_future().wait();
        act(its);
      };
      if (of_state) {
        owner->subscription = owner->cache->on_state([owner, listener](CacheState) mutable { listener(*owner); });
      } else {
        owner->subscription = owner->cache->on_change([owner, listener](const auto&...) mutable { listener(*owner); });
      }
      owner->made.set_value();
      const std::weak_ptr<OwnedByItsListener> left = std::exchange(owner, nullptr);
      EXPECT_TRUE(eventually([&] { return left.expired(); }));
    }
  }
}

// By another thread, while it does not run: the last owner goes in close() itself.
TEST_F(Caches, ClosedWhileItsListenerOwnsIt) {
  create("/cache", "x");
  auto cache = std::make_shared<NodeCache>(client(), "/cache");
  cache->wait_ready({.deadline = soon()});
  NodeCache* raw = cache.get();
  const std::weak_ptr<NodeCache> left = cache;
  std::promise<void> called;
  const auto subscription = raw->on_change([owner = std::move(cache), &called](const auto&...) { called.set_value(); });
  called.get_future().wait();
  raw->close();
  EXPECT_TRUE(left.expired()) << "the subscription goes on, but holds nothing";
}

// The executor is gone, so the listener is called at once: nothing that it does may meet a lock of the cache.
TEST_F(Caches, ListenerAfterTheEndOfTheRuntime) {
  create("/cache", "x");
  auto runtime = std::make_unique<zkclient::Runtime>();
  NodeCache cache(Client(*runtime, hosts(), {.prefix = prefix()}), "/cache");
  cache.wait_ready({.deadline = soon()});
  runtime.reset();
  std::string seen;
  const auto subscription =
      cache.on_change([&](const std::vector<Change>&, const Snapshot&) { seen = cache.snapshot().root()->data; });
  EXPECT_EQ(seen, "x");
}

// Two of them close the cache at the same time: neither waits for the other, but a third one waits for both.
TEST_F(Caches, ClosedByTwoListenersAtOnce) {
  create("/cache", "x");
  NodeCache cache(client(), "/cache");
  std::latch both(2);
  std::promise<void> wake;
  std::atomic<int> running{0};
  const auto close = [&, future = wake.get_future().share()](auto&&...) {
    ++running;
    both.arrive_and_wait();
    cache.close();
    future.wait();
    --running;
  };
  const auto changes = cache.on_change(close);
  const auto states = cache.on_state([close, first = true](CacheState) mutable {
    if (std::exchange(first, false)) close();
  });
  both.wait();
  std::promise<void> begun;
  auto third = in_thread([&] {
    begun.set_value();
    cache.close();
    return running.load();
  });
  begun.get_future().wait();
  EXPECT_EQ(third.wait_for(50ms), std::future_status::timeout) << "they run still";
  wake.set_value();
  EXPECT_EQ(result_of(third), 0);
}

// The cache still knows of a call whose subscription has ended in it.
TEST_F(Caches, ClosedWhileAListenerRunsThatEndedItsSubscription) {
  create("/cache", "x");
  NodeCache cache(client(), "/cache");
  std::promise<void> entered;
  std::promise<void> wake;
  std::promise<zkclient::Subscription> handed;
  std::atomic<bool> running{true};
  auto subscription = cache.on_change([&, own = handed.get_future().share()](const auto&...) {
    { const auto ended = std::move(const_cast<zkclient::Subscription&>(own.get())); }
    entered.set_value();
    wake.get_future().wait();
    running = false;
  });
  handed.set_value(std::move(subscription));
  entered.get_future().wait();
  auto closing = in_thread([&] {
    cache.close();
    return running.load();
  });
  EXPECT_EQ(closing.wait_for(50ms), std::future_status::timeout);
  wake.set_value();
  EXPECT_FALSE(result_of(closing));
}

// No handler after that, although a predicate was still running when it began.
TEST_F(Caches, ClientClosedWhileAPredicateRuns) {
  create("/cache", "x");
  zkclient::Client own = make_client();
  NodeCache cache(own, "/cache");
  cache.wait_ready({.deadline = soon()});
  std::promise<void> entered;
  std::promise<void> wake;
  std::atomic<bool> running{true};
  std::atomic<bool> ran_still{true};
  testkit::Box<zkclient::Result<Snapshot>> results;
  cache.async_wait_until(
      [&](const Snapshot&) {
        entered.set_value();
        wake.get_future().wait();
        running = false;
        return false;
      },
      [&](zkclient::Result<Snapshot> result) {
        ran_still = running.load();
        results.put(std::move(result));
      });
  entered.get_future().wait();
  auto closing = in_thread([&] {
    own.close();
    return results.size();
  });
  EXPECT_EQ(closing.wait_for(50ms), std::future_status::timeout);
  wake.set_value();
  EXPECT_EQ(result_of(closing), 1U);
  EXPECT_FALSE(ran_still);
  EXPECT_EQ(results.take().error().errc(), Errc::closed);
}

// The blocked caller hears of it, although the predicate's word comes too late for the loop.
TEST_F(Caches, RuntimeEndedByAPredicate) {
  create("/cache", "x");
  auto runtime = std::make_unique<zkclient::Runtime>();
  NodeCache cache(Client(*runtime, hosts(), {.prefix = prefix()}), "/cache");
  const auto end = [&](const Snapshot&) {
    runtime.reset();
    return false;
  };
  EXPECT_EQ(error_of([&] { cache.wait_until(end); }), Errc::closed);
}

// V37: how old the snapshot may be.
TEST_F(Caches, AsOfMovesOnWithTheClientsOwnWrites) {
  create("/cache", "x");
  const Client own(hosts(), {.prefix = prefix()});
  NodeCache cache(own, "/cache");
  cache.wait_ready({.deadline = soon()});
  EXPECT_FALSE(cache.as_of()) << "nothing was written";
  const auto before = BootClock::now();
  own.set("/cache", "y");
  cache.wait_until(data_is("", "y"), {.deadline = soon()});
  EXPECT_TRUE(eventually([&] { return cache.as_of() >= before; }));
  const auto last = cache.as_of();
  client().set("/cache", "z");
  cache.wait_until(data_is("", "z"), {.deadline = soon()});
  EXPECT_EQ(cache.as_of(), last) << "an event says nothing of what comes behind it";
  const auto again = BootClock::now();
  cache.refresh(ReadBarrier::quorum, {.deadline = soon()});
  EXPECT_TRUE(eventually([&] { return cache.as_of() >= again; }));
  EXPECT_LE(cache.as_of(), BootClock::now());
  cache.close();
  own.set("/cache", "last");
  EXPECT_LT(cache.as_of(), BootClock::now());
}

TEST_F(Caches, MaxAge) {
  create("/cache", "x");
  const Client own(hosts(), {.prefix = prefix()});
  NodeCache cache(own, "/cache", {.max_age = 100ms});
  for (int i = 0; i < 3; ++i) {
    const auto now = BootClock::now();
    EXPECT_TRUE(eventually([&] { return cache.as_of() >= now; }));
  }
}

// Nothing that waits to send the next transaction holds up the end of the client and its threads.
TEST_F(Caches, ClientClosedWithALongMaxAge) {
  create("/cache", "x");
  Client own(hosts(), {.prefix = prefix()});
  NodeCache cache(own, "/cache", {.max_age = std::chrono::hours(2)});
  EXPECT_TRUE(eventually([&] { return cache.as_of().has_value(); })) << "the first one goes at once";
  own.close();
  EXPECT_EQ(cache.state(), CacheState::closed);
}

// Longer than any call may take.
TEST_F(Caches, RefreshDoesNotWaitForAChangeThatRests) {
  create("/cache", "x");
  NodeCache cache(client(), "/cache", {.quiet = std::chrono::hours(1)});
  cache.wait_ready({.deadline = soon()});
  client().set("/cache", "y");
  EXPECT_TRUE(has_data(cache.refresh(ReadBarrier::sync, {.deadline = soon()}), "", "y"));
  const std::uint64_t revision = cache.snapshot().revision();
  client().set("/cache", "z");
  EXPECT_TRUE(eventually([&] { return server().watch_count() == 1; }));
  EXPECT_EQ(cache.snapshot().revision(), revision) << "nobody waits for it";
  EXPECT_TRUE(has_data(cache.refresh(ReadBarrier::none, {.deadline = soon()}), "", "z"));
}

// No change brings what it drops back: a filter and a predicate are called later.
TEST_F(Caches, AnExecutorMayDropTheFilterAndThePredicate) {
  create("/cache", "x");
  create("/cache/a", "1");
  testkit::DroppingRuntime dropping;
  const Client own(dropping.runtime(), hosts(), {.prefix = prefix()});
  own.connect({.deadline = soon()});
  dropping.drop();
  ChildrenCache cache(own, "/cache", {.include = [](const std::string&) { return true; }});
  ASSERT_TRUE(dropping.dropped_one());
  dropping.run();
  EXPECT_TRUE(has_data(cache.wait_ready({.deadline = soon()}), "a", "1"));
  dropping.drop();
  auto waiting = in_thread([&] { return cache.wait_until(data_is("a", "1"), {.deadline = soon()}); });
  ASSERT_TRUE(dropping.dropped_one());
  dropping.run();
  EXPECT_TRUE(has_data(result_of(waiting), "a", "1"));
}

TEST_F(Caches, DelaysForEver) {
  create("/cache", "x");
  constexpr auto for_ever = std::chrono::milliseconds::max();
  NodeCache patient(client(), "/cache", {.quiet = for_ever, .max_age = for_ever});
  patient.wait_ready({.deadline = soon()});
  NodeCache cache(client(), "/cache", {.max_delay = for_ever});
  cache.wait_ready({.deadline = soon()});
  client().set("/cache", "y");
  cache.wait_until(data_is("", "y"), {.deadline = soon()});
}

TEST_F(Caches, WrongArguments) {
  EXPECT_EQ(error_of([&] { NodeCache(client(), "/cache", {.max_delay = -1ms}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { NodeCache(client(), "/cache", {.quiet = -1ms}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { NodeCache(client(), "/cache", {.max_age = -1ms}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { TreeCache(client(), "/cache", {.max_depth = -1}); }), Errc::invalid_argument);
  NodeCache cache(client(), "/cache");
  EXPECT_EQ(error_of([&] { (void)cache.on_change({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)cache.on_state({}); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace zkrecipes
