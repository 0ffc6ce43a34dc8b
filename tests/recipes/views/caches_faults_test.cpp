// Caches while everything breaks: one test per row of the table "What goes wrong" in <zkrecipes/cache.hpp>, and what
// other libraries had trouble with.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <zkclient/log.hpp>
#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "tests/recipes/views/cache_support.hpp"
#include "tests/support/given_up.hpp"
#include "tests/support/memory.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::data_is;
using testkit::has_data;
using testkit::is_gone;
using testkit::sanitized;
using testkit::States;
using testkit::Told;
using Strings = std::vector<std::string>;

// One for each kind of fault, and what is about the limits of a server; the others are simulated.
const testkit::OnRealServers caches_on_real_servers{
    "CacheFaults.ConnectionBreaks", "CacheFaults.SessionLost", "CacheFaults.EnsembleLostItsData",
    "CacheFaults.SeventyThousandChildren", "CacheFaults.MoreWatchedPathsThanASessionMayHave"};

class CacheFaults : public testkit::RecipeFaultTest {
 protected:
  CacheFaults() : RecipeFaultTest("/cache") {}
  void TearDown() override {
    expect_no_watch_left();
    RecipeFaultTest::TearDown();
  }

  void create(const std::string& path, const std::string& data = "", CreateMode mode = CreateMode::persistent) {
    the_operator().create(path, data, {.mode = mode});
  }
  /// Reads that a cache has sent, which are not its barrier.
  std::size_t reads() const {
    return proxy.request_count(RequestType::get_data) + proxy.request_count(RequestType::get_children2) +
           proxy.request_count(RequestType::get_children) + proxy.request_count(RequestType::exists);
  }
  /// The connection breaks, and comes back when `meanwhile` has been done.
  void cut(const Client& client, const std::function<void()>& meanwhile) {
    refuse_and_cut();
    EXPECT_TRUE(reaches(client, ConnectionState::suspended));
    meanwhile();
    proxy.refuse(false);
  }
  /// Many children at once.
  void create_children(const std::string& directory, int count, const std::string& data = "") {
    in_transactions(
        count, [&](Transaction& transaction, int i) { transaction.create(directory + "/" + std::to_string(i), data); });
  }
  void set_children(const std::string& directory, int count, const std::string& data) {
    in_transactions(
        count, [&](Transaction& transaction, int i) { transaction.set(directory + "/" + std::to_string(i), data); });
  }
  static void expect_states(States& states, std::initializer_list<CacheState> wanted) {
    for (const CacheState state : wanted)
      EXPECT_EQ(states.next(), state);
  }

 private:
  void in_transactions(int count, const std::function<void(Transaction& transaction, int i)>& add) {
    for (int i = 0; i < count;) {
      Transaction transaction;
      for (const int end = std::min(i + 1000, count); i < end; ++i)
        add(transaction, i);
      the_operator().commit(transaction, {.deadline = soon()});
    }
  }
};

// --- Rows ------------------------------------------------------------------------------------------------------------

// V15, V28, V36, V37: without changes nothing is read again, and no one is called; it is stale in between.
TEST_F(CacheFaults, ConnectionBreaks) {
  for (int i = 0; i < 30; ++i)
    create("/cache/" + std::to_string(i), "x");
  proxy.refuse(true);  // Until the states are listened to: the cache must not be current before.
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  States states(cache);
  Told told(cache);
  proxy.refuse(false);
  told.next();
  expect_states(states, {CacheState::loading, CacheState::current});
  const std::size_t before = reads();
  const std::uint64_t revision = cache.snapshot().revision();
  cut(client, [&] {
    EXPECT_EQ(states.next(), CacheState::stale);
    EXPECT_EQ(cache.snapshot().size(), 30U) << "the last snapshot stays";
  });
  EXPECT_EQ(states.next(), CacheState::current);
  EXPECT_EQ(reads(), before);
  EXPECT_EQ(cache.snapshot().revision(), revision);
  EXPECT_EQ(told.calls(), 0U);
  // V19: what changed meanwhile is one net difference.
  cut(client, [&] {
    the_operator().set("/cache/7", "changed");
    the_operator().set("/cache/7", "changed again");
    the_operator().remove("/cache/8");
  });
  EXPECT_EQ(told.until("removed /cache/8"), (Strings{"changed /cache/7", "removed /cache/8"}));
  expect_states(states, {CacheState::stale, CacheState::current});
  EXPECT_TRUE(has_data(cache.snapshot(), "7", "changed again"));
  EXPECT_EQ(reads() - before, 2U) << "the changed node, and the list";
}

// V26, V29: nothing is taken back, all of it is read again, and told is the difference.
TEST_F(CacheFaults, SessionLost) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  proxy.refuse(true);  // Until the states are listened to: the cache must not be current before.
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  States states(cache);
  Told told(cache);
  proxy.refuse(false);
  told.next();
  expect_states(states, {CacheState::loading, CacheState::current});
  const std::int64_t zxid = cache.snapshot().zxid();
  auto lost = proxy.drop_next_reply(RequestType::get_children2);  // One of the reads of the next session.
  the_operator().set("/cache/a", "2");
  EXPECT_EQ(told.until("changed /cache/a"), Strings{"changed /cache/a"});
  const auto session = client.session();
  expire(client);
  EXPECT_EQ(states.next(), CacheState::stale);
  the_operator().remove("/cache/b");
  EXPECT_EQ(told.until("removed /cache/b"), Strings{"removed /cache/b"});
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::current; }));
  EXPECT_TRUE(lost.happened());
  EXPECT_NE(client.session().id(), session.id());
  EXPECT_GT(cache.snapshot().zxid(), zxid);
  EXPECT_TRUE(has_data(cache.snapshot(), "a", "2"));
}

