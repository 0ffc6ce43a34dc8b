#include <zkrecipes/mutex.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <latch>
#include <limits>
#include <mutex>
#include <random>
#include <semaphore>
#include <thread>

#include <zkrecipes/multi_lock.hpp>

#include "tests/support/lockable.hpp"
#include "tests/support/packets.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"
#include "zktesting/detail/endpoint.hpp"
#include "zktesting/detail/wire_client.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

static_assert(testkit::TimedLockable<Mutex>);

static_assert(std::is_move_constructible_v<Mutex> && std::is_move_assignable_v<Mutex>);
static_assert(!std::is_copy_constructible_v<Mutex> && !std::is_copy_assignable_v<Mutex>);
static_assert(std::is_nothrow_default_constructible_v<Lease>);
static_assert(std::is_nothrow_move_constructible_v<Lease> && std::is_nothrow_move_assignable_v<Lease>);
static_assert(!std::is_copy_constructible_v<Lease> && !std::is_copy_assignable_v<Lease>);
static_assert(std::is_nothrow_destructible_v<Lease>);

class MutexTest : public testkit::RecipeTest {
 protected:
  MutexTest() : RecipeTest("/lock") {}

  Mutex make_mutex(MutexOptions options = {}) { return Mutex(client(), "/lock", std::move(options)); }

  /// An empty container: the server may have been quicker.
  void remove_if_there(const Path& path) {
    std::error_code error;
    client().remove(path, zkclient::any_version, {}, error);
    EXPECT_TRUE(!error || error == Errc::no_node) << error.message();
  }
  Path full(const std::string& node) { return Path(prefix().str() + node); }
};

// The node and the list are asked for together, its removal by itself.
TEST_F(MutexTest, ACycleIsTwoPackets) {
  client().create("/lock", "");  // Not a container, which the server may take away in between.
  Mutex mutex = make_mutex();
  mutex.acquire().release();
  constexpr std::uint32_t cycles = 20;
  const std::string server = client().server().value();
  const auto before = testkit::packets_sent(server);
  std::uint32_t slow = 0;  // So slow that the holder has looked at its own node.
  for (std::uint32_t i = 0; i < cycles; ++i) {
    const auto begin = testkit::SteadyClock::now();
    mutex.acquire().release();
    if (testkit::SteadyClock::now() - begin >= 20ms) ++slow;
  }
  const auto after = testkit::packets_sent(server);
  ASSERT_TRUE(before && after);
  EXPECT_GE(*after - *before, 2 * cycles);
  EXPECT_LE(*after - *before, 2 * cycles + slow + 5) << "and heartbeats";
}

// --- Exclusion and order ------------------------------------------------------------------------------------------

TEST_F(MutexTest, ExcludesThreads) {
  Mutex mutex = make_mutex();
  constexpr int threads = 6;
  constexpr int rounds = 15;
  std::atomic<int> inside{0};
  std::atomic<int> entered{0};
  {
    std::vector<std::jthread> crew;
    for (int t = 0; t < threads; ++t) {
      crew.emplace_back([&] {
        for (int i = 0; i < rounds; ++i) {
          const Lease lease = mutex.acquire({.deadline = soon()});
          EXPECT_EQ(inside.fetch_add(1), 0);
          ++entered;
          EXPECT_EQ(inside.fetch_sub(1), 1);
        }
      });
    }
  }
  EXPECT_EQ(entered, threads * rounds);
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, ExcludesSessions) {
  constexpr int sessions = 4;
  constexpr int rounds = 12;
  testkit::Holdings holdings;
  {
    std::vector<std::jthread> crew;
    for (int s = 0; s < sessions; ++s) {
      crew.emplace_back([&] {
        Client own = make_client();
        Mutex mutex(own, "/lock");
        for (int i = 0; i < rounds; ++i) {
          Lease lease = mutex.acquire({.deadline = soon()});
          EXPECT_TRUE(holdings.hold(lease, 200us));
          lease.release();
        }
      });
    }
  }
  EXPECT_EQ(holdings.size(), std::size_t{sessions * rounds});
  holdings.expect_no_overlap();
  EXPECT_TRUE(remain(0));
}

// Each acquisition is a contender of its own, also within one session, and also within one object.
TEST_F(MutexTest, ExcludesTwoObjectsOfOneSession) {
  Mutex first = make_mutex();
  Mutex second = make_mutex();
  Lease lease = first.acquire();
  EXPECT_FALSE(second.try_acquire());
  EXPECT_FALSE(first.try_acquire()) << "nor the same object";
  EXPECT_FALSE(second.try_acquire_for(50ms));
  lease.release();
  EXPECT_TRUE(second.try_acquire());
}

TEST_F(MutexTest, OtherPathsAreOtherLocks) {
  Mutex first = make_mutex();
  Mutex second(client(), "/other");
  Mutex below(client(), "/lock/below");
  const Lease one = first.acquire();
  EXPECT_TRUE(second.try_acquire());
  EXPECT_TRUE(below.try_acquire());
}

TEST_F(MutexTest, ServesInTheOrderOfArrival) {
  Mutex mutex = make_mutex();
  Client other_client = make_client();
  Mutex other(other_client, "/lock");
  std::optional<Lease> held = mutex.acquire();
  constexpr std::size_t waiters = 6;
  std::mutex order_mutex;
  std::vector<std::size_t> order;
  std::vector<std::int64_t> tokens;
  std::vector<std::future<void>> crew;
  for (std::size_t i = 0; i < waiters; ++i) {
    crew.push_back(in_thread([&, i] {
      Mutex& mine = i % 2 == 0 ? mutex : other;
      const Lease lease = mine.acquire({.deadline = soon()});
      const std::lock_guard lock(order_mutex);
      order.push_back(i);
      tokens.push_back(lease.token().value);
    }));
    ASSERT_TRUE(remain(i + 2));
  }
  held.reset();
  for (auto& waiter : crew)
    result_of(waiter);
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, TokensGrow) {
  Mutex mutex = make_mutex();
  FencingToken last;
  for (int i = 0; i < 5; ++i) {
    Lease lease = mutex.acquire();
    EXPECT_GT(lease.token(), last);
    last = lease.token();
    lease.release();
  }
}

TEST_F(MutexTest, TokensGrowAlsoAfterTheParentWasRecreated) {
  Mutex mutex = make_mutex();
  FencingToken last;
  std::string first_name;
  for (int i = 0; i < 3; ++i) {
    Lease lease = mutex.acquire();
    EXPECT_GT(lease.token(), last);
    EXPECT_TRUE(lease.node().ends_with("-lock-0000000000")) << "the sequence starts again: it is no fencing token";
    last = lease.token();
    lease.release();
    remove_if_there("/lock");
  }
}

