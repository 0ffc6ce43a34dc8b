// One test for each row of the table "What goes wrong" in <zkrecipes/multi_lock.hpp> that needs a fault; the others are
// in tests/recipes/locks/multi_lock_test.cpp.

#include <gtest/gtest.h>

#include <exception>
#include <future>
#include <stop_token>
#include <utility>

#include <zkrecipes/multi_lock.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers multi_locks_on_real_servers{"MultiLockFaults.CreateLostWhileOthersAreHeld"};

/// Three locks of one client, each of which has one node while it is held.
struct Set {
  explicit Set(Client user) : client(std::move(user)), a(client, "/a"), b(client, "/b"), c(client, "/c") {
    all.add(a).add(b).add(c);
  }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

  Client client;
  Mutex a;
  SharedMutex b;
  Mutex c;
  MultiLock all;
};

class MultiLockFaults : public testkit::RecipeFaultTest {
 protected:
  MultiLockFaults() : RecipeFaultTest("/a") {
    the_operator().create("/b", "");
    the_operator().create("/c", "");
  }

  /// Shorter than the session of `calm` lives that was not closed, and long for a busy machine.
  static constexpr auto at_once = 25s;

  /// Waits until each lock has so many nodes.
  bool remain(std::size_t first, std::size_t second, std::size_t third, std::chrono::milliseconds limit = patience) {
    const auto as_many = [&] {
      return names("/a").size() == first && names("/b").size() == second && names("/c").size() == third;
    };
    return eventually(as_many, limit);
  }

  /// In either form.
  static std::future<MultiLease> acquire(MultiLock& lock, bool blocking, const CallOptions& call) {
    if (blocking) return in_thread([&lock, call] { return lock.acquire(call); });
    std::promise<MultiLease> promise;
    std::future<MultiLease> outcome = promise.get_future();
    auto handler = [promise = std::move(promise)](Result<MultiLease> result) mutable {
      if (result) {
        promise.set_value(std::move(*result));
      } else {
        promise.set_exception(std::make_exception_ptr(result.error()));
      }
    };
    lock.async_acquire(std::move(handler), call);
    return outcome;
  }

  /// The first one is held, the second one waited for, at rest, and the third one not asked for yet.
  std::future<MultiLease> wait_behind(const Lease& held, Set& set, bool blocking, const CallOptions& call) {
    auto waiting = acquire(set.all, blocking, call);
    EXPECT_TRUE(watches(set.client, held.node()));
    EXPECT_TRUE(remain(1, 2, 0));
    return waiting;
  }
};

// --- while others are held or waited for --------------------------------------------------------------------------

// One deadline for the whole, and not one for each lock. In a simulated world, where no thread comes late.
TEST_F(MultiLockFaults, OneDeadlineForAll) {
  constexpr auto timeout = 3s;
  constexpr auto freed_after = 1250ms;  // The first one, and after as long again the second one.
  Set set(calm_direct());
  Set holder(calm_direct());
  Lease first = holder.a.acquire({.deadline = soon()});
  Lease second = holder.b.acquire({.deadline = soon()});
  Lease third = holder.c.acquire({.deadline = soon()});
  const testkit::StallWatch stalls;
  auto waiting = in_thread([&] {
    const auto start = SteadyClock::now();
    const bool acquired = set.all.try_acquire_for(timeout).has_value();
    return std::pair(acquired, SteadyClock::now() - start);
  });
  // From when its time runs at the latest.
  ASSERT_TRUE(
      eventually([&] { return names("/a").size() == 2 || waiting.wait_for(0ms) == std::future_status::ready; }));
  for (Lease* held : {&first, &second}) {
    testkit::let_age(freed_after);
    held->release();
  }
  EXPECT_EQ(waiting.wait_for(patience), std::future_status::ready) << "whether or not the third one is freed";
  third.release();
  const auto [acquired, took] = result_of(waiting);
  EXPECT_FALSE(acquired);
  EXPECT_GE(took, timeout);
  EXPECT_TRUE(took < 2 * freed_after + timeout || stalls.seen())
      << "the end of a time that begins when the second one is freed";
  expect_nothing_left();
}