// V11: reads per change stay one.
TEST_F(CacheFaults, ManySessions) {
  create("/cache/a", "0");
  const Client client = calm_proxied();
  NodeCache cache(client, "/cache/a");
  cache.wait_ready({.deadline = soon()});
  for (int i = 1; i <= 6; ++i) {
    expire(client);
    the_operator().set("/cache/a", std::to_string(i));
    cache.wait_until(data_is("", std::to_string(i)), {.deadline = soon()});
  }
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::current; }));
  cache.refresh(ReadBarrier::sync, {.deadline = soon()});
  const std::size_t before = reads();
  the_operator().set("/cache/a", "last");
  cache.wait_until(data_is("", "last"), {.deadline = soon()});
  EXPECT_EQ(reads() - before, 1U);
}

// What a session has not read when it ends is not read on behalf of it any more: the next one reads everything anyway.
TEST_F(CacheFaults, ManySessionsThatEndWhileTheyRead) {
  create("/cache/a", "0");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  constexpr int sessions = 60;
  std::size_t attempts = 0;
  const std::size_t at_first = reads();
  for (int i = 1; i <= sessions; ++i) {
    auto read = proxy.hold_next_reply(RequestType::get_data);
    the_operator().set("/cache/a", std::to_string(i));
    ASSERT_TRUE(read.wait(patience));
    attempts += testkit::lose_session(client, proxy);
    cache.wait_until(data_is("a", std::to_string(i)), {.deadline = soon()});
    EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::current; }));
  }
  EXPECT_LE(reads() - at_first, attempts * 5U) << "the read that was lost, then data and list of each node";
  const std::size_t before = reads();
  the_operator().set("/cache/a", "last");
  cache.wait_until(data_is("a", "last"), {.deadline = soon()});
  EXPECT_EQ(reads() - before, 1U);
  // The server may hear of the end of the connection before later than of the new one.
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 4; }))
      << server.watch_count() << " watches: those of the last session are for data and list of each node";
}

// V10, V17: a path that is not there costs nothing but a watch.
TEST_F(CacheFaults, RootMissingOrRemoved) {
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache/root");
  EXPECT_EQ(cache.wait_ready({.deadline = soon()}).root(), nullptr);
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::current; }));
  Told told(cache);
  told.next();
  const std::size_t before = reads();
  EXPECT_EQ(server.watch_count(), 1U);
  cut(client, [] {});
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::current; }));
  cache.refresh(ReadBarrier::sync, {.deadline = soon()});
  EXPECT_EQ(reads(), before);
  for (int i = 0; i < 2; ++i) {
    create("/cache/root");
    told.until("added /cache/root");
    create("/cache/root/a", "x");
    told.until("added /cache/root/a");
    the_operator().remove("/cache/root/a");
    the_operator().remove("/cache/root");
    told.until("removed /cache/root");
    EXPECT_EQ(cache.wait_until(is_gone(""), {.deadline = soon()}).size(), 0U);
  }
}

// V8.
TEST_F(CacheFaults, ContainerReaped) {
  create("/cache/box", "", CreateMode::container);
  create("/cache/box/a");
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache/box");
  EXPECT_EQ(cache.wait_ready({.deadline = soon()}).size(), 1U);
  the_operator().remove("/cache/box/a");
  cache.wait_until(is_gone(""), {.deadline = soon()});
  create("/cache/box", "", CreateMode::container);
  create("/cache/box/b", "found");
  cache.wait_until(data_is("b", "found"), {.deadline = soon()});
}

// A view creates nothing, neither what it watches nor a parent of that.
TEST_F(CacheFaults, ParentRemoved) {
  create("/cache/parent");
  create("/cache/parent/dir");
  create("/cache/parent/dir/a", "1");
  const Client client = calm_proxied();
  NodeCache node(client, "/cache/parent/dir/a");
  ChildrenCache children(client, "/cache/parent/dir");
  TreeCache tree(client, "/cache/parent/dir");
  const std::vector<const Cache*> all = {&node, &children, &tree};
  const auto all_current = [&all] {
    return std::all_of(all.begin(), all.end(),
                       [](const Cache* cache) { return cache->state() == CacheState::current; });
  };
  for (const Cache* cache : all)
    EXPECT_TRUE(cache->wait_ready({.deadline = soon()}).exists());
  the_operator().remove_tree("/cache/parent");
  for (const Cache* cache : all)
    cache->wait_until(is_gone(""), {.deadline = soon()});
  cut(client, [] {});
  EXPECT_TRUE(eventually(all_current));
  expire(client);
  for (const Cache* cache : all)
    EXPECT_FALSE(cache->refresh(ReadBarrier::sync, {.deadline = soon()}).exists());
  EXPECT_TRUE(eventually(all_current));
  for (const RequestType type : {RequestType::create, RequestType::create2, RequestType::create_container,
                                 RequestType::create_ttl, RequestType::multi})
    EXPECT_EQ(proxy.request_count(type), 0U);
  EXPECT_TRUE(names().empty());
  create("/cache/parent");
  create("/cache/parent/dir");
  create("/cache/parent/dir/a", "2");
  node.wait_until(data_is("", "2"), {.deadline = soon()});
  children.wait_until(data_is("a", "2"), {.deadline = soon()});
  tree.wait_until(data_is("a", "2"), {.deadline = soon()});
}