TEST_F(MutexTest, TheTokenIsTheCreationOfTheNode) {
  const Lease lease = make_mutex().acquire();
  const auto stat = client().exists(lease.node());
  ASSERT_TRUE(stat);
  EXPECT_EQ(lease.token().value, stat->czxid);
  EXPECT_EQ(lease.session()->id(), stat->ephemeral_owner);
}

// --- try, timed, stopped, with a deadline -------------------------------------------------------------------------

TEST_F(MutexTest, ADeadlineMayBeATimeFromNowOn) {
  const Lease held = make_mutex().acquire();
  Mutex other = make_mutex();
  const auto begun = testkit::SteadyClock::now();
  EXPECT_EQ(error_of([&] { (void)other.acquire({.deadline = 50ms}); }), Errc::deadline_exceeded);
  EXPECT_GE(testkit::SteadyClock::now() - begun, 50ms);
  EXPECT_EQ(error_of([&] { (void)other.acquire({.deadline = -1h}); }), Errc::deadline_exceeded);
  EXPECT_EQ(zkclient::CallOptions{}.deadline, std::nullopt);
  EXPECT_EQ(zkclient::CallOptions{.deadline = std::chrono::nanoseconds::max()}.deadline,
            testkit::SteadyClock::time_point::max());
}

// No clock reaches that far; it is no time that is over.
TEST_F(MutexTest, ATimeMayBeForEver) {
  constexpr auto for_ever = std::chrono::milliseconds::max();
  Mutex mutex = make_mutex();
  Mutex other = make_mutex();
  MultiLock all;
  all.add(other);
  for (const bool several : {false, true}) {
    Lease held = mutex.acquire();
    auto waiting = in_thread([&] {
      return several ? all.try_acquire_for(for_ever).has_value() : other.try_acquire_for(for_ever).has_value();
    });
    ASSERT_TRUE(remain(2));
    held.release();
    EXPECT_TRUE(result_of(waiting));
    ASSERT_TRUE(remain(0));
  }
}

TEST_F(MutexTest, EitherOfTwoStopTokensEndsTheWait) {
  const Lease held = make_mutex().acquire();
  for (const bool first : {true, false}) {
    for (const bool before : {true, false}) {
      std::stop_source one;
      std::stop_source two;
      if (before) (first ? one : two).request_stop();
      Mutex mutex = make_mutex();
      auto waiting = in_thread([&] {
        return error_of([&] { (void)mutex.acquire({.deadline = soon(), .stop = {one.get_token(), two.get_token()}}); });
      });
      if (!before) {
        ASSERT_TRUE(remain(2));
        (first ? one : two).request_stop();
      }
      EXPECT_EQ(result_of(waiting), Errc::cancelled);
      // The options of an asynchronous call may go before it ends.
      Box<std::optional<Errc>> ended;
      std::stop_source third;
      {
        const zkclient::CallOptions call{.deadline = soon(), .stop = {std::stop_token(), third.get_token()}};
        mutex.async_acquire(
            [&](Result<Lease> result) { ended.put(result ? std::nullopt : std::optional(result.error().errc())); },
            call);
      }
      third.request_stop();
      EXPECT_EQ(ended.take(), Errc::cancelled);
      ASSERT_TRUE(remain(1));
    }
  }
}

TEST_F(MutexTest, DeadlineInThePast) {
  Mutex mutex = make_mutex();
  EXPECT_EQ(error_of([&] { (void)mutex.acquire({.deadline = testkit::SteadyClock::now() - 1s}); }),
            Errc::deadline_exceeded);
  EXPECT_EQ(error_of([&] { (void)mutex.acquire({.deadline = testkit::SteadyClock::time_point::min()}); }),
            Errc::deadline_exceeded);
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, StopRequestEndsOneWaitAndNoOther) {
  Mutex mutex = make_mutex();
  Lease held = mutex.acquire();
  std::stop_source stop;
  auto first = in_thread([&] { return error_of([&] { (void)mutex.acquire({.stop = stop.get_token()}); }); });
  ASSERT_TRUE(remain(2));
  auto second = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(3));
  std::vector<Contender> before = mutex.contenders();

  stop.request_stop();
  EXPECT_EQ(result_of(first), Errc::cancelled);
  EXPECT_TRUE(remain(2));
  const std::vector<Contender> after = mutex.contenders();
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0].node, before[0].node);
  EXPECT_EQ(after[1].node, before[2].node) << "the other one keeps its place";
  EXPECT_TRUE(held.valid());

  held.release();
  const Lease lease = result_of(second);
  EXPECT_TRUE(lease.node().ends_with(before[2].node));
}

TEST_F(MutexTest, StopRequestBeforeTheCall) {
  Mutex mutex = make_mutex();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of([&] { (void)mutex.acquire({.stop = stop.get_token()}); }), Errc::cancelled);
  EXPECT_EQ(error_of([&] { (void)mutex.try_acquire({.stop = stop.get_token()}); }), Errc::cancelled);
  EXPECT_EQ(error_of([&] { (void)mutex.try_acquire_for(1h, stop.get_token()); }), Errc::cancelled);
  EXPECT_TRUE(remain(0));
}

// A cancellation belongs to one call. With nothing to cancel it does nothing, neither to what is held nor to what
// comes.
TEST_F(MutexTest, StopRequestWhileIdlePoisonsNothing) {
  Mutex mutex = make_mutex();
  std::stop_source stop;
  Lease lease = mutex.acquire({.stop = stop.get_token()});
  stop.request_stop();
  EXPECT_TRUE(lease.valid());
  EXPECT_FALSE(lease.lost().stop_requested());
  lease.release();
  EXPECT_TRUE(mutex.try_acquire());
  EXPECT_TRUE(mutex.try_acquire_for(testkit::patience, std::stop_token()));
  const Lease again = mutex.acquire({.deadline = soon()});
  EXPECT_TRUE(again.valid());
}