// Of the second one of three.
TEST_F(MultiLockFaults, CreateLostWhileOthersAreHeld) {
  Set set(calm_proxied());
  for (const bool request : {false, true}) {
    const std::size_t before = proxy.request_count(RequestType::create2);
    auto first = proxy.hold_next_reply(RequestType::create2);
    auto waiting = acquire(set.all, true, {.deadline = soon()});
    ASSERT_TRUE(first.wait(patience));
    auto fault = lose(request, RequestType::create2);
    first.release();
    MultiLease leases = result_of(waiting);
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(proxy.request_count(RequestType::create2) - before, request ? 4u : 3u) << "nothing else is repeated";
    for (const char* path : {"/a", "/b", "/c"})
      EXPECT_EQ(names(path).size(), 1u) << path;
    EXPECT_TRUE(leases.valid());
    EXPECT_FALSE(leases.lost().stop_requested());
    leases.release({.deadline = soon()});
    expect_nothing_left();
  }
}

// Never a success that rests on a session that is over.
TEST_F(MultiLockFaults, SessionLostWhileOthersAreWaitedFor) {
  SharedMutex other(the_operator(), "/b");
  for (const bool blocking : {true, false}) {
    Set set(calm_direct());
    Lease held = other.acquire({.deadline = soon()});
    auto waiting = wait_behind(held, set, blocking, {.deadline = soon()});
    expire(set.client);
    EXPECT_EQ(failure_of(waiting), Errc::session_lost);
    EXPECT_TRUE(remain(0, 1, 0));
    EXPECT_TRUE(held.valid());
    held.release();
    set.all.acquire({.deadline = soon()}).release({.deadline = soon()});
    expect_nothing_left();
  }
}

TEST_F(MultiLockFaults, SessionOfOneClientLostWhileOthersAreWaitedFor) {
  Client holding = calm_direct();
  Client waiting_client = calm_direct();
  Mutex first(holding, "/a");
  SharedMutex second(waiting_client, "/b");
  MultiLock both;
  both.add(first).add(second);
  SharedMutex other(the_operator(), "/b");
  for (const bool blocking : {true, false}) {
    for (const bool of_the_first : {true, false}) {
      Lease held = other.acquire({.deadline = soon()});
      auto waiting = acquire(both, blocking, {.deadline = soon()});
      ASSERT_TRUE(watches(waiting_client, held.node()));
      expire(of_the_first ? holding : waiting_client);
      EXPECT_EQ(failure_of(waiting), of_the_first ? Errc::not_held : Errc::session_lost);
      EXPECT_TRUE(remain(0, 1, 0)) << "the session that is left keeps nothing";
      EXPECT_TRUE(held.valid());
      held.release();
    }
  }
  expect_nothing_left();
}

// Also without a connection: then the nodes go when it is back.
TEST_F(MultiLockFaults, StopRequestWhileOthersAreWaitedFor) {
  Set set(calm_proxied());
  SharedMutex other(the_operator(), "/b");
  for (const bool blocking : {true, false}) {
    for (const bool disconnected : {false, true}) {
      Lease held = other.acquire({.deadline = soon()});
      std::stop_source stop;
      auto waiting = wait_behind(held, set, blocking, {.deadline = soon(), .stop = stop.get_token()});
      if (disconnected) {
        refuse_and_cut();
        ASSERT_TRUE(reaches(set.client, ConnectionState::suspended));
      }
      stop.request_stop();
      EXPECT_EQ(failure_of(waiting), Errc::cancelled);
      proxy.refuse(false);
      EXPECT_TRUE(remain(0, 1, 0)) << "what was held is given back";
      EXPECT_TRUE(held.valid());
      held.release();
    }
  }
  expect_nothing_left();
}

TEST_F(MultiLockFaults, ClientClosedWhileOthersAreWaitedFor) {
  SharedMutex other(the_operator(), "/b");
  for (const bool blocking : {true, false}) {
    Set set(calm_proxied());
    Lease held = other.acquire({.deadline = soon()});
    auto waiting = wait_behind(held, set, blocking, {.deadline = soon()});
    set.client.sync("/", {.deadline = soon()});  // With answers outstanding the session might be left to the server.
    set.client.close();
    EXPECT_EQ(failure_of(waiting), Errc::closed);
    EXPECT_TRUE(remain(0, 1, 0, at_once)) << "the session was closed at the server: nothing has to time out";
    EXPECT_TRUE(held.valid());
    held.release();
    expect_nothing_left();
  }
}

// --- while all are held -------------------------------------------------------------------------------------------

