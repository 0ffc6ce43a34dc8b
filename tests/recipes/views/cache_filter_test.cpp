// CacheOptions::include: who is asked what, what it costs, and what happens meanwhile.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/log.hpp>
#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "tests/recipes/views/cache_support.hpp"

namespace zkrecipes {
namespace {

using testkit::eventually;
using testkit::has_data;
using testkit::in_thread;
using testkit::patience;
using testkit::result_of;
using testkit::soon;
using testkit::Told;
using zkclient::Client;
using zkclient::CreateMode;
using zkclient::Transaction;
using zktesting::RequestType;
using Paths = std::vector<std::string>;

/// A filter that writes down what it is asked, and waits where it is told to.
class Filter {
 public:
  explicit Filter(std::set<std::string> excluded = {}) : excluded_(std::move(excluded)) {}

  std::function<bool(const std::string& path)> call() {
    return [this](const std::string& path) {
      std::unique_lock lock(mutex_);
      asked_.push_back(path);
      running_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return path != stop_at_; });
      running_ = false;
      return !excluded_.contains(path);
    };
  }
  void stop_at(const std::string& path) {
    const std::lock_guard lock(mutex_);
    stop_at_ = path;
  }
  void go_on() {
    stop_at("");
    changed_.notify_all();
  }
  bool stops() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return running_ && asked_.back() == stop_at_; });
  }
  bool running() const {
    const std::lock_guard lock(mutex_);
    return running_;
  }
  /// Ordered.
  Paths asked() const {
    const std::lock_guard lock(mutex_);
    Paths paths = asked_;
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  void exclude(std::set<std::string> excluded) {
    const std::lock_guard lock(mutex_);
    excluded_ = std::move(excluded);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> excluded_;
  std::string stop_at_;
  bool running_ = false;
  Paths asked_;
};

class CacheFilter : public testkit::RecipeFaultTest {
 protected:
  CacheFilter() : RecipeFaultTest("/cache") {}
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << server.four_letter_word("wchp");
    RecipeFaultTest::TearDown();
  }

  void create(const std::string& path, const std::string& data = "", CreateMode mode = CreateMode::persistent) {
    the_operator().create(path, data, {.mode = mode});
  }
  std::size_t data_reads() const { return proxy.request_count(RequestType::get_data); }
  std::size_t lists() const { return proxy.request_count(RequestType::get_children2); }
};

// Neither they nor what is below them: no request, no watch, no call of a listener.
TEST_F(CacheFilter, ExcludedNamesAreNeitherReadNorWatched) {
  create("/cache/a", "1");
  create("/cache/a/x", "1");
  create("/cache/b", "1");
  create("/cache/b/x", "1");
  Filter filter({"/cache/b"});
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache", {.include = filter.call()});
  Told told(cache);
  EXPECT_EQ(told.next().now.size(), 2U);
  EXPECT_TRUE(cache.snapshot().exact() && cache.snapshot().complete());
  EXPECT_FALSE(cache.snapshot().exists("b"));
  EXPECT_EQ(filter.asked(), (Paths{"/cache/a", "/cache/a/x", "/cache/b"}));
  EXPECT_EQ(data_reads(), 3U);
  EXPECT_EQ(lists(), 3U);
  EXPECT_EQ(server.watch_count(), 6);
  EXPECT_EQ(server.four_letter_word("wchp").find("/cache/b"), std::string::npos);
  the_operator().set("/cache/b", "2");
  create("/cache/b/y");
  the_operator().set("/cache/a", "2");
  EXPECT_EQ(told.until("changed /cache/a"), Paths{"changed /cache/a"});
  EXPECT_EQ(data_reads(), 4U);
  EXPECT_EQ(lists(), 3U);
  EXPECT_EQ(filter.asked().size(), 3U);
}

TEST_F(CacheFilter, NamesOnly) {
  create("/cache/a");
  create("/cache/b");
  Filter filter({"/cache/b"});
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.data = false, .include = filter.call()});
  const Snapshot now = cache.wait_ready({.deadline = soon()});
  EXPECT_TRUE(now.exists("a"));
  EXPECT_FALSE(now.exists("b"));
  EXPECT_EQ(data_reads(), 0U);
  EXPECT_EQ(server.watch_count(), 1);
}

// Of a client with a prefix, the paths are those that the user writes.
TEST_F(CacheFilter, PathsAreTheUsers) {
  create("/cache/a");
  create("/cache/a/b");
  Filter filter;
  const Client client(proxy.connect_string(), {.session_timeout = calm, .prefix = "/cache"});
  TreeCache cache(client, "/", {.include = filter.call()});
  EXPECT_EQ(cache.wait_ready({.deadline = soon()}).size(), 2U);
  EXPECT_EQ(filter.asked(), (Paths{"/a", "/a/b"}));
}