TEST_F(MutexTest, StopRequestsRaceWithGrants) {
  Mutex mutex = make_mutex();
  std::minstd_rand random(7);
  int got = 0;
  int ended = 0;
  for (int i = 0; i < 60; ++i) {
    std::optional<Lease> held;
    if (i % 2 == 0) held = mutex.acquire({.deadline = soon()});
    std::stop_source stop;
    auto waiting = in_thread([&]() -> std::optional<Lease> {
      try {
        return mutex.acquire({.deadline = soon(), .stop = stop.get_token()});
      } catch (const zkclient::Error& error) {
        EXPECT_EQ(error.errc(), Errc::cancelled);
        return std::nullopt;
      }
    });
    const auto moment = testkit::SteadyClock::now() + std::chrono::microseconds(random() % 3000);
    while (testkit::SteadyClock::now() < moment)
      std::this_thread::yield();
    if (i % 4 == 0) held.reset();
    stop.request_stop();
    const std::optional<Lease> lease = result_of(waiting);
    ++(lease ? got : ended);
    if (lease) {
      EXPECT_TRUE(lease->valid());
      EXPECT_FALSE(held.has_value()) << "round " << i << ": two holders";
    }
  }
  EXPECT_GE(ended, 15) << "of those who waited behind a holder that stayed";
  GTEST_LOG_(INFO) << got << " were granted";
  EXPECT_TRUE(remain(0));
}

// --- The asynchronous forms ---------------------------------------------------------------------------------------

TEST_F(MutexTest, AsyncAcquire) {
  Mutex mutex = make_mutex();
  Lease held = mutex.acquire();
  Box<Result<Lease>> box;
  mutex.async_acquire([&](Result<Lease> result) { box.put(std::move(result)); }, {.deadline = soon()});
  ASSERT_TRUE(remain(2));
  EXPECT_TRUE(box.empty());
  held.release();
  Result<Lease> result = box.take();
  EXPECT_TRUE(result.value().valid());
  EXPECT_TRUE(box.empty());
}

TEST_F(MutexTest, AsyncTryAcquire) {
  Mutex mutex = make_mutex();
  Box<Result<std::optional<Lease>>> box;
  const auto handler = [&](Result<std::optional<Lease>> result) { box.put(std::move(result)); };
  mutex.async_try_acquire(handler);
  const Result<std::optional<Lease>> first = box.take();
  ASSERT_TRUE(first && first->has_value());
  mutex.async_try_acquire(handler);
  const Result<std::optional<Lease>> second = box.take();
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->has_value());
  EXPECT_TRUE(remain(1));
}

TEST_F(MutexTest, AsyncAcquireFails) {
  Mutex mutex = make_mutex();
  const Lease held = mutex.acquire();
  Box<Result<Lease>> box;
  const auto handler = [&](Result<Lease> result) { box.put(std::move(result)); };
  mutex.async_acquire(handler, {.deadline = testkit::SteadyClock::now() + 20ms});
  EXPECT_EQ(box.take().code(), Errc::deadline_exceeded);
  std::stop_source stop;
  mutex.async_acquire(handler, {.stop = stop.get_token()});
  stop.request_stop();
  EXPECT_EQ(box.take().code(), Errc::cancelled);
  EXPECT_TRUE(remain(1));
  EXPECT_TRUE(box.empty()) << "once each";
}

TEST_F(MutexTest, ALeaseThatNobodyTakesIsGivenBack) {
  Mutex mutex = make_mutex();
  std::latch called(1);
  mutex.async_acquire([&](Result<Lease> result) {
    EXPECT_TRUE(result);
    called.count_down();
  });
  called.wait();
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, AHandlerMayUseTheMutexAndBlock) {
  Mutex mutex = make_mutex();
  Box<FencingToken> box;
  mutex.async_acquire([&](Result<Lease> result) {
    result->release();
    Lease again = mutex.acquire({.deadline = soon()});
    box.put(again.token());
  });
  EXPECT_GT(box.take().value, 0);
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, AWaitOutlivesItsMutex) {
  Box<Result<Lease>> box;
  const auto handler = [&](Result<Lease> result) { box.put(std::move(result)); };
  std::optional<Mutex> mutex = make_mutex();
  Lease held = mutex->acquire();
  mutex->async_acquire(handler, {.deadline = soon()});
  mutex.reset();
  EXPECT_TRUE(held.valid());
  held.release();
  EXPECT_TRUE(box.take().value().valid());
}

TEST_F(MutexTest, AsyncRelease) {
  Mutex mutex = make_mutex();
  Lease lease = mutex.acquire();
  Box<Result<void>> box;
  lease.async_release([&](Result<void> result) { box.put(std::move(result)); });
  EXPECT_FALSE(lease.valid()) << "at the call";
  EXPECT_TRUE(box.take());
  EXPECT_EQ(lease.state(), LeaseState::released);
  EXPECT_TRUE(names().empty());
}

// --- Lockable -----------------------------------------------------------------------------------------------------

TEST_F(MutexTest, StandardLocks) {
  Mutex mutex = make_mutex();
  Mutex other(client(), "/other");
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(mutex.lease().state(), LeaseState::held);
    EXPECT_EQ(names().size(), 1u);
  }
  EXPECT_TRUE(remain(0));
  {
    const std::scoped_lock both(mutex, other);
    EXPECT_TRUE(mutex.lease().valid());
    EXPECT_TRUE(other.lease().valid());
  }
  {
    std::unique_lock lock(mutex, std::defer_lock);
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
    EXPECT_TRUE(lock.try_lock_for(testkit::patience));
    lock.unlock();
    EXPECT_TRUE(lock.try_lock_until(soon()));
    lock.unlock();
    EXPECT_TRUE(lock.try_lock_for(std::chrono::hours::max()));
    lock.unlock();
    EXPECT_TRUE(lock.try_lock_until(testkit::SteadyClock::time_point::max()));
    lock.unlock();
    EXPECT_TRUE(lock.try_lock_until(std::chrono::system_clock::now() + testkit::patience));
    lock.unlock();
    lock.lock();
    EXPECT_TRUE(lock.owns_lock());
  }
  EXPECT_TRUE(remain(0));
  EXPECT_TRUE(remain(0, "/other"));
}

