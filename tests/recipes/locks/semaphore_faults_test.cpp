// The rows of the tables "What goes wrong" in <zkrecipes/semaphore.hpp> and <zkrecipes/revoke.hpp> that need a fault,
// but for those that all locks have in common: these are in locks_faults_test.cpp, others in semaphore_test.cpp and
// revoke_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/unfair_mutex.hpp>
#include <zktesting/expire.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers semaphores_on_real_servers{"SemaphoreFaults.CreateLost", "RevokeFaults.RequestLost"};

class SemaphoreFaults : public testkit::RecipeFaultTest {
 protected:
  SemaphoreFaults() : RecipeFaultTest("/semaphore") {}
  using RecipeFaultTest::names;
  /// All leases, and the turns.
  std::vector<std::string> names() override {
    std::vector<std::string> all = names("/semaphore/leases");
    for (std::string& name : names("/semaphore/locks"))
      all.push_back(std::move(name));
    std::sort(all.begin(), all.end());
    return all;
  }
  bool remain(std::size_t leases, std::size_t locks) {
    return eventually(
        [&] { return names("/semaphore/leases").size() == leases && names("/semaphore/locks").size() == locks; });
  }
};

TEST_F(SemaphoreFaults, CreateLost) {
  Client client = calm_proxied();
  Semaphore semaphore(client, "/semaphore", 3);
  // One at a time: after a lost create of its turn's node, the first transaction is a proof.
  for (const RequestType type : {RequestType::create2, RequestType::multi}) {
    for (const bool request : {true, false}) {
      auto fault = lose(request, type);
      std::vector<Lease> leases = semaphore.acquire_many(3, {.deadline = soon()});
      EXPECT_TRUE(fault.happened());
      EXPECT_TRUE(remain(3, 0)) << "neither less nor more";
      for (Lease& lease : leases) {
        EXPECT_TRUE(lease.valid());
        lease.release();
      }
    }
  }
  expect_nothing_left();
}

TEST_F(SemaphoreFaults, SessionLostWhileWaitingIsTheNextOnesTurn) {
  Client client = calm_direct();
  Client behind_client = calm_direct();
  Semaphore semaphore(client, "/semaphore", 1);
  Semaphore behind(behind_client, "/semaphore", 1);
  Semaphore other(the_operator(), "/semaphore", 1);
  Lease held = other.acquire();
  auto waiting = in_thread([&] { return error_of([&] { (void)semaphore.acquire({.deadline = soon()}); }); });
  ASSERT_TRUE(remain(2, 1));
  auto waiting_behind = in_thread([&] { return behind.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2, 2));
  expire(client);
  EXPECT_EQ(result_of(waiting), Errc::session_lost);
  ASSERT_TRUE(remain(2, 1)) << "the next one's turn";
  EXPECT_TRUE(held.valid());
  held.release();
  result_of(waiting_behind).release();
  expect_nothing_left();
}

// Whose turn is next sends heartbeats: with a timeout of one tick its lease could not begin at once without them.
TEST_F(SemaphoreFaults, WhoseTurnIsNextStaysProven) {
  const Client client = calm_proxied();
  Semaphore semaphore(client, "/semaphore", 1);
  Semaphore other(the_operator(), "/semaphore", 1);
  std::stop_source front;
  std::stop_source all;
  const auto cancelled = [](Semaphore& from, const std::stop_source& stop) {
    return in_thread([&from, token = stop.get_token()] {
      return error_of([&] { (void)from.acquire({.deadline = soon(), .stop = token}); });
    });
  };
  const Lease held = other.acquire();
  auto first = cancelled(other, front);
  ASSERT_TRUE(remain(2, 1));
  auto second = cancelled(other, all);
  ASSERT_TRUE(remain(2, 2));
  auto third = cancelled(semaphore, all);
  ASSERT_TRUE(remain(2, 3));
  front.request_stop();
  EXPECT_EQ(result_of(first), Errc::cancelled);
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, 2, patience)) << "it has not even made its lease's node";
  all.request_stop();
  EXPECT_EQ(result_of(second), Errc::cancelled);
  EXPECT_EQ(result_of(third), Errc::cancelled);
}

