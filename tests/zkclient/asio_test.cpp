#include <zkclient/asio.hpp>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <zkrecipes/asio.hpp>
#include <zkrecipes/unfair_leader_election.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/words.hpp"

namespace {

namespace asio = boost::asio;
using namespace testkit::words;
using asio::use_awaitable;
using zkclient::Created;
using zkclient::NodeData;
using zkrecipes::Lease;

// A port on which nobody listens.
constexpr const char* nowhere = "127.0.0.1:1";

class AsioTest : public testkit::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    client.emplace(make_client());
  }
  void TearDown() override {
    client.reset();
    ServerTest::TearDown();
  }
  /// Runs `body` on `context` until nothing is left to do; fails the test if that takes too long.
  void run(asio::awaitable<void> body) {
    auto done = asio::co_spawn(context, std::move(body), asio::use_future);
    const auto deadline = testkit::soon();
    context.run_until(deadline);
    ASSERT_LT(SteadyClock::now(), deadline) << "something still waits";
    done.get();
  }
  const Client& c() const { return *client; }

  std::optional<Client> client;
  asio::io_context context{1};
};

// What an operation that must fail throws when it is awaited.
template <typename T>
asio::awaitable<Error> error_in(asio::awaitable<T> operation) {
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(operation);
    } else {
      (void)co_await std::move(operation);
    }
  } catch (const Error& error) {
    co_return error;
  }
  throw std::logic_error("it succeeded");
}

// ---- Tokens ---------------------------------------------------------------------------------------------------------

asio::awaitable<void> every_operation(Client client) {
  const zkclient::CreateOptions persistent;
  const CallOptions patient{.deadline = testkit::soon()};
  const Session session = co_await zkclient::async_connect(client, use_awaitable);
  EXPECT_NE(session.id(), 0);
  const Created created = co_await zkclient::async_create(client, "/a", "one", persistent, use_awaitable);
  EXPECT_EQ(created.path, "/a");
  const Stat stat = co_await zkclient::async_set(client, "/a", std::string("two"), 0, use_awaitable);
  EXPECT_EQ(stat.version, 1);
  const NodeData node = co_await zkclient::async_get(client, "/a", patient, use_awaitable);
  EXPECT_EQ(node.data, "two");
  const std::optional<Stat> exists = co_await zkclient::async_exists(client, "/a", use_awaitable);
  EXPECT_EQ(exists, stat);
  const zkclient::Children children = co_await zkclient::async_children(client, "/", use_awaitable);
  EXPECT_EQ(children.names, std::vector<std::string>{"a"});
  co_await zkclient::async_remove(client, "/a", 1, use_awaitable);
  Transaction transaction;
  transaction.create("/b").set("/b", "x", 0);
  const auto results = co_await zkclient::async_commit(client, transaction, use_awaitable);
  EXPECT_EQ(results.size(), 2u);
}

asio::awaitable<void> every_other_operation(Client client) {
  co_await zkclient::async_add_auth(client, "digest", "ann:secret", use_awaitable);
  co_await zkclient::async_ensure(client, "/deep/down", CreateMode::persistent, use_awaitable);
  const zkclient::NodeAcl acl = co_await zkclient::async_get_acl(client, "/deep", use_awaitable);
  co_await zkclient::async_set_acl(client, "/deep", acl.acl, acl.stat.acl_version, use_awaitable);
  const NodeData node = co_await zkclient::async_get(client, "/deep/down", use_awaitable);
  const Stat stat = co_await zkclient::async_set_resolving(client, "/deep/down", "unique", node.stat, use_awaitable);
  EXPECT_EQ(stat.version, 1);
  co_await zkclient::async_sync(client, "/", use_awaitable);
  co_await zkclient::async_remove_tree(client, "/deep", use_awaitable);
  const std::optional<Stat> gone = co_await zkclient::async_exists(client, "/deep", use_awaitable);
  EXPECT_FALSE(gone);
}

TEST_F(AsioTest, EveryOtherOperationCanBeAwaited) { run(every_other_operation(c())); }

asio::awaitable<void> ensemble_operations(Client client, std::string servers) {
  const auto ignore = [](const zkclient::WatchEvent&) {};
  const zkclient::EnsembleConfig config = co_await zkclient::async_get_config(client, use_awaitable);
  const auto watched = co_await zkclient::async_get_config_and_watch(client, ignore, use_awaitable);
  EXPECT_EQ(watched.value().text, config.text);
  zkclient::Reconfig change;
  change.leaving.emplace_back("1");
  const Error error = co_await error_in(zkclient::async_reconfig(client, change, use_awaitable));
  EXPECT_EQ(error.operation(), "reconfig");
  co_await zkclient::async_update_servers(client, servers, use_awaitable);
}