TEST_F(MutexTest, AnExceptionUnlocks) {
  Mutex mutex = make_mutex();
  try {
    const std::lock_guard lock(mutex);
    throw std::runtime_error("in the critical section");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(mutex.try_acquire_for(testkit::patience));
}

TEST_F(MutexTest, LockIsPerThread) {
  Mutex mutex = make_mutex();
  std::unique_lock lock(mutex);
  const auto elsewhere = [&] {
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_for(20ms));
    EXPECT_FALSE(mutex.try_lock_for(std::chrono::nanoseconds::min()));
    EXPECT_FALSE(mutex.try_lock_for(std::chrono::hours::min()));
    EXPECT_FALSE(mutex.try_lock_until(testkit::SteadyClock::time_point::min()));
    EXPECT_FALSE(mutex.try_lock_until(std::chrono::system_clock::time_point::min()));
    EXPECT_EQ(error_of([&] { (void)mutex.lease(); }), Errc::not_held);
    mutex.unlock();  // Not ours: undefined for a std::mutex, nothing here.
  };
  auto other = in_thread(elsewhere);
  result_of(other);
  EXPECT_TRUE(mutex.lease().valid());
  auto waiting = in_thread([&] { return mutex.try_lock_for(testkit::patience); });
  ASSERT_TRUE(eventually([&] { return mutex.contenders().size() == 2; }));
  lock.unlock();
  EXPECT_TRUE(result_of(waiting));
}

TEST_F(MutexTest, AMovedMutexKeepsItsLock) {
  Mutex first = make_mutex();
  first.lock();
  Mutex second = std::move(first);
  EXPECT_TRUE(second.lease().valid());
  EXPECT_EQ(second.path(), Path("/lock"));
  second.unlock();
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, ADestroyedMutexUnlocks) {
  {
    Mutex mutex = make_mutex();
    mutex.lock();
  }
  EXPECT_TRUE(remain(0));
}

// --- Who is in the queue ------------------------------------------------------------------------------------------

TEST_F(MutexTest, ContendersOfNobody) {
  Mutex mutex = make_mutex();
  EXPECT_TRUE(mutex.contenders().empty()) << "there is no such node";
  mutex.acquire().release();
  EXPECT_TRUE(mutex.contenders().empty()) << "it has no children";
}

TEST_F(MutexTest, ContendersFirstToLast) {
  Mutex mutex = make_mutex({.id = "first"});
  Client other_client = make_client();
  Mutex other(other_client, "/lock", {.id = "second"});
  Lease held = mutex.acquire();
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { (void)other.acquire({.stop = stop.get_token()}); }); });
  ASSERT_TRUE(remain(2));
  const std::vector<Contender> contenders = mutex.contenders();
  ASSERT_EQ(contenders.size(), 2u);
  EXPECT_EQ("/lock/" + contenders[0].node, held.node());
  EXPECT_TRUE(contenders[0].holds);
  EXPECT_EQ(contenders[0].token, held.token());
  EXPECT_EQ(contenders[0].session_id, client().session().id());
  EXPECT_EQ(contenders[1].session_id, other_client.session().id());
  EXPECT_FALSE(contenders[1].holds);
  EXPECT_GT(contenders[1].token, contenders[0].token);
  EXPECT_GE(contenders[1].since, contenders[0].since);
  const auto now = std::chrono::system_clock::now();
  EXPECT_GT(contenders[0].since, now - 1h) << "the server's clock is this machine's";
  EXPECT_LT(contenders[1].since, now + 1h);
  EXPECT_NE(contenders[0].data.find("id=first "), std::string::npos) << contenders[0].data;
  EXPECT_NE(contenders[1].data.find("id=second "), std::string::npos) << contenders[1].data;
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
}

TEST_F(MutexTest, DataNamesHostAndProcess) {
  const Lease lease = make_mutex().acquire();
  const std::string data = client().get(lease.node()).data;
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_NE(data.find(std::string("host=") + host.data()), std::string::npos) << data;
  EXPECT_NE(data.find("pid=" + std::to_string(::getpid())), std::string::npos) << data;
  EXPECT_NE(data.find("since="), std::string::npos) << data;
}

// --- On the wire --------------------------------------------------------------------------------------------------

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

TEST_F(MutexTest, CuratorsLayout) {
  const Lease lease = make_mutex({.layout = Layout::curator()}).acquire();
  const std::string name = lease.node().substr(lease.node().rfind('/') + 1);
  ASSERT_EQ(name.size(), 3u + 36 + 6 + 10) << name;
  EXPECT_TRUE(name.starts_with("_c_"));
  const std::string uuid = name.substr(3, 36);
  for (const std::size_t dash : {8u, 13u, 18u, 23u})
    EXPECT_EQ(uuid[dash], '-') << uuid;
  std::string digits = uuid;
  std::erase(digits, '-');
  EXPECT_EQ(digits.size(), 32u);
  EXPECT_TRUE(is_hex(digits)) << uuid;
  EXPECT_EQ(name.substr(39), "-lock-0000000000");
  EXPECT_NE(client().exists(lease.node())->ephemeral_owner, 0);
  EXPECT_EQ(client().get("/lock").data, "");
}

TEST_F(MutexTest, CuratorsParentIsAContainer) {
  NEEDS_CONTROL();
  make_mutex().acquire().release();
  EXPECT_TRUE(eventually([&] { return !client().exists("/lock"); })) << "the server removes it when it is empty";
}

TEST_F(MutexTest, KazoosLayout) {
  const Lease lease = make_mutex({.layout = Layout::kazoo()}).acquire();
  const std::string name = lease.node().substr(lease.node().rfind('/') + 1);
  ASSERT_EQ(name.size(), 32u + 8 + 10) << name;
  EXPECT_TRUE(is_hex(name.substr(0, 32))) << name;
  EXPECT_EQ(name.substr(32), "__lock__0000000000");
  EXPECT_EQ(client().get("/lock").data, "");
}

TEST_F(MutexTest, BothLayoutsExcludeEachOther) {
  Mutex curator = make_mutex({.layout = Layout::curator()});
  Mutex kazoo = make_mutex({.layout = Layout::kazoo()});
  Lease first = kazoo.acquire();
  EXPECT_FALSE(curator.try_acquire());
  first.release();
  const Lease second = curator.acquire();
  EXPECT_FALSE(kazoo.try_acquire());
}

TEST_F(MutexTest, TheAclIsPassedToEveryNode) {
  NEEDS_CONTROL();
  constexpr std::int32_t all_but_admin = zkclient::Acl::all & ~zkclient::Acl::admin;
  Mutex mutex(client(), "/a/b/lock", {.acl = {{all_but_admin, "world", "anyone"}}});
  const Lease lease = mutex.acquire();

  using zktesting::detail::WireClient;
  WireClient wire(zktesting::detail::parse_endpoint(hosts()), 20s, 20s);
  const auto permissions = [&](const std::string& node) {
    std::string body = WireClient::path_body(full(node).str(), false);
    body.pop_back();  // Without the flag for a watch it is what getACL wants.
    std::string reply;
    EXPECT_EQ(wire.receive(wire.send(6, body), &reply), 0) << node;
    EXPECT_EQ(zktesting::detail::get_int32(reply, 0), 1) << node;
    return zktesting::detail::get_int32(reply, 4);
  };
  for (const std::string& node : {std::string("/a"), std::string("/a/b"), std::string("/a/b/lock"), lease.node()}) {
    EXPECT_EQ(permissions(node), all_but_admin) << node;
  }
}

