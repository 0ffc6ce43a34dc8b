#include <zkrecipes/semaphore.hpp>

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include <zkclient/error.hpp>
#include <zktesting/expire.hpp>

#include "recipes/locks/permit_decider.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

TEST(PoolDecider, EveryChildCounts) {
  using detail::decide_permits;
  using detail::PermitStep;
  const std::vector<std::string> own = {"a", "b"};
  EXPECT_EQ(decide_permits({"a", "b"}, own, 2), PermitStep::acquired);
  EXPECT_EQ(decide_permits({"a", "b", "c"}, own, 2), PermitStep::wait);
  EXPECT_EQ(decide_permits({"a", "b", "c"}, own, 3), PermitStep::acquired);
  EXPECT_EQ(decide_permits({"a", "c"}, own, 9), PermitStep::vanished);
  EXPECT_EQ(decide_permits({}, own, 9), PermitStep::vanished);
  EXPECT_EQ(decide_permits({"a"}, {}, 9), PermitStep::vanished);
  EXPECT_EQ(decide_permits({"a", "b"}, own, 0), PermitStep::wait);
}

// In plain words: a client that still has all its nodes holds when there are no more children than the limit allows.
TEST(PoolDecider, EverySmallPool) {
  using detail::decide_permits;
  using detail::PermitStep;
  const std::vector<std::string> all = {"a", "b", "c", "d", "e"};
  const auto chosen = [&](unsigned bits) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((bits >> i & 1U) != 0) names.push_back(all[i]);
    }
    return names;
  };
  for (unsigned present = 0; present < 32; ++present) {
    for (unsigned own = 0; own < 32; ++own) {
      for (int limit = -1; limit <= 6; ++limit) {
        PermitStep expected =
            static_cast<int>(chosen(present).size()) <= limit ? PermitStep::acquired : PermitStep::wait;
        if (own == 0 || (own & ~present) != 0) expected = PermitStep::vanished;
        EXPECT_EQ(decide_permits(chosen(present), chosen(own), limit), expected)
            << present << " " << own << " " << limit;
      }
    }
  }
}

TEST(PoolLimit, IsCuratorsSharedCount) {
  for (const int limit : {0, 1, 255, 256, 65536, 1'000'000})
    EXPECT_EQ(detail::decode_limit(detail::encode_limit(limit)), limit);
  EXPECT_EQ(detail::encode_limit(258), std::string("\0\0\1\2", 4));
  for (const char* bad : {"", "3", "12345", "1000"})
    EXPECT_FALSE(detail::decode_limit(bad));
  EXPECT_FALSE(detail::decode_limit("\xff\xff\xff\xff")) << "negative";
}

class SemaphoreTest : public testkit::RecipeTest {
 protected:
  SemaphoreTest() : RecipeTest("/semaphore") {}
  bool remain(std::size_t leases, std::size_t locks = 0) {
    return eventually(
        [&] { return names("/semaphore/leases").size() == leases && names("/semaphore/locks").size() == locks; });
  }
};

// It fits the turn's node, and the names of the leases until the server would put their numbers behind them.
TEST_F(SemaphoreTest, APathThatIsTooLongForALeaseKeepsNoTurn) {
  constexpr std::size_t too_long = 65'473;
  const Path path("/" + std::string(too_long - prefix().str().size() - 1, 's'));
  Semaphore semaphore(client(), path, 1);
  EXPECT_EQ(error_of([&] { (void)semaphore.acquire({.deadline = soon()}); }), Errc::invalid_path);
  EXPECT_TRUE(eventually([&] { return names(path / "locks").empty(); })) << "it is the next one's turn";
  EXPECT_TRUE(eventually([&] { return names(path / "leases").empty(); }));
}

TEST_F(SemaphoreTest, NAtATime) {
  Semaphore semaphore(client(), "/semaphore", 2, {.id = "me"});
  EXPECT_EQ(semaphore.limit(), 2);
  Lease first = semaphore.acquire();
  Lease second = semaphore.acquire();
  EXPECT_GT(second.token(), first.token());
  EXPECT_NE(first.node().find("/leases/_c_"), std::string::npos);
  EXPECT_NE(first.node().find("-lease-0000"), std::string::npos);
  ASSERT_TRUE(remain(2));
  EXPECT_FALSE(semaphore.try_acquire());
  EXPECT_FALSE(semaphore.try_acquire_for(50ms));
  EXPECT_TRUE(remain(2));
  auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(3, 1)) << "Curator's way: the one in front has its node among the leases";
  const std::vector<Contender> contenders = semaphore.contenders();
  ASSERT_EQ(contenders.size(), 4u);
  EXPECT_TRUE(contenders[0].holds && contenders[1].holds);
  EXPECT_FALSE(contenders[2].holds) << "its node is not granted yet";
  EXPECT_FALSE(contenders[3].holds);
  EXPECT_TRUE(contenders[0].data.starts_with("id=me host="));
  second.release();
  EXPECT_TRUE(result_of(waiting).valid());
  EXPECT_TRUE(first.valid());
}

