#include <zkrecipes/shared_mutex.hpp>

#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zktesting/expire.hpp>

#include "recipes/locks/downgrade.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

// --- What the standard asks of a SharedTimedLockable --------------------------------------------------------------

template <typename T>
concept SharedTimedLockable = requires(T mutex) {
  { mutex.lock() } -> std::same_as<void>;
  { mutex.unlock() } -> std::same_as<void>;
  { mutex.try_lock() } -> std::same_as<bool>;
  { mutex.try_lock_for(1s) } -> std::same_as<bool>;
  { mutex.try_lock_until(std::chrono::system_clock::now()) } -> std::same_as<bool>;
  { mutex.lock_shared() } -> std::same_as<void>;
  { mutex.unlock_shared() } -> std::same_as<void>;
  { mutex.try_lock_shared() } -> std::same_as<bool>;
  { mutex.try_lock_shared_for(std::chrono::duration<double>(0.5)) } -> std::same_as<bool>;
  { mutex.try_lock_shared_until(std::chrono::steady_clock::now()) } -> std::same_as<bool>;
};
static_assert(SharedTimedLockable<SharedMutex>);

TEST(ExchangeDecider, EveryOutcome) {
  namespace zk = zkclient::detail;
  using detail::decide_exchange;
  using detail::ExchangeStep;
  const auto failed = [](Errc code, std::vector<int> codes = {}) {
    zk::Reply reply;
    reply.error = code;
    reply.codes = std::move(codes);
    return reply;
  };
  zk::Reply ended = failed(Errc::in_doubt);
  ended.given_up = Errc::cancelled;
  const zk::Reply written = failed(Errc::transaction_failed, {zk::rc::bad_version, zk::rc::runtime_inconsistency});
  const zk::Reply gone = failed(Errc::transaction_failed, {zk::rc::no_node, zk::rc::runtime_inconsistency});
  const zk::Reply denied = failed(Errc::transaction_failed, {zk::rc::ok, zk::rc::no_auth});
  const zk::Reply reads[] = {zk::Reply(), failed(Errc::no_node), failed(Errc::connection_loss), failed(Errc::no_auth)};
  for (const zk::Reply& read : reads) {
    EXPECT_EQ(decide_exchange(read, zk::Reply()), ExchangeStep::done);
    EXPECT_EQ(decide_exchange(read, failed(Errc::in_doubt)), ExchangeStep::look);
    EXPECT_EQ(decide_exchange(read, written), read.ok() ? ExchangeStep::read_again : ExchangeStep::failed);
    for (const zk::Reply& reply : {ended, gone, denied, failed(Errc::transaction_failed), failed(Errc::session_lost),
                                   failed(Errc::closed), failed(Errc::cancelled), failed(Errc::deadline_exceeded)})
      EXPECT_EQ(decide_exchange(read, reply), ExchangeStep::failed);
  }
}

class SharedMutexTest : public testkit::RecipeTest {
 protected:
  SharedMutexTest() : RecipeTest("/lock") {}
  SharedMutex make_mutex(SharedMutexOptions options = {}) { return SharedMutex(client(), "/lock", std::move(options)); }
};

TEST_F(SharedMutexTest, ReadersShareWritersExclude) {
  SharedMutex mutex = make_mutex();
  SharedMutex other = make_mutex();
  Lease reader = mutex.acquire_shared();
  Lease second = other.acquire_shared();
  EXPECT_GT(second.token(), reader.token());
  EXPECT_TRUE(mutex.try_acquire_shared());
  EXPECT_FALSE(mutex.try_acquire());
  EXPECT_FALSE(mutex.try_acquire_for(30ms));
  reader.release();
  EXPECT_FALSE(mutex.try_acquire());
  second.release();
  Lease writer = mutex.acquire();
  EXPECT_FALSE(mutex.try_acquire());
  EXPECT_FALSE(other.try_acquire_shared());
  EXPECT_FALSE(other.try_acquire_shared_for(30ms));
  EXPECT_FALSE(other.try_acquire_shared_until(testkit::SteadyClock::now() - 1s));
  EXPECT_TRUE(remain(1)) << "vain attempts leave no node";
}