// The read that follows an event is lost: it is read again.
TEST_F(CacheFaults, RereadLost) {
  create("/cache/a", "1");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  auto fault = proxy.drop_next_reply(RequestType::get_data);
  the_operator().set("/cache/a", "2");
  cache.wait_until(data_is("a", "2"), {.deadline = soon()});
  EXPECT_TRUE(fault.happened());
  fault = proxy.drop_next_request(RequestType::get_data);
  the_operator().set("/cache/a", "3");
  cache.wait_until(data_is("a", "3"), {.deadline = soon()});
  EXPECT_TRUE(fault.happened());
  fault = proxy.drop_next_reply(RequestType::get_children2);
  create("/cache/b", "x");
  cache.wait_until(data_is("b", "x"), {.deadline = soon()});
  EXPECT_TRUE(fault.happened());
}

// V3: a child is in the list, and gone when it is to be read. The cache becomes ready without it.
TEST_F(CacheFaults, NodeVanishesBetweenListAndRead) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const Client client = calm_proxied();
  client.connect({.deadline = soon()});
  auto list = proxy.hold_next_reply(RequestType::get_children2);
  ChildrenCache cache(client, "/cache");
  Told told(cache);
  ASSERT_TRUE(list.wait(patience));
  the_operator().remove("/cache/a");
  list.release();
  EXPECT_EQ(told.until("added /cache/b"), (Strings{"added /cache", "added /cache/b"}));
  EXPECT_TRUE(eventually([&] { return cache.snapshot().exact(); })) << "the list may be read again for long";
  EXPECT_FALSE(cache.snapshot().exists("a"));
}

// V32: it is listed, the others live, and it is found again.
TEST_F(CacheFaults, NodeUnreadable) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const zkclient::AclList closed = {{zkclient::Acl::write | zkclient::Acl::admin, "world", "anyone"}};
  the_operator().set_acl("/cache/a", closed);
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  Snapshot now = cache.wait_ready({.deadline = soon()});
  ASSERT_NE(now.find("a"), nullptr);
  EXPECT_EQ(now.find("a")->unreadable, Errc::no_auth);
  EXPECT_FALSE(now.find("a")->has_data);
  EXPECT_FALSE(now.complete());
  EXPECT_EQ(cache.problem()->errc(), Errc::no_auth);
  EXPECT_EQ(cache.problem()->path(), "/cache/a");
  the_operator().set("/cache/b", "2");
  cache.wait_until(data_is("b", "2"), {.deadline = soon()});
  the_operator().set_acl("/cache/a", zkclient::open_acl());
  the_operator().set("/cache/a", "2");
  now = cache.wait_until(data_is("a", "2"), {.deadline = soon()});
  EXPECT_TRUE(eventually([&] { return cache.snapshot().complete() && !cache.problem(); }));
}

// V32: a server that tells nothing of what may not be read leaves the last state; one that does shows the loss. In any
// case the list of the parent tells of a removal, and a new session of everything.
TEST_F(CacheFaults, RightWithdrawn) {
  for (const char* name : {"a", "b", "c"})
    create(std::string("/cache/") + name, "1");
  const zkclient::AclList closed = {{zkclient::Acl::all & ~zkclient::Acl::read, "world", "anyone"}};
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  NodeCache node(client, "/cache/c");
  cache.wait_ready({.deadline = soon()});
  node.wait_ready({.deadline = soon()});
  const auto as_before = [](const Snapshot& now, const char* path) {
    const CachedNode* found = now.find(path);
    return found != nullptr && (has_data(now, path, "1") || found->unreadable == Errc::no_auth);
  };
  for (const char* path : {"/cache/a", "/cache/c"}) {
    the_operator().set_acl(path, closed);
    the_operator().set(path, "2");
  }
  the_operator().set("/cache/b", "2");
  Snapshot now = cache.refresh(ReadBarrier::sync, {.deadline = soon()});
  EXPECT_TRUE(has_data(now, "b", "2"));
  EXPECT_TRUE(as_before(now, "a"));
  the_operator().remove("/cache/c");
  EXPECT_FALSE(cache.refresh(ReadBarrier::sync, {.deadline = soon()}).exists("c"));
  now = node.refresh(ReadBarrier::sync, {.deadline = soon()});
  EXPECT_TRUE(!now.exists() || as_before(now, ""));
  expire(client);
  now = cache.wait_until([](const Snapshot& next) { return !next.complete(); }, {.deadline = soon()});
  EXPECT_EQ(now.find("a")->unreadable, Errc::no_auth);
  EXPECT_EQ(cache.problem()->path(), "/cache/a");
  node.wait_until(is_gone(""), {.deadline = soon()});
  the_operator().set_acl("/cache/a", zkclient::open_acl());
  the_operator().set("/cache/a", "3");
  // The list of its children, which comes later, could not be read either.
  cache.wait_until([](const Snapshot& next) { return has_data(next, "a", "3") && next.complete(); },
                   {.deadline = soon()});
}

