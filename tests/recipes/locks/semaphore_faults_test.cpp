// One test for each row of the tables "What goes wrong" in <zkrecipes/semaphore.hpp> and <zkrecipes/revoke.hpp> that
// needs a fault; the others are in semaphore_test.cpp and revoke_test.cpp.

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

#include "tests/support/contention.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::error_of;
using testkit::eventually;
using testkit::in_thread;
using testkit::patience;
using testkit::result_of;
using testkit::soon;
using testkit::stopped;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Path;
using zktesting::Direction;
using zktesting::RequestType;

class SemaphoreFaults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<zktesting::Server>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static zktesting::Server& server() { return *server_; }
  void TearDown() override { operator_.remove_tree("/semaphore", {.deadline = soon()}); }

  Client proxied(std::chrono::milliseconds timeout = 30s) {
    return Client(proxy.connect_string(), {.session_timeout = timeout, .server_tick = testkit::server_tick});
  }
  static Client direct() { return Client(server().connect_string(), {.session_timeout = 30s}); }
  Client& the_operator() { return operator_; }
  std::size_t count(const Path& path) {
    std::error_code error;
    return operator_.children(path, {}, error).names.size();
  }
  bool remain(std::size_t leases, std::size_t locks) {
    return eventually([&] { return count("/semaphore/leases") == leases && count("/semaphore/locks") == locks; });
  }
  static void expire(const Client& client) {
    const auto session = client.connect({.deadline = soon()});
    zktesting::expire(server().connect_string(), session.id(), session.credentials().password);
  }
  void expect_nothing_left() {
    EXPECT_TRUE(remain(0, 0));
    EXPECT_TRUE(eventually([] { return server().ephemeral_count() == 0; })) << server().four_letter_word("dump");
  }

 private:
  static inline std::unique_ptr<zktesting::Server> server_;

 protected:
  zktesting::Proxy proxy{server().connect_string()};

 private:
  Client operator_ = direct();
};