TEST_F(MultiLockFaults, SessionLostWhileAllAreHeld) {
  Set set(calm_direct());
  MultiLease leases = set.all.acquire({.deadline = soon()});
  Box<bool> told;
  const std::stop_callback tell(leases.lost(), [&] { told.put(true); });
  expire(set.client);
  EXPECT_TRUE(told.take());
  for (const Lease& lease : leases.leases()) {
    EXPECT_TRUE(stopped(lease.lost()));
    EXPECT_EQ(lease.state(), LeaseState::lost);
  }
  EXPECT_TRUE(told.empty()) << "once for all of them";
  EXPECT_FALSE(leases.valid());
  EXPECT_LT(leases.valid_until(), BootClock::now());
  MultiLease again = set.all.acquire({.deadline = soon()});
  EXPECT_GT(again.leases().front().token(), leases.leases().front().token());
  Transaction transaction;
  leases.guard(transaction);
  EXPECT_EQ(error_of([&] { set.client.commit(transaction); }), Errc::session_lost);
  EXPECT_EQ(error_of([&] { leases.release({.deadline = soon()}); }), Errc::not_held);
  EXPECT_TRUE(again.valid()) << "the late release harms nobody";
  again.release({.deadline = soon()});
  expect_nothing_left();
}

TEST_F(MultiLockFaults, ConnectionBreaksWhileAllAreHeld) {
  Set set(calm_proxied());
  MultiLease leases = set.all.acquire({.deadline = soon()});
  refuse_and_cut();
  ASSERT_TRUE(reaches(set.client, ConnectionState::suspended));
  EXPECT_TRUE(leases.valid());
  proxy.refuse(false);
  ASSERT_TRUE(reaches(set.client, ConnectionState::connected));
  EXPECT_TRUE(leases.valid());
  EXPECT_FALSE(leases.lost().stop_requested());
  EXPECT_TRUE(remain(1, 1, 1));
  leases.release({.deadline = soon()});
  expect_nothing_left();
}

// A holder that was cut off knows before anybody else has the first of its locks.
TEST_F(MultiLockFaults, PartitionedPastExpiryWhileAllAreHeld) {
  // A session that short may end the leases before it is cut off.
  bool cut_off = false;
  for (int attempt = 0; !cut_off; ++attempt) {
    ASSERT_LT(attempt, 10) << "it never holds until it is cut off";
    const testkit::StallWatch stalls;
    Set set(Client(proxy.connect_string(), {.session_timeout = testkit::contended_session}));
    MultiLease leases = set.all.acquire({.deadline = soon()});
    const std::stop_token lost = leases.lost();
    Mutex other(the_operator(), "/a");
    auto waiting = in_thread([&] {
      Lease next = other.acquire({.deadline = soon()});
      EXPECT_TRUE(lost.stop_requested() || stalls.seen()) << "told before the other one acquired";
      EXPECT_FALSE(leases.valid());
      return next;
    });
    ASSERT_TRUE(eventually([&] { return names("/a").size() == 2 || !leases.valid(); }));
    proxy.stall(Direction::both);
    cut_off = leases.valid();
    Lease next = result_of(waiting);
    EXPECT_GT(next.token(), leases.leases().front().token());
    for (const Lease& lease : leases.leases())
      EXPECT_EQ(lease.state(), LeaseState::lost);
    EXPECT_TRUE(remain(1, 0, 0)) << "they go with the session";
    EXPECT_EQ(error_of([&] { leases.release({.deadline = soon()}); }), Errc::not_held);
    EXPECT_TRUE(next.valid()) << "the late release harms nobody";
    proxy.unstall(Direction::both);
    next.release({.deadline = soon()});
    expect_nothing_left();
  }
}

TEST_F(MultiLockFaults, ClientClosedWhileAllAreHeld) {
  Set set(calm_proxied());
  const MultiLease leases = set.all.acquire({.deadline = soon()});
  for (const Lease& lease : leases.leases())
    ASSERT_TRUE(watches(set.client, lease.node()));
  set.client.sync("/", {.deadline = soon()});  // With answers outstanding the session might be left to the server.
  set.client.close();
  EXPECT_FALSE(leases.valid());
  EXPECT_TRUE(stopped(leases.lost()));
  EXPECT_TRUE(remain(0, 0, 0, at_once)) << "the session was closed at the server: nothing has to time out";
  expect_nothing_left();
}

}  // namespace
}  // namespace zkrecipes
