#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <zkrecipes/asio.hpp>
#include <zkrecipes/unfair_leader_election.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/contention.hpp"
#include "tests/support/words.hpp"

// Every asynchronous operation in the words that come to mind in a coroutine: options in braces, or with the name of
// their type, temporaries, lambdas, short texts and long ones. g++ 12 moves much of that byte by byte and destroys it
// twice; AddressSanitizer sees what our types do not withstand.

namespace {

namespace asio = boost::asio;
using namespace testkit::words;
using asio::deferred;
using asio::use_awaitable;
using zkclient::Acl;
using zkclient::AclList;
using zkclient::CreateOptions;
using zkclient::Reconfig;

// No string holds this inside of itself.
const std::string longer = "a text of more than fifteen characters";

class AsioSpellingsTest : public testkit::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    client_.emplace(make_client());
  }
  void TearDown() override {
    client_.reset();
    ServerTest::TearDown();
  }
  const Client& c() const { return *client_; }
  void run(asio::awaitable<void> body) {
    context_.restart();  // It may have run before.
    auto done = asio::co_spawn(context_, std::move(body), asio::use_future);
    const auto deadline = soon();
    context_.run_until(deadline);
    ASSERT_LT(testkit::SteadyClock::now(), deadline) << "something still waits";
    done.get();
  }
  std::optional<Client> client_;
  asio::io_context context_{1};
};

// ---- Client ---------------------------------------------------------------------------------------------------------

asio::awaitable<void> creates(Client client, std::stop_token stop) {
  client.add_auth("digest", "ann:secret");
  auto made = co_await zkclient::async_create(client, "/a", "x", {}, use_awaitable);
  EXPECT_EQ(made.path, "/a");
  made = co_await zkclient::async_create(client, "/b/c", longer, {.parents = true}, use_awaitable);
  EXPECT_EQ(made.path, "/b/c");
  made = co_await zkclient::async_create(client, "/d/e", std::string("x"), {.parents = true}, {.stop = stop},
                                         use_awaitable);
  EXPECT_EQ(made.path, "/d/e");
  const std::stop_source another;
  made =
      co_await zkclient::async_create(client, "/timeout", longer, {.parents = true}, {.deadline = 60s}, use_awaitable);
  made = co_await zkclient::async_create(client, "/two", longer, {.parents = true},
                                         {.deadline = 1h, .stop = {stop, another.get_token()}}, use_awaitable);
  EXPECT_EQ(made.path, "/two");
  made = co_await zkclient::async_create(client, Path("/d") / "f", std::nullopt,
                                         CreateOptions{.acl = zkclient::open_acl()},
                                         CallOptions{.deadline = soon(), .stop = stop}, use_awaitable);
  EXPECT_EQ(made.path, "/d/f");
  made = co_await zkclient::async_create(client, "/d/" + longer.substr(0, 1), longer + longer,
                                         {.mode = CreateMode::ephemeral, .protection = true}, {}, use_awaitable);
  EXPECT_NE(made.path.find("_c_"), std::string::npos);
  const AclList list = {{.permissions = Acl::read, .scheme = "world", .id = "anyone"}};
  made = co_await zkclient::async_create(client, "/g", "", {.acl = list, .parent_acl = AclList(2)}, use_awaitable);
  EXPECT_EQ(client.get_acl("/g").acl, list);
  made = co_await zkclient::async_create(
      client, "/h", "",
      {.acl = AclList(1, Acl{.permissions = Acl::all, .scheme = "digest", .id = "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM="})},
      use_awaitable);
  EXPECT_EQ(client.get_acl("/h").acl.at(0).id, "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=");
  made = co_await zkclient::async_create(
      client, "/i", "", {.acl = (co_await zkclient::async_get_acl(client, "/h", use_awaitable)).acl}, use_awaitable);
  EXPECT_EQ(client.get_acl("/i").acl, client.get_acl("/h").acl);
  const bool parents = stop.stop_possible();
  made = co_await zkclient::async_create(client, "/j/k", "", parents ? CreateOptions{.parents = true} : CreateOptions(),
                                         use_awaitable);
  EXPECT_EQ(made.path, "/j/k");
  made = co_await zkclient::async_create(client, "/j/l", "", {.parents = true}, deferred)(use_awaitable);
  EXPECT_EQ(made.path, "/j/l");
  const auto [error, twice] = co_await zkclient::async_create(client, "/j/l", longer, {.parents = true}, {.stop = stop},
                                                              asio::as_tuple(use_awaitable));
  EXPECT_EQ(zkclient::code_of(error), Errc::node_exists);
}

TEST_F(AsioSpellingsTest, Creates) {
  const std::stop_source stop;
  run(creates(c(), stop.get_token()));
}