// V14: never silent.
TEST_F(CacheFaults, MoreWatchedPathsThanASessionMayHave) {
  const std::string name(2000, 'n');
  constexpr int nodes = 500;
  for (int i = 0; i < nodes;) {
    Transaction transaction;
    for (const int end = i + 100; i < end; ++i)
      transaction.create("/cache/" + name + std::to_string(i), "x");
    the_operator().commit(transaction);
  }
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache");
  const Snapshot now = cache.wait_ready({.deadline = soon()});
  EXPECT_EQ(now.size(), static_cast<std::size_t>(nodes)) << "all the names are there";
  EXPECT_FALSE(now.complete());
  EXPECT_EQ(cache.problem()->errc(), Errc::overloaded);
  // Names only: one watch.
  ChildrenCache names(client, "/cache", {.data = false});
  EXPECT_TRUE(names.wait_ready({.deadline = soon()}).complete());
  EXPECT_FALSE(names.problem());
  // The session survives a reconnection.
  cut(client, [] {});
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::current; }));
}

// More than 16 bits count, in a list of more than half a megabyte. What cannot be watched is said.
TEST_F(CacheFaults, SeventyThousandChildren) {
  if (sanitized) GTEST_SKIP() << "it is about a number, and slow";
  constexpr int children = 70'000;
  const std::string directory = "/cache/" + std::string(200, 'd');
  create(directory);
  create_children(directory, children);
  {
    const Client client = calm_proxied();
    ChildrenCache names(client, directory, {.data = false});
    const Snapshot all = names.wait_ready({.deadline = soon()});
    EXPECT_EQ(all.size(), std::size_t{children});
    EXPECT_TRUE(all.complete());
    EXPECT_TRUE(all.exists("69999"));
    ChildrenCache nodes(client, directory);
    const Snapshot some = nodes.wait_ready({.deadline = soon()});
    EXPECT_EQ(some.size(), std::size_t{children});
    EXPECT_FALSE(some.complete());
    EXPECT_EQ(nodes.problem()->errc(), Errc::overloaded);
    create(directory + "/more");
    for (const ChildrenCache* cache : {&names, &nodes})
      cache->wait_until([](const Snapshot& now) { return now.exists("more"); }, {.deadline = soon()});
  }
  server.restart_wiped();  // To remove so many takes longer.
}

TEST_F(CacheFaults, MoreDataThanMaxBytes) {
  for (const char* name : {"a", "b", "c"})
    create(std::string("/cache/") + name, std::string(1000, 'x'));
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.max_bytes = 2500});
  const Snapshot now = cache.wait_ready({.deadline = soon()});
  std::size_t with_data = 0;
  for (const CachedNodePtr& node : now.children())
    with_data += node->has_data ? 1 : 0;
  EXPECT_EQ(with_data, 2U);
  EXPECT_FALSE(now.complete());
  EXPECT_EQ(cache.problem()->errc(), Errc::too_large);
}

// V30, V38: what is there now is adopted, low zxids or not.
TEST_F(CacheFaults, EnsembleLostItsData) {
  for (int i = 0; i < 100; ++i)
    create("/cache/" + std::to_string(i), "old");
  const Client client(server.connect_string(), {.session_timeout = 2s});
  TreeCache cache(client, "/cache");
  const Snapshot old = cache.wait_ready({.deadline = soon()});
  EXPECT_EQ(old.size(), 100U);
  server.restart_wiped();
  const Client anew(server.connect_string(), {.session_timeout = 30s});
  anew.create("/cache", "", {}, {.deadline = soon()});
  anew.create("/cache/7", "new", {}, {.deadline = soon()});
  const Snapshot now = cache.wait_until(data_is("7", "new"), {.deadline = soon()});
  EXPECT_EQ(now.size(), 1U);
  EXPECT_LT(now.zxid(), old.zxid());
  EXPECT_GT(now.revision(), old.revision());
  anew.set("/cache/7", "newer");
  cache.wait_until(data_is("7", "newer"), {.deadline = soon()});
}

// V13.
TEST_F(CacheFaults, ClientClosed) {
  create("/cache/a", "1");
  Client client = calm_proxied();
  NodeCache ready(client, "/cache/a");
  ready.wait_ready({.deadline = soon()});
  States states(ready);
  EXPECT_TRUE(eventually([&] { return ready.state() == CacheState::current; }));
  // Another one is in the middle of its first reads.
  auto list = proxy.hold_next_reply(RequestType::get_children2);
  TreeCache loading(client, "/cache");
  ASSERT_TRUE(list.wait(patience));
  auto waiting = in_thread([&] { return loading.wait_ready(); });
  client.close();
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  EXPECT_EQ(ready.state(), CacheState::closed);
  EXPECT_EQ(loading.state(), CacheState::closed);
  EXPECT_TRUE(has_data(ready.snapshot(), "", "1")) << "the snapshot stays readable";
  EXPECT_EQ(error_of([&] { loading.refresh(); }), Errc::closed);
  list.release();
}

