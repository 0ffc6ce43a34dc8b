// How a mutex gets from holder to holder: with many contenders by the record in the path's node, on a young list, and
// with look-ahead.

#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include <zkrecipes/mutex.hpp>

#include "recipes/kernel/acquirer.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

const testkit::OnRealServers hand_over_on_real_servers{"HandOver.ReleaseLost"};

class HandOver : public testkit::RecipeFaultTest {
 protected:
  static constexpr int waiters = 120;  // So many that holders leave records.

  HandOver() : RecipeFaultTest("/lock") {}

  /// Has so many contend behind a holder and wait for long, and returns the holder's lease.
  Lease contend(Mutex& mutex, int count = waiters) {
    Lease first = mutex.acquire({.deadline = soon()});
    for (int i = 0; i < count; ++i)
      mutex.async_acquire([this](Result<Lease> result) { granted.put(std::move(result)); }, {.deadline = soon()});
    EXPECT_TRUE(remain(static_cast<std::size_t>(count) + 1));
    EXPECT_TRUE(eventually([&] { return server.watch_count() >= static_cast<std::size_t>(count); }));
    testkit::let_age(60ms);
    return first;
  }
  /// Hands the lock through `count` waiters, one by one; the last one's lease.
  Lease drain(Lease lease, int count) {
    for (int i = 0; i < count; ++i) {
      const FencingToken former = lease.token();
      EXPECT_TRUE(granted.empty());
      lease = Lease();
      lease = granted.take().value();
      EXPECT_TRUE(lease.valid());
      EXPECT_GT(lease.token(), former) << "in the order of arrival";
    }
    return lease;
  }
  std::string record() { return the_operator().get("/lock").data; }
  /// The name of a lease's node.
  static std::string name_of(const Lease& lease) { return std::string(Path(lease.node()).name()); }

  Box<Result<Lease>> granted;
};

TEST_F(HandOver, AHandOverReadsNoList) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  for (const int time : {1, 2}) {  // The second time there is an old record.
    Lease lease = contend(mutex);
    const std::size_t lists = proxy.request_count(RequestType::get_children2);
    lease = drain(std::move(lease), 1);
    const std::string former = name_of(lease);
    lease = drain(std::move(lease), 1);
    EXPECT_EQ(record(), former);
    lease = drain(std::move(lease), waiters - 2);
    EXPECT_EQ(proxy.request_count(RequestType::get_children2), lists) << "time " << time;
    lease.release();
    EXPECT_TRUE(remain(0));
  }
  EXPECT_TRUE(mutex.try_acquire()) << "a record of the past means nothing";
  expect_nothing_left();
}

// Who has waited for long cannot know how many came meanwhile. It must not pay for that when it was few.
TEST_F(HandOver, NorDoesOneAmongFewContendersThatWaitedForLong) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  constexpr int few = 5;
  Lease lease = contend(mutex, few);
  const std::size_t lists = proxy.request_count(RequestType::get_children2);
  (void)drain(std::move(lease), few);
  EXPECT_EQ(proxy.request_count(RequestType::get_children2), lists);
}

TEST_F(HandOver, BytesPerHandOverDoNotGrow) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Lease lease = drain(contend(mutex), 5);
  const std::size_t before = proxy.byte_count(zktesting::Direction::to_client);
  constexpr int count = 100;
  lease = drain(std::move(lease), count);
  const std::size_t bytes = (proxy.byte_count(zktesting::Direction::to_client) - before) / count;
  EXPECT_LE(bytes, 600u);
  (void)drain(std::move(lease), waiters - 5 - count);
}

// Programs may have put something into the path's node.
TEST_F(HandOver, DataOfOthersStays) {
  the_operator().set("/lock", "mine");
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  (void)drain(contend(mutex), waiters);
  EXPECT_EQ(record(), "mine");
}

// However many there are: nobody waits, so there is nothing to tell.
TEST_F(HandOver, ForeignChildrenAreNoContenders) {
  for (int i = 0; i < 150; ++i)
    the_operator().create("/lock/foreign-" + std::to_string(i), "");
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  mutex.acquire({.deadline = soon()}).release();
  EXPECT_EQ(the_operator().get("/lock").stat.version, 0);
}