TEST_F(AsioTest, OperationsOnTheEnsembleCanBeAwaited) { run(ensemble_operations(c(), hosts())); }

asio::awaitable<void> watching_reads(Client client, Box<zkclient::WatchEventType>& events) {
  const auto note = [&events](const zkclient::WatchEvent& event) { events.put(event.type); };
  const zkclient::CreateOptions persistent;
  co_await zkclient::async_create(client, "/w", "", persistent, use_awaitable);
  const auto data = co_await zkclient::async_get_and_watch(client, "/w", note, use_awaitable);
  EXPECT_EQ(data.value().stat.version, 0);
  co_await zkclient::async_set(client, "/w", "x", 0, use_awaitable);
  EXPECT_EQ(events.take(), zkclient::WatchEventType::data_changed);
  const auto children = co_await zkclient::async_children_and_watch(client, "/w", note, use_awaitable);
  co_await zkclient::async_create(client, "/w/c", "", persistent, use_awaitable);
  EXPECT_EQ(events.take(), zkclient::WatchEventType::children_changed);
  const auto missing = co_await zkclient::async_exists_and_watch(client, "/m", note, use_awaitable);
  EXPECT_FALSE(missing.value());
  co_await zkclient::async_create(client, "/m", "", persistent, use_awaitable);
  EXPECT_EQ(events.take(), zkclient::WatchEventType::created);
}

TEST_F(AsioTest, ReadsThatWatchCanBeAwaited) {
  Box<zkclient::WatchEventType> events;
  run(watching_reads(c(), events));
}

TEST_F(AsioTest, EveryOperationCanBeAwaited) { run(every_operation(c())); }

asio::awaitable<void> failures(Client client) {
  Error error = co_await error_in(zkclient::async_get(client, "/missing", use_awaitable));
  EXPECT_EQ(error.errc(), Errc::no_node);
  EXPECT_EQ(error.operation(), "get");
  EXPECT_EQ(error.path(), "/missing");
  // Refused before anything was sent.
  const zkclient::CreateOptions nobody{.acl = {}};
  error = co_await error_in(zkclient::async_create(client, "/n", "", nobody, use_awaitable));
  EXPECT_EQ(error.errc(), Errc::invalid_acl);
  const auto [raised, ignored] = co_await zkclient::async_get(client, "/missing", asio::as_tuple(use_awaitable));
  EXPECT_EQ(zkclient::code_of(raised), Errc::no_node);
  EXPECT_EQ(zkclient::code_of(nullptr), std::error_code());
}

TEST_F(AsioTest, AwaitedErrorsKeepTheirOperationAndPath) { run(failures(c())); }

TEST_F(AsioTest, FuturesGetValuesAndErrors) {
  EXPECT_EQ(zkclient::async_create(c(), "/a", "one", {}, asio::use_future).get().path, "/a");
  EXPECT_EQ(zkclient::async_get(c(), "/a", asio::use_future).get().data, "one");
  zkclient::async_remove(c(), "/a", 0, asio::use_future).get();
  EXPECT_EQ(zkclient::async_exists(c(), "/a", asio::use_future).get(), std::nullopt);
  EXPECT_EQ(error_of([&] { zkclient::async_get(c(), "/a", asio::use_future).get(); }), Errc::no_node);
  const zkclient::CreateOptions nobody{.acl = {}};
  EXPECT_EQ(error_of([&] { zkclient::async_create(c(), "/a", "", nobody, asio::use_future).get(); }),
            Errc::invalid_acl);
}

TEST_F(AsioTest, CallbacksMayOwnWhatCannotBeCopied) {
  Box<std::string> values;
  zkclient::async_create(c(), "/a", "one", {},
                         [&, own = std::make_unique<int>(7)](const std::exception_ptr& error, const Created& created) {
                           values.put(error ? "error" : created.path + std::to_string(*own));
                         });
  EXPECT_EQ(values.take(), "/a7");
  zkclient::async_get(c(), "/b", [&](const std::exception_ptr& error, const NodeData& node) {
    values.put(zkclient::code_of(error) == Errc::no_node ? "no node" + node.data : "?");
  });
  EXPECT_EQ(values.take(), "no node");
}

TEST_F(AsioTest, DeferredOperationsKeepTheirArguments) {
  const auto deferred = [this] {
    const std::string data = "a text that is too long to live inside of its string object";
    const std::string path = "/a-rather-long-path-that-does-not-live-in-there-either";
    return zkclient::async_create(c(), path, data, {}, asio::deferred);
  }();
  EXPECT_FALSE(c().exists("/a-rather-long-path-that-does-not-live-in-there-either")) << "it was not deferred";
  const Created created = deferred(asio::use_future).get();
  EXPECT_EQ(c().get(created.path).data, "a text that is too long to live inside of its string object");
  EXPECT_EQ(error_of([&] { deferred(asio::use_future).get(); }), Errc::node_exists) << "it may be run again";
}

