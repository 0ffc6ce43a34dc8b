#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/recursive_mutex.hpp>
#include <zkrecipes/semaphore.hpp>

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include <zkclient/error.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class MultiLockTest : public testkit::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    client_.emplace(make_client());
    a_.emplace(*client_, "/a");
    b_.emplace(*client_, "/b");
    c_.emplace(*client_, "/c");
  }
  void TearDown() override {
    c_.reset();
    b_.reset();
    a_.reset();
    client_.reset();
    ServerTest::TearDown();
  }
  Client& client() { return *client_; }
  Mutex& a() { return *a_; }
  SharedMutex& b() { return *b_; }
  UnfairMutex& c() { return *c_; }
  MultiLock all() {
    MultiLock lock;
    lock.add(c()).add(a()).add_shared(b());
    return lock;
  }
  bool free() {
    return eventually([&] {
      std::error_code error;
      return client().children("/a", {}, error).names.empty() && client().children("/b", {}, error).names.empty() &&
             client().children("/c", {}, error).names.empty();
    });
  }
  /// Waits until so many have the first lock or wait for it, and so many the second one.
  bool remain(std::size_t first, std::size_t second) {
    return eventually([&] { return a().contenders().size() == first && b().contenders().size() == second; });
  }

 private:
  std::optional<Client> client_;
  std::optional<Mutex> a_;
  std::optional<SharedMutex> b_;
  std::optional<UnfairMutex> c_;
};

TEST_F(MultiLockTest, AllOfThem) {
  MultiLock lock = all();
  MultiLease leases = lock.acquire({.deadline = soon()});
  EXPECT_TRUE(leases.valid());
  EXPECT_GT(leases.valid_until(), zkclient::BootClock::now());
  ASSERT_EQ(leases.leases().size(), 3u);
  EXPECT_TRUE(leases.leases()[0].node().starts_with("/c/")) << "in the order in which they were added";
  EXPECT_LT(leases.leases()[1].token(), leases.leases()[2].token()) << "acquired in the order of their paths";
  EXPECT_LT(leases.leases()[2].token(), leases.leases()[0].token());
  EXPECT_FALSE(a().try_acquire());
  EXPECT_FALSE(b().try_acquire());
  EXPECT_TRUE(b().try_acquire_shared());
  EXPECT_FALSE(lock.try_acquire());
  Transaction transaction;
  leases.guard(transaction);
  client().commit(transaction.create("/written", ""));
  leases.release();
  EXPECT_FALSE(leases.valid());
  EXPECT_TRUE(free());
}

TEST_F(MultiLockTest, NoneIfOneCannotBeHad) {
  MultiLock lock = all();
  const Lease held = c().acquire();
  EXPECT_FALSE(lock.try_acquire());
  EXPECT_FALSE(lock.try_acquire_for(50ms));
  EXPECT_EQ(error_of([&] { (void)lock.acquire({.deadline = SteadyClock::now() + 50ms}); }), Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { (void)lock.acquire({.stop = stop.get_token()}); }); });
  ASSERT_TRUE(eventually([&] { return b().contenders().size() == 1; }));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_TRUE(a().try_acquire_for(testkit::patience)) << "the others are given back";
  EXPECT_TRUE(b().try_acquire_for(testkit::patience));
}

TEST_F(MultiLockTest, TryAcquireUntil) {
  MultiLock lock = all();
  Lease held = b().acquire();
  const auto deadline = SteadyClock::now() + 50ms;
  EXPECT_FALSE(lock.try_acquire_until(deadline));
  EXPECT_GE(SteadyClock::now(), deadline);
  EXPECT_TRUE(remain(0, 1)) << "what was held is given back";
  for (const auto past : {SteadyClock::now() - 1s, SteadyClock::time_point::min()}) {
    EXPECT_FALSE(lock.try_acquire_until(past));
    EXPECT_TRUE(remain(0, 1));
  }
  auto waiting = in_thread([&] { return lock.try_acquire_until(soon()); });
  ASSERT_TRUE(remain(1, 2));
  held.release();
  std::optional<MultiLease> leases = result_of(waiting);
  ASSERT_TRUE(leases);
  EXPECT_TRUE(leases->valid());
  leases->release();
  EXPECT_TRUE(lock.try_acquire_until(SteadyClock::now() - 1s)) << "one try, whatever the deadline";
  EXPECT_TRUE(free());
}

// The first one is held, the second one waited for, and the third one not asked for yet.
TEST_F(MultiLockTest, StopRequestWhileOthersAreHeld) {
  MultiLock lock = all();
  for (const bool blocking : {true, false}) {
    Lease held = b().acquire();
    std::stop_source stop;
    const zkclient::CallOptions call{.deadline = soon(), .stop = stop.get_token()};
    std::future<std::optional<Errc>> waiting;
    testkit::Box<zkclient::Result<MultiLease>> box;
    if (blocking) {
      waiting = in_thread([&] { return error_of([&] { (void)lock.acquire(call); }); });
    } else {
      lock.async_acquire([&](zkclient::Result<MultiLease> result) { box.put(std::move(result)); }, call);
    }
    ASSERT_TRUE(remain(1, 2));
    stop.request_stop();
    if (blocking) {
      EXPECT_EQ(result_of(waiting), Errc::cancelled);
    } else {
      EXPECT_EQ(box.take().code(), Errc::cancelled);
    }
    EXPECT_TRUE(remain(0, 1)) << "what was held is given back";
    EXPECT_FALSE(c().holder());
    EXPECT_TRUE(held.valid());
    held.release();
    EXPECT_TRUE(free());
  }
}