TEST_F(HandOver, DataWrittenMeanwhileStays) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  Lease lease = drain(contend(mutex), 5);
  the_operator().set("/lock", "mine");
  lease = drain(std::move(lease), 5);
  EXPECT_EQ(record(), "mine");
  (void)drain(std::move(lease), waiters - 10);
}

TEST_F(HandOver, NoRightToWriteTheRecord) {
  constexpr auto all_but_write = zkclient::Acl::all & ~zkclient::Acl::write;
  the_operator().set_acl("/lock", {{.permissions = all_but_write}});
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  (void)drain(contend(mutex), waiters);
  EXPECT_EQ(record(), "");
  the_operator().set_acl("/lock", zkclient::open_acl());
  expect_nothing_left();
}

// The release is a transaction then: lost on its way, or its reply.
TEST_F(HandOver, ReleaseLost) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Lease lease = drain(contend(mutex), 10);
  for (const bool request : {true, false, true, false}) {
    auto fault = lose(request);
    lease = drain(std::move(lease), 1);
    EXPECT_TRUE(fault.wait(patience));
  }
  (void)drain(std::move(lease), waiters - 14);
  expect_nothing_left();
}

TEST_F(HandOver, HolderRemovedByHand) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  Lease lease = drain(contend(mutex), 10);
  the_operator().remove(lease.node());
  EXPECT_TRUE(stopped(lease.lost()));
  Lease next = granted.take().value();
  EXPECT_GT(next.token(), lease.token());
  EXPECT_TRUE(granted.empty());
  (void)drain(std::move(next), waiters - 11);
}

// Somebody in the middle leaves: its follower waits for the one before, whatever the record says.
TEST_F(HandOver, AMiddleWaiterRemovedByHand) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  Lease lease = drain(contend(mutex), 10);
  const std::vector<Contender> all = mutex.contenders();
  ASSERT_GT(all.size(), 5u);
  the_operator().remove(Path("/lock") / all[2].node);
  ASSERT_TRUE(watches(client, Path("/lock") / all[1].node));
  client.sync("/lock");  // After this all is known that the watch's events have led to.
  EXPECT_TRUE(granted.empty());
  // When its turn would have come it contends again, as the last one.
  (void)drain(std::move(lease), waiters - 10);
}

TEST_F(HandOver, ConnectionBreaksInBetween) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Lease lease = drain(contend(mutex), 5);
  for (int i = 0; i < 5; ++i) {
    proxy.cut();
    lease = drain(std::move(lease), 10);
  }
  (void)drain(std::move(lease), waiters - 55);
  expect_nothing_left();
}

// That its own node is there, a waiter reads; but a lease does not begin on a proof that is about to end. (The one who
// is next has a young one at any time; so there is one in between.)
TEST_F(HandOver, AnOldProofIsRenewed) {
  Client client(proxy.connect_string(), {.session_timeout = 12s});
  Mutex mutex(client, "/lock");
  Mutex other(the_operator(), "/lock");
  constexpr auto too_little = 1600ms;  // A sixth of the timeout would do.
  for (const bool old : {false, true}) {
    Lease first = other.acquire({.deadline = soon()});
    auto between = in_thread([&] { return other.acquire({.deadline = soon()}); });
    // The watch alone says nothing: the holder has one of its own, in the same session.
    ASSERT_TRUE(testkit::eventually([&] { return other.contenders().size() == 2; }));
    ASSERT_TRUE(watches(the_operator(), first.node()));
    const std::string before_us = "/lock/" + other.contenders().back().node;
    auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
    ASSERT_TRUE(watches(client, before_us));
    const std::size_t proofs = proxy.request_count(RequestType::multi);
    const auto old_enough = [&] { return client.session().valid_until() < zkclient::BootClock::now() + too_little; };
    if (old) {
      ASSERT_TRUE(testkit::eventually(old_enough));
    }
    const auto before = zkclient::BootClock::now();
    first.release();
    result_of(between).release();
    Lease lease = result_of(waiting);
    if (old) {
      EXPECT_GE(proxy.request_count(RequestType::multi), proofs + 1);
    }
    // As the session has it: a lease that has ended meanwhile says nothing any more.
    EXPECT_GT(lease.session()->valid_until(), before + too_little);
    std::error_code lost;
    lease.release({.deadline = soon()}, lost);
  }
}