// A process that dies sends nothing any more, and its connections are gone.
TEST_F(SemaphoreFaults, HoldersProcessDies) {
  Client client = brief_proxied();
  Semaphore semaphore(client, "/semaphore", 2);
  const std::vector<Lease> leases = semaphore.acquire_many(2, {.deadline = soon()});
  Semaphore other(the_operator(), "/semaphore", 2);
  auto waiting = in_thread([&] { return other.acquire_many(2, {.deadline = soon()}); });
  refuse_and_cut();
  EXPECT_EQ(result_of(waiting).size(), 2u);
  EXPECT_FALSE(leases[0].valid() || leases[1].valid());
}

/// All leases that were ever granted.
class Granted {
 public:
  void add(std::shared_ptr<Lease> lease) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(lease));
  }
  void forget(const std::shared_ptr<Lease>& lease) {
    const std::lock_guard lock(mutex_);
    std::erase(all_, lease);
  }
  /// Of those granted before the call, how many were valid when it began: validity ends once and does not come back.
  int count_valid() const {
    std::vector<std::shared_ptr<Lease>> all;
    {
      const std::lock_guard lock(mutex_);
      all = all_;
    }
    return static_cast<int>(std::count_if(all.begin(), all.end(), [](const auto& lease) { return lease->valid(); }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Lease>> all_;
};

TEST_F(SemaphoreFaults, NeverMoreThanNWhateverCrashes) {
  constexpr int limit = 2;
  const unsigned seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  Granted granted;
  std::atomic<int> acquired{0};
  std::vector<std::jthread> crew;
  for (unsigned t = 0; t < 5; ++t) {
    crew.emplace_back([&, random = std::mt19937(seed + t)]() mutable {
      for (int i = 0; i < 6; ++i) {
        Client client = random() % 2 == 0 ? calm_direct() : calm_proxied();
        Semaphore semaphore(client, "/semaphore", limit);
        const auto lease = std::make_shared<Lease>(semaphore.acquire({.deadline = soon()}));
        granted.add(lease);
        ++acquired;
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 5));
        switch (random() % 4) {
          case 0: {  // The session's end by its password is faster than any notice of it.
            granted.forget(lease);
            const auto session = client.session();  // Others close meanwhile, so the door stays open.
            zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
            break;
          }
          case 1: client.close(); break;
          case 2: proxy.cut(); [[fallthrough]];
          default: std::error_code lost; lease->release({}, lost);
        }
      }
    });
  }
  std::atomic<bool> done{false};
  std::jthread checker([&] {
    while (!done) {
      EXPECT_LE(granted.count_valid(), limit);
      std::this_thread::sleep_for(500us);
    }
  });
  crew.clear();
  done = true;
  checker.join();
  EXPECT_EQ(acquired, 30);
  expect_nothing_left();
}

// Of the one in front, whose node is among the leases, and of the one behind it.
TEST_F(SemaphoreFaults, ConnectionBreaksWhileWaitingAndThePlaceIsKept) {
  Semaphore other(the_operator(), "/semaphore", 1);
  for (const bool in_front : {true, false}) {
    Client breaking = calm_proxied();
    Client steady = calm_direct();
    Semaphore first(in_front ? breaking : steady, "/semaphore", 1);
    Semaphore second(in_front ? steady : breaking, "/semaphore", 1);
    Lease held = other.acquire({.deadline = soon()});
    auto waiting = in_thread([&] { return first.acquire({.deadline = soon()}); });
    ASSERT_TRUE(remain(2, 1));
    auto waiting_behind = in_thread([&] { return second.acquire({.deadline = soon()}); });
    ASSERT_TRUE(remain(2, 2));
    const std::vector<std::string> before = names();
    for (int i = 0; i < 2; ++i) {
      const std::size_t accepted = proxy.accepted_connections();
      proxy.cut();
      ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > accepted; }));
      ASSERT_TRUE(reaches(breaking, ConnectionState::connected));
    }
    EXPECT_EQ(names(), before);
    held.release();
    Lease lease = result_of(waiting);
    EXPECT_TRUE(std::binary_search(before.begin(), before.end(), Path(lease.node()).name())) << lease.node();
    EXPECT_NE(waiting_behind.wait_for(0ms), std::future_status::ready);
    lease.release();
    result_of(waiting_behind).release();
  }
  expect_nothing_left();
}