// The name was gone in between, so it is asked for again; here another answer is given.
TEST_F(CacheFilter, ExcludedNameIsMadeAgain) {
  create("/cache/a", "1");
  Filter filter({"/cache/a"});
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.include = filter.call()});
  EXPECT_EQ(cache.wait_ready({.deadline = soon()}).size(), 0U);
  create("/cache/other");
  EXPECT_EQ(cache.refresh(ReadBarrier::sync, {.deadline = soon()}).size(), 1U);
  EXPECT_EQ(filter.asked(), (Paths{"/cache/a", "/cache/other"}));
  the_operator().remove("/cache/a");
  cache.refresh(ReadBarrier::sync, {.deadline = soon()});
  filter.exclude({});
  create("/cache/a", "2");
  EXPECT_TRUE(has_data(cache.refresh(ReadBarrier::sync, {.deadline = soon()}), "a", "2"));
  EXPECT_EQ(filter.asked(), (Paths{"/cache/a", "/cache/a", "/cache/other"}));
}

// It waits for something that only the loop can do.
TEST_F(CacheFilter, FilterMakesBlockingCalls) {
  create("/cache/a", "in");
  create("/cache/b", "out");
  const Client client = calm_proxied();
  const auto include = [&client](const std::string& path) {
    return client.get(path, {.deadline = soon()}).data == "in";
  };
  ChildrenCache cache(client, "/cache", {.include = include});
  const Snapshot now = cache.wait_ready({.deadline = soon()});
  EXPECT_TRUE(now.exists("a"));
  EXPECT_FALSE(now.exists("b"));
}

// What is not judged is not there; all else goes on: other nodes, their listeners, the session.
TEST_F(CacheFilter, FilterBlocks) {
  create("/cache/a", "1");
  Filter filter;
  // Short enough to be waited for, and long enough to outlive a connection that is slow for a while.
  const Client client(proxy.connect_string(), {.session_timeout = std::chrono::seconds(12)});
  TreeCache cache(client, "/cache", {.include = filter.call()});
  Told told(cache);
  told.next();
  filter.stop_at("/cache/new");
  create("/cache/new", "1");
  ASSERT_TRUE(filter.stops());
  the_operator().set("/cache/a", "2");
  EXPECT_EQ(told.until("changed /cache/a"), Paths{"changed /cache/a"});
  const Snapshot meanwhile = cache.snapshot();
  EXPECT_FALSE(meanwhile.exact());
  EXPECT_FALSE(meanwhile.exists("new"));
  EXPECT_EQ(cache.state(), CacheState::current);
  const auto short_time = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  EXPECT_EQ(testkit::error_of([&] { cache.refresh(ReadBarrier::sync, {.deadline = short_time}); }),
            zkclient::Errc::deadline_exceeded);
  // Another cache of this client has its own filter.
  ChildrenCache other(client, "/cache", {.include = [](const std::string&) { return true; }});
  EXPECT_TRUE(other.wait_ready({.deadline = soon()}).exists("new"));
  // Longer than the session's timeout: it lives on.
  const std::int64_t session = client.session().id();
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::ping, proxy.request_count(RequestType::ping) + 4, patience));
  EXPECT_EQ(client.connect({.deadline = soon()}).id(), session);
  filter.go_on();
  EXPECT_EQ(told.until("added /cache/new"), Paths{"added /cache/new"});
  EXPECT_TRUE(eventually([&] { return cache.snapshot().exact(); }));
}

TEST_F(CacheFilter, FirstSnapshotWaitsForTheFilter) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  Filter filter({"/cache/b"});
  filter.stop_at("/cache/b");
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.include = filter.call()});
  ASSERT_TRUE(filter.stops());
  client.sync("/cache", {.deadline = soon()});
  EXPECT_EQ(cache.state(), CacheState::loading);
  EXPECT_EQ(cache.snapshot().revision(), 0U);
  filter.go_on();
  const Snapshot first = cache.wait_ready({.deadline = soon()});
  EXPECT_TRUE(first.exact());
  EXPECT_EQ(first.size(), 1U);
}