TEST_F(MutexTest, ThePathMayBeTheRootOfTheClient) {
  Mutex mutex(client(), "/");
  Lease lease = mutex.acquire();
  EXPECT_FALSE(mutex.try_acquire());
  EXPECT_EQ(mutex.contenders().size(), 1u);
  EXPECT_EQ(lease.node().rfind('/'), 0u);
  lease.release();
  EXPECT_TRUE(remain(0, "/"));
}

// --- Bad input, hostile surroundings ------------------------------------------------------------------------------

TEST_F(MutexTest, BadInputIsRefused) {
  EXPECT_EQ(error_of([&] { (void)make_mutex({.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { Mutex(client(), "no slash"); }), Errc::invalid_path);
  Mutex huge = make_mutex({.id = std::string(2'000'000, 'x')});
  EXPECT_EQ(error_of([&] { (void)huge.acquire(); }), Errc::too_large);
  EXPECT_EQ(error_of([&] { (void)huge.try_acquire(); }), Errc::too_large);
  EXPECT_TRUE(names().empty());
}

TEST_F(MutexTest, AnEphemeralNodeAtThePath) {
  client().create("/lock", "", {.mode = CreateMode::ephemeral});
  Mutex mutex = make_mutex();
  EXPECT_EQ(error_of([&] { (void)mutex.acquire({.deadline = soon()}); }), Errc::no_children_for_ephemerals);
  Mutex below(client(), "/lock/below");
  EXPECT_EQ(error_of([&] { (void)below.acquire({.deadline = soon()}); }), Errc::no_children_for_ephemerals);
  try {
    (void)mutex.acquire();
  } catch (const zkclient::Error& error) {
    EXPECT_EQ(error.path(), "/lock");
    EXPECT_NE(std::string(error.what()).find("mutex"), std::string::npos) << error.what();
  }
}

// Children of any name, none of which blocks or crashes anybody.
TEST_F(MutexTest, ForeignChildren) {
  client().create("/lock", "");
  for (const char* name : {"nodash", "ready", "-", "lock-", "_c_x-latch-0000000000", "x-0000000000", "n_0000000000",
                           "x__rlock__0000000000", "lock-00000000000", "_c_x-lock-9999999999"}) {
    client().create(Path("/lock") / name, "data");
  }
  Mutex mutex = make_mutex();
  Lease lease = mutex.acquire({.deadline = soon()});
  const std::vector<Contender> contenders = mutex.contenders();
  ASSERT_EQ(contenders.size(), 4u) << "those that look like contenders of another library are shown";
  EXPECT_TRUE(contenders[0].holds && !contenders[0].foreign);
  for (std::size_t i = 1; i < contenders.size(); ++i)
    EXPECT_TRUE(!contenders[i].holds && contenders[i].foreign) << contenders[i].node;
  EXPECT_FALSE(mutex.try_acquire());
  lease.release();
  EXPECT_TRUE(remain(10)) << "what is not ours stays";
}

// The server's counter cannot be driven past 2^31 in a test, but nodes with such names can be made by hand:
// -1 was created just before 0.
TEST_F(MutexTest, ANegativeSequenceNumberIsAContender) {
  client().create("/lock", "");
  Client other = make_client();
  const Path older = "/lock/_c_00000000-0000-0000-0000-000000000000-lock--000000001";
  other.create(older, "", {.mode = CreateMode::ephemeral});
  Mutex mutex = make_mutex();
  EXPECT_FALSE(mutex.try_acquire());
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(eventually([&] { return mutex.contenders().size() == 2; }));
  EXPECT_EQ(mutex.contenders().front().node, older.name());
  other.remove(older);
  EXPECT_TRUE(result_of(waiting).valid());
}

TEST_F(MutexTest, NumbersBeyondTheWrapComeLater) {
  client().create("/lock", "");
  const std::string id = "_c_00000000-0000-0000-0000-000000000000-lock-";
  client().create("/lock/" + id + "-2147483647", "", {.mode = CreateMode::ephemeral});
  client().create("/lock/" + id + "2147483647", "", {.mode = CreateMode::ephemeral});
  client().create("/lock/" + id + "-2147483648", "", {.mode = CreateMode::ephemeral});
  Mutex mutex = make_mutex();
  const std::optional<Lease> lease = mutex.try_acquire();
  ASSERT_TRUE(lease) << "they are newer than any small number, as far as numbers tell";
  const auto contenders = mutex.contenders();
  ASSERT_EQ(contenders.size(), 4u);
  EXPECT_EQ("/lock/" + contenders[0].node, lease->node());
  EXPECT_EQ(contenders[1].node, id + "2147483647");
  EXPECT_EQ(contenders[2].node, id + "-2147483648");
  EXPECT_EQ(contenders[3].node, id + "-2147483647");
}

// --- The lease ----------------------------------------------------------------------------------------------------

void expect_nothing(Lease& lease) {
  EXPECT_EQ(lease.state(), LeaseState::released);
  EXPECT_FALSE(lease.valid());
  EXPECT_EQ(lease.token().value, 0);
  EXPECT_LT(lease.valid_until(), BootClock::now());
  EXPECT_FALSE(lease.lost().stop_possible());
  EXPECT_EQ(lease.node(), "");
  EXPECT_FALSE(lease.session());
  EXPECT_EQ(error_of([&] { (void)lease.guard(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { lease.release(); }), Errc::not_held);
  std::error_code error;
  lease.release({}, error);
  EXPECT_EQ(error, Errc::not_held);
}

TEST_F(MutexTest, AnEmptyLeaseFailsClosed) {
  Lease lease;
  expect_nothing(lease);
}

TEST_F(MutexTest, AGuardOfAnotherClientIsRefusedAsWhatItIs) {
  const Lease lease = make_mutex().acquire();
  const Client other = make_client();
  zkclient::Transaction transaction;
  transaction.check(lease.guard()).create("/written", "");
  try {
    other.commit(transaction);
    ADD_FAILURE() << "it was committed";
  } catch (const zkclient::Error& error) {
    EXPECT_EQ(error.errc(), Errc::invalid_argument) << error.what();
    EXPECT_NE(error.detail().find("another Client"), std::string::npos) << error.what();
  }
  client().commit(transaction);
}

TEST(FencingTokenOrder, TheEpochGoesFirst) {
  EXPECT_LT((FencingToken{.value = 9}), (FencingToken{.value = 10}));
  EXPECT_LT((FencingToken{.value = 10}), (FencingToken{.value = 1, .epoch = 1}));
  EXPECT_EQ((FencingToken{.value = 3, .epoch = 1}), (FencingToken{.value = 3, .epoch = 1}));
  EXPECT_NE((FencingToken{.value = 3}), (FencingToken{.value = 3, .epoch = 1}));
}

TEST_F(MutexTest, LeasesMove) {
  Mutex mutex = make_mutex();
  Lease first = mutex.acquire();
  const FencingToken token = first.token();
  Lease second = std::move(first);
  expect_nothing(first);  // NOLINT(bugprone-use-after-move): what is left in there is the question.
  EXPECT_EQ(second.token(), token);
  EXPECT_TRUE(second.valid());

  Lease& alias = second;
  second = std::move(alias);
  EXPECT_TRUE(second.valid()) << "a move onto itself changes nothing";
  EXPECT_EQ(names().size(), 1u);

  Mutex other(client(), "/other");
  second = other.acquire();
  EXPECT_TRUE(remain(0)) << "the lease that was there is given back";
  EXPECT_TRUE(second.node().starts_with("/other/"));
  second = Lease();
  expect_nothing(second);
  EXPECT_TRUE(remain(0, "/other"));
}

TEST_F(MutexTest, TheDestructorGivesBack) {
  Mutex mutex = make_mutex();
  { const Lease lease = mutex.acquire(); }
  EXPECT_TRUE(mutex.try_acquire_for(testkit::patience));
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, ReleaseEndsTheHolding) {
  Mutex mutex = make_mutex();
  Lease lease = mutex.acquire();
  const std::stop_token lost = lease.lost();
  EXPECT_GT(lease.valid_until(), BootClock::now());
  lease.release();
  EXPECT_TRUE(names().empty()) << "it waited until the node was gone";
  EXPECT_EQ(lease.state(), LeaseState::released);
  EXPECT_FALSE(lease.valid());
  EXPECT_LT(lease.valid_until(), BootClock::now());
  EXPECT_FALSE(lost.stop_requested()) << "a release is no loss";
  EXPECT_GT(lease.token().value, 0);
}

TEST_F(MutexTest, ReleaseTwice) {
  Mutex mutex = make_mutex();
  Lease lease = mutex.acquire();
  lease.release();
  Lease next = mutex.acquire();
  std::error_code error;
  lease.release({}, error);  // Harmless, above all to the next holder.
  EXPECT_TRUE(next.valid());
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(MutexTest, ReleaseWithoutAHandlerReleasesNothing) {
  Mutex mutex(client(), "/lock");
  Lease lease = mutex.acquire();
  EXPECT_EQ(error_of([&] { lease.async_release({}); }), Errc::invalid_argument);
  EXPECT_EQ(lease.state(), LeaseState::held);
  lease.release();
  EXPECT_TRUE(remain(0));
}

// An executor may drop its tasks, at the end of a program for one.
TEST_F(MutexTest, ALeaseOfADroppedTaskIsGivenBack) {
  bool called = false;
  zkclient::Runtime runtime({.callback_executor = [](const std::function<void()>&) {}});
  Client own(runtime, hosts(), {.session_timeout = 60s, .prefix = prefix()});
  Mutex mutex(own, "/lock");
  mutex.async_acquire([&](const Result<Lease>&) { called = true; }, {.deadline = soon()});
  mutex.async_acquire([&](const Result<Lease>&) { called = true; }, {.deadline = soon()});
  // After these two, and as nobody has taken theirs:
  Lease lease = mutex.acquire({.deadline = soon()});
  EXPECT_TRUE(lease.valid());
  lease.release();
  EXPECT_TRUE(remain(0));
  EXPECT_FALSE(called);
}

TEST_F(MutexTest, ReleaseAfterALoss) {
  Mutex mutex = make_mutex();
  Lease lease = mutex.acquire();
  client().remove(lease.node());
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_EQ(error_of([&] { lease.release(); }), Errc::not_held);
  std::error_code error;
  lease.release({}, error);
  EXPECT_EQ(error, Errc::not_held);
  Box<Result<void>> box;
  lease.async_release([&](Result<void> result) { box.put(std::move(result)); });
  EXPECT_EQ(box.take().code(), Errc::not_held);
}

TEST_F(MutexTest, TheGuardHoldsWhileTheLeaseDoes) {
  Mutex mutex = make_mutex();
  client().create("/data", "0");
  Lease lease = mutex.acquire();
  const zkclient::Check guard = lease.guard();
  client().commit(Transaction().set("/data", "1").check(guard));
  client().commit(Transaction().check(guard).set("/data", "2"));
  lease.release();
  EXPECT_EQ(error_of([&] { client().commit(Transaction().set("/data", "3").check(guard)); }), Errc::transaction_failed);
  const Lease next = mutex.acquire();
  EXPECT_EQ(error_of([&] { client().commit(Transaction().check(guard).set("/data", "4")); }), Errc::transaction_failed);
  EXPECT_EQ(client().get("/data").data, "2");
}

TEST_F(MutexTest, TheGuardBelongsToItsSession) {
  Mutex mutex = make_mutex();
  client().create("/data", "0");
  const Lease lease = mutex.acquire();
  Client other = make_client();
  EXPECT_EQ(error_of([&] { other.commit(Transaction().check(lease.guard()).set("/data", "1")); }),
            Errc::invalid_argument);
  EXPECT_EQ(client().get("/data").data, "0");
}

TEST_F(MutexTest, ALeaseOutlivesItsMutexAndItsClient) {
  Lease lease;
  {
    Client own = make_client();
    lease = Mutex(own, "/lock").acquire();
    EXPECT_TRUE(lease.valid());
  }
  EXPECT_EQ(lease.state(), LeaseState::lost) << "the client was closed";
  EXPECT_TRUE(lease.lost().stop_requested());
  EXPECT_TRUE(remain(0));
  std::error_code error;
  lease.release({}, error);
  EXPECT_TRUE(error);
}

// The client that is handed in is shared, as each copy of a Client is.
TEST_F(MutexTest, AMutexKeepsItsClientOpen) {
  Mutex mutex(make_client(), "/lock");
  const Lease lease = mutex.acquire({.deadline = soon()});
  EXPECT_TRUE(lease.valid());
}

// --- What it costs ------------------------------------------------------------------------------------------------

TEST_F(MutexTest, EachWaiterWatchesItsPredecessorOnly) {
  NEEDS_CONTROL();
  ASSERT_TRUE(eventually([] { return server().watch_count() == 0; }));
  constexpr std::size_t waiters = 5;
  Client waiting_client = make_client();
  Mutex waiting_mutex(waiting_client, "/lock");
  Mutex mutex = make_mutex();
  Lease held = mutex.acquire();
  std::stop_source stop;
  std::vector<std::future<std::optional<Errc>>> crew;
  for (std::size_t i = 0; i < waiters; ++i) {
    crew.push_back(
        in_thread([&] { return error_of([&] { (void)waiting_mutex.acquire({.stop = stop.get_token()}); }); }));
    ASSERT_TRUE(remain(i + 2));
  }
  const std::vector<Contender> queue = mutex.contenders();
  ASSERT_EQ(queue.size(), waiters + 1);
  const auto path = [&](std::size_t i) { return full("/lock/" + queue[i].node); };
  for (std::size_t i = 0; i < waiters; ++i)
    ASSERT_TRUE(testkit::watch_appears(server(), waiting_client.session().id(), path(i)));
  // Whoever holds for long also watches its own node.
  ASSERT_TRUE(testkit::watch_appears(server(), client().session().id(), path(0)));
  EXPECT_EQ(testkit::watches_at(server()).size(), waiters + 1);

  stop.request_stop();
  for (auto& waiter : crew)
    EXPECT_EQ(result_of(waiter), Errc::cancelled);
  held.release();
  EXPECT_TRUE(eventually([] { return server().watch_count() == 0; })) << server().four_letter_word("wchp");
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, AReleaseWakesOneWaiter) {
  NEEDS_CONTROL();
  using zktesting::RequestType;
  zktesting::Proxy proxy(hosts());
  Mutex mutex = make_mutex();
  Lease held = mutex.acquire();
  const auto begin = testkit::SteadyClock::now();
  constexpr auto timeout = 60s;
  // It does not know the tick: else the first heartbeat would come half a tick later, to complete the proof.
  Client waiting_client(proxy.connect_string(), {.session_timeout = timeout, .prefix = prefix()});
  Mutex waiting_mutex(waiting_client, "/lock");
  Box<Result<Lease>> box;
  constexpr std::size_t waiters = 6;
  for (std::size_t i = 0; i < waiters; ++i) {
    waiting_mutex.async_acquire([&](Result<Lease> result) { box.put(std::move(result)); }, {.deadline = soon()});
    ASSERT_TRUE(remain(i + 2));
  }
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::get_data, waiters, testkit::patience));
  const std::size_t lists = proxy.request_count(RequestType::get_children2);
  const std::size_t looks = proxy.request_count(RequestType::exists);
  testkit::let_age(10ms);  // The first one's list: else that would tell that its own node exists.

  held.release();
  Result<Lease> first = box.take();
  EXPECT_TRUE(first.value().valid());
  // Its own watch, or the look for a record of one that has waited for long, which comes before that.
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::get_data, waiters + 1, testkit::patience));
  waiting_client.sync("/", {.deadline = soon()});  // Behind what others would have asked.
  const std::size_t watches = proxy.request_count(RequestType::get_data);
  const std::size_t lists_since = proxy.request_count(RequestType::get_children2) - lists;
  const std::size_t looks_since = proxy.request_count(RequestType::exists) - looks;
  const std::size_t checks = proxy.request_count(RequestType::multi);
  if (testkit::SteadyClock::now() - begin < timeout / 8) {  // Later the session is to be proven again.
    EXPECT_LE(watches, waiters + 2);
    EXPECT_EQ(lists_since, 0U);
    EXPECT_EQ(looks_since, 1U) << "its own node exists";
    EXPECT_EQ(checks, 0U) << "that the session is alive, the create has proven";
  }
  EXPECT_TRUE(box.empty());
  waiting_client.close();
  for (std::size_t i = 1; i < waiters; ++i)
    EXPECT_EQ(box.take().code(), Errc::closed);
}

TEST_F(MutexTest, AShortCriticalSectionSendsNoHeartbeat) {
  NEEDS_CONTROL();
  using zktesting::RequestType;
  zktesting::Proxy proxy(hosts());
  client().create("/lock", "");
  Client own(proxy.connect_string(), {.session_timeout = 60s, .prefix = prefix()});
  Mutex mutex(own, "/lock");
  mutex.acquire().release();
  const std::size_t before = proxy.request_count(RequestType::any);
  const std::size_t watches_before = proxy.request_count(RequestType::get_data);
  Lease lease = mutex.acquire();
  lease.release();
  EXPECT_EQ(proxy.request_count(RequestType::multi), 0u);
  // create, list, delete; the watch on the own node only if we were slow.
  const std::size_t watches = proxy.request_count(RequestType::get_data) - watches_before;
  EXPECT_EQ(proxy.request_count(RequestType::any), before + 3 + watches);
}

constexpr auto shorter = 15s;  // Than it takes the client to give a connection up on which a reply is held.

TEST_F(MutexTest, CreateAndListAreOneFlight) {
  NEEDS_CONTROL();
  using zktesting::RequestType;
  zktesting::Proxy proxy(hosts());
  client().create("/lock", "");
  Client own(proxy.connect_string(), {.session_timeout = 60s, .prefix = prefix()});
  own.connect();
  Mutex mutex(own, "/lock");
  auto created = proxy.hold_next_reply(RequestType::create2);
  auto acquiring = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(created.wait(testkit::patience));
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::get_children2, 1, shorter)) << "before the create's reply";
  created.release();
  EXPECT_TRUE(result_of(acquiring).valid());
}