// However long it has waited, its lease begins with the reach of one that has been held for long.
TEST_F(HandOver, TheNextOneIsProvenAtAnyTime) {
  constexpr auto timeout = 30s;
  const testkit::Stalls stalls;
  Client client(proxy.connect_string(), {.session_timeout = timeout, .server_tick = testkit::server_tick});
  Mutex mutex(client, "/lock");
  Mutex other(the_operator(), "/lock");
  Lease held = other.acquire({.deadline = soon()});
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(watches(client, held.node()));
  const std::size_t proofs = proxy.request_count(RequestType::multi);
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::multi, proofs + 3, testkit::patience));
  const std::int64_t before = testkit::boot_ns() - std::chrono::nanoseconds(timeout / 6).count();
  held.release();
  const Lease lease = result_of(waiting);
  const auto reach = lease.valid_until() - zkclient::BootClock::now();
  // 2/3 of the timeout less the margin, and a sixth of it may have passed; more if this process was kept from running.
  const std::chrono::nanoseconds kept(stalls.during(before, testkit::boot_ns()));
  EXPECT_GT(reach, timeout * 4 / 10 - kept);
}

// --- The age of a list ----------------------------------------------------------------------------------------------

class AgeOfTheList : public HandOver {
 protected:
  /// A mutex of client_ that takes a list for young until it has that age.
  detail::Acquirer mutex_that_trusts(std::chrono::nanoseconds age, bool look_ahead = false) {
    detail::ContendSpec spec;
    spec.client = client_.impl();
    spec.path = spec.directory = "/lock";
    spec.kind = "lock";
    spec.names.exclusive = {"lock-"};
    spec.acl = zkclient::open_acl();
    spec.operation = "mutex acquire";
    spec.trusts_list = age;
    spec.look_ahead = look_ahead;
    const auto shared = std::make_shared<const detail::ContendSpec>(std::move(spec));
    auto get = [shared](detail::Patience how_long, zkclient::detail::Call call) {
      return detail::contend(shared, "", how_long, std::move(call));
    };
    return detail::Acquirer({client_, "/lock", "mutex", "mutex acquire", std::move(get), "mutex contenders", {}});
  }
  std::size_t lists() const { return proxy.request_count(RequestType::get_children2); }
  std::size_t looks() const { return proxy.request_count(RequestType::exists); }

  Client client_ = calm_proxied();
  Mutex plain_{the_operator(), "/lock"};
};

TEST_F(AgeOfTheList, DecidesWhetherTheOwnNodeIsLookedFor) {
  for (const bool young : {true, false}) {
    const detail::Acquirer mutex = mutex_that_trusts(young ? 1h : 0h);
    Lease held = plain_.acquire();
    auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
    ASSERT_TRUE(watches(client_, held.node()));
    const std::size_t lists_before = lists();
    const std::size_t looks_before = looks();
    held.release();
    Lease lease = result_of(waiting);
    EXPECT_TRUE(lease.valid());
    EXPECT_EQ(looks(), looks_before + (young ? 0 : 1));
    EXPECT_EQ(lists(), lists_before);
    lease.release();
  }
  expect_nothing_left();
}

TEST_F(AgeOfTheList, OwnNodeDeletedJustBeforeTheGrant) {
  const detail::Acquirer mutex = mutex_that_trusts(1h);
  const Lease held = plain_.acquire();
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(watches(client_, held.node()));
  Transaction removal;
  for (const std::string& name : names())
    removal.remove(Path("/lock") / name);
  the_operator().commit(removal);
  const Lease lease = result_of(waiting);
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  expect_nothing_left();
}

TEST_F(AgeOfTheList, WithLookAheadNothingIsLeftToAsk) {
  const detail::Acquirer mutex = mutex_that_trusts(1h, true);
  Lease first = plain_.acquire();
  auto second = in_thread([&] { return plain_.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));  // Not a watch on the first one: its holder, the same client, has one itself.
  auto third = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(watches(client_, first.node()));
  const std::size_t lists_before = lists();
  const std::size_t looks_before = looks();
  first.release();
  Lease held = result_of(second);
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::get_children2, lists_before + 1, patience));
  held.release();
  result_of(third).release();
  EXPECT_EQ(lists(), lists_before + 1);
  EXPECT_EQ(looks(), looks_before);
  expect_nothing_left();
}