// First come, first served: a reader behind a waiting writer waits as well, so that the writer does not starve.
TEST_F(SharedMutexTest, ServesInTheOrderOfArrival) {
  SharedMutex mutex = make_mutex();
  Lease reader = mutex.acquire_shared();
  auto writing = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  EXPECT_FALSE(mutex.try_acquire_shared());
  Box<Result<Lease>> late;
  mutex.async_acquire_shared([&](Result<Lease> result) { late.put(std::move(result)); });
  ASSERT_TRUE(remain(3));
  const std::vector<Contender> queue = mutex.contenders();
  ASSERT_EQ(queue.size(), 3u);
  EXPECT_TRUE(queue[0].holds && queue[0].shared);
  EXPECT_TRUE(!queue[1].holds && !queue[1].shared);
  EXPECT_TRUE(!queue[2].holds && queue[2].shared);
  EXPECT_NE(queue[0].node.find("-__READ__"), std::string::npos);
  EXPECT_NE(queue[1].node.find("-__WRIT__"), std::string::npos);
  reader.release();
  Lease writer = result_of(writing);
  EXPECT_TRUE(late.empty());
  writer.release();
  EXPECT_TRUE(late.take().value().valid());
}

TEST_F(SharedMutexTest, ReadersBehindAWriterComeInTogether) {
  SharedMutex mutex = make_mutex();
  Lease writer = mutex.acquire();
  Box<Result<Lease>> readers;
  for (int i = 0; i < 5; ++i)
    mutex.async_acquire_shared([&](Result<Lease> result) { readers.put(std::move(result)); });
  ASSERT_TRUE(remain(6));
  writer.release();
  std::vector<Lease> leases;
  for (int i = 0; i < 5; ++i)
    leases.push_back(readers.take().value());
  for (const Lease& lease : leases)
    EXPECT_TRUE(lease.valid());
}

// A writer in front that gives up: the reader behind it takes the next one that is in its way, or none.
TEST_F(SharedMutexTest, WaitingWriterGivesUp) {
  SharedMutex mutex = make_mutex();
  Lease reader = mutex.acquire_shared();
  std::stop_source stop;
  auto writing = in_thread([&] { return error_of([&] { (void)mutex.acquire({.stop = stop.get_token()}); }); });
  ASSERT_TRUE(remain(2));
  auto reading = in_thread([&] { return mutex.acquire_shared({.deadline = soon()}); });
  ASSERT_TRUE(remain(3));
  stop.request_stop();
  EXPECT_EQ(result_of(writing), Errc::cancelled);
  EXPECT_TRUE(result_of(reading).valid());
}