TEST_F(MutexTest, TheDestructorDoesNotWait) {
  NEEDS_CONTROL();
  using zktesting::RequestType;
  zktesting::Proxy proxy(hosts());
  Client own(proxy.connect_string(), {.session_timeout = 60s, .prefix = prefix()});
  Mutex mutex(own, "/lock");
  std::optional<Lease> lease = mutex.acquire();
  auto removed = proxy.hold_next_reply(RequestType::remove);
  auto dropping = in_thread([&] { lease.reset(); });
  EXPECT_EQ(dropping.wait_for(shorter), std::future_status::ready) << "while nothing is answered";
  EXPECT_TRUE(removed.wait(testkit::patience));
  removed.release();
  EXPECT_TRUE(remain(0));
}

TEST_F(MutexTest, ALongOneDoes) {
  NEEDS_CONTROL();
  using zktesting::RequestType;
  zktesting::Proxy proxy(hosts());
  // A heartbeat half a tick later, and then every four seconds: one that is nine seconds late still comes in time.
  Client own(proxy.connect_string(), {.session_timeout = 24s, .server_tick = testkit::server_tick, .prefix = prefix()});
  Mutex mutex(own, "/lock");
  Lease lease = mutex.acquire();
  const BootClock::time_point first = lease.valid_until();
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::multi, 1, testkit::patience));
  ASSERT_TRUE(eventually([&] { return lease.valid_until() > first; }));
  EXPECT_EQ(lease.state(), LeaseState::held);
  lease.release();
}