TEST_F(MultiLockTest, ALockFailsWhileOthersAreHeld) {
  client().create("/c", "", {.mode = zkclient::CreateMode::ephemeral});  // Cannot have children.
  MultiLock lock = all();
  const Errc why = *error_of([&] { (void)c().acquire({.deadline = soon()}); });
  EXPECT_EQ(error_of([&] { (void)lock.acquire({.deadline = soon()}); }), why);
  EXPECT_EQ(error_of([&] { (void)lock.try_acquire(); }), why);
  client().remove("/c");
  EXPECT_TRUE(free()) << "the others are given back";
}

// Added in opposite orders, they would wait for each other if they were acquired in those.
TEST_F(MultiLockTest, NoDeadlockWhateverTheOrder) {
  std::vector<std::jthread> crew;
  std::atomic<int> inside{0};
  for (int t = 0; t < 4; ++t) {
    crew.emplace_back([&, t] {
      MultiLock lock;
      if (t % 2 == 0) {
        lock.add(a()).add(b()).add(c());
      } else {
        lock.add(c()).add(b()).add(a());
      }
      for (int i = 0; i < 10; ++i) {
        const MultiLease leases = lock.acquire({.deadline = soon()});
        EXPECT_EQ(++inside, 1);
        EXPECT_EQ(--inside, 0);
      }
    });
  }
  crew.clear();
  EXPECT_TRUE(free());
}

// Clients with other prefixes have other paths for the same nodes: what counts is where those are.
TEST_F(MultiLockTest, InTheOrderOfTheFullPaths) {
  Client left(hosts(), {.prefix = prefix() / "left"});
  Client middle(hosts(), {.prefix = prefix() / "middle"});
  Client right(hosts(), {.prefix = prefix() / "right"});
  Mutex fair(left, "/c");
  UnfairMutex unfair(middle, "/b");
  SharedMutex shared(right, "/a");
  for (const bool to_read : {false, true}) {
    MultiLock lock;
    if (to_read) {
      lock.add_shared(shared).add(unfair).add(fair);
    } else {
      lock.add(fair).add(unfair).add(shared);
    }
    MultiLease leases = lock.acquire({.deadline = soon()});
    const std::size_t first = to_read ? 2 : 0;
    EXPECT_LT(leases.leases()[first].token(), leases.leases()[1].token());
    EXPECT_LT(leases.leases()[1].token(), leases.leases()[2 - first].token());
    leases.release();
  }
  // Whoever waits for the first one has none of the others.
  MultiLock lock;
  lock.add(shared).add(fair);
  Lease held = fair.acquire({.deadline = soon()});
  auto waiting = in_thread([&] { return lock.acquire({.deadline = soon()}); });
  ASSERT_TRUE(eventually([&] { return fair.contenders().size() == 2; }));
  EXPECT_TRUE(shared.contenders().empty());
  held.release();
  EXPECT_TRUE(result_of(waiting).valid());
}

TEST_F(MultiLockTest, TheSameNodeByAnotherPath) {
  Client left(hosts(), {.prefix = prefix() / "left"});
  Client right(hosts(), {.prefix = prefix() / "right"});
  Mutex mutex(left, "/a");
  Mutex same(client(), "/left/a");
  Mutex another(right, "/a");
  MultiLock lock;
  lock.add(mutex);
  EXPECT_EQ(error_of([&] { lock.add(same); }), Errc::invalid_argument);
  lock.add(another);  // It is only called the same.
  const MultiLease leases = lock.acquire({.deadline = soon()});
  EXPECT_EQ(leases.leases().size(), 2u);
}

TEST_F(MultiLockTest, TakesEveryKindOfLock) {
  RecursiveMutex recursive(client(), "/recursive");
  Semaphore semaphore(client(), "/semaphore", 2);
  MultiLock lock = all();
  lock.add(recursive).add(semaphore);
  const MultiLease leases = lock.acquire({.deadline = soon()});
  ASSERT_EQ(leases.leases().size(), 5u);
  EXPECT_TRUE(leases.valid());
  EXPECT_FALSE(recursive.try_lock());
  const std::optional<Lease> second = semaphore.try_acquire();
  EXPECT_TRUE(second);
  EXPECT_FALSE(semaphore.try_acquire()) << "one permit is taken by the multi-lock";
  EXPECT_FALSE(lock.try_acquire());
}

TEST_F(MultiLockTest, TheObjectsThatWereAddedMayGo) {
  MultiLock lock;
  {
    Mutex mutex(client(), "/a");
    SharedMutex shared(client(), "/b");
    lock.add(mutex).add_shared(shared);
  }
  const MultiLease leases = lock.acquire({.deadline = soon()});
  EXPECT_TRUE(leases.valid());
  EXPECT_FALSE(a().try_acquire());
}