TEST_F(SemaphoreTest, NeverMoreThanN) {
  constexpr int limit = 3;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::vector<std::jthread> crew;
  for (int t = 0; t < 6; ++t) {
    crew.emplace_back([&, t] {
      Client own = t % 2 == 0 ? make_client() : client();
      Semaphore semaphore(own, "/semaphore", limit);
      for (int i = 0; i < 8; ++i) {
        const int count = 1 + (t + i) % limit;
        std::vector<Lease> leases = semaphore.acquire_many(count, {.deadline = soon()});
        EXPECT_EQ(leases.size(), static_cast<std::size_t>(count));
        const int now = inside += count;
        EXPECT_LE(now, limit);
        most = std::max(most.load(), now);
        std::this_thread::yield();
        inside -= count;
      }
    });
  }
  crew.clear();
  EXPECT_GT(most, 1);
  EXPECT_TRUE(remain(0));
}

TEST_F(SemaphoreTest, SeveralAllOrNone) {
  Semaphore semaphore(client(), "/semaphore", 3);
  std::vector<Lease> two = semaphore.acquire_many(2);
  EXPECT_TRUE(semaphore.try_acquire_many(2).empty());
  EXPECT_TRUE(remain(2)) << "nothing stays";
  EXPECT_EQ(semaphore.try_acquire_many(1).size(), 1u);
  EXPECT_TRUE(remain(2));
  Box<Result<std::vector<Lease>>> outcome;
  semaphore.async_acquire_many(3, [&](Result<std::vector<Lease>> result) { outcome.put(std::move(result)); });
  ASSERT_TRUE(remain(5, 1));
  two[0].release();
  EXPECT_TRUE(outcome.empty());
  two[1].release();
  const std::vector<Lease> three = outcome.take().value();
  EXPECT_EQ(three.size(), 3u);
  EXPECT_TRUE(three[0].valid() && three[1].valid() && three[2].valid());
}

TEST_F(SemaphoreTest, TheGuardHoldsWhileTheLeaseDoes) {
  Client own = make_client({.session_timeout = 30s});
  Semaphore semaphore(own, "/semaphore", 3);
  own.create("/data", "0");
  std::vector<Lease> leases = semaphore.acquire_many(3);
  Transaction all;
  for (const Lease& lease : leases)
    all.check(lease.guard());
  own.commit(all.set("/data", "1"));
  own.remove(leases[1].node());
  EXPECT_EQ(error_of([&] { own.commit(Transaction().check(leases[1].guard()).set("/data", "2")); }),
            Errc::transaction_failed);
  leases[0].release();
  EXPECT_EQ(error_of([&] { own.commit(Transaction().check(leases[0].guard()).set("/data", "2")); }),
            Errc::transaction_failed);
  own.commit(Transaction().check(leases[2].guard()).set("/data", "3"));
  const auto session = own.session();
  zktesting::expire(hosts(), session.id(), session.credentials().password);
  EXPECT_TRUE(stopped(leases[2].lost()));
  EXPECT_TRUE(stopped(session.lost())) << "which may be known later than the end of the lease";
  EXPECT_EQ(error_of([&] { own.commit(Transaction().check(leases[2].guard()).set("/data", "4")); }),
            Errc::session_lost);
  EXPECT_EQ(client().get("/data").data, "3");
}

TEST_F(SemaphoreTest, RaisedLimitWakesTheWaiter) {
  Semaphore semaphore(client(), "/semaphore", Path("/limits/n"));
  semaphore.set_limit(0);
  EXPECT_EQ(semaphore.limit(), 0);
  EXPECT_FALSE(semaphore.try_acquire());
  auto first = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(1, 1));
  semaphore.set_limit(1);
  EXPECT_EQ(semaphore.limit(), 1);
  Lease held = result_of(first);
  auto second = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2, 1));
  semaphore.set_limit(3);
  Lease more = result_of(second);
  EXPECT_TRUE(held.valid());
  EXPECT_TRUE(semaphore.try_acquire_for(testkit::patience));
}