// No name is lost by it. One line in the log for all of a batch.
TEST_F(CacheFilter, FilterThrows) {
  for (const char* name : {"a", "b", "c"})
    create(std::string("/cache/") + name, "1");
  testkit::Box<std::string> messages;
  zkclient::set_log_handler([&messages](zkclient::LogLevel, std::string_view text) {
    if (text.find("include threw") != std::string_view::npos) messages.put(std::string(text));
  });
  zkclient::set_log_level(zkclient::LogLevel::warning);
  const auto include = [](const std::string& path) -> bool {
    if (path == "/cache/a") throw std::runtime_error("out of order");
    if (path == "/cache/b") throw 7;
    return false;
  };
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.include = include});
  const Snapshot now = cache.wait_ready({.deadline = soon()});
  zkclient::set_log_level(zkclient::LogLevel::error);
  zkclient::set_log_handler({});
  EXPECT_TRUE(now.exists("a") && now.exists("b"));
  EXPECT_FALSE(now.exists("c"));
  EXPECT_TRUE(now.complete() && now.exact());
  EXPECT_EQ(messages.size(), 1U);
  EXPECT_NE(messages.take().find("2 of 3 names, which are in the view; for /cache/a: out of order"), std::string::npos);
}

// close() waits for the call that runs, and none begins afterwards, though the batch has more names.
TEST_F(CacheFilter, ClosedWhileTheFilterRuns) {
  for (const char* name : {"a", "b", "c"})
    create(std::string("/cache/") + name, "1");
  Filter filter;
  filter.stop_at("/cache/b");
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.include = filter.call()});
  ASSERT_TRUE(filter.stops());
  std::promise<void> begun;
  auto closing = in_thread([&] {
    begun.set_value();
    cache.close();
    return filter.running();
  });
  begun.get_future().wait();
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::closed; }));
  filter.go_on();
  EXPECT_FALSE(result_of(closing)) << "it was still running";
  client.sync("/cache", {.deadline = soon()});
  EXPECT_EQ(filter.asked(), (Paths{"/cache/a", "/cache/b"}));
  EXPECT_EQ(cache.snapshot().revision(), 0U);
  EXPECT_EQ(data_reads(), 0U);
}

// What the filter owns goes with close(), and may wait for a thread that waits for the cache.
TEST_F(CacheFilter, ItsEndWaitsForAThreadThatWaitsForTheCache) {
  struct Owner {
    std::thread waiting;
    ~Owner() { waiting.join(); }
  };
  const Client client = calm_proxied();
  auto owner = std::make_shared<Owner>();
  ChildrenCache cache(client, "/cache", {.include = [owner](const std::string&) { return true; }});
  std::optional<zkclient::Errc> ended;
  owner->waiting = std::thread([&cache, &ended] {
    ended = testkit::error_of([&] { cache.wait_until([](const Snapshot&) { return false; }, {.deadline = soon()}); });
  });
  owner.reset();
  cache.close();
  EXPECT_EQ(ended, zkclient::Errc::closed);
}

TEST_F(CacheFilter, ClosedByItsFilter) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const Client client = calm_proxied();
  std::promise<ChildrenCache*> made;
  testkit::Box<std::string> closed;
  const auto include = [&, its = made.get_future().share()](const std::string& path) {
    its.get()->close();
    closed.put(path);
    return true;
  };
  ChildrenCache cache(client, "/cache", {.include = include});
  made.set_value(&cache);
  EXPECT_EQ(closed.take(), "/cache/a");
  client.sync("/cache", {.deadline = soon()});
  EXPECT_TRUE(closed.empty());
  EXPECT_EQ(cache.state(), CacheState::closed);
}

/// A cache that nobody owns but its own filter.
struct OwnedByItsFilter {
  std::promise<void> made;
  std::shared_ptr<ChildrenCache> cache;
  int asked = 0;
};

/// `act` is what its filter does. Returns what is left of it.
std::weak_ptr<OwnedByItsFilter> make_owned(const Client& client, std::function<void(OwnedByItsFilter&)> act) {
  const auto owner = std::make_shared<OwnedByItsFilter>();
  CacheOptions options;
  options.include = [owner, act = std::move(act)](const std::string&) {
    if (owner->asked++ == 0) owner->made.get_future().wait();
    act(*owner);
    return true;
  };
  owner->cache = std::make_shared<ChildrenCache>(client, "/cache", std::move(options));
  owner->made.set_value();
  return owner;
}

// Neither waits for the other, no other name is judged, and what the filter owns goes with it: the cache, too.
TEST_F(CacheFilter, ClosedByTheFilterThatOwnsIt) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const Client client = calm_proxied();
  testkit::Box<int> asked;
  const auto left = make_owned(client, [&asked](OwnedByItsFilter& owner) {
    owner.cache->close();
    asked.put(owner.asked);
  });
  EXPECT_EQ(asked.take(), 1);
  EXPECT_TRUE(eventually([&] { return left.expired(); }));
  client.sync("/cache", {.deadline = soon()});
  EXPECT_TRUE(asked.empty());
}