TEST_F(MultiLockTest, OneIsLostWhileAllAreHeld) {
  MultiLock lock = all();
  MultiLease leases = lock.acquire({.deadline = soon()});
  EXPECT_FALSE(leases.lost().stop_requested());
  client().remove(leases.leases()[1].node());
  EXPECT_TRUE(stopped(leases.lost()));
  EXPECT_FALSE(leases.valid());
  EXPECT_EQ(error_of([&] { leases.release(); }), Errc::not_held);
  EXPECT_TRUE(free()) << "the others are given back all the same";
}

TEST_F(MultiLockTest, ValidUntilTheFirstOfThemEnds) {
  Client brief = make_client({.session_timeout = 20s});
  Client calm = make_client({.session_timeout = 60s});
  Mutex first(brief, "/a");
  Mutex second(calm, "/b");
  for (const bool brief_first : {true, false}) {
    MultiLock lock;
    lock.add(brief_first ? first : second).add(brief_first ? second : first);
    const MultiLease leases = lock.acquire({.deadline = soon()});
    const auto until = leases.valid_until();
    for (const Lease& lease : leases.leases())
      EXPECT_LE(until, lease.valid_until());
  }
}

TEST_F(MultiLockTest, OneIsLostWhileOthersAreWaitedFor) {
  MultiLock lock = all();
  Lease held = c().acquire();
  auto waiting = in_thread([&] { return error_of([&] { (void)lock.acquire({.deadline = soon()}); }); });
  ASSERT_TRUE(eventually([&] { return b().contenders().size() == 1; }));
  client().remove(Path("/a") / a().contenders().front().node);
  EXPECT_EQ(result_of(waiting), Errc::not_held);
  held.release();
  EXPECT_TRUE(free());
}

TEST_F(MultiLockTest, Asynchronously) {
  MultiLock lock = all();
  testkit::Box<zkclient::Result<MultiLease>> box;
  const auto put = [&](zkclient::Result<MultiLease> result) { box.put(std::move(result)); };
  {
    lock.async_acquire(put, {.deadline = soon()});
    MultiLease leases = box.take().value();
    EXPECT_TRUE(leases.valid());
    testkit::Box<zkclient::Result<std::optional<MultiLease>>> tries;
    lock.async_try_acquire([&](zkclient::Result<std::optional<MultiLease>> result) { tries.put(std::move(result)); });
    EXPECT_FALSE(tries.take().value());
    std::stop_source stop;
    all().async_acquire(put, {.stop = stop.get_token()});  // It need not stay.
    lock.async_acquire(put, {.deadline = SteadyClock::now() + 50ms});
    EXPECT_EQ(box.take().code(), Errc::deadline_exceeded);
    stop.request_stop();
    EXPECT_EQ(box.take().code(), Errc::cancelled);
    all().async_acquire(put, {.deadline = soon()});
    EXPECT_TRUE(leases.valid());
  }
  EXPECT_TRUE(box.take().value().valid());
  EXPECT_TRUE(free());
}

TEST_F(MultiLockTest, OneIsLostWhileOthersAreWaitedForAsynchronously) {
  MultiLock lock = all();
  Lease held = c().acquire();
  testkit::Box<zkclient::Result<MultiLease>> box;
  lock.async_acquire([&](zkclient::Result<MultiLease> result) { box.put(std::move(result)); }, {.deadline = soon()});
  ASSERT_TRUE(eventually([&] { return b().contenders().size() == 1; }));
  client().remove(Path("/a") / a().contenders().front().node);
  EXPECT_EQ(box.take().code(), Errc::not_held);
  held.release();
  EXPECT_TRUE(free());
}

// Blocking forms are allowed where handlers run: they must not wait for another handler.
TEST_F(MultiLockTest, ABlockingFormInAHandler) {
  MultiLock lock = all();
  testkit::Box<bool> box;
  a().async_acquire(
      [&](zkclient::Result<Lease> result) {
        result.value().release();
        box.put(lock.try_acquire_for(testkit::patience).has_value());
      },
      {.deadline = soon()});
  EXPECT_TRUE(box.take());
  EXPECT_TRUE(free());
}

TEST_F(MultiLockTest, RefusesBadInput) {
  MultiLock none;
  EXPECT_EQ(error_of([&] { (void)none.acquire(); }), Errc::invalid_argument);
  MultiLock twice;
  twice.add(a());
  EXPECT_EQ(error_of([&] { twice.add(a()); }), Errc::invalid_argument);
  // An empty handler could not be told anything.
  EXPECT_EQ(error_of([&] { all().async_acquire({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { a().async_acquire({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { b().async_try_acquire_shared({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { c().async_try_acquire({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { client().async_get("/a", {}); }), Errc::invalid_argument);
  MultiLease empty;
  EXPECT_FALSE(empty.valid());
  EXPECT_EQ(error_of([&] { empty.release(); }), Errc::not_held);
}

}  // namespace
}  // namespace zkrecipes