TEST_F(SemaphoreTest, LoweredLimitIsHonouredAsLeasesReturn) {
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  semaphore.set_limit(3);
  std::vector<Lease> held = semaphore.acquire_many(3);
  semaphore.set_limit(1);
  EXPECT_TRUE(held[0].valid()) << "none is taken back";
  held[0].release();
  held[1].release();
  EXPECT_FALSE(semaphore.try_acquire_for(50ms));
  held[2].release();
  EXPECT_TRUE(semaphore.try_acquire_for(testkit::patience));
}

// Also for who waits already: the lower one is what counts when a lease returns.
TEST_F(SemaphoreTest, LoweredLimitHoldsBackWhoWaits) {
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  semaphore.set_limit(2);
  std::vector<Lease> held = semaphore.acquire_many(2);
  auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(3, 1));
  semaphore.set_limit(1);
  held[0].release();
  EXPECT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  EXPECT_TRUE(held[1].valid());
  held[1].release();
  EXPECT_TRUE(result_of(waiting).valid());
}

TEST_F(SemaphoreTest, RaisedLimitWakesEveryWaiter) {
  constexpr std::size_t waiters = 3;
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  semaphore.set_limit(0);
  std::vector<std::future<Lease>> waiting;
  for (std::size_t i = 1; i <= waiters; ++i) {
    waiting.push_back(in_thread([&] { return semaphore.acquire({.deadline = soon()}); }));
    ASSERT_TRUE(remain(1, i));
  }
  semaphore.set_limit(waiters);
  std::vector<Lease> leases;
  for (auto& one : waiting)
    leases.push_back(result_of(one));
  EXPECT_GT(leases[1].token(), leases[0].token()) << "in the order of arrival";
  EXPECT_GT(leases[2].token(), leases[1].token());
  EXPECT_TRUE(leases[0].valid() && leases[1].valid() && leases[2].valid());
}

// The operation's default deadline is not one for the wait.
TEST_F(SemaphoreTest, AWaitWithoutADeadlineHasNone) {
  Client hasty = make_client({.operation_timeout = 300ms});
  Semaphore semaphore(client(), "/semaphore", 2);
  Semaphore other(hasty, "/semaphore", 2);
  std::vector<Lease> held = semaphore.acquire_many(2);
  auto two = in_thread([&] { return other.acquire_many(2); });
  EXPECT_EQ(two.wait_for(600ms), std::future_status::timeout);
  held.clear();
  EXPECT_EQ(result_of(two).size(), 2u);
}

TEST_F(SemaphoreTest, NodeWithTheLimitIsForeign) {
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  client().create("/limit", "");
  for (const std::string& data : {std::string("three"), std::string(), std::string("\xff\xff\xff\xff")}) {
    client().set("/limit", data);
    EXPECT_EQ(error_of([&] { (void)semaphore.acquire({.deadline = soon()}); }), Errc::foreign_node);
    ASSERT_TRUE(remain(0)) << "or the next one would find that it is not its turn";
    EXPECT_EQ(error_of([&] { (void)semaphore.try_acquire(); }), Errc::foreign_node);
    EXPECT_EQ(error_of([&] { (void)semaphore.limit(); }), Errc::foreign_node);
    EXPECT_TRUE(remain(0));
  }
}

TEST_F(SemaphoreTest, NodeWithTheLimitBecomesForeignWhileWaiting) {
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  semaphore.set_limit(1);
  const Lease held = semaphore.acquire();
  auto waiting = in_thread([&] { return error_of([&] { (void)semaphore.acquire({.deadline = soon()}); }); });
  ASSERT_TRUE(remain(2, 1));
  client().set("/limit", "three");
  EXPECT_EQ(result_of(waiting), Errc::foreign_node);
  EXPECT_TRUE(remain(1));
  EXPECT_TRUE(held.valid());
}