TEST_F(SemaphoreFaults, CreateLost) {
  Client client = proxied();
  Semaphore semaphore(client, "/semaphore", 3);
  // One at a time: after a lost create of its turn's node, the first transaction is a proof.
  for (const RequestType type : {RequestType::create2, RequestType::multi}) {
    for (const bool request : {true, false}) {
      auto fault = request ? proxy.drop_next_request(type) : proxy.drop_next_reply(type);
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

TEST_F(SemaphoreFaults, StopWhileCreateInFlight) {
  Client client = proxied();
  Semaphore semaphore(client, "/semaphore", 3);
  semaphore.acquire({.deadline = soon()}).release();
  for (const bool cut : {false, true}) {
    client.sync("/", {.deadline = soon()});  // The replies to what was removed before are not held.
    auto held = proxy.hold_next_reply(RequestType::multi);
    std::stop_source stop;
    auto waiting =
        in_thread([&] { return error_of([&] { (void)semaphore.acquire_many(2, {.stop = stop.get_token()}); }); });
    ASSERT_TRUE(held.wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(waiting), Errc::cancelled);
    if (cut) proxy.cut();
    held.release();
    EXPECT_TRUE(remain(0, 0));
  }
  expect_nothing_left();
}

TEST_F(SemaphoreFaults, ParentMissingOrRemoved) {
  Client client = direct();
  Semaphore semaphore(client, "/semaphore", 1);
  std::jthread reaper([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::error_code ignored;
      for (const char* path : {"/semaphore/leases", "/semaphore/locks", "/semaphore"})
        the_operator().remove(path, zkclient::any_version, {}, ignored);
    }
  });
  for (int i = 0; i < 15; ++i)
    semaphore.acquire({.deadline = soon()}).release();
  reaper = {};
  expect_nothing_left();
}

TEST_F(SemaphoreFaults, ConnectionBreaksWhileWaiting) {
  Client client = proxied();
  Semaphore semaphore(client, "/semaphore", 1);
  Semaphore other(the_operator(), "/semaphore", 1);
  Lease held = other.acquire();
  auto waiting = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2, 1));
  const std::size_t accepted = proxy.accepted_connections();
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > accepted; }));
  proxy.refuse(true);
  proxy.cut();
  held.release();
  proxy.refuse(false);
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_F(SemaphoreFaults, SessionLostWhileWaiting) {
  Client client = direct();
  Client behind_client = direct();
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

TEST_F(SemaphoreFaults, SessionLostWhileHolding) {
  Client client = direct();
  Semaphore semaphore(client, "/semaphore", 2);
  std::vector<Lease> leases = semaphore.acquire_many(2);
  Semaphore other(the_operator(), "/semaphore", 2);
  auto waiting = in_thread([&] { return other.acquire_many(2, {.deadline = soon()}); });
  expire(client);
  EXPECT_EQ(result_of(waiting).size(), 2u);
  for (Lease& lease : leases) {
    EXPECT_TRUE(stopped(lease.lost()));
    EXPECT_EQ(lease.state(), LeaseState::lost);
  }
}

// A process that dies sends nothing any more, and its connections are gone.
TEST_F(SemaphoreFaults, HoldersProcessDies) {
  Client client = proxied(4s);
  Semaphore semaphore(client, "/semaphore", 2);
  const std::vector<Lease> leases = semaphore.acquire_many(2, {.deadline = soon()});
  Semaphore other(the_operator(), "/semaphore", 2);
  auto waiting = in_thread([&] { return other.acquire_many(2, {.deadline = soon()}); });
  proxy.refuse(true);
  proxy.cut();
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
        Client client = random() % 2 == 0 ? direct() : proxied();
        Semaphore semaphore(client, "/semaphore", limit);
        const auto lease = std::make_shared<Lease>(semaphore.acquire({.deadline = soon()}));
        granted.add(lease);
        ++acquired;
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 5));
        switch (random() % 4) {
          case 0:  // Whoever ends a session by its password is faster than any notice of it.
            granted.forget(lease);
            expire(client);
            break;
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

// For N holders.
TEST_F(SemaphoreFaults, PartitionedPastExpiryWhileHolding) {
  Client client = proxied(testkit::contended_session);
  Semaphore semaphore(client, "/semaphore", 1);
  Lease lease = semaphore.acquire({.deadline = soon()});
  Semaphore other(the_operator(), "/semaphore", 1);
  auto waiting = in_thread([&] {
    Lease next = other.acquire({.deadline = soon()});
    EXPECT_FALSE(lease.valid());
    EXPECT_TRUE(lease.lost().stop_requested());
    return next;
  });
  ASSERT_TRUE(remain(2, 1));
  proxy.stall(Direction::both);
  EXPECT_TRUE(result_of(waiting).valid());
  proxy.unstall(Direction::both);
}

TEST_F(SemaphoreFaults, ClientClosed) {
  Client client = direct();
  Semaphore semaphore(client, "/semaphore", 1);
  Lease lease = semaphore.acquire();
  auto waiting = in_thread([&] { return error_of([&] { (void)semaphore.acquire({.deadline = soon()}); }); });
  ASSERT_TRUE(remain(2, 1));
  client.close();
  EXPECT_EQ(result_of(waiting), Errc::closed);
  EXPECT_EQ(lease.state(), LeaseState::lost);
  expect_nothing_left();
}

// --- Revocation ---------------------------------------------------------------------------------------------------

class RevokeFaults : public SemaphoreFaults {};

TEST_F(RevokeFaults, RequestLost) {
  Client client = proxied();
  Mutex mutex(the_operator(), "/semaphore/lock");
  for (const bool request : {true, false}) {
    Lease lease = mutex.acquire();
    auto fault =
        request ? proxy.drop_next_request(RequestType::set_data) : proxy.drop_next_reply(RequestType::set_data);
    EXPECT_EQ(revoke_holders(client, mutex.path(), {}, {.deadline = soon()}), RevokeOutcome::requested);
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(stopped(lease.revoke_requested()));
    auto broken = request ? proxy.drop_next_request(RequestType::remove) : proxy.drop_next_reply(RequestType::remove);
    const RevokeOutcome outcome = revoke(client, lease.node(), {.break_after = 0ms}, {.deadline = soon()});
    // What the lost reply would have said cannot be known any more.
    EXPECT_TRUE(outcome == RevokeOutcome::broken || (!request && outcome == RevokeOutcome::released));
    EXPECT_TRUE(broken.wait(patience));
    EXPECT_TRUE(stopped(lease.lost()));
  }
}

TEST_F(RevokeFaults, EndedWhileTheRequestIsInFlight) {
  Client client = proxied();
  Mutex mutex(the_operator(), "/semaphore/lock");
  const Lease lease = mutex.acquire();
  for (const bool by_stop : {false, true}) {
    auto held = proxy.hold_next_reply(RequestType::set_data);
    std::stop_source stop;
    const auto deadline = by_stop ? soon() : testkit::SteadyClock::now() + 3s;
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

// The holder has gone when the request is written, and somebody else has the node that all want.
TEST_F(RevokeFaults, TheSuccessorIsNotAsked) {
  Client client = proxied();
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

TEST_F(RevokeFaults, NoAccess) {
  Mutex mutex(the_operator(), "/semaphore/lock", {.acl = zkclient::read_only_acl()});
  the_operator().ensure("/semaphore/lock");
  Client client = direct();
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
  Client client = direct();
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
  Client client = proxied();
  Mutex mutex(client, "/semaphore/lock");
  const Lease lease = mutex.acquire({.deadline = soon()});
  ASSERT_TRUE(testkit::watch_appears(server(), client.session().id(), lease.node()));
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
  Client client = proxied();
  Mutex mutex(client, "/semaphore/lock");
  const Lease lease = mutex.acquire({.deadline = soon()});
  ASSERT_TRUE(testkit::watch_appears(server(), client.session().id(), lease.node()));
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(revoke_holders(the_operator(), mutex.path()), RevokeOutcome::requested);
  proxy.refuse(false);
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  EXPECT_TRUE(lease.valid());
}

}  // namespace
}  // namespace zkrecipes