// --- Look-ahead ---------------------------------------------------------------------------------------------------

class LookAhead : public HandOver {
 protected:
  static constexpr std::size_t both = 2;  // Watches of a waiter.
  const MutexOptions options_{.look_ahead = true};
};

TEST_F(LookAhead, TheListIsReadBeforeTheHandOver) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock", options_);
  Mutex plain(the_operator(), "/lock");
  Lease first = plain.acquire();
  auto second = in_thread([&] { return plain.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));  // Not a watch on the first one: its holder, the same client, has one itself.
  auto third = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(watches(client, first.node()));
  EXPECT_TRUE(watches(client, Path("/lock") / plain.contenders()[1].node));
  const std::size_t lists = proxy.request_count(RequestType::get_children2);
  first.release();
  Lease held = result_of(second);
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::get_children2, lists + 1, patience)) << "while another one holds";
  EXPECT_EQ(third.wait_for(0s), std::future_status::timeout);
  held.release();
  EXPECT_TRUE(result_of(third).valid());
  EXPECT_EQ(proxy.request_count(RequestType::get_children2), lists + 1);
  EXPECT_TRUE(remain(0));
  expect_nothing_left();
}

TEST_F(LookAhead, TheNearestLeavesFirst) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock", options_);
  Mutex plain(the_operator(), "/lock");
  Lease first = plain.acquire();
  std::stop_source stop;
  auto second = in_thread([&] { return plain.acquire({.deadline = soon(), .stop = stop.get_token()}); });
  ASSERT_TRUE(remain(2));  // Not a watch on the first one: its holder, the same client, has one itself.
  auto third = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(eventually([&] { return server.watch_count() == 1 + both; }));
  stop.request_stop();
  EXPECT_EQ(failure_of(second), zkclient::Errc::cancelled);
  ASSERT_TRUE(remain(2));
  EXPECT_EQ(third.wait_for(50ms), std::future_status::timeout) << "the first one still holds";
  first.release();
  EXPECT_TRUE(result_of(third).valid());
  EXPECT_TRUE(remain(0));
  expect_nothing_left();
}

TEST_F(LookAhead, ConnectionBreaksWhileWaiting) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock", options_);
  Mutex plain(the_operator(), "/lock");
  Lease first = plain.acquire();
  auto second = in_thread([&] { return plain.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));  // Not a watch on the first one: its holder, the same client, has one itself.
  auto third = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(watches(client, first.node()));
  for (int i = 0; i < 3; ++i) {
    proxy.cut();
    EXPECT_TRUE(reaches(client, zkclient::ConnectionState::connected));
  }
  first.release();
  result_of(second).release();
  EXPECT_TRUE(result_of(third).valid());
  EXPECT_TRUE(remain(0));
  expect_nothing_left();
}

TEST_F(LookAhead, NoOverlapAndNobodyForgotten) {
  testkit::Holdings holdings;
  constexpr int crew_size = 6;
  constexpr int rounds = 25;
  std::deque<Client> clients;
  std::vector<std::jthread> crew;
  for (int t = 0; t < crew_size; ++t) {
    clients.push_back(t % 2 == 0 ? calm_direct() : calm_proxied());
    crew.emplace_back([&, t, client = clients.back()] {
      Mutex mutex(client, "/lock", {.look_ahead = t % 3 != 0});
      for (int i = 0; i < rounds; ++i) {
        const Lease lease = mutex.acquire({.deadline = soon()});
        EXPECT_TRUE(holdings.hold(lease, 200us));
        if (t == 1 && i % 10 == 5) proxy.cut();
      }
    });
  }
  crew.clear();
  EXPECT_EQ(holdings.size(), static_cast<std::size_t>(crew_size * rounds));
  holdings.expect_no_overlap();
  clients.clear();
  expect_nothing_left();
}

}  // namespace
}  // namespace zkrecipes