// --- Nothing stays behind -----------------------------------------------------------------------------------------

TEST_F(MutexTest, CloseLeavesNothing) {
  NEEDS_CONTROL();
  ASSERT_TRUE(eventually([] { return server().watch_count() == 0 && server().ephemeral_count() == 0; }));
  const std::size_t threads = testkit::thread_count();
  const std::size_t descriptors = testkit::descriptor_count();
  Box<Result<Lease>> box;
  {
    Client own = make_client();
    Mutex mutex(own, "/lock");
    const Lease held = mutex.acquire();
    for (int i = 0; i < 5; ++i)
      mutex.async_acquire([&](Result<Lease> result) { box.put(std::move(result)); });
    ASSERT_TRUE(remain(6));
    own.close();
    EXPECT_TRUE(held.lost().stop_requested()) << "told before close() returned";
    EXPECT_EQ(held.state(), LeaseState::lost);
    EXPECT_EQ(box.size(), 5u) << "each handler was called before close() returned";
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(box.take().code(), Errc::closed);
    EXPECT_EQ(error_of([&] { (void)mutex.acquire(); }), Errc::closed);
    EXPECT_EQ(error_of([&] { (void)mutex.try_acquire(); }), Errc::closed);
    mutex.async_acquire([&](Result<Lease> result) { box.put(std::move(result)); });
    EXPECT_EQ(box.take().code(), Errc::closed);
  }
  EXPECT_TRUE(remain(0));
  EXPECT_TRUE(eventually([] { return server().watch_count() == 0 && server().ephemeral_count() == 0; }));
  EXPECT_TRUE(eventually([&] { return testkit::thread_count() <= threads; }));
  EXPECT_TRUE(eventually([&] { return testkit::descriptor_count() <= descriptors; }));
}