// Each operation without options, with them in braces, and with the name of their type.
asio::awaitable<void> operations_on_nodes(Client client, std::stop_source stop) {
  const auto session = co_await zkclient::async_connect(client, {.deadline = soon()}, use_awaitable);
  EXPECT_EQ(session, co_await zkclient::async_connect(client, {.stop = stop.get_token()}, use_awaitable));
  co_await zkclient::async_add_auth(client, "digest", "ann:" + longer, {.stop = stop.get_token()}, use_awaitable);
  co_await zkclient::async_ensure(client, "/deep/down", CreateMode::persistent,
                                  {.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
  auto stat = co_await zkclient::async_set(client, "/deep", longer, 0, {.stop = stop.get_token()}, use_awaitable);
  stat = co_await zkclient::async_set(client, "/deep", std::string("y"), zkclient::any_version,
                                      CallOptions{.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
  stat =
      co_await zkclient::async_set_resolving(client, "/deep", longer, stat, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(stat.version, 3);
  const auto node =
      co_await zkclient::async_get(client, "/deep", {.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(node.data, longer);
  EXPECT_EQ((co_await zkclient::async_get(client, "/deep", {.stop = stop.get_token()}, deferred)(use_awaitable)).data,
            longer);
  const auto [error, got] =
      co_await zkclient::async_get(client, "/deep", {.stop = stop.get_token()}, asio::as_tuple(use_awaitable));
  EXPECT_FALSE(error);
  EXPECT_EQ(got.data, longer);
  const auto exists = co_await zkclient::async_exists(client, "/" + longer, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_FALSE(exists);
  const auto children = co_await zkclient::async_children(client, "/deep", {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(children.names, std::vector<std::string>{"down"});
  co_await zkclient::async_sync(client, "/", {.stop = stop.get_token()}, use_awaitable);
  const auto acl = co_await zkclient::async_get_acl(client, "/deep", {.stop = stop.get_token()}, use_awaitable);
  co_await zkclient::async_set_acl(client, "/deep", zkclient::creator_all_acl(), acl.stat.acl_version,
                                   {.stop = stop.get_token()}, use_awaitable);
  co_await zkclient::async_set_acl(client, "/deep", zkclient::open_acl(), zkclient::any_version, use_awaitable);
  co_await zkclient::async_remove(client, "/deep/down", 0, {.stop = stop.get_token()}, use_awaitable);
  co_await zkclient::async_remove_tree(client, "/deep", {.stop = stop.get_token()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, OperationsOnNodes) { run(operations_on_nodes(c(), {})); }

asio::awaitable<void> transactions(Client client, std::stop_source stop) {
  auto results = co_await zkclient::async_commit(
      client, Transaction().create("/t", longer, {.acl = zkclient::open_acl()}).create("/t/" + longer.substr(0, 6)),
      {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(results.size(), 2u);
  results = co_await zkclient::async_commit(
      client, Transaction().check({.path = "/t", .version = 0, .session = client.session()}).set("/t", "x"),
      use_awaitable);
  EXPECT_EQ(results.size(), 2u);
  results = co_await zkclient::async_commit(client, Transaction().check({.path = "/t/a text"}).remove("/t/a text"),
                                            use_awaitable);
  EXPECT_EQ(results.size(), 2u);
}

TEST_F(AsioSpellingsTest, Transactions) { run(transactions(c(), {})); }

asio::awaitable<void> operations_on_the_ensemble(Client client, std::string servers, std::stop_source stop) {
  const auto config = co_await zkclient::async_get_config(client, {.stop = stop.get_token()}, use_awaitable);
  const std::string server = "server.9=127.0.0.1:1:2:observer;3";
  // Refused: a standalone server has no members to change.
  auto outcome = co_await zkclient::async_reconfig(client, {.joining = {server, longer.c_str()}, .leaving = {"1", "2"}},
                                                   {.stop = stop.get_token()}, asio::as_tuple(use_awaitable));
  EXPECT_TRUE(std::get<0>(outcome));
  outcome = co_await zkclient::async_reconfig(client, {.leaving = {"1"}, .version = config.version},
                                              asio::as_tuple(use_awaitable));
  EXPECT_TRUE(std::get<0>(outcome));
  outcome = co_await zkclient::async_reconfig(client, Reconfig{.members = std::vector<std::string>(1, server)},
                                              asio::as_tuple(use_awaitable));
  EXPECT_TRUE(std::get<0>(outcome));
  outcome = co_await zkclient::async_reconfig(client, {}, asio::as_tuple(use_awaitable));
  EXPECT_TRUE(std::get<0>(outcome));
  co_await zkclient::async_update_servers(client, servers, {.stop = stop.get_token()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, OperationsOnTheEnsemble) { run(operations_on_the_ensemble(c(), hosts(), {})); }

asio::awaitable<void> watching_reads(Client client, std::stop_source stop) {
  const auto calls = std::make_shared<int>(0);
  const auto note = [calls](const WatchEvent&) { ++*calls; };
  int* const count = calls.get();
  const auto data = co_await zkclient::async_get_and_watch(
      client, "/", [](const WatchEvent&) {}, {.stop = stop.get_token()}, use_awaitable);
  const auto exists = co_await zkclient::async_exists_and_watch(
      client, "/" + longer, [count](const WatchEvent&) { ++*count; }, {.stop = stop.get_token()}, use_awaitable);
  const auto children =
      co_await zkclient::async_children_and_watch(client, "/", note, {.stop = stop.get_token()}, use_awaitable);
  zkclient::WatchHandler own = [calls, only = std::make_unique<int>(1)](const WatchEvent&) { *calls += *only; };
  const auto config =
      co_await zkclient::async_get_config_and_watch(client, std::move(own), {.stop = stop.get_token()}, use_awaitable);
  EXPECT_FALSE(exists.value());
}

TEST_F(AsioSpellingsTest, ReadsThatWatch) { run(watching_reads(c(), {})); }

// Only coroutines need names for such lambdas.
TEST_F(AsioSpellingsTest, AFutureTakesALambdaThatOwnsSomething) {
  const auto owned = std::make_shared<int>(0);
  auto read = zkclient::async_get_and_watch(
      c(), "/", [owned](const WatchEvent&) {}, {.deadline = soon()}, asio::use_future);
  EXPECT_TRUE(testkit::result_of(read).watch().armed());
}

asio::awaitable<void> wait_for(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(use_awaitable);
}

asio::awaitable<void> stops(zkrecipes::Mutex* mutex, std::stop_source stop) {
  using namespace asio::experimental::awaitable_operators;
  const auto lease = co_await zkrecipes::async_acquire(*mutex, use_awaitable);
  const auto race =
      co_await (zkrecipes::async_acquire(*mutex, {.stop = stop.get_token()}, use_awaitable) || wait_for(20ms));
  EXPECT_EQ(race.index(), 1u);
  const auto late = co_await zkrecipes::async_acquire(
      *mutex, {.deadline = std::chrono::steady_clock::now() + 20ms, .stop = stop.get_token()},
      asio::as_tuple(use_awaitable));
  EXPECT_EQ(zkclient::code_of(std::get<0>(late)), Errc::deadline_exceeded);
  stop.request_stop();
  const auto stopped =
      co_await zkrecipes::async_acquire(*mutex, {.stop = stop.get_token()}, asio::as_tuple(use_awaitable));
  EXPECT_EQ(zkclient::code_of(std::get<0>(stopped)), Errc::cancelled);
}

asio::awaitable<void> request(std::stop_source stop) {
  stop.request_stop();
  co_return;
}

asio::awaitable<std::error_code> stopped_by_one_of_two(zkrecipes::Mutex* mutex, std::stop_source stop) {
  const std::stop_source another;
  const auto [error, lease] = co_await zkrecipes::async_acquire(
      *mutex, {.deadline = 60s, .stop = {another.get_token(), stop.get_token()}}, asio::as_tuple(use_awaitable));
  co_return zkclient::code_of(error);
}

// Beside another operation, so that it has a cancellation slot as well.
asio::awaitable<void> stops_one_of_two(zkrecipes::Mutex* mutex, std::stop_source stop) {
  using namespace asio::experimental::awaitable_operators;
  EXPECT_EQ(co_await (stopped_by_one_of_two(mutex, stop) && request(stop)), Errc::cancelled);
}

TEST_F(AsioSpellingsTest, LimitsThatEndAWait) {
  zkrecipes::Mutex mutex(c(), "/lock");
  run(stops(&mutex, {}));
  const auto lease = mutex.acquire();
  run(stops_one_of_two(&mutex, {}));
}

// The frame goes while the operation is under way, and with it what stands in the expression.
asio::awaitable<void> waits_for_ever(zkrecipes::Mutex* mutex, std::stop_token stop) {
  (void)co_await zkrecipes::async_acquire(*mutex, {.deadline = soon() + 1h, .stop = stop}, use_awaitable);
}

TEST_F(AsioSpellingsTest, ACoroutineThatIsDestroyedWhileItWaits) {
  zkrecipes::Mutex mutex(c(), "/lock");
  const auto lease = mutex.acquire();
  Client other = make_client();
  zkrecipes::Mutex waiting(other, "/lock");
  {
    asio::io_context context;
    asio::co_spawn(context, waits_for_ever(&waiting, std::stop_token()), asio::detached);
    context.poll();
    other.close();
  }
}

// ---- Recipes --------------------------------------------------------------------------------------------------------

asio::awaitable<void> locks(Client client, std::stop_source stop) {
  zkrecipes::Mutex mutex(client, "/mutex");
  zkrecipes::SharedMutex shared(client, "/shared");
  zkrecipes::UnfairMutex unfair(client, "/unfair");
  zkrecipes::Semaphore semaphore(client, "/semaphore", 9);
  zkrecipes::MultiLock both;
  both.add(mutex).add_shared(shared);
  {
    auto lease =
        co_await zkrecipes::async_acquire(mutex, {.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
    EXPECT_FALSE(co_await zkrecipes::async_try_acquire(mutex, {.stop = stop.get_token()}, use_awaitable));
    co_await zkrecipes::async_release(lease, {.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
    lease = co_await zkrecipes::async_acquire(mutex, CallOptions{.stop = stop.get_token()}, deferred)(use_awaitable);
    EXPECT_TRUE(lease.valid());
  }
  {
    auto leases =
        co_await zkrecipes::async_acquire(both, {.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
    EXPECT_FALSE(co_await zkrecipes::async_try_acquire(both, {.stop = stop.get_token()}, use_awaitable));
  }
  auto lease = co_await zkrecipes::async_acquire(shared, {.stop = stop.get_token()}, use_awaitable);
  lease = co_await zkrecipes::async_downgrade(shared, lease, {.stop = stop.get_token()}, use_awaitable);
  const auto reader = co_await zkrecipes::async_acquire_shared(shared, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_TRUE(co_await zkrecipes::async_try_acquire_shared(shared, {.stop = stop.get_token()}, use_awaitable));
  EXPECT_FALSE(co_await zkrecipes::async_try_acquire(shared, {.stop = stop.get_token()}, use_awaitable));
  const auto one = co_await zkrecipes::async_acquire(semaphore, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_TRUE(co_await zkrecipes::async_try_acquire(semaphore, {.stop = stop.get_token()}, use_awaitable));
  EXPECT_EQ((co_await zkrecipes::async_acquire_many(semaphore, 2, {.stop = stop.get_token()}, use_awaitable)).size(),
            2u);
  EXPECT_EQ(
      (co_await zkrecipes::async_try_acquire_many(semaphore, 2, {.stop = stop.get_token()}, use_awaitable)).size(), 2u);
  const auto only = co_await zkrecipes::async_acquire(unfair, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_FALSE(co_await zkrecipes::async_try_acquire(unfair, {.stop = stop.get_token()}, use_awaitable));
  const Path node = only.node();
  EXPECT_EQ(co_await zkrecipes::async_revoke(client, node, {}, {.stop = stop.get_token()}, use_awaitable),
            zkrecipes::RevokeOutcome::requested);
  EXPECT_EQ(co_await zkrecipes::async_revoke_holders(client, "/unfair", {.break_after = 0ms},
                                                     {.deadline = soon(), .stop = stop.get_token()}, use_awaitable),
            zkrecipes::RevokeOutcome::broken);
  EXPECT_EQ(co_await zkrecipes::async_revoke(client, node, {.break_after = 0ms}, use_awaitable),
            zkrecipes::RevokeOutcome::released);
}

TEST_F(AsioSpellingsTest, Locks) { run(locks(c(), {})); }

asio::awaitable<void> elections(zkrecipes::UnfairLeaderElection* election, std::stop_source stop) {
  const auto leadership =
      co_await zkrecipes::async_campaign(*election, {.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
  auto leader = co_await zkrecipes::async_wait_for_leader(*election, {.ready = false}, use_awaitable);
  leader = co_await zkrecipes::async_wait_for_leader(*election, {.ready = false, .after = {}},
                                                     {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(leader.term, leadership.token());
}

TEST_F(AsioSpellingsTest, Elections) {
  zkrecipes::UnfairLeaderElection election(c(), "/election");
  run(elections(&election, {}));
}

asio::awaitable<void> queues(Client client, std::stop_source stop) {
  zkrecipes::Queue queue(client, "/queue");
  zkrecipes::PriorityQueue urgent(client, "/urgent");
  zkrecipes::DelayQueue later(client, "/later");
  const zkrecipes::DelayQueue::TimePoint now = std::chrono::system_clock::now();
  co_await zkrecipes::async_push(later, longer, now, use_awaitable);
  co_await zkrecipes::async_push_all(later, {"second", longer}, now, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_TRUE(co_await zkrecipes::async_try_push(later, "third", now, use_awaitable));
  zkrecipes::IdQueue removable(client, "/removable");
  co_await zkrecipes::async_push(removable, longer, longer, use_awaitable);
  co_await zkrecipes::async_push_all(removable, {"second"}, longer, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(co_await zkrecipes::async_remove(removable, longer, {.stop = stop.get_token()}, use_awaitable), 2U);
  co_await zkrecipes::async_push(queue, longer, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_push_all(queue, {"second", longer, std::string("fourth")}, {.stop = stop.get_token()},
                                     use_awaitable);
  co_await zkrecipes::async_push_all(queue, {"fifth"}, use_awaitable);
  co_await zkrecipes::async_push_all(queue, std::vector<std::string>(1, "sixth"), use_awaitable);
  co_await zkrecipes::async_push_all(queue, {}, use_awaitable);
  {
    auto claim = co_await zkrecipes::async_claim(queue, {.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
    EXPECT_EQ(claim.data(), longer);
    co_await zkrecipes::async_give_back(claim, {.stop = stop.get_token()}, use_awaitable);
  }
  auto claim = co_await zkrecipes::async_try_claim(queue, {.stop = stop.get_token()}, use_awaitable);
  if (!claim) throw std::runtime_error("there is an item");
  co_await zkrecipes::async_commit(*claim, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(co_await zkrecipes::async_pop(queue, {.stop = stop.get_token()}, use_awaitable), "second");
  EXPECT_EQ(co_await zkrecipes::async_try_pop(queue, {.stop = stop.get_token()}, use_awaitable), longer);
  EXPECT_EQ(co_await zkrecipes::async_pop(queue, use_awaitable), "fourth");
  EXPECT_EQ(co_await zkrecipes::async_pop(queue, use_awaitable), "fifth");
  EXPECT_EQ(co_await zkrecipes::async_pop(queue, use_awaitable), "sixth");
  co_await zkrecipes::async_push(urgent, "late", 2, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(co_await zkrecipes::async_pop(urgent, {.deadline = soon()}, use_awaitable), "late");
}

TEST_F(AsioSpellingsTest, Queues) { run(queues(c(), {})); }

asio::awaitable<void> barriers(Client client, std::stop_source stop) {
  zkrecipes::Barrier barrier(client, "/barrier");
  zkrecipes::DoubleBarrier member(client, "/double", 1);
  co_await zkrecipes::async_raise(barrier, zkrecipes::BarrierLife::persistent, {.stop = stop.get_token()},
                                  use_awaitable);
  co_await zkrecipes::async_lower(barrier, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_wait(barrier, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_enter(member, {.deadline = soon(), .stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_leave(member, {.stop = stop.get_token()}, use_awaitable);
}

asio::awaitable<void> latches(Client client, std::stop_source stop) {
  zkrecipes::Latch latch(client, "/latch", 2);
  EXPECT_EQ(co_await zkrecipes::async_count_down(latch, 2, {.stop = stop.get_token()}, use_awaitable), 0);
  EXPECT_EQ(co_await zkrecipes::async_left(latch, {.stop = stop.get_token()}, use_awaitable), 0);
  co_await zkrecipes::async_wait(latch, {.stop = stop.get_token()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, Latches) { run(latches(c(), {})); }

asio::awaitable<void> migrations(Client client, std::stop_source stop) {
  zkrecipes::MigrationSet set("set");
  set.add("one", zkclient::Transaction().create("/one"));
  zkrecipes::Migrations one(client, "/locks", "/records");
  EXPECT_EQ((co_await zkrecipes::async_pending(one, set, {.stop = stop.get_token()}, use_awaitable)).size(), 1U);
  EXPECT_EQ((co_await zkrecipes::async_migrate(one, set, {.stop = stop.get_token()}, use_awaitable)).size(), 1U);
}

TEST_F(AsioSpellingsTest, Migrations) { run(migrations(c(), {})); }

TEST_F(AsioSpellingsTest, Barriers) { run(barriers(c(), {})); }

asio::awaitable<void> names(Client client, std::stop_source stop) {
  zkrecipes::Naming naming(client, "/names");
  const auto lease = co_await zkrecipes::async_bind(naming, "one", longer, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_FALSE(co_await zkrecipes::async_try_bind(naming, "one", "x", {.deadline = soon()}, use_awaitable));
  const auto own = co_await zkrecipes::async_make_unique(naming, "w-", "x", {.stop = stop.get_token()}, use_awaitable);
  EXPECT_TRUE(own.valid());
  co_await zkrecipes::async_bind_permanent(naming, "two", longer, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(co_await zkrecipes::async_rebind(naming, "two", "x", 0, {.stop = stop.get_token()}, use_awaitable), 1);
  EXPECT_EQ((co_await zkrecipes::async_resolve(naming, "one", {.stop = stop.get_token()}, use_awaitable))->data,
            longer);
  EXPECT_EQ((co_await zkrecipes::async_list(naming, {.stop = stop.get_token()}, use_awaitable)).size(), 3u);
  co_await zkrecipes::async_unbind(naming, "two", 1, {.stop = stop.get_token()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, Names) { run(names(c(), {})); }

asio::awaitable<void> numbers(Client client, std::stop_source stop) {
  zkrecipes::Counter counter(client, "/number");
  EXPECT_EQ((co_await zkrecipes::async_add(counter, 2, {.stop = stop.get_token()}, use_awaitable)).after, 2);
  const zkrecipes::Counter::Function twice = [](std::int64_t number) { return 2 * number; };
  EXPECT_EQ((co_await zkrecipes::async_update(counter, twice, {.deadline = soon()}, use_awaitable)).after, 4);
  EXPECT_TRUE(co_await zkrecipes::async_compare_set(counter, 4, 5, {.stop = stop.get_token()}, use_awaitable));
  co_await zkrecipes::async_set(counter, 6, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(co_await zkrecipes::async_get(counter, {.stop = stop.get_token()}, use_awaitable), 6);
}

TEST_F(AsioSpellingsTest, Numbers) { run(numbers(c(), {})); }

asio::awaitable<void> shared_values(Client client, std::stop_source stop) {
  zkrecipes::SharedValue value(client, "/value");
  co_await zkrecipes::async_set(value, longer, {.stop = stop.get_token()}, use_awaitable);
  const auto seen = co_await zkrecipes::async_get(value, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(seen.data, longer);
  EXPECT_TRUE(
      co_await zkrecipes::async_compare_set(value, seen.version, longer, {.stop = stop.get_token()}, use_awaitable));
  const zkrecipes::SharedValue::Function append = [](const zkrecipes::VersionedValue& now) { return now.data + "+"; };
  EXPECT_EQ(co_await zkrecipes::async_update(value, append, {.deadline = soon()}, use_awaitable), longer + "+");
}

TEST_F(AsioSpellingsTest, SharedValues) { run(shared_values(c(), {})); }

asio::awaitable<void> ids(Client client, std::stop_source stop) {
  zkrecipes::IdBlocks blocks(client, "/ids");
  EXPECT_EQ(co_await zkrecipes::async_next(blocks, {.stop = stop.get_token()}, use_awaitable), 1);
  zkrecipes::WorkerIds workers(client, "/workers");
  zkrecipes::WorkerId worker = co_await zkrecipes::async_acquire(workers, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(worker.number(), 0);
  co_await zkrecipes::async_release(worker, {.deadline = soon()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, Ids) { run(ids(c(), {})); }

asio::awaitable<void> periodic_jobs(Client client, std::stop_source stop) {
  const auto nothing = [](std::stop_token, const zkrecipes::JobFiring&) {};
  zkrecipes::PeriodicJob job(client, "/job", zkrecipes::every(std::chrono::hours(1)), nothing);
  EXPECT_FALSE(co_await zkrecipes::async_status(job, {.stop = stop.get_token()}, use_awaitable));
  EXPECT_TRUE((co_await zkrecipes::async_history(job, {.deadline = soon()}, use_awaitable)).empty());
}

TEST_F(AsioSpellingsTest, PeriodicJobs) { run(periodic_jobs(c(), {})); }

asio::awaitable<void> functions(Client client, std::stop_source stop) {
  zkrecipes::Optimistic bank(client, "/bank");
  const zkrecipes::Optimistic::Function make = [](zkrecipes::OptimisticView& view) { view.create("/account", "1"); };
  co_await zkrecipes::async_atomically(bank, make, {.stop = stop.get_token()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, Functions) { run(functions(c(), {})); }

asio::awaitable<void> coherent_items(Client client, std::stop_source stop) {
  zkrecipes::CoherentCache cache(client, "/coherent");
  co_await zkrecipes::async_create(cache, "a", "1", {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_put(cache, "a", longer, {.deadline = soon()}, use_awaitable);
  const auto item = co_await zkrecipes::async_get(cache, "a", {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(item->data, longer);
  EXPECT_TRUE(co_await zkrecipes::async_compare_put(cache, "a", item->revision, "2", {.stop = stop.get_token()},
                                                    use_awaitable));
  EXPECT_FALSE(co_await zkrecipes::async_compare_remove(cache, "a", item->revision, use_awaitable));
  const zkrecipes::CoherentCache::Function same = [](const zkrecipes::CoherentItem& one) { return one.data; };
  EXPECT_EQ(co_await zkrecipes::async_update(cache, "a", same, {.deadline = soon()}, use_awaitable), "2");
  co_await zkrecipes::async_remove(cache, "a", {.stop = stop.get_token()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, CoherentItems) { run(coherent_items(c(), {})); }

asio::awaitable<void> persistent_nodes(Client client, std::stop_source stop) {
  zkrecipes::PersistentNode node(client, "/node", "1");
  zkrecipes::PersistentTtlNode ttl(client, "/ttl", std::chrono::hours(1), "1");
  co_await zkrecipes::async_wait_created(node, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_wait_created(ttl, use_awaitable);
  co_await zkrecipes::async_set_data(node, longer, {.deadline = soon()}, use_awaitable);
  co_await zkrecipes::async_set_data(ttl, "2", {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_remove(node, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_remove(ttl, {.deadline = soon()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, PersistentNodes) { run(persistent_nodes(c(), {})); }

asio::awaitable<void> replicas(Client client, std::stop_source stop) {
  zkrecipes::ReplicaHandlers handlers{[](const zkrecipes::PrimaryTerm&) {}, [](const zkrecipes::SecondaryTerm&) {}};
  zkrecipes::ReplicaGroup group(client, "/replicas", {"a", "disk"}, std::move(handlers));
  EXPECT_TRUE(testkit::eventually([&] { return group.may_write(); }));
  const std::vector<std::string> others = {"b"};
  co_await zkrecipes::async_report_version(group, 1, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_shrink(group, others, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_expand(group, 1, "a", "disk", {.deadline = soon()}, use_awaitable);
  co_await zkrecipes::async_leave(group, {.deadline = soon()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, Replicas) { run(replicas(c(), {})); }

asio::awaitable<void> shared_out_partitions(Client client, std::stop_source stop) {
  testkit::Box<zkrecipes::Partition> kept;
  const auto keep = [&](zkrecipes::Partition partition) { kept.put(std::move(partition)); };
  zkrecipes::Partitioner partitioner(client, "/partitions", zkrecipes::PartitionSource::list({longer}), keep,
                                     {.id = "a", .grace = 10ms});
  zkrecipes::Partitioner other(client, "/partitions", zkrecipes::PartitionSource::list({longer}), keep, {.id = longer});
  zkrecipes::PartitionMap map(client, "/partitions");
  (void)co_await zkrecipes::async_wait_ready(map, {.stop = stop.get_token()}, use_awaitable);
  partitioner.start();
  const zkrecipes::FencingToken none;
  const auto owner = co_await zkrecipes::async_wait_owner(map, longer, none, {.deadline = soon()}, use_awaitable);
  EXPECT_EQ(owner.id, "a");
  co_await zkrecipes::async_leave(partitioner, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_stop(other, use_awaitable);
}

TEST_F(AsioSpellingsTest, Partitions) { run(shared_out_partitions(c(), {})); }

asio::awaitable<void> primaries(Client client, std::stop_source stop) {
  testkit::Box<zkrecipes::Primary> kept;
  const auto keep = [&](zkrecipes::Primary primary) { kept.put(std::move(primary)); };
  zkrecipes::PrimaryNode node(client, "/primaries", keep, {.id = longer, .grace = 10ms});
  zkrecipes::PrimaryNode other(client, "/primaries", keep, {.id = "b", .grace = 10ms});
  zkrecipes::PrimaryMonitor monitor(client, "/primaries", {longer});
  node.start();
  monitor.start();
  EXPECT_EQ(kept.take().role(), longer);
  co_await zkrecipes::async_update_status(node, longer, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_move(monitor, longer, longer, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_leave(node, {.deadline = soon()}, use_awaitable);
  co_await zkrecipes::async_stop(other, {.stop = stop.get_token()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, Primaries) { run(primaries(c(), {})); }

asio::awaitable<void> placements(Client client, std::stop_source stop) {
  zkrecipes::HostedReplicasHandlers handlers{[](const zkrecipes::HostedReplica&) {},
                                             [](const zkrecipes::HostedReplica&) {}};
  zkrecipes::HostedReplicas host(client, "/placed", {"a"}, std::move(handlers));
  zkrecipes::ReplicaHandlers told{[](const zkrecipes::PrimaryTerm&) {}, [](const zkrecipes::SecondaryTerm&) {}};
  zkrecipes::ReplicaGroup group(client, "/placed/groups/one", {"a", "disk", longer}, std::move(told));
  zkrecipes::PlacementMap map(client, "/placed");
  const std::string partition = "one";
  const zkrecipes::FencingToken none;
  const auto found = co_await zkrecipes::async_wait_primary(map, partition, none, {.deadline = soon()}, use_awaitable);
  EXPECT_EQ(found.primary->address, longer);
  host.start();
  co_await zkrecipes::async_drain(host, {.stop = stop.get_token()}, use_awaitable);
  co_await zkrecipes::async_leave(host, {.deadline = soon()}, use_awaitable);
}

TEST_F(AsioSpellingsTest, Placements) { run(placements(c(), {})); }

asio::awaitable<void> configurations(Client client, std::stop_source stop) {
  zkrecipes::Configuration config(client, "/config");
  zkrecipes::ConfigurationUpdate update;
  update.values = {{"a", longer}};
  EXPECT_EQ(co_await zkrecipes::async_publish(config, update, 0, {.stop = stop.get_token()}, use_awaitable), 1);
  EXPECT_EQ(co_await zkrecipes::async_publish(config, update, 1, use_awaitable), 2);
  const auto now = co_await zkrecipes::async_wait_for_revision(config, 2, {.deadline = soon()}, use_awaitable);
  EXPECT_EQ(now->at("a"), longer);
  EXPECT_EQ((co_await zkrecipes::async_wait_ready(config, {.stop = stop.get_token()}, use_awaitable))->revision, 2);
  EXPECT_EQ((co_await zkrecipes::async_wait_live(config, {.stop = stop.get_token()}, use_awaitable))->revision, 2);
  EXPECT_EQ(co_await zkrecipes::async_roll_back(config, 1, {.stop = stop.get_token()}, use_awaitable), 3);
  const std::vector<std::string> nobody;
  const auto out = co_await zkrecipes::async_wait_applied(config, 3, nobody, {.deadline = soon()}, use_awaitable);
  EXPECT_TRUE(out.complete());
  EXPECT_EQ((co_await zkrecipes::async_history(config, {.stop = stop.get_token()}, use_awaitable)).size(), 3u);
}

TEST_F(AsioSpellingsTest, Configurations) { run(configurations(c(), {})); }

asio::awaitable<void> commits(Client client, std::stop_source stop) {
  zkrecipes::CommitCoordinator coordinator(client, "/commit");
  // Nobody serves.
  auto outcome = co_await zkrecipes::async_run(coordinator, {"ann", longer.substr(0, 1)}, longer, {.timeout = 1s},
                                               {.stop = stop.get_token()}, asio::as_tuple(use_awaitable));
  EXPECT_EQ(zkclient::code_of(std::get<0>(outcome)), Errc::no_node);
  outcome = co_await zkrecipes::async_run(coordinator, {"ann"}, "x", {}, asio::as_tuple(use_awaitable));
  EXPECT_EQ(zkclient::code_of(std::get<0>(outcome)), Errc::no_node);
  const std::vector<std::string> names = {"ann", "bob"};
  outcome = co_await zkrecipes::async_run(coordinator, names, "x", {}, asio::as_tuple(use_awaitable));
  EXPECT_EQ(zkclient::code_of(std::get<0>(outcome)), Errc::no_node);
  EXPECT_TRUE((co_await zkrecipes::async_recover(coordinator, {.stop = stop.get_token()}, use_awaitable)).empty());
}

TEST_F(AsioSpellingsTest, Commits) { run(commits(c(), {})); }

std::shared_ptr<zkrecipes::CommitHandlers> handlers() {
  auto made = std::make_shared<zkrecipes::CommitHandlers>();
  made->prepare = [](const auto&) { return zkrecipes::CommitVote::yes(); };
  made->commit = [](const auto&) {};
  made->abort = [](const auto&) {};
  return made;
}

// Nothing but the end of their limits ends them.
asio::awaitable<void> serves(Client client, std::stop_source stop) {
  using namespace asio::experimental::awaitable_operators;
  zkrecipes::CommitParticipant participant(client, "/commit", "ann", std::make_shared<testkit::MemoryLog>(longer));
  co_await zkrecipes::async_serve(participant, handlers(), {.deadline = 20ms}, use_awaitable);
  const auto own = handlers();
  co_await zkrecipes::async_serve(participant, own, CallOptions{.deadline = 20ms, .stop = stop.get_token()},
                                  use_awaitable);
  const auto race = co_await (zkrecipes::async_serve(participant, handlers(), use_awaitable) || wait_for(20ms));
  EXPECT_EQ(race.index(), 1u);
  co_await zkrecipes::async_serve(participant, handlers(), {.deadline = 20ms}, deferred)(use_awaitable);
  co_await (zkrecipes::async_serve(participant, handlers(), {.stop = stop.get_token()}, use_awaitable) &&
            request(stop));
  const auto [error] = co_await zkrecipes::async_serve(participant, std::make_shared<zkrecipes::CommitHandlers>(),
                                                       {.stop = stop.get_token()}, asio::as_tuple(use_awaitable));
  EXPECT_EQ(zkclient::code_of(error), Errc::invalid_argument);
}

TEST_F(AsioSpellingsTest, Serves) { run(serves(c(), {})); }

TEST_F(AsioSpellingsTest, AFutureServes) {
  zkrecipes::CommitParticipant participant(c(), "/commit", "ann", std::make_shared<testkit::MemoryLog>(longer));
  std::stop_source stop;
  auto served = zkrecipes::async_serve(participant, handlers(), {.stop = stop.get_token()}, asio::use_future);
  stop.request_stop();
  testkit::result_of(served);
}

asio::awaitable<void> own_forms(Client client, std::stop_source stop) {
  const auto read = [client](zkclient::Handler<zkclient::NodeData> handler, const CallOptions& call) {
    client.async_get("/", std::move(handler), call);
  };
  const auto node = co_await zkclient::initiate<zkclient::NodeData>(read, {.stop = stop.get_token()}, use_awaitable);
  EXPECT_EQ(node.stat.version, 0);
}

TEST_F(AsioSpellingsTest, FormsOfOnesOwn) { run(own_forms(c(), {})); }

}  // namespace