// Readers of one session watch one writer: a reader that leaves takes only its own watch along.
TEST_F(SharedMutexTest, StopRequestEndsOneWaitAndNoOther) {
  SharedMutex mutex = make_mutex();
  Lease writer = mutex.acquire();
  auto staying = in_thread([&] { return mutex.acquire_shared({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  for (int i = 0; i < 5; ++i) {
    std::stop_source stop;
    auto leaving = in_thread([&] { return error_of([&] { (void)mutex.acquire_shared({.stop = stop.get_token()}); }); });
    ASSERT_TRUE(remain(3));
    EXPECT_EQ(leaving.wait_for(20ms), std::future_status::timeout);
    stop.request_stop();
    EXPECT_EQ(result_of(leaving), Errc::cancelled);
    ASSERT_TRUE(remain(2));
  }
  writer.release();
  EXPECT_TRUE(result_of(staying).valid());
}

TEST_F(SharedMutexTest, NoOverlapUnderLoad) {
  const auto seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::atomic<int> readers{0};
  std::atomic<int> writers{0};
  constexpr int crew_size = 6;
  std::latch all_read(crew_size);
  std::vector<std::jthread> crew;
  for (unsigned t = 0; t < crew_size; ++t) {
    crew.emplace_back([&, t] {
      std::minstd_rand random(seed + t);
      Client own = t % 2 == 0 ? make_client() : client();
      SharedMutex mutex(own, "/lock");
      {
        const Lease lease = mutex.acquire_shared({.deadline = soon()});
        all_read.arrive_and_wait();
      }
      for (int i = 0; i < 15; ++i) {
        if (random() % 3 == 0) {
          Lease lease = mutex.acquire({.deadline = soon()});
          EXPECT_EQ(++writers, 1);
          EXPECT_EQ(readers, 0);
          if (random() % 2 == 0) {
            ++readers;
            --writers;
            mutex.downgrade(lease);
            EXPECT_EQ(writers, 0);
            --readers;
          } else {
            --writers;
          }
        } else {
          const Lease lease = mutex.acquire_shared({.deadline = soon()});
          ++readers;
          EXPECT_EQ(writers, 0);
          std::this_thread::sleep_for(2ms);  // Long enough for another reader to come in.
          --readers;
        }
      }
    });
  }
  crew.clear();
  EXPECT_TRUE(remain(0));
}

// --- Downgrade ----------------------------------------------------------------------------------------------------

TEST_F(SharedMutexTest, DowngradeKeepsThePlace) {
  SharedMutex mutex = make_mutex();
  Lease lease = mutex.acquire();
  const std::string digits = lease.node().substr(lease.node().size() - 10);
  const FencingToken token = lease.token();
  const std::stop_token lost = lease.lost();
  auto reading = in_thread([&] { return mutex.acquire_shared({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  auto writing = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(3));
  mutex.downgrade(lease);
  EXPECT_TRUE(lease.node().ends_with("__READ__" + digits)) << lease.node();
  EXPECT_EQ(lease.token(), token);
  EXPECT_EQ(lease.state(), LeaseState::held);
  client().commit(zkclient::Transaction().check(lease.guard()).create("/written", ""));
  Lease reader = result_of(reading);
  EXPECT_FALSE(stopped(lost, 30ms));
  reader.release();
  EXPECT_EQ(writing.wait_for(50ms), std::future_status::timeout) << "the former writer still reads";
  lease.release();
  EXPECT_GT(result_of(writing).token(), token) << "grows from writer to writer";
  EXPECT_FALSE(lost.stop_requested());
}

// Who was asked before, or keeps the token of before, is asked all the same.
TEST_F(SharedMutexTest, DowngradeKeepsTheRevocation) {
  SharedMutex mutex(client(), "/lock");
  Lease lease = mutex.acquire();
  const std::stop_token before = lease.revoke_requested();
  mutex.downgrade(lease);
  EXPECT_FALSE(before.stop_requested());
  client().set(lease.node(), "__REVOKE__");
  EXPECT_TRUE(stopped(before));
  EXPECT_TRUE(lease.revoke_requested().stop_requested());
}

// What was written before the holder saw it, and what was not a request.
TEST_F(SharedMutexTest, DowngradeLooksAtWhatWasWritten) {
  SharedMutex mutex(client(), "/lock");
  for (int i = 0; i < 5; ++i) {
    for (const bool request : {true, false}) {
      Lease lease = mutex.acquire();
      client().set(lease.node(), "some words");
      if (request) client().set(lease.node(), "__REVOKE__");
      mutex.downgrade(lease);
      EXPECT_NE(lease.node().find("__READ__"), std::string::npos);
      if (request) {
        EXPECT_TRUE(stopped(lease.revoke_requested()));
      } else {
        EXPECT_FALSE(stopped(lease.revoke_requested(), 30ms));
      }
      EXPECT_TRUE(lease.valid());
      lease.release();
    }
  }
  EXPECT_TRUE(remain(0));
}

// A writer right behind: the node that it waits for goes, and yet it is not its turn.
TEST_F(SharedMutexTest, DowngradeInFrontOfAWriter) {
  SharedMutex mutex = make_mutex();
  Lease lease = mutex.acquire();
  auto writing = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  mutex.downgrade(lease);
  EXPECT_EQ(writing.wait_for(100ms), std::future_status::timeout);
  EXPECT_TRUE(lease.valid());
  client().remove(lease.node());
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_TRUE(result_of(writing).valid());
}

TEST_F(SharedMutexTest, DowngradeOfWhatIsNotAWriter) {
  SharedMutex mutex = make_mutex();
  Lease reader = mutex.acquire_shared();
  EXPECT_EQ(error_of([&] { mutex.downgrade(reader); }), Errc::invalid_argument);
  EXPECT_TRUE(reader.valid());
  SharedMutex other(client(), "/other");
  Lease elsewhere = other.acquire();
  EXPECT_EQ(error_of([&] { mutex.downgrade(elsewhere); }), Errc::invalid_argument);
  EXPECT_TRUE(elsewhere.valid());
  Lease empty;
  EXPECT_EQ(error_of([&] { mutex.downgrade(empty); }), Errc::not_held);
  reader.release();
  Lease writer = mutex.acquire();
  client().remove(writer.node());
  EXPECT_TRUE(stopped(writer.lost()));
  EXPECT_EQ(error_of([&] { mutex.downgrade(writer); }), Errc::not_held);
  EXPECT_TRUE(remain(0));
}

TEST_F(SharedMutexTest, DowngradeCancelledBeforeItIsSent) {
  SharedMutex mutex = make_mutex();
  Lease lease = mutex.acquire();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of([&] { mutex.downgrade(lease, {.stop = stop.get_token()}); }), Errc::cancelled);
  EXPECT_EQ(lease.state(), LeaseState::held);
  client().remove(lease.node());
  EXPECT_TRUE(stopped(lease.lost())) << "it is looked after as before";
}

TEST_F(SharedMutexTest, DowngradeAsynchronously) {
  SharedMutex mutex = make_mutex();
  Lease writer = mutex.acquire();
  const std::string digits = writer.node().substr(writer.node().size() - 10);
  const std::stop_token lost = writer.lost();
  auto reading = in_thread([&] { return mutex.acquire_shared({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  auto writing = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(3));
  Box<Result<Lease>> outcome;
  mutex.async_downgrade(writer, [&](Result<Lease> result) { outcome.put(std::move(result)); });
  Lease moved = std::move(writer);  // It was needed for the call only.
  Lease lease = outcome.take().value();
  EXPECT_EQ(moved.state(), LeaseState::released);
  EXPECT_EQ(lease.state(), LeaseState::held);
  EXPECT_TRUE(lease.node().ends_with("__READ__" + digits)) << lease.node();
  result_of(reading).release();
  moved = Lease();
  EXPECT_EQ(writing.wait_for(50ms), std::future_status::timeout) << "the former writer still reads";
  lease.release();
  EXPECT_TRUE(result_of(writing).valid());
  EXPECT_FALSE(lost.stop_requested());
}

TEST_F(SharedMutexTest, DowngradeAsynchronouslyFails) {
  SharedMutex mutex = make_mutex();
  Box<Result<Lease>> outcome;
  const auto put = [&](Result<Lease> result) { outcome.put(std::move(result)); };
  Lease reader = mutex.acquire_shared();
  EXPECT_EQ(error_of([&] { mutex.async_downgrade(reader, put); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { mutex.async_downgrade(Lease(), put); }), Errc::not_held);
  reader.release();
  const Lease writer = mutex.acquire();
  EXPECT_EQ(error_of([&] { mutex.async_downgrade(writer, {}); }), Errc::invalid_argument);
  std::stop_source stop;
  stop.request_stop();
  mutex.async_downgrade(writer, put, {.stop = stop.get_token()});
  EXPECT_EQ(outcome.take().code(), Errc::cancelled);
  mutex.async_downgrade(writer, put, {.deadline = testkit::SteadyClock::now() - 1s});
  EXPECT_EQ(outcome.take().code(), Errc::deadline_exceeded);
  EXPECT_EQ(writer.state(), LeaseState::held);
  client().remove(writer.node());
  EXPECT_TRUE(stopped(writer.lost())) << "it is looked after as before";
  mutex.async_downgrade(writer, put);
  EXPECT_EQ(outcome.take().code(), Errc::not_held);
  EXPECT_TRUE(outcome.empty());
  EXPECT_TRUE(remain(0));
}

TEST_F(SharedMutexTest, ADowngradedLeaseThatNobodyTakesIsGivenBack) {
  SharedMutex mutex = make_mutex();
  const Lease writer = mutex.acquire();
  Box<bool> done;
  mutex.async_downgrade(writer, [&](const Result<Lease>& result) { done.put(result.has_value()); });
  EXPECT_TRUE(done.take());
  EXPECT_TRUE(remain(0));
}

// --- Lockable, layouts, input -------------------------------------------------------------------------------------

TEST_F(SharedMutexTest, StandardLocks) {
  SharedMutex mutex = make_mutex();
  {
    const std::shared_lock<SharedMutex> lock(mutex);
    EXPECT_NE(mutex.lease().node().find("__READ__"), std::string::npos);
    auto second = in_thread([&] { return std::shared_lock<SharedMutex>(mutex, testkit::patience).owns_lock(); });
    EXPECT_TRUE(result_of(second));
    auto writer = in_thread([&] { return std::unique_lock<SharedMutex>(mutex, 20ms).owns_lock(); });
    EXPECT_FALSE(result_of(writer));
  }
  {
    const std::unique_lock<SharedMutex> lock(mutex, testkit::patience);
    auto reader = in_thread([&] { return mutex.try_lock_shared(); });
    EXPECT_FALSE(result_of(reader));
  }
  EXPECT_TRUE(remain(0));
}

TEST_F(SharedMutexTest, UpgradeIsRefused) {
  SharedMutex mutex = make_mutex();
  mutex.lock_shared();
  EXPECT_EQ(error_of([&] { mutex.lock(); }), Errc::would_deadlock);
  EXPECT_EQ(error_of([&] { (void)mutex.try_lock(); }), Errc::would_deadlock);
  EXPECT_EQ(error_of([&] { mutex.lock_shared(); }), Errc::would_deadlock);
  EXPECT_TRUE(mutex.lease().valid());
  mutex.unlock_shared();
  mutex.lock();
  EXPECT_EQ(error_of([&] { mutex.lock_shared(); }), Errc::would_deadlock);
  EXPECT_EQ(error_of([&] { mutex.lock(); }), Errc::would_deadlock);
  mutex.unlock();
  EXPECT_EQ(error_of([&] { (void)mutex.lease(); }), Errc::not_held);
}

TEST_F(SharedMutexTest, ALostLeaseStaysUntilItIsUnlocked) {
  Client own = make_client({.session_timeout = 30s});
  SharedMutex mutex(own, "/lock");
  mutex.lock_shared();
  const std::stop_token lost = mutex.lease().lost();
  const auto session = own.connect({.deadline = soon()});
  zktesting::expire(hosts(), session.id(), session.credentials().password);
  ASSERT_TRUE(stopped(lost));
  EXPECT_FALSE(mutex.lease().valid());
  EXPECT_EQ(mutex.lease().state(), LeaseState::lost);
  EXPECT_EQ(error_of([&] { mutex.lock(); }), Errc::not_held) << "it must unlock first";
  EXPECT_EQ(error_of([&] { mutex.lock_shared(); }), Errc::not_held);
  mutex.unlock();  // The other way: not what it has locked.
  EXPECT_EQ(mutex.lease().state(), LeaseState::lost);
  mutex.unlock_shared();
  EXPECT_EQ(error_of([&] { (void)mutex.lease(); }), Errc::not_held);
  ASSERT_TRUE(stopped(session.lost())) << "which may be known later than the end of the lease";
  own.connect({.deadline = soon()});
  mutex.lock();
  EXPECT_TRUE(mutex.lease().valid());
  EXPECT_NE(mutex.lease().node().find("__WRIT__"), std::string::npos);
}

TEST_F(SharedMutexTest, KazoosLayout) {
  SharedMutex mutex = make_mutex({.layout = Layout::kazoo()});
  SharedMutex curator = make_mutex();
  Lease reader = mutex.acquire_shared();
  EXPECT_NE(reader.node().find("__rlock__0"), std::string::npos);
  EXPECT_TRUE(curator.try_acquire_shared());
  EXPECT_FALSE(curator.try_acquire());
  reader.release();
  Lease writer = mutex.acquire();
  EXPECT_NE(writer.node().find("__lock__0"), std::string::npos);
  EXPECT_FALSE(curator.try_acquire_shared());
  mutex.downgrade(writer);
  EXPECT_TRUE(curator.try_acquire_shared());
  EXPECT_FALSE(curator.try_acquire());
}

// What Curator leaves when a writer becomes a reader: up to 5.4 a reader's node behind it, later one in its place.
TEST_F(SharedMutexTest, UnderstandsCuratorsDowngrade) {
  SharedMutex mutex = make_mutex();
  client().ensure("/lock");
  const std::string id = "_c_0f8fad5b-d9cb-469f-a165-70867728950e-";
  const auto writer = client().create("/lock/" + id + "__WRIT__", "", {.mode = CreateMode::ephemeral_sequential});
  const std::string digits = writer.path.substr(writer.path.size() - 10);
  auto writing = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  client().create("/lock/" + id + "__READ__" + digits, "", {.mode = CreateMode::ephemeral});
  EXPECT_EQ(mutex.contenders().size(), 3u);
  client().remove(writer.path);
  EXPECT_EQ(writing.wait_for(100ms), std::future_status::timeout);
  client().remove("/lock/" + id + "__READ__" + digits);
  Lease lease = result_of(writing);
  EXPECT_TRUE(lease.valid());
}

TEST_F(SharedMutexTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { SharedMutex(client(), "/lock", {.acl = {}}); }), Errc::invalid_acl);
  client().create("/ephemeral", "", {.mode = CreateMode::ephemeral});
  SharedMutex below(client(), "/ephemeral");
  EXPECT_EQ(error_of([&] { (void)below.acquire_shared(); }), Errc::no_children_for_ephemerals);
}

TEST_F(SharedMutexTest, LeavesNoWatch) {
  if (!zktesting::SharedServer::instance().has_control()) GTEST_SKIP() << "the server is not ours to ask";
  SharedMutex mutex = make_mutex();
  Lease writer = mutex.acquire();
  EXPECT_FALSE(mutex.try_acquire_shared_for(30ms));
  mutex.downgrade(writer);
  EXPECT_FALSE(mutex.try_acquire_for(30ms));
  writer.release();
  zktesting::Server& server = zktesting::SharedServer::instance().server();
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << server.four_letter_word("wchp");
}

}  // namespace
}  // namespace zkrecipes