// Nothing goes on behind the client's back, and its end is no reason to fill the log.
TEST_F(CacheFaults, ClientClosedWhileItCatchesUp) {
  constexpr int children = 1000;
  create_children("/cache", children, "1");
  std::atomic<int> messages{0};
  Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  auto read = proxy.hold_next_reply(RequestType::get_data);
  cut(client, [&] { set_children("/cache", children, "2"); });
  ASSERT_TRUE(read.wait(patience));
  auto waiting = in_thread([&] { return cache.wait_until(data_is("7", "2")); });
  zkclient::set_log_handler([&messages](zkclient::LogLevel, std::string_view) { ++messages; });
  zkclient::set_log_level(zkclient::LogLevel::debug);
  client.close();
  zkclient::set_log_level(zkclient::LogLevel::error);
  zkclient::set_log_handler({});
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  EXPECT_EQ(cache.state(), CacheState::closed);
  EXPECT_EQ(cache.snapshot().size(), std::size_t{children});
  EXPECT_LT(messages, 20);
  read.release();
  EXPECT_TRUE(eventually([&] { return proxy.connections() == 0; }));
}

// --- What others had trouble with ------------------------------------------------------------------------------------

// V1, V2: another node of that name is `replaced`, though its version is the same, and has its own children.
TEST_F(CacheFaults, ReplacedDuringACut) {
  create("/cache/dir", "old");
  create("/cache/dir/a", "old");
  create("/cache/dir/same", "x");
  const Client client = calm_proxied();
  TreeCache tree(client, "/cache");
  ChildrenCache children(client, "/cache/dir");
  Told of_tree(tree);
  Told of_children(children);
  of_tree.next();
  of_children.next();
  cut(client, [&] {
    the_operator().remove_tree("/cache/dir");
    create("/cache/dir", "new");
    create("/cache/dir/b", "new");
    create("/cache/dir/same", "x");
  });
  EXPECT_EQ(of_tree.until("replaced /cache/dir/same"),
            (Strings{"replaced /cache/dir", "removed /cache/dir/a", "added /cache/dir/b", "replaced /cache/dir/same"}));
  EXPECT_EQ(of_children.until("replaced /cache/dir/same"),
            (Strings{"replaced /cache/dir", "removed /cache/dir/a", "added /cache/dir/b", "replaced /cache/dir/same"}));
  EXPECT_TRUE(has_data(tree.snapshot(), "dir", "new"));
}

// V6: the update's read is answered after the node is gone.
TEST_F(CacheFaults, UpdateFollowedByRemoval) {
  create("/cache/a", "1");
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache");
  Told told(cache);
  told.next();
  auto read = proxy.hold_next_reply(RequestType::get_data);
  the_operator().set("/cache/a", "2");
  ASSERT_TRUE(read.wait(patience));
  the_operator().remove("/cache/a");
  read.release();
  const Strings all = told.until("removed /cache/a");
  EXPECT_EQ(std::count(all.begin(), all.end(), "added /cache/a"), 0);
  cache.refresh(ReadBarrier::sync, {.deadline = soon()});
  EXPECT_EQ(told.calls(), 0U) << "nothing comes after that";
}

// Each call tells of newer data than the one before, and begins where that ended.
TEST_F(CacheFaults, ManyUpdatesWhileTheConnectionBreaks) {
  create("/cache/a", "0");
  const Client client = calm_proxied();
  NodeCache cache(client, "/cache/a");
  Told told(cache);
  CachedNodePtr last = told.next().changes.front().after;
  auto writing = in_thread([&] {
    for (int i = 1; i <= 10'000; ++i)
      the_operator().async_set("/cache/a", std::to_string(i), zkclient::any_version, [](const auto&) {},
                               {.deadline = soon()});
    the_operator().set("/cache/a", "last", zkclient::any_version, {.deadline = soon()});
  });
  for (int calls = 1; last->data != "last"; ++calls) {
    const testkit::Call call = told.next();
    ASSERT_EQ(call.changes.size(), 1U);
    const Change& change = call.changes.front();
    ASSERT_EQ(change.kind, Change::Kind::changed);
    EXPECT_EQ(*change.before, *last);
    EXPECT_GT(change.after->stat.mzxid, last->stat.mzxid);
    last = change.after;
    if (calls % 20 == 0) proxy.cut();
  }
  writing.get();
  cache.refresh(ReadBarrier::sync, {.deadline = soon()});
  EXPECT_EQ(told.calls(), 0U) << "nothing is told twice";
}

// V20: two nodes changed; the connection breaks when the first was to be read.
TEST_F(CacheFaults, ConnectionBreaksBeforeTheSecondIsRead) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  for (int i = 2; i < 6; ++i) {
    auto fault =
        i % 2 == 0 ? proxy.drop_next_reply(RequestType::get_data) : proxy.drop_next_request(RequestType::get_data);
    Transaction transaction;
    transaction.set("/cache/a", std::to_string(i)).set("/cache/b", std::to_string(i));
    the_operator().commit(transaction);
    const Snapshot now = cache.wait_until(data_is("b", std::to_string(i)), {.deadline = soon()});
    EXPECT_TRUE(has_data(now, "a", std::to_string(i)));
    EXPECT_TRUE(fault.happened());
  }
}