TEST_F(SemaphoreTest, NodeWithTheLimitIsMissing) {
  Semaphore semaphore(client(), "/semaphore", Path("/limits/one"));
  EXPECT_EQ(semaphore.limit(), 0);
  for (const bool once : {false, true}) {
    try {
      once ? (void)semaphore.try_acquire() : (void)semaphore.acquire({.deadline = soon()});
      ADD_FAILURE() << "it was granted";
    } catch (const zkclient::Error& error) {
      EXPECT_EQ(error.errc(), Errc::no_node);
      EXPECT_NE(std::string(error.what()).find("/limits/one, which holds the number of leases, is missing"),
                std::string::npos)
          << error.what();
    }
    EXPECT_TRUE(remain(0));
  }
  semaphore.set_limit(1);
  const Lease lease = semaphore.acquire();
  client().remove("/limits/one");
  EXPECT_TRUE(lease.valid()) << "none is taken back";
  EXPECT_EQ(error_of([&] { (void)semaphore.try_acquire(); }), Errc::no_node);
}

TEST_F(SemaphoreTest, WhoAcquiresFirstCreatesTheNodeWithTheInitialLimit) {
  Semaphore semaphore(client(), "/semaphore", Path("/limits/one"), {.initial_limit = 2});
  const Lease first = semaphore.acquire();
  EXPECT_EQ(semaphore.limit(), 2);
  const Lease second = semaphore.acquire();
  EXPECT_FALSE(semaphore.try_acquire());
  // What is there counts, not what another client would have written.
  Semaphore other(client(), "/semaphore", Path("/limits/one"), {.initial_limit = 7});
  EXPECT_FALSE(other.try_acquire());
  EXPECT_EQ(other.limit(), 2);
  EXPECT_EQ(error_of([&] { Semaphore(client(), "/s", Path("/l"), {.initial_limit = -1}); }), Errc::invalid_argument);
}