// Of the list, the own node and N, or the one's turn: each is read again, and watched.
TEST_F(SemaphoreFaults, ReadLostWhileWaiting) {
  Semaphore other(the_operator(), "/semaphore", Path("/limit"));
  other.set_limit(1);
  for (const RequestType type : {RequestType::get_children2, RequestType::exists, RequestType::get_data}) {
    std::optional<Lease> held = other.try_acquire();
    ASSERT_TRUE(held);
    Client client = calm_proxied();
    Semaphore semaphore(client, "/semaphore", Path("/limit"));
    auto created = proxy.hold_next_reply(RequestType::multi);
    auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
    ASSERT_TRUE(created.wait(patience));
    auto fault = proxy.drop_next_reply(type);
    created.release();
    EXPECT_TRUE(fault.wait(patience));
    // The leases, N, and the own place in front; and the holder watches its own node.
    ASSERT_TRUE(eventually([&] { return server.watch_count() == 4; })) << server.four_letter_word("wchp");
    held->release();
    result_of(waiting).release();
  }
  expect_nothing_left();
}

// Who waits is told when the connection is back; also of a node that was not there.
TEST_F(SemaphoreFaults, LimitRaisedWhileDisconnected) {
  Semaphore other(the_operator(), "/semaphore", Path("/limit"));
  other.set_limit(0);
  Client client = calm_proxied();
  Semaphore semaphore(client, "/semaphore", Path("/limit"));
  auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(watches(client, "/limit"));
  refuse_and_cut();
  other.set_limit(1);
  proxy.refuse(false);
  result_of(waiting).release();
  expect_nothing_left();
}

// --- Revocation ---------------------------------------------------------------------------------------------------

class RevokeFaults : public SemaphoreFaults {};

TEST_F(RevokeFaults, RequestLost) {
  Client client = calm_proxied();
  Mutex mutex(the_operator(), "/semaphore/lock");
  for (const bool request : {true, false}) {
    Lease lease = mutex.acquire();
    auto fault = lose(request, RequestType::set_data);
    EXPECT_EQ(revoke_holders(client, mutex.path(), {}, {.deadline = soon()}), RevokeOutcome::requested);
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(stopped(lease.revoke_requested()));
    auto broken = lose(request, RequestType::remove);
    const RevokeOutcome outcome = revoke(client, lease.node(), {.break_after = 0ms}, {.deadline = soon()});
    // What the lost reply would have said cannot be known any more.
    EXPECT_TRUE(outcome == RevokeOutcome::broken || (!request && outcome == RevokeOutcome::released));
    EXPECT_TRUE(broken.wait(patience));
    EXPECT_TRUE(stopped(lease.lost()));
  }
}

TEST_F(RevokeFaults, EndedWhileTheRequestIsInFlight) {
  Client client = calm_proxied();
  Mutex mutex(the_operator(), "/semaphore/lock");
  const Lease lease = mutex.acquire();
  for (const bool by_stop : {false, true}) {
    auto held = proxy.hold_next_reply(RequestType::set_data);
    std::stop_source stop;
    const auto deadline = by_stop ? soon() : testkit::SteadyClock::now() + 10s;  // Time enough to send it.
    auto asking = in_thread([&] {
      return error_of([&] { revoke(client, lease.node(), {}, {.deadline = deadline, .stop = stop.get_token()}); });
    });
    ASSERT_TRUE(held.wait(patience));
    if (by_stop) stop.request_stop();
    EXPECT_EQ(result_of(asking), by_stop ? Errc::cancelled : Errc::deadline_exceeded);
    held.release();
  }
  EXPECT_TRUE(stopped(lease.revoke_requested())) << "the request stands";
  EXPECT_TRUE(lease.valid());
}

// The holder has gone when the request is written, and another client has the node that all want.
TEST_F(RevokeFaults, TheSuccessorIsNotAsked) {
  Client client = calm_proxied();
  UnfairMutex mutex(the_operator(), "/semaphore/lock");
  Lease lease = mutex.acquire();
  auto wanted = proxy.hold_next_reply(RequestType::exists);
  auto asking = in_thread([&] { return revoke_holders(client, mutex.path(), {}, {.deadline = soon()}); });
  ASSERT_TRUE(wanted.wait(patience));
  auto holding = proxy.hold_next_reply(RequestType::exists);
  wanted.release();
  ASSERT_TRUE(holding.wait(patience));
  lease.release();
  const Lease next = mutex.acquire();
  holding.release();
  EXPECT_EQ(result_of(asking), RevokeOutcome::released);
  EXPECT_NE(mutex.holder()->data, "__REVOKE__");
  EXPECT_FALSE(stopped(next.revoke_requested(), 50ms));
}