// V21: the connection breaks between the events of one transaction. Both changes show, and together. The events name
// the transaction, as those of newer servers do, or do not.
TEST_F(CacheFaults, ConnectionBreaksBetweenTwoEvents) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  Told told(cache);
  told.next();
  for (int i = 2; i < 6; ++i) {
    proxy.stall(zktesting::Direction::to_client);
    Transaction transaction;
    transaction.set("/cache/a", std::to_string(i)).set("/cache/b", std::to_string(i));
    const std::int64_t zxid = the_operator().commit(transaction).front().stat->mzxid;
    proxy.stamp_events(i % 2 == 0 ? std::optional(zxid) : std::nullopt);
    const zktesting::Fault lost = proxy.drop_next_event(1);
    proxy.unstall(zktesting::Direction::to_client);
    const Snapshot now = cache.wait_until(data_is("b", std::to_string(i)), {.deadline = soon()});
    EXPECT_TRUE(has_data(now, "a", std::to_string(i)));
    EXPECT_TRUE(lost.happened());
    EXPECT_EQ(told.next().changes.size(), 2U);
  }
}

// V21, V22: events get lost with the connection.
TEST_F(CacheFaults, EventsLostWithTheConnection) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  for (int i = 2; i < 6; ++i) {
    proxy.stall(zktesting::Direction::to_client);
    Transaction transaction;
    transaction.set("/cache/a", std::to_string(i)).set("/cache/b", std::to_string(i));
    the_operator().commit(transaction);
    proxy.cut();
    proxy.unstall(zktesting::Direction::to_client);
    const Snapshot now = cache.wait_until(data_is("b", std::to_string(i)), {.deadline = soon()});
    EXPECT_TRUE(has_data(now, "a", std::to_string(i)));
  }
}

// V29: reads of the beginning get lost; it is ready when every node was read.
TEST_F(CacheFaults, InitialReadsLost) {
  for (int i = 0; i < 20; ++i)
    create("/cache/" + std::to_string(i), "x");
  const Client client = calm_proxied();
  client.connect({.deadline = soon()});
  auto sync = proxy.drop_next_reply(RequestType::sync);
  auto list = proxy.drop_next_reply(RequestType::get_children2);
  auto get = proxy.drop_next_reply(RequestType::get_data);
  TreeCache cache(client, "/cache");
  const Snapshot now = cache.wait_ready({.deadline = soon()});
  EXPECT_TRUE(sync.happened() && list.happened() && get.happened());
  EXPECT_EQ(now.size(), 20U);
  for (const CachedNodePtr& node : now.children())
    EXPECT_TRUE(node->has_data);
}

// V31: a node goes while a new session reads everything.
TEST_F(CacheFaults, RemovalDuringTheSweep) {
  for (int i = 0; i < 20; ++i)
    create("/cache/" + std::to_string(i), "x");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  auto read = proxy.hold_next_reply(RequestType::get_data);
  expire(client);
  ASSERT_TRUE(read.wait(patience));
  for (int i = 0; i < 10; ++i)
    the_operator().remove("/cache/" + std::to_string(i));
  read.release();
  cache.wait_until([](const Snapshot& snapshot) { return snapshot.size() == 10; }, {.deadline = soon()});
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::current; }));
}

// V16: a listener that makes a blocking call holds up neither the session nor the cache.
TEST_F(CacheFaults, ListenerThatBlocksDuringAReconnection) {
  create("/cache/a", "1");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  testkit::Box<std::string> read;
  const auto subscription = cache.on_change([&](const std::vector<Change>&, const Snapshot&) {
    read.put(client.get("/cache/a", {.deadline = soon()}).data);
  });
  EXPECT_EQ(read.take(), "1");
  cut(client, [&] { the_operator().set("/cache/a", "2"); });
  EXPECT_EQ(read.take(), "2");
}

// Longer than the session's timeout, while a large tree has changed: heartbeats go on, and so does the cache.
TEST_F(CacheFaults, ListenerThatBlocksForLongerThanTheSessionsTimeout) {
  constexpr int children = 2000;
  create_children("/cache", children, "1");
  // Short enough to be waited for, and long enough to outlive a connection that is slow for a while.
  const Client client(proxy.connect_string(), {.session_timeout = 12s});
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  const std::int64_t session = client.session().id();
  std::promise<void> wake;
  testkit::Box<std::size_t> told;
  const auto subscription =
      cache.on_change([&, woken = wake.get_future().share()](const std::vector<Change>& changes, const Snapshot&) {
        client.get("/cache/0", {.deadline = soon()});
        told.put(changes.size());
        woken.wait();
      });
  EXPECT_EQ(told.take(), children + 1U);
  cut(client, [&] { set_children("/cache", children, "2"); });
  cache.wait_until([](const Snapshot& now) { return has_data(now, "0", "2") && has_data(now, "1999", "2"); },
                   {.deadline = soon()});
  // One goes out after each third of the timeout.
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::ping, proxy.request_count(RequestType::ping) + 4, patience));
  EXPECT_EQ(client.connect({.deadline = soon()}).id(), session);
  EXPECT_EQ(cache.state(), CacheState::current);
  EXPECT_EQ(told.size(), 0U);
  wake.set_value();
  EXPECT_EQ(told.take(), std::size_t{children}) << "one net difference";
}

// The next session reads all of it again, and nothing of that is published: the call has to hear of it all the same.
TEST_F(CacheFaults, RefreshWhileAnUnchangedTreeIsReadAgain) {
  create("/cache/a", "1");
  for (int i = 0; i < 300; ++i)
    create("/cache/a/" + std::to_string(i), "1");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  const Snapshot before = cache.wait_ready({.deadline = soon()});
  expire(client);
  EXPECT_EQ(cache.refresh(ReadBarrier::sync, {.deadline = soon()}).size(), before.size());
}

