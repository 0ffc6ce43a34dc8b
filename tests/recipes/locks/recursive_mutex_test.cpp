#include <zkclient/log.hpp>
#include <zkrecipes/recursive_mutex.hpp>

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/shared_mutex.hpp>

#include "tests/support/lockable.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

static_assert(testkit::TimedLockable<RecursiveMutex>);

class RecursiveMutexTest : public testkit::RecipeTest {
 protected:
  RecursiveMutexTest() : RecipeTest("/lock") {}
};

TEST_F(RecursiveMutexTest, LocksAsOftenAsUnlocks) {
  RecursiveMutex mutex(client(), "/lock");
  Mutex plain(client(), "/lock");
  mutex.lock();
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_TRUE(mutex.try_lock_for(testkit::patience));
  EXPECT_TRUE(mutex.try_lock_until(std::chrono::system_clock::now()));
  EXPECT_EQ(mutex.depth(), 4);
  EXPECT_TRUE(remain(1)) << "one node";
  for (int i = 3; i >= 1; --i) {
    mutex.unlock();
    EXPECT_EQ(mutex.depth(), i);
    EXPECT_FALSE(plain.try_acquire());
  }
  mutex.unlock();
  EXPECT_EQ(mutex.depth(), 0);
  EXPECT_TRUE(plain.try_acquire_for(testkit::patience));
}

// A thread that begins after another one has ended may get its id.
TEST_F(RecursiveMutexTest, ALaterThreadHoldsNothing) {
  RecursiveMutex mutex(client(), "/lock");
  SharedMutex shared(client(), "/shared");
  std::set<std::thread::id> ids;
  std::thread([&] {
    ids.insert(std::this_thread::get_id());
    mutex.lock();
    shared.lock();
  }).join();
  for (int i = 0; i < 3; ++i) {
    std::thread([&] {
      ids.insert(std::this_thread::get_id());
      EXPECT_EQ(mutex.depth(), 0);
      EXPECT_FALSE(mutex.try_lock());
      mutex.unlock();  // Of nothing.
      EXPECT_FALSE(shared.try_lock()) << "and does not wait for itself";
      shared.unlock();
    }).join();
  }
  EXPECT_LT(ids.size(), 4u) << "no id was used again, so this proved nothing";
  EXPECT_EQ(mutex.contenders().size(), 1u);
  EXPECT_EQ(shared.contenders().size(), 1u);
}

TEST_F(RecursiveMutexTest, ExcludesThreads) {
  RecursiveMutex mutex(client(), "/lock");
  std::atomic<int> inside{0};
  std::vector<std::jthread> crew;
  for (int t = 0; t < 4; ++t) {
    crew.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const std::lock_guard outer(mutex);
        EXPECT_EQ(++inside, 1);
        const std::lock_guard inner(mutex);
        EXPECT_EQ(--inside, 0);
      }
    });
  }
  crew.clear();
  EXPECT_TRUE(remain(0));
}

TEST_F(RecursiveMutexTest, StandardLocks) {
  RecursiveMutex mutex(client(), "/lock");
  RecursiveMutex another(client(), "/another");
  {
    const std::unique_lock outer(mutex, testkit::patience);
    const std::scoped_lock inner(mutex, another);
    EXPECT_EQ(mutex.depth(), 2);
    EXPECT_EQ(mutex.contenders().size(), 1u);
  }
  EXPECT_EQ(mutex.depth(), 0);
  EXPECT_TRUE(remain(0));
}

TEST_F(RecursiveMutexTest, UnlockByAThreadThatHoldsNothing) {
  RecursiveMutex mutex(client(), "/lock");
  std::atomic<int> warnings{0};
  zkclient::set_log_handler([&](zkclient::LogLevel, std::string_view text) {
    if (text.find("recursive mutex unlock /lock") != std::string_view::npos) ++warnings;
  });
  zkclient::set_log_level(zkclient::LogLevel::warning);
  static_assert(noexcept(mutex.unlock()));
  mutex.unlock();
  const std::lock_guard lock(mutex);
  std::thread([&] { mutex.unlock(); }).join();
  zkclient::set_log_level(zkclient::LogLevel::error);
  zkclient::set_log_handler({});
  EXPECT_EQ(warnings, 2);
  EXPECT_EQ(mutex.depth(), 1);
  EXPECT_TRUE(mutex.lease().valid());
}

TEST_F(RecursiveMutexTest, AcquireIsAContenderOfItsOwn) {
  RecursiveMutex mutex(client(), "/lock");
  mutex.lock();
  EXPECT_FALSE(mutex.try_acquire()) << "only lock() counts";
  EXPECT_EQ(mutex.depth(), 1);
  mutex.unlock();
  const Lease lease = mutex.acquire({.deadline = testkit::soon()});
  EXPECT_FALSE(mutex.try_lock());
  EXPECT_EQ(mutex.depth(), 0);
}

// Usable again.
TEST_F(RecursiveMutexTest, LostWhileHeld) {
  RecursiveMutex mutex(client(), "/lock");
  mutex.lock();
  mutex.lock();
  const std::stop_token lost = mutex.lease().lost();
  client().remove(mutex.lease().node());
  EXPECT_TRUE(stopped(lost));
  EXPECT_EQ(error_of([&] { mutex.lock(); }), Errc::not_held);
  auto other = in_thread([&] {
    const std::lock_guard lock(mutex);
    return mutex.depth();
  });
  EXPECT_EQ(result_of(other), 1);
  mutex.unlock();
  EXPECT_EQ(error_of([&] { mutex.lock(); }), Errc::not_held);
  mutex.unlock();
  const std::lock_guard again(mutex);
  EXPECT_TRUE(mutex.lease().valid());
}

TEST_F(RecursiveMutexTest, ThreadEndsWithoutUnlocking) {
  Mutex plain(client(), "/lock");
  {
    RecursiveMutex mutex(client(), "/lock");
    std::thread([&] { mutex.lock(); }).join();
    EXPECT_FALSE(plain.try_acquire());
  }
  EXPECT_TRUE(plain.try_acquire_for(testkit::patience));
}

}  // namespace
}  // namespace zkrecipes