TEST_F(CacheFilter, DestroyedByItsFilter) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const Client client = calm_proxied();
  testkit::Box<int> asked;
  const auto left = make_owned(client, [&asked](OwnedByItsFilter& owner) {
    owner.cache.reset();
    asked.put(owner.asked);
  });
  EXPECT_EQ(asked.take(), 1);
  EXPECT_TRUE(eventually([&] { return left.expired(); }));
  client.sync("/cache", {.deadline = soon()});
  EXPECT_TRUE(asked.empty());
}

// By another thread, while it does not run: the last owner goes in close() itself.
TEST_F(CacheFilter, ClosedWhileItsFilterOwnsIt) {
  create("/cache/a", "1");
  const Client client = calm_proxied();
  const auto left = make_owned(client, [](OwnedByItsFilter&) {});
  ChildrenCache* cache = left.lock()->cache.get();
  cache->wait_ready({.deadline = soon()});
  cache->close();
  EXPECT_TRUE(left.expired());
}

// A listener that closes the cache does not wait for the filter, which may wait for the listener.
TEST_F(CacheFilter, ClosedByAListenerWhileTheFilterRuns) {
  create("/cache/a", "1");
  Filter filter;
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.include = filter.call()});
  cache.wait_ready({.deadline = soon()});
  filter.stop_at("/cache/b");
  create("/cache/b", "1");
  ASSERT_TRUE(filter.stops());
  testkit::Box<bool> closed;
  const auto subscription = cache.on_change([&](const std::vector<Change>&, const Snapshot&) {
    cache.close();
    closed.put(filter.running());
  });
  EXPECT_TRUE(closed.take());
  filter.go_on();
}

TEST_F(CacheFilter, ClientClosedWhileTheFilterRuns) {
  for (const char* name : {"a", "b"})
    create(std::string("/cache/") + name, "1");
  Filter filter;
  filter.stop_at("/cache/a");
  Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.include = filter.call()});
  ASSERT_TRUE(filter.stops());
  auto closing = in_thread([&] {
    client.close();
    return filter.running();
  });
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::closed; }));
  filter.go_on();
  EXPECT_FALSE(result_of(closing));
  EXPECT_EQ(filter.asked(), Paths{"/cache/a"});
}

// The next session's lists name what was judged before, and what is being judged: nothing is asked twice.
TEST_F(CacheFilter, SessionLostWhileTheFilterRuns) {
  for (const char* name : {"a", "b", "c"})
    create(std::string("/cache/") + name, "1");
  Filter filter({"/cache/b"});
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache", {.include = filter.call()});
  Told told(cache);
  EXPECT_EQ(told.next().now.size(), 2U);
  filter.stop_at("/cache/d");
  create("/cache/d", "1");
  ASSERT_TRUE(filter.stops());
  expire(client);
  the_operator().remove("/cache/c");
  EXPECT_EQ(told.until("removed /cache/c"), Paths{"removed /cache/c"});
  EXPECT_FALSE(cache.snapshot().exact());
  EXPECT_FALSE(cache.snapshot().exists("d"));
  filter.go_on();
  EXPECT_EQ(told.until("added /cache/d"), Paths{"added /cache/d"});
  EXPECT_TRUE(eventually([&] { return cache.snapshot().exact(); }));
  EXPECT_FALSE(cache.snapshot().exists("b"));
  EXPECT_EQ(filter.asked(), (Paths{"/cache/a", "/cache/b", "/cache/c", "/cache/d"}));
}

// 5,000 names in batches, half of them excluded.
TEST_F(CacheFilter, ManyNames) {
  constexpr int children = 5000;
  for (int i = 0; i < children;) {
    Transaction transaction;
    for (const int end = i + 1000; i < end; ++i)
      transaction.create("/cache/" + std::to_string(i), "1");
    the_operator().commit(transaction, {.deadline = soon()});
  }
  std::atomic<int> asked{0};
  const auto include = [&asked](const std::string& path) {
    ++asked;
    return (path.back() - '0') % 2 == 0;
  };
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.include = include});
  EXPECT_EQ(cache.wait_ready({.deadline = soon()}).size(), std::size_t{children / 2});
  EXPECT_EQ(asked, children);
  EXPECT_EQ(data_reads(), std::size_t{children / 2});
}

}  // namespace
}  // namespace zkrecipes