// A refresh goes on behind a lost session.
TEST_F(CacheFaults, RefreshWhileTheSessionIsLost) {
  create("/cache/a", "1");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  auto sync = proxy.hold_next_reply(RequestType::sync);
  auto waiting = in_thread([&] { return cache.refresh(ReadBarrier::sync, {.deadline = soon()}); });
  ASSERT_TRUE(sync.wait(patience));
  the_operator().set("/cache/a", "2");
  expire(client);
  sync.release();
  EXPECT_TRUE(result_of(waiting).exact());
  cache.wait_until(data_is("a", "2"), {.deadline = soon()});
}

// Nothing of a closed cache stays at the server while its client lives on, whatever it was doing.
TEST_F(CacheFaults, NoWatchIsLeftOfAClosedCache) {
  create("/cache/a", "1");
  create("/cache/b", "1");
  const Client client = calm_proxied();
  (void)client.connect({.deadline = soon()});
  const auto expect_none = [&](const char* when) {
    client.sync("/", {.deadline = soon()});  // Behind all that the cache has sent.
    EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << when << "\n"
                                                                       << server.four_letter_word("wchp");
  };
  const auto ready = [&] {
    TreeCache cache(client, "/cache");
    cache.wait_ready({.deadline = soon()});
    return cache;
  };
  { const TreeCache cache = ready(); }
  expect_none("at rest");
  {
    const NodeCache node(client, "/cache/absent");
    const ChildrenCache children(client, "/cache/absent");
    node.wait_ready({.deadline = soon()});
    children.wait_ready({.deadline = soon()});
  }
  expect_none("of absent nodes");
  for (const RequestType type : {RequestType::sync, RequestType::get_children2, RequestType::get_data}) {
    auto held = proxy.hold_next_reply(type);
    {
      const TreeCache cache(client, "/cache");
      const TreeCache other(client, "/cache/a");
      EXPECT_TRUE(held.wait(patience));
    }
    held.release();
    expect_none("while it reads for the first time");
  }
  {
    TreeCache cache = ready();
    auto held = proxy.hold_next_reply(RequestType::get_data);
    the_operator().set("/cache/a", "2");
    EXPECT_TRUE(held.wait(patience));
    cache.close();
    held.release();
    expect_none("while it reads what has changed");
  }
  {
    TreeCache cache = ready();
    cut(client, [&] {
      the_operator().set("/cache/a", "3");
      cache.close();
    });
    expect_none("without a connection");
  }
  {
    TreeCache cache = ready();
    auto held = proxy.hold_next_reply(RequestType::get_data);
    expire(client);
    EXPECT_TRUE(held.wait(patience));
    cache.close();
    held.release();
    expect_none("while the next session reads");
  }
  {
    TreeCache cache = ready();
    create("/cache/c", "1");
    cache.wait_until(data_is("c", "1"), {.deadline = soon()});
    the_operator().remove("/cache/c");
    cache.wait_until(is_gone("c"), {.deadline = soon()});
    const std::size_t watched = server.watch_count();
    EXPECT_LE(watched, 6U) << "data and list of three nodes; of the one that is gone nothing";
  }
  expect_none("when a node has gone");
}

TEST_F(CacheFaults, ClosedWhileARefreshWaits) {
  create("/cache/a", "1");
  const Client client = calm_proxied();
  TreeCache cache(client, "/cache");
  cache.wait_ready({.deadline = soon()});
  auto sync = proxy.hold_next_reply(RequestType::sync);
  auto waiting = in_thread([&] { return cache.refresh(ReadBarrier::sync, {.deadline = soon()}); });
  ASSERT_TRUE(sync.wait(patience));
  cache.close();
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  sync.release();
}

// V37: what was committed before as_of() is in the snapshot, whatever happens to the connection.
TEST_F(CacheFaults, AsOfWhileTheConnectionBreaks) {
  create("/cache/n", "0");
  const Client client = calm_proxied();
  NodeCache cache(client, "/cache/n", {.max_age = 4ms});
  cache.wait_ready({.deadline = soon()});
  std::mutex mutex;
  std::vector<BootClock::time_point> acknowledged;  // The write of 1, of 2, ...
  std::atomic<bool> stop{false};
  std::thread writing([&] {
    for (int i = 1; !stop; ++i) {
      the_operator().set("/cache/n", std::to_string(i));
      std::unique_lock lock(mutex);
      acknowledged.push_back(BootClock::now());
      lock.unlock();
      testkit::let_age(1ms);  // The server has others to serve, too.
    }
  });
  std::optional<BootClock::time_point> last;
  const auto check = [&] {
    const auto as_of = cache.as_of();
    const int seen = std::stoi(cache.snapshot().root()->data);
    if (as_of == last) return false;
    EXPECT_GT(as_of, last);
    last = as_of;
    const std::lock_guard lock(mutex);
    const auto committed = std::lower_bound(acknowledged.begin(), acknowledged.end(), *as_of) - acknowledged.begin();
    EXPECT_GE(seen, committed);
    return true;
  };
  const auto deadline = soon();
  for (int round = 0; round < 3; ++round) {
    for (int seen = 0; seen < 50 && testkit::SteadyClock::now() < deadline;)
      check() ? void(++seen) : testkit::let_age(1ms);
    cut(client, [&] {
      check();
      const auto as_of = cache.as_of();
      EXPECT_TRUE(reaches(client, ConnectionState::suspended));
      EXPECT_EQ(cache.as_of(), as_of) << "without a connection it ages";
    });
  }
  EXPECT_LT(testkit::SteadyClock::now(), deadline);
  stop = true;
  writing.join();
}