// Its server may lag behind, and not know the node yet: so a majority has to agree that it is gone.
TEST_F(RevokeFaults, ReleasedIsWhatAMajoritySays) {
  const Client client = calm_proxied();
  Mutex mutex(the_operator(), "/semaphore/lock");
  Lease lease = mutex.acquire({.deadline = soon()});
  auto asking = in_thread([&] { return revoke(client, lease.node(), {.break_after = 1h}, {.deadline = soon()}); });
  ASSERT_TRUE(watches(client, lease.node()));
  const std::size_t before = proxy.request_count(RequestType::multi);
  lease.release();
  EXPECT_EQ(result_of(asking), RevokeOutcome::released);
  EXPECT_EQ(proxy.request_count(RequestType::multi), before + 1);
}

TEST_F(RevokeFaults, NoAccess) {
  Mutex mutex(the_operator(), "/semaphore/lock", {.acl = zkclient::read_only_acl()});
  the_operator().ensure("/semaphore/lock");
  Client client = calm_direct();
  const Lease lease = mutex.acquire();
  EXPECT_EQ(error_of([&] { revoke_holders(client, mutex.path()); }), Errc::no_auth);
  EXPECT_TRUE(lease.valid());
  UnfairMutex unfair(the_operator(), "/semaphore/unfair", {.acl = zkclient::read_only_acl()});
  the_operator().ensure(unfair.path());
  const Lease single = unfair.acquire();
  EXPECT_EQ(error_of([&] { revoke_holders(client, unfair.path()); }), Errc::no_auth);
  EXPECT_TRUE(single.valid());
}

TEST_F(RevokeFaults, NoRightToBreak) {
  Client client = calm_direct();
  Mutex mutex(the_operator(), "/semaphore/lock");
  UnfairMutex unfair(the_operator(), "/semaphore/unfair");
  const Lease leases[] = {mutex.acquire(), unfair.acquire()};
  for (const Lease& lease : leases) {
    const Path directory = Path(lease.node()).parent();
    using zkclient::Acl;
    the_operator().set_acl(directory, {{.permissions = Acl::read | Acl::admin}});
    EXPECT_EQ(error_of([&] { revoke_holders(client, directory, {.break_after = 0ms}); }), Errc::no_auth);
    EXPECT_TRUE(stopped(lease.revoke_requested()));
    EXPECT_TRUE(lease.valid());
    the_operator().set_acl(directory, zkclient::open_acl());
  }
}

// The holder's own words come back in the place of the request only, and of nothing that was written since.
TEST_F(RevokeFaults, WordsWrittenMeanwhileStay) {
  Client client = calm_proxied();
  Mutex mutex(client, "/semaphore/lock");
  const Lease lease = mutex.acquire({.deadline = soon()});
  ASSERT_TRUE(watches(client, lease.node()));
  client.sync("/", {.deadline = soon()});  // The reply to the read that armed it is not held.
  auto held = proxy.hold_next_reply(RequestType::get_data);
  the_operator().set(lease.node(), "unlock");
  ASSERT_TRUE(held.wait(patience));
  the_operator().set(lease.node(), "other words");
  held.release();
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::set_data, 1, patience));
  client.sync("/", {.deadline = soon()});
  EXPECT_EQ(the_operator().get(lease.node()).data, "other words");
  EXPECT_TRUE(lease.valid());
}

TEST_F(RevokeFaults, ConnectionBreaksWhileTheHolderIsAsked) {
  Client client = calm_proxied();
  Mutex mutex(client, "/semaphore/lock");
  const Lease lease = mutex.acquire({.deadline = soon()});
  ASSERT_TRUE(watches(client, lease.node()));
  refuse_and_cut();
  EXPECT_EQ(revoke_holders(the_operator(), mutex.path()), RevokeOutcome::requested);
  proxy.refuse(false);
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  EXPECT_TRUE(lease.valid());
}

}  // namespace
}  // namespace zkrecipes