TEST_F(MutexTest, CloseRacesWithEverything) {
  std::minstd_rand random(11);
  for (int round = 0; round < 15; ++round) {
    Client own = make_client();
    Mutex mutex(own, "/lock");
    Mutex other = make_mutex();
    std::vector<std::jthread> crew;
    for (int t = 0; t < 3; ++t) {
      crew.emplace_back([&] {
        try {
          for (;;) {
            const Lease lease = mutex.acquire({.deadline = soon()});
          }
        } catch (const zkclient::Error& error) {
          EXPECT_EQ(error.errc(), Errc::closed) << error.what();
        }
      });
    }
    crew.emplace_back([&] {
      for (int i = 0; i < 3; ++i)
        other.acquire({.deadline = soon()}).release();
    });
    const auto moment = testkit::SteadyClock::now() + std::chrono::microseconds(random() % 8000);
    while (testkit::SteadyClock::now() < moment)
      std::this_thread::yield();
    own.close();
  }
  EXPECT_TRUE(remain(0));
}

// --- Slow and blocked surroundings --------------------------------------------------------------------------------

// A listener that sleeps delays nobody.
TEST_F(MutexTest, ASleepingListenerDelaysNobody) {
  Client own = make_client();
  Mutex mutex(own, "/lock");
  std::latch asleep(1);
  std::binary_semaphore wake(0);
  const auto subscription = own.on_state_change([&](const zkclient::StateChange&) {
    asleep.count_down();
    wake.acquire();
  });
  asleep.wait();

  Lease held = mutex.acquire({.deadline = soon()});
  Box<Result<Lease>> box;
  mutex.async_acquire([&](Result<Lease> result) { box.put(std::move(result)); }, {.deadline = soon()});
  ASSERT_TRUE(remain(2));
  held.release();
  Result<Lease> next = box.take();
  EXPECT_TRUE(next.value().valid());
  client().remove(next->node());
  EXPECT_TRUE(stopped(next->lost())) << "the signal of a loss does not queue up behind listeners either";
  wake.release();
}

// A listener of the loss itself that sleeps delays no other lease.
TEST_F(MutexTest, ASleepingLossListenerDelaysNoOtherLease) {
  Mutex first = make_mutex();
  Mutex second(client(), "/other");
  const Lease one = first.acquire();
  const Lease two = second.acquire();
  std::latch asleep(1);
  std::binary_semaphore wake(0);
  const std::stop_callback sleeper(one.lost(), [&] {
    asleep.count_down();
    wake.acquire();
  });
  client().remove(one.node());
  asleep.wait();
  client().remove(two.node());
  EXPECT_TRUE(stopped(two.lost()));
  wake.release();
}

// Without a server nobody holds anything; the wait ends with the deadline, and nothing comes of it later.
TEST_F(MutexTest, WithoutAServerTheWaitLastsUntilTheDeadline) {
  NEEDS_CONTROL();
  zktesting::Proxy proxy(hosts());
  proxy.refuse(true);
  Client own(proxy.connect_string(), {.prefix = prefix()});
  Mutex mutex(own, "/lock");
  const auto start = testkit::SteadyClock::now();
  EXPECT_EQ(error_of([&] { (void)mutex.acquire({.deadline = start + 200ms}); }), Errc::deadline_exceeded);
  EXPECT_GE(testkit::SteadyClock::now(), start + 200ms);
  EXPECT_FALSE(mutex.try_acquire_for(100ms));
  EXPECT_EQ(error_of([&] { (void)mutex.try_acquire({.deadline = testkit::SteadyClock::now() + 50ms}); }),
            Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { (void)mutex.acquire({.stop = stop.get_token()}); }); });
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);

  auto patient = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  proxy.refuse(false);
  const Lease lease = result_of(patient);
  EXPECT_TRUE(lease.valid()) << "a start before the server is fine";
  EXPECT_EQ(names().size(), 1u) << "and nothing is left of the vain attempts";
}

}  // namespace
}  // namespace zkrecipes