// Some node is always being read; those that changed before as_of() have been.
TEST_F(CacheFaults, AsOfUnderConstantChanges) {
  constexpr int nodes = 50;
  create_children("/cache", nodes, "0");
  const Client client = calm_proxied();
  ChildrenCache cache(client, "/cache", {.max_delay = 20ms, .max_age = 10ms});
  cache.wait_ready({.deadline = soon()});
  proxy.delay(zktesting::Direction::to_client, 20ms);
  std::mutex mutex;
  std::vector<BootClock::time_point> acknowledged;  // The write of 1, of 2, ...: one node after the other.
  std::atomic<bool> stop{false};
  std::thread writing([&] {
    for (int i = 1; !stop; ++i) {
      the_operator().set("/cache/" + std::to_string(i % nodes), std::to_string(i));
      std::unique_lock lock(mutex);
      acknowledged.push_back(BootClock::now());
      lock.unlock();
      testkit::let_age(1ms);  // The server has others to serve, too.
    }
  });
  const auto deadline = soon();
  std::optional<BootClock::time_point> last;
  for (int moves = 0; moves < 30 && testkit::SteadyClock::now() < deadline;) {
    const auto as_of = cache.as_of();
    const Snapshot now = cache.snapshot();
    if (as_of == last) {
      testkit::let_age(1ms);
      continue;
    }
    EXPECT_GT(as_of, last);
    if (!now.exact()) ++moves;
    last = as_of;
    std::unique_lock lock(mutex);
    const auto committed = std::lower_bound(acknowledged.begin(), acknowledged.end(), *as_of) - acknowledged.begin();
    lock.unlock();
    for (auto i = std::max<std::ptrdiff_t>(committed - nodes + 1, 1); i <= committed; ++i)
      EXPECT_GE(std::stoi(now.find(std::to_string(i % nodes))->data), i);
  }
  EXPECT_LT(testkit::SteadyClock::now(), deadline) << "it stands still";
  stop = true;
  writing.join();
}

// The barrier of a reconnection is the client's, whatever it views; one that is closed takes it from nobody.
TEST_F(CacheFaults, CachesOfAClientShareABarrier) {
  create("/cache/a");
  const Client client = calm_proxied();
  std::vector<TreeCache> caches;
  for (int i = 0; i < 5; ++i)
    caches.emplace_back(client, i % 2 == 0 ? "/cache" : "/cache/a");
  const auto are_current = [&caches] {
    return std::all_of(caches.begin(), caches.end(),
                       [](const Cache& cache) { return cache.state() == CacheState::current; });
  };
  EXPECT_TRUE(eventually(are_current));
  const std::size_t read = reads();
  for (int i = 0; i < 3; ++i) {
    const std::size_t syncs = proxy.request_count(RequestType::sync);
    cut(client, [] {});
    EXPECT_TRUE(eventually([&] { return proxy.request_count(RequestType::sync) > syncs && are_current(); }));
    EXPECT_EQ(proxy.request_count(RequestType::sync) - syncs, 1U);
  }
  EXPECT_EQ(reads(), read);
  auto held = proxy.hold_next_reply(RequestType::sync);
  cut(client, [] {});
  EXPECT_TRUE(held.wait(patience));
  EXPECT_EQ(caches.back().state(), CacheState::stale);
  caches.erase(caches.begin());  // The one that asked first.
  held.release();
  EXPECT_TRUE(eventually(are_current));
}

// And so is the sync that a new session reads behind.
TEST_F(CacheFaults, CachesOfAClientShareTheSyncOfANewSession) {
  create("/cache/a");
  const Client client = calm_proxied();
  std::vector<TreeCache> caches;
  for (int i = 0; i < 5; ++i)
    caches.emplace_back(client, i % 2 == 0 ? "/cache" : "/cache/a");
  const auto are_current = [&caches] {
    return std::all_of(caches.begin(), caches.end(),
                       [](const Cache& cache) { return cache.state() == CacheState::current; });
  };
  EXPECT_TRUE(eventually(are_current));
  for (int i = 1; i <= 3; ++i) {
    const std::size_t syncs = proxy.request_count(RequestType::sync);
    const std::size_t read = reads();
    expire(client);
    EXPECT_TRUE(eventually([&] { return proxy.request_count(RequestType::sync) > syncs && are_current(); }));
    EXPECT_EQ(proxy.request_count(RequestType::sync) - syncs, 1U);
    EXPECT_EQ(reads() - read, 3 * 4U + 2 * 2U) << "data and list of each node, once";
    the_operator().set("/cache/a", std::to_string(i));
    for (const Cache& cache : caches)
      cache.wait_until([i](const Snapshot& now) { return now.find("/cache/a")->data == std::to_string(i); },
                       {.deadline = soon()});
  }
}

}  // namespace
}  // namespace zkrecipes