// "1000" in digits is 825,241,648 as an int32.
TEST_F(SemaphoreTest, ALimitInDigitsIsRefused) {
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  client().create("/limit", "1000");
  EXPECT_EQ(error_of([&] { (void)semaphore.acquire({.deadline = soon()}); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { (void)semaphore.limit(); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { semaphore.set_limit(1'000'001); }), Errc::invalid_argument);
  semaphore.set_limit(1'000'000);
  EXPECT_EQ(semaphore.limit(), 1'000'000);
}

TEST_F(SemaphoreTest, OwnNodeDeletedWhileWaiting) {
  Semaphore semaphore(client(), "/semaphore", 1);
  Lease held = semaphore.acquire();
  for (const char* directory : {"/semaphore/leases", "/semaphore/locks"}) {
    auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
    ASSERT_TRUE(remain(2, 1));
    for (const std::string& name : names(directory)) {
      if (Path(directory) / name != Path(held.node())) client().remove(Path(directory) / name);
    }
    ASSERT_TRUE(remain(2, 1)) << "it queues again";
    EXPECT_TRUE(held.valid());
    held.release();
    held = result_of(waiting);
    EXPECT_TRUE(held.valid());
  }
}

// Who was behind it is before it now.
TEST_F(SemaphoreTest, OwnNodeDeletedWhileWaitingEndsThePlace) {
  Semaphore semaphore(client(), "/semaphore", 1);
  for (const char* directory : {"/semaphore/leases", "/semaphore/locks"}) {
    Lease held = semaphore.acquire();
    auto first = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
    ASSERT_TRUE(remain(2, 1));
    const std::vector<std::string> before = names(directory);
    auto second = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
    ASSERT_TRUE(remain(2, 2));
    for (const std::string& name : before) {
      if (Path(directory) / name != Path(held.node())) client().remove(Path(directory) / name);
    }
    held.release();
    Lease lease = result_of(second);
    EXPECT_EQ(first.wait_for(0ms), std::future_status::timeout);
    lease.release();
    Lease last = result_of(first);
    EXPECT_GT(last.token(), lease.token());
    last.release();
    ASSERT_TRUE(remain(0));
  }
}

TEST_F(SemaphoreTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { Semaphore(client(), "/semaphore", 0); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Semaphore(client(), "/semaphore", -1); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Semaphore(client(), "/semaphore", 1, {.acl = {}}); }), Errc::invalid_acl);
  Semaphore semaphore(client(), "/semaphore", 2);
  for (const int count : {0, -1, 3})
    EXPECT_EQ(error_of([&] { (void)semaphore.acquire_many(count); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { semaphore.set_limit(3); }), Errc::invalid_argument);
}

// Whatever the node with N says.
TEST_F(SemaphoreTest, RefusesTooManyAtOnce) {
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  semaphore.set_limit(0);
  const auto ignore = [](const Result<std::vector<Lease>>&) {};
  const auto late = testkit::SteadyClock::now() - 1s;
  for (const int count : {1'001, 0x7fffffff}) {
    EXPECT_EQ(error_of([&] { (void)semaphore.acquire_many(count, {.deadline = late}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { (void)semaphore.try_acquire_many(count, {.deadline = late}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { semaphore.async_acquire_many(count, ignore, {.deadline = late}); }),
              Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { semaphore.async_try_acquire_many(count, ignore, {.deadline = late}); }),
              Errc::invalid_argument);
  }
  EXPECT_TRUE(semaphore.try_acquire_many(1'000).empty()) << "there are none, but so many may be asked for";
  EXPECT_TRUE(remain(0));
}

// All in one session: a lease that was granted after a waiter had come is held all the same.
TEST_F(SemaphoreTest, WhoHoldsIsToldFromWhoIsNext) {
  Semaphore semaphore(client(), "/semaphore", 2);
  Lease first = semaphore.acquire();
  Lease second = semaphore.acquire();
  auto third = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(3, 1));
  auto fourth = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(3, 2));
  auto fifth = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(3, 3));
  first.release();
  Lease former = result_of(third);
  ASSERT_TRUE(remain(3, 2));
  second.release();
  const Lease latter = result_of(fourth);
  ASSERT_TRUE(remain(3, 1));
  std::vector<bool> holds;
  for (const Contender& contender : semaphore.contenders())
    holds.push_back(contender.holds);
  EXPECT_EQ(holds, (std::vector<bool>{true, true, false, false})) << "two, who is next, and its place in the queue";
  former.release();
  EXPECT_TRUE(result_of(fifth).valid());
}

// More than there are now: everybody behind waits as well, also for what is free.
TEST_F(SemaphoreTest, MoreThanThereAreWaitInFront) {
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  semaphore.set_limit(1);
  auto many = in_thread([&] { return semaphore.acquire_many(2, {.deadline = soon()}); });
  ASSERT_TRUE(remain(2, 1));
  auto one = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2, 2));
  EXPECT_EQ(one.wait_for(50ms), std::future_status::timeout);
  semaphore.set_limit(3);
  EXPECT_EQ(result_of(many).size(), 2u);
  EXPECT_TRUE(result_of(one).valid());
}

TEST_F(SemaphoreTest, FewWatchesHoweverOftenItIsWokenAndNoneAfterwards) {
  if (!zktesting::SharedServer::instance().has_control()) GTEST_SKIP() << "the server is not ours to ask";
  zktesting::Server& server = zktesting::SharedServer::instance().server();
  const auto comes_to = [&](std::size_t count) { return eventually([&] { return server.watch_count() == count; }); };
  Semaphore semaphore(client(), "/semaphore", Path("/limit"));
  EXPECT_EQ(error_of([&] { (void)semaphore.try_acquire_for(testkit::patience); }), Errc::no_node);
  ASSERT_TRUE(comes_to(0)) << server.four_letter_word("wchp");

  semaphore.set_limit(1);
  Lease held = semaphore.acquire();
  Client waiting_client = make_client();
  Semaphore waiting_semaphore(waiting_client, "/semaphore", Path("/limit"));
  constexpr std::size_t waiters = 5;
  std::stop_source stop;
  std::vector<std::future<std::optional<Errc>>> crew;
  for (std::size_t i = 1; i <= waiters; ++i) {
    crew.push_back(in_thread([&] {
      return error_of([&] { (void)waiting_semaphore.acquire({.deadline = soon(), .stop = stop.get_token()}); });
    }));
    ASSERT_TRUE(remain(2, i));
  }
  // The holder's own node; the list of leases and N, by the one in front; the place of each but the last one.
  constexpr std::size_t most = 3 + waiters - 1;
  EXPECT_TRUE(comes_to(most)) << server.four_letter_word("wchp");
  for (int i = 0; i < 10; ++i) {
    semaphore.set_limit(1);
    EXPECT_FALSE(semaphore.try_acquire_for(20ms));
  }
  EXPECT_TRUE(comes_to(most)) << server.four_letter_word("wchp");

  stop.request_stop();
  for (auto& waiter : crew)
    EXPECT_EQ(result_of(waiter), Errc::cancelled);
  held.release();
  EXPECT_TRUE(comes_to(0)) << server.four_letter_word("wchp");
  EXPECT_TRUE(remain(0));
}

}  // namespace
}  // namespace zkrecipes