TEST_F(AsioTest, DetachedOperationsRun) {
  zkclient::async_create(c(), "/a", std::nullopt, {}, asio::detached);
  EXPECT_TRUE(eventually([&] { return c().exists("/a").has_value(); }));
  EXPECT_TRUE(c().get("/a").is_null);
}

TEST_F(AsioTest, AnyAsynchronousFormCanBeInitiated) {
  auto future = zkclient::initiate<NodeData>(
      [client = c()](zkclient::Handler<NodeData> handler, const CallOptions& call) {
        client.async_get("/missing", std::move(handler), call);
      },
      {}, asio::use_future);
  EXPECT_EQ(error_of([&] { future.get(); }), Errc::no_node);
}

// ---- Executors ------------------------------------------------------------------------------------------------------

TEST_F(AsioTest, HandlersRunOnTheirExecutorWhichWaitsForThem) {
  std::thread::id ran_on;
  zkclient::async_get(c(), "/", asio::bind_executor(context, [&](const std::exception_ptr& error, const NodeData&) {
                        EXPECT_FALSE(error);
                        ran_on = std::this_thread::get_id();
                      }));
  context.run();  // Returns when the handler has run: the work guard kept it until then, and is gone.
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  context.restart();
  EXPECT_EQ(context.run(), 0u) << "a work guard was left, or the handler ran twice";
}

TEST_F(AsioTest, ARefusedOperationRunsItsHandlerOnItsExecutorToo) {
  bool inside = true;
  bool ran = false;
  const zkclient::CreateOptions nobody{.acl = {}};
  auto handler = [&](const std::exception_ptr& error, const Created&) {
    EXPECT_EQ(zkclient::code_of(error), Errc::invalid_acl);
    EXPECT_FALSE(inside);
    ran = true;
  };
  zkclient::async_create(c(), "/a", "", nobody, asio::bind_executor(context, std::move(handler)));
  inside = false;
  context.run();
  EXPECT_TRUE(ran);
}

TEST_F(AsioTest, AStrandKeepsHandlersApart) {
  asio::io_context pool(4);
  auto strand = asio::make_strand(pool);
  std::atomic<int> running{0};
  int count = 0;  // Not atomic: the strand protects it.
  for (int i = 0; i < 200; ++i) {
    zkclient::async_exists(c(), "/", asio::bind_executor(strand, [&](const std::exception_ptr&, std::optional<Stat>) {
                             EXPECT_EQ(++running, 1);
                             ++count;
                             --running;
                           }));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { pool.run(); });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(count, 200);
}

// An executor that is slow to return, while what it was given runs on another thread.
struct SlowToReturn {
  asio::io_context* context;
  std::atomic<bool>* inside;
  Box<bool>* ran;

  template <typename F>
  void execute(F&& task) const {
    *inside = true;
    asio::post(*context, std::forward<F>(task));
    (void)eventually([this] { return !ran->empty(); }, 100ms);
    *inside = false;
  }
  SlowToReturn require(asio::execution::blocking_t::never_t) const { return *this; }
  bool operator==(const SlowToReturn&) const = default;
};

TEST_F(AsioTest, NothingIsLeftOfAnExecutorWhenItsHandlerRuns) {
  std::atomic<bool> inside{false};
  Box<bool> ran;
  const auto work = asio::make_work_guard(context);
  std::thread thread([&] { context.run(); });
  zkclient::async_get(
      c(), "/",
      asio::bind_executor(SlowToReturn{&context, &inside, &ran}, [&](const std::exception_ptr&, const NodeData&) {
        EXPECT_FALSE(inside) << "the library still uses it";
        ran.put(true);
      }));
  EXPECT_TRUE(eventually([&] { return ran.size() == 1; }));
  context.stop();
  thread.join();
}

TEST_F(AsioTest, WhatAHandlerOwnsGoesWithIt) {
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = token;
  zkclient::async_get(c(), "/", asio::bind_executor(context, [token](const std::exception_ptr&, const NodeData&) {}));
  token = nullptr;
  EXPECT_FALSE(alive.expired());
  context.run();
  EXPECT_TRUE(alive.expired());
}

asio::awaitable<void> many_gets(Client client, int* done) {
  for (int i = 0; i < 100; ++i) {
    co_await zkclient::async_get(client, "/", use_awaitable);
    ++*done;
  }
}

TEST_F(AsioTest, ManyCoroutinesShareOneContext) {
  int done = 0;
  for (int i = 0; i < 20; ++i)
    asio::co_spawn(context, many_gets(c(), &done), asio::detached);
  context.run();
  EXPECT_EQ(done, 2000);
}

// ---- Cancellation and deadlines -------------------------------------------------------------------------------------

asio::awaitable<void> wait_for(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(use_awaitable);
}

asio::awaitable<void> race(Client client) {
  using namespace asio::experimental::awaitable_operators;
  const auto begin = SteadyClock::now();
  const CallOptions patient{.deadline = testkit::soon()};
  auto outcome = co_await (zkclient::async_get(client, "/", patient, use_awaitable) || wait_for(50ms));
  EXPECT_EQ(outcome.index(), 1u);
  EXPECT_LT(SteadyClock::now() - begin, testkit::patience / 2);
}

TEST_F(AsioTest, ATimerCancelsAnOperationOverOr) {
  const Client lonely(nowhere);
  run(race(lonely));
}

asio::awaitable<void> win(Client client) {
  using namespace asio::experimental::awaitable_operators;
  auto outcome = co_await (zkclient::async_get(client, "/", use_awaitable) || wait_for(testkit::patience));
  EXPECT_EQ(outcome.index(), 0u);
  auto both =
      co_await (zkclient::async_get(client, "/", use_awaitable) && zkclient::async_connect(client, use_awaitable));
  EXPECT_NE(std::get<1>(both).id(), 0);
}

TEST_F(AsioTest, AnOperationWinsAgainstATimerAndBothMayBeAwaited) { run(win(c())); }

TEST_F(AsioTest, ASlotEndsACallWhereItWaits) {
  const Client lonely(nowhere);
  for (const auto type :
       {asio::cancellation_type::total, asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
    asio::cancellation_signal signal;
    std::error_code code;
    zkclient::async_get(lonely, "/", {.deadline = testkit::soon()},
                        asio::bind_cancellation_slot(
                            signal.slot(), asio::bind_executor(context, [&](std::exception_ptr error, const NodeData&) {
                              code = zkclient::code_of(error);
                            })));
    asio::post(context, [&] { signal.emit(type); });
    context.run();
    context.restart();
    EXPECT_EQ(code, Errc::cancelled);
    signal.emit(type);  // Too late: nothing.
  }
}

TEST_F(AsioTest, AWriteDoesNotAcceptTotalCancellation) {
  const Client lonely(nowhere);
  asio::cancellation_signal signal;
  std::error_code code;
  const auto begin = SteadyClock::now();
  zkclient::async_set(lonely, "/n", "", -1, {.deadline = begin + 200ms},
                      asio::bind_cancellation_slot(
                          signal.slot(), asio::bind_executor(context, [&](std::exception_ptr error, const Stat&) {
                            code = zkclient::code_of(error);
                          })));
  asio::post(context, [&] { signal.emit(asio::cancellation_type::total); });
  context.run();
  EXPECT_EQ(code, Errc::deadline_exceeded) << "nobody may be told that a write was taken back";
}

TEST_F(AsioTest, TheCallersStopTokenCountsBesideTheSlot) {
  const Client lonely(nowhere);
  asio::cancellation_signal signal;
  std::stop_source source;
  std::error_code code;
  zkclient::async_get(lonely, "/", {.deadline = testkit::soon(), .stop = source.get_token()},
                      asio::bind_cancellation_slot(
                          signal.slot(), asio::bind_executor(context, [&](std::exception_ptr error, const NodeData&) {
                            code = zkclient::code_of(error);
                          })));
  source.request_stop();
  context.run();
  EXPECT_EQ(code, Errc::cancelled);
}

// What joins the two tokens is a temporary of the call.
TEST_F(AsioTest, EachOfTwoStopTokensCountsBesideTheSlot) {
  const Client lonely(nowhere);
  for (const bool first : {true, false}) {
    asio::cancellation_signal signal;
    std::stop_source one;
    std::stop_source other;
    std::error_code code;
    zkclient::async_get(lonely, "/", {.deadline = testkit::soon(), .stop = {one.get_token(), other.get_token()}},
                        asio::bind_cancellation_slot(
                            signal.slot(), asio::bind_executor(context, [&](std::exception_ptr error, const NodeData&) {
                              code = zkclient::code_of(error);
                            })));
    (first ? one : other).request_stop();
    context.run_for(testkit::patience / 2);
    context.restart();
    EXPECT_EQ(code, Errc::cancelled) << (first ? "the first" : "the second");
    signal.emit(asio::cancellation_type::terminal);  // If it still waits.
    context.run();
    context.restart();
  }
}

TEST_F(AsioTest, SignalsRaceWithRepliesHarmlessly) {
  int calls = 0;
  for (int i = 0; i < 300; ++i) {
    asio::cancellation_signal signal;
    zkclient::async_exists(
        c(), "/",
        asio::bind_cancellation_slot(signal.slot(),
                                     asio::bind_executor(context, [&](std::exception_ptr error, std::optional<Stat>) {
                                       ++calls;
                                       if (error) {
                                         EXPECT_EQ(zkclient::code_of(error), Errc::cancelled);
                                       }
                                     })));
    for (int spin = 0; spin < i % 7; ++spin)
      std::this_thread::yield();
    asio::post(context, [&] { signal.emit(asio::cancellation_type::all); });
    context.run();
    context.restart();
  }
  EXPECT_EQ(calls, 300);
}

// ---- Closing --------------------------------------------------------------------------------------------------------

asio::awaitable<void> wait_on(Client client, Box<Errc>* ended) {
  const CallOptions patient{.deadline = testkit::soon()};
  auto waiting = zkclient::async_get(client, "/", patient, use_awaitable);
  const Error error = co_await error_in(std::move(waiting));
  ended->put(error.errc());
}

TEST_F(AsioTest, ClosingEndsWhatIsPendingOnce) {
  Client lonely(nowhere);
  Box<Errc> ended;
  for (int i = 0; i < 10; ++i)
    asio::co_spawn(context, wait_on(lonely, &ended), asio::detached);
  context.poll();
  std::thread closer([&] { lonely.close(); });
  context.run();
  closer.join();
  ASSERT_EQ(ended.size(), 10u);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(ended.take(), Errc::closed);
}

TEST_F(AsioTest, AContextThatWasStoppedMayGoOnceTheClientIsClosed) {
  Client lonely(nowhere);
  auto own = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = own;
  {
    asio::io_context short_lived;
    zkclient::async_get(lonely, "/", asio::bind_executor(short_lived, [own](std::exception_ptr, const NodeData&) {
                          ADD_FAILURE() << "ran on a stopped context";
                        }));
    own = nullptr;
    lonely.close();
  }
  EXPECT_TRUE(alive.expired());
}

// ---- Recipes --------------------------------------------------------------------------------------------------------

asio::awaitable<void> lock_twice(zkrecipes::Mutex* mutex) {
  Lease lease = co_await zkrecipes::async_acquire(*mutex, use_awaitable);
  EXPECT_TRUE(lease.valid());
  auto second = co_await zkrecipes::async_try_acquire(*mutex, use_awaitable);
  EXPECT_FALSE(second);
  const auto first = lease.token();
  co_await zkrecipes::async_release(lease, use_awaitable);
  EXPECT_FALSE(lease.valid());
  second = co_await zkrecipes::async_try_acquire(*mutex, use_awaitable);
  EXPECT_TRUE(second);
  EXPECT_GT(second->token(), first);
}

TEST_F(AsioTest, ACoroutineTakesALockAndGivesItBack) {
  zkrecipes::Mutex mutex(c(), "/lock");
  run(lock_twice(&mutex));
  EXPECT_TRUE(eventually([&] { return mutex.contenders().empty(); }));
}

asio::awaitable<void> give_up_waiting(zkrecipes::Mutex* mutex) {
  using namespace asio::experimental::awaitable_operators;
  auto outcome = co_await (zkrecipes::async_acquire(*mutex, use_awaitable) || wait_for(100ms));
  EXPECT_EQ(outcome.index(), 1u);
}

TEST_F(AsioTest, ACancelledAcquisitionLeavesNoNode) {
  zkrecipes::Mutex mutex(c(), "/lock");
  const Lease held = mutex.acquire();
  run(give_up_waiting(&mutex));
  EXPECT_TRUE(eventually([&] { return mutex.contenders().size() == 1; }));
  EXPECT_TRUE(held.valid());
}

TEST_F(AsioTest, AFutureOfALeaseThatNobodyFetchesGivesItBack) {
  zkrecipes::Mutex mutex(c(), "/lock");
  {
    const auto future = zkrecipes::async_acquire(mutex, asio::use_future);
    ASSERT_EQ(future.wait_for(testkit::patience), std::future_status::ready);
    EXPECT_EQ(mutex.contenders().size(), 1u);
  }
  EXPECT_TRUE(eventually([&] { return mutex.contenders().empty(); }));
}

asio::awaitable<void> lock_everything(Client client) {
  zkrecipes::SharedMutex shared(client, "/shared");
  zkrecipes::UnfairMutex unfair(client, "/unfair");
  zkrecipes::Semaphore semaphore(client, "/semaphore", 3);
  Lease reader = co_await zkrecipes::async_acquire_shared(shared, use_awaitable);
  const auto writer = co_await zkrecipes::async_try_acquire(shared, use_awaitable);
  EXPECT_FALSE(writer);
  const auto second = co_await zkrecipes::async_try_acquire_shared(shared, use_awaitable);
  EXPECT_TRUE(second);
  const Lease only = co_await zkrecipes::async_acquire(unfair, use_awaitable);
  const auto another = co_await zkrecipes::async_try_acquire(unfair, use_awaitable);
  EXPECT_FALSE(another);
  const Lease one = co_await zkrecipes::async_acquire(semaphore, use_awaitable);
  const std::vector<Lease> two = co_await zkrecipes::async_acquire_many(semaphore, 2, use_awaitable);
  EXPECT_EQ(two.size(), 2u);
  const std::vector<Lease> none = co_await zkrecipes::async_try_acquire_many(semaphore, 1, use_awaitable);
  EXPECT_TRUE(none.empty());
  const zkrecipes::RevokeOptions at_once{.break_after = 0ms};
  const Path unfair_path = "/unfair";
  const Path former_node = only.node();
  const auto outcome = co_await zkrecipes::async_revoke_holders(client, unfair_path, at_once, use_awaitable);
  EXPECT_EQ(outcome, zkrecipes::RevokeOutcome::broken);
  const auto former = co_await zkrecipes::async_revoke(client, former_node, at_once, use_awaitable);
  EXPECT_EQ(former, zkrecipes::RevokeOutcome::released);
  EXPECT_TRUE(testkit::stopped(only.lost()));
}

TEST_F(AsioTest, ACoroutineTakesLocksOfEveryKind) { run(lock_everything(c())); }

asio::awaitable<void> downgrade(zkrecipes::SharedMutex* mutex) {
  Lease lease = co_await zkrecipes::async_acquire(*mutex, use_awaitable);
  lease = co_await zkrecipes::async_downgrade(*mutex, lease, use_awaitable);
  EXPECT_TRUE(lease.valid());
  const auto reader = co_await zkrecipes::async_try_acquire_shared(*mutex, use_awaitable);
  EXPECT_TRUE(reader);
  const auto writer = co_await zkrecipes::async_try_acquire(*mutex, use_awaitable);
  EXPECT_FALSE(writer);
  const Error refused = co_await error_in(zkrecipes::async_downgrade(*mutex, lease, use_awaitable));
  EXPECT_EQ(refused.errc(), Errc::invalid_argument);
}

TEST_F(AsioTest, ACoroutineDowngradesALock) {
  zkrecipes::SharedMutex mutex(c(), "/lock");
  run(downgrade(&mutex));
  EXPECT_TRUE(eventually([&] { return mutex.contenders().empty(); }));
}

TEST_F(AsioTest, ADowngradeHasItsDeadlineAndStopToken) {
  zkrecipes::SharedMutex mutex(c(), "/lock");
  const Lease lease = mutex.acquire();
  const auto outcome_with = [&](const CallOptions& call) {
    auto future = zkrecipes::async_downgrade(mutex, lease, call, asio::use_future);
    return error_of([&] { (void)testkit::result_of(future); });
  };
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(outcome_with({.stop = stop.get_token()}), Errc::cancelled);
  EXPECT_EQ(outcome_with({.deadline = SteadyClock::now() - 1s}), Errc::deadline_exceeded);
  EXPECT_EQ(lease.state(), zkrecipes::LeaseState::held);
}

TEST_F(AsioTest, ARevocationHasItsDeadlineAndStopToken) {
  zkrecipes::Mutex mutex(c(), "/lock");
  const Lease lease = mutex.acquire();
  const Path path = "/lock";
  const Path node = lease.node();
  const zkrecipes::RevokeOptions late{.break_after = 1h};
  for (const bool holders : {false, true}) {
    const auto start = [&](const CallOptions& call) {
      return holders ? zkrecipes::async_revoke_holders(c(), path, late, call, asio::use_future)
                     : zkrecipes::async_revoke(c(), node, late, call, asio::use_future);
    };
    auto in_time = start({.deadline = SteadyClock::now() + 50ms});
    EXPECT_EQ(error_of([&] { (void)testkit::result_of(in_time); }), Errc::deadline_exceeded);
    std::stop_source stop;
    auto stopped = start({.stop = stop.get_token()});
    EXPECT_EQ(stopped.wait_for(50ms), std::future_status::timeout);
    stop.request_stop();
    EXPECT_EQ(error_of([&] { (void)testkit::result_of(stopped); }), Errc::cancelled);
  }
  EXPECT_TRUE(lease.valid());
}

asio::awaitable<void> lock_both(zkrecipes::MultiLock* both) {
  zkrecipes::MultiLease leases = co_await zkrecipes::async_acquire(*both, use_awaitable);
  EXPECT_TRUE(leases.valid());
  const auto again = co_await zkrecipes::async_try_acquire(*both, use_awaitable);
  EXPECT_FALSE(again);
}

TEST_F(AsioTest, ACoroutineTakesSeveralLocksAtOnce) {
  zkrecipes::Mutex first(c(), "/first");
  zkrecipes::SharedMutex second(c(), "/second");
  zkrecipes::MultiLock both;
  both.add(first).add_shared(second);
  run(lock_both(&both));
  zkrecipes::MultiLock none;
  auto refused = zkrecipes::async_acquire(none, asio::use_future);
  EXPECT_EQ(error_of([&] { (void)refused.get(); }), Errc::invalid_argument);
}

asio::awaitable<void> lead(zkrecipes::LeaderElection* election) {
  zkrecipes::Leadership leadership = co_await zkrecipes::async_campaign(*election, use_awaitable);
  EXPECT_TRUE(leadership.valid());
  co_await zkrecipes::async_release(leadership, use_awaitable);
}

TEST_F(AsioTest, ACoroutineLeadsAndResigns) {
  zkrecipes::LeaderElection election(c(), "/election");
  run(lead(&election));
  EXPECT_EQ(election.leader(), std::nullopt);
}

asio::awaitable<void> lead_and_follow(zkrecipes::UnfairLeaderElection* election) {
  using namespace asio::experimental::awaitable_operators;
  zkrecipes::Leadership leadership = co_await zkrecipes::async_campaign(*election, use_awaitable);
  const zkrecipes::LeaderCondition any{.ready = false};
  const zkrecipes::Leader leader = co_await zkrecipes::async_wait_for_leader(*election, any, use_awaitable);
  EXPECT_EQ(leader.term, leadership.token());
  // A campaign behind it, and a wait for the one after it, until they are cancelled.
  const zkrecipes::LeaderCondition later{.ready = false, .after = leader.term};
  auto campaign = co_await (zkrecipes::async_campaign(*election, use_awaitable) || wait_for(50ms));
  EXPECT_EQ(campaign.index(), 1u);
  auto wait = co_await (zkrecipes::async_wait_for_leader(*election, later, use_awaitable) || wait_for(50ms));
  EXPECT_EQ(wait.index(), 1u);
  EXPECT_TRUE(leadership.valid());
}

TEST_F(AsioTest, ACoroutineFollowsALeader) {
  zkrecipes::UnfairLeaderElection election(c(), "/election");
  run(lead_and_follow(&election));
  EXPECT_TRUE(eventually([&] { return !election.leader(); }));
}

asio::awaitable<void> produce_and_consume(zkrecipes::Queue* queue, zkrecipes::PriorityQueue* urgent) {
  using namespace asio::experimental::awaitable_operators;
  co_await zkrecipes::async_push(*queue, "first", use_awaitable);
  const std::vector<std::string> more = {"second", "third"};
  co_await zkrecipes::async_push_all(*queue, more, use_awaitable);
  zkrecipes::Claim claim = co_await zkrecipes::async_claim(*queue, use_awaitable);
  EXPECT_EQ(claim.data(), "first");
  co_await zkrecipes::async_give_back(claim, use_awaitable);
  EXPECT_EQ(co_await zkrecipes::async_pop(*queue, use_awaitable), "first");
  auto next = co_await zkrecipes::async_try_claim(*queue, use_awaitable);
  if (!next) throw std::runtime_error("there is an item");
  co_await zkrecipes::async_commit(*next, use_awaitable);
  EXPECT_EQ(co_await zkrecipes::async_try_pop(*queue, use_awaitable), "third");
  EXPECT_EQ(co_await zkrecipes::async_try_pop(*queue, use_awaitable), std::nullopt);
  auto endless = co_await (zkrecipes::async_claim(*queue, use_awaitable) || wait_for(50ms));
  EXPECT_EQ(endless.index(), 1u) << "a claim that waits can be cancelled";
  co_await zkrecipes::async_push(*urgent, "late", 2, use_awaitable);
  co_await zkrecipes::async_push(*urgent, "soon", 1, use_awaitable);
  EXPECT_EQ(co_await zkrecipes::async_pop(*urgent, use_awaitable), "soon");
}

TEST_F(AsioTest, ACoroutineUsesQueues) {
  zkrecipes::Queue queue(c(), "/queue");
  zkrecipes::PriorityQueue urgent(c(), "/urgent");
  run(produce_and_consume(&queue, &urgent));
  EXPECT_EQ(queue.size(), 0u);
}

asio::awaitable<void> pass(zkrecipes::Barrier* barrier, zkrecipes::DoubleBarrier* member) {
  using namespace asio::experimental::awaitable_operators;
  EXPECT_TRUE(co_await zkrecipes::async_raise(*barrier, zkrecipes::BarrierLife::persistent, use_awaitable));
  auto wait = co_await (zkrecipes::async_wait(*barrier, use_awaitable) || wait_for(50ms));
  EXPECT_EQ(wait.index(), 1u);
  co_await zkrecipes::async_lower(*barrier, use_awaitable);
  co_await zkrecipes::async_wait(*barrier, use_awaitable);
  const zkrecipes::Round round = co_await zkrecipes::async_enter(*member, use_awaitable);
  EXPECT_EQ(round.members.size(), 1u);
  co_await zkrecipes::async_leave(*member, use_awaitable);
}

TEST_F(AsioTest, ACoroutinePassesBarriers) {
  zkrecipes::Barrier barrier(c(), "/barrier");
  zkrecipes::DoubleBarrier member(c(), "/double", 1);
  run(pass(&barrier, &member));
}

// ---- Events and losses ----------------------------------------------------------------------------------------------

asio::awaitable<void> wait_for_an_event(Client client) {
  co_await zkclient::async_create(client, "/watched", "one", zkclient::CreateOptions(), use_awaitable);
  zkclient::AwaitableEvent changed;
  auto watched = co_await zkclient::async_get_and_watch(client, "/watched", changed.handler(), use_awaitable);
  EXPECT_EQ(watched.value().data, "one");
  co_await zkclient::async_set(client, "/watched", std::string("two"), 0, use_awaitable);
  const zkclient::WatchEvent event = co_await changed.async_wait(use_awaitable);
  EXPECT_EQ(event.type, zkclient::WatchEventType::data_changed);
  const zkclient::WatchEvent again = co_await changed.async_wait(use_awaitable);
  EXPECT_EQ(again.path, "/watched") << "it came before";
}

TEST_F(AsioTest, AnEventIsAwaited) { run(wait_for_an_event(c())); }

TEST_F(AsioTest, ADroppedWatchEndsTheWaitForItsEvent) {
  c().create("/watched", "one");
  zkclient::AwaitableEvent changed;
  auto waiting = changed.async_wait(asio::use_future);
  {
    auto watched = c().get_and_watch("/watched", changed.handler());
    EXPECT_EQ(watched.value().data, "one");
  }
  EXPECT_EQ(testkit::error_of([&] { (void)waiting.get(); }), Errc::cancelled);
}

TEST_F(AsioTest, TheEndOfTheClientEndsTheWaitForAnEvent) {
  Client own = make_client();
  own.create("/watched", "one");
  zkclient::AwaitableEvent changed;
  auto waiting = changed.async_wait(asio::use_future);
  auto watched = own.get_and_watch("/watched", changed.handler());
  own.close();
  EXPECT_EQ(waiting.get().type, zkclient::WatchEventType::closed);
}

TEST_F(AsioTest, ACancelledWaitForAnEventMayBeRepeated) {
  c().create("/watched", "one");
  zkclient::AwaitableEvent changed;
  auto watched = c().get_and_watch("/watched", changed.handler());
  asio::cancellation_signal cancel;
  std::exception_ptr ended;
  changed.async_wait(asio::bind_executor(
      context, asio::bind_cancellation_slot(
                   cancel.slot(), [&](std::exception_ptr error, const zkclient::WatchEvent&) { ended = error; })));
  asio::post(context, [&] { cancel.emit(asio::cancellation_type::terminal); });
  context.run_until(testkit::soon());
  EXPECT_EQ(zkclient::code_of(ended), Errc::cancelled);
  auto waiting = changed.async_wait(asio::use_future);
  c().set("/watched", "two");
  EXPECT_EQ(waiting.get().type, zkclient::WatchEventType::data_changed);
}

asio::awaitable<void> wait_for_a_loss(Client client) {
  zkrecipes::Mutex mutex(client, "/mutex");
  const Lease lease = co_await zkrecipes::async_acquire(mutex, use_awaitable);
  co_await zkclient::async_remove(client, Path(lease.node()), zkclient::any_version, use_awaitable);
  co_await zkrecipes::async_lost(lease, use_awaitable);
  EXPECT_FALSE(lease.valid());
}

TEST_F(AsioTest, TheLossOfALeaseIsAwaited) { run(wait_for_a_loss(c())); }

asio::awaitable<void> follow_an_election(Client client) {
  zkrecipes::LeaderElection election(client, "/election");
  std::optional<zkrecipes::Leader> leader;
  auto leadership = co_await zkrecipes::async_campaign(election, use_awaitable);
  leader = co_await zkrecipes::async_wait_for_change(election, leader, use_awaitable);
  EXPECT_TRUE(leader && !leader->ready);
  co_await zkrecipes::async_ready(leadership, use_awaitable);
  leader = co_await zkrecipes::async_wait_for_change(election, leader, use_awaitable);
  EXPECT_TRUE(leader && leader->ready);
  co_await zkrecipes::async_release(leadership, use_awaitable);
  leader = co_await zkrecipes::async_wait_for_change(election, leader, use_awaitable);
  EXPECT_FALSE(leader);
}

TEST_F(AsioTest, AnElectionIsFollowed) { run(follow_an_election(c())); }

}  // namespace
