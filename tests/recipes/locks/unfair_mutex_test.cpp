#include <zkrecipes/unfair_mutex.hpp>

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include <zkclient/error.hpp>

#include "tests/support/lockable.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

static_assert(testkit::TimedLockable<UnfairMutex>);

class UnfairMutexTest : public testkit::RecipeTest {
 protected:
  UnfairMutexTest() : RecipeTest("/lock") {}
};

TEST_F(UnfairMutexTest, ExcludesSessionsAndObjects) {
  constexpr int sessions = 4;
  constexpr int rounds = 15;
  testkit::Holdings holdings;
  {
    std::vector<std::jthread> crew;
    for (int s = 0; s < sessions; ++s) {
      crew.emplace_back([&, s] {
        Client own = s % 2 == 0 ? make_client() : client();
        UnfairMutex mutex(own, "/lock");
        for (int i = 0; i < rounds; ++i) {
          Lease lease = mutex.acquire({.deadline = soon()});
          EXPECT_TRUE(holdings.hold(lease, 200us));
          if (i % 2 == 0) lease.release();
        }
      });
    }
  }
  EXPECT_EQ(holdings.size(), std::size_t{sessions * rounds});
  holdings.expect_no_overlap();
  EXPECT_TRUE(remain(0));
}

TEST_F(UnfairMutexTest, TheTokenIsTheCreationOfTheNode) {
  UnfairMutex mutex(client(), "/lock", {.id = "me"});
  const Lease lease = mutex.acquire();
  const auto stat = client().exists("/lock/lock");
  ASSERT_TRUE(stat);
  EXPECT_EQ(lease.token().value, stat->czxid);
  const auto own = client().exists(lease.node());
  ASSERT_TRUE(own);
  EXPECT_EQ(own->czxid, stat->czxid);
  const auto holder = mutex.holder();
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->token, lease.token());
  EXPECT_EQ(holder->session_id, lease.session()->id());
  EXPECT_TRUE(holder->data.starts_with("id=me host=")) << holder->data;
}

TEST_F(UnfairMutexTest, WaitersAreWoken) {
  UnfairMutex mutex(client(), "/lock");
  Lease held = mutex.acquire();
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  Box<bool> outcome;
  // Either may be first, so this one gives it back at once.
  mutex.async_acquire([&](const Result<Lease>& result) { outcome.put(result && result->valid()); });
  held.release();
  result_of(waiting).release();
  EXPECT_TRUE(outcome.take());
}

TEST_F(UnfairMutexTest, NodeDeletedByHandWhileHolding) {
  UnfairMutex mutex(client(), "/lock");
  for (const bool wanted : {true, false}) {
    Lease lease = mutex.acquire();
    client().remove(wanted ? Path("/lock/lock") : Path(lease.node()));
    EXPECT_TRUE(stopped(lease.lost()));
    EXPECT_EQ(lease.state(), LeaseState::lost);
    EXPECT_TRUE(remain(0)) << "what is left goes too";
  }
}

// Robbed of its node, the former holder does not know it yet: nothing of its successor's may be taken for its own.
TEST_F(UnfairMutexTest, ReleaseAfterTheNodeWasDeleted) {
  Client other_client = make_client();
  UnfairMutex mutex(client(), "/lock");
  UnfairMutex other(other_client, "/lock");
  for (const bool everything : {false, true}) {
    for (int i = 0; i < 20; ++i) {
      Lease robbed = mutex.acquire();
      const zkclient::Check guard = robbed.guard();
      Transaction robbery;
      robbery.remove("/lock/lock");
      if (everything) robbery.remove(robbed.node());
      other_client.commit(robbery);
      Lease successor = other.acquire({.deadline = soon()});
      std::error_code error;
      client().commit(Transaction().create("/written", "").check(guard), {}, error);
      EXPECT_EQ(error, Errc::transaction_failed);
      robbed.release({}, error);
      EXPECT_TRUE(client().exists("/lock/lock"));
      EXPECT_TRUE(successor.valid());
      successor.release();
      EXPECT_TRUE(remain(0));
    }
  }
}

// Whoever made the node that all want has it, whatever it is.
TEST_F(UnfairMutexTest, ForeignNodeOfTheWantedName) {
  UnfairMutex mutex(client(), "/lock");
  client().ensure("/lock");
  client().create("/lock/lock", "foreign");
  EXPECT_FALSE(mutex.try_acquire());
  EXPECT_EQ(mutex.holder()->data, "foreign");
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  EXPECT_EQ(client().get("/lock/lock").data, "foreign");
  client().remove("/lock/lock");
  EXPECT_TRUE(result_of(waiting).valid());
}

// What is left of a former holding has the same kind of name, but was not made together with the node.
TEST_F(UnfairMutexTest, TheHoldersNodeIsNotALeftOver) {
  const Path former = "/lock/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock";
  UnfairMutex mutex(client(), "/lock");
  Lease lease = mutex.acquire();
  EXPECT_EQ(Path("/lock") / mutex.holder()->node, Path(lease.node()));
  client().create(former, "", {.mode = zkclient::CreateMode::ephemeral});
  EXPECT_EQ(Path("/lock") / mutex.holder()->node, Path(lease.node()));
  lease.release();
  EXPECT_FALSE(mutex.holder());
  client().create("/lock/lock", "foreign", {.mode = zkclient::CreateMode::ephemeral});
  EXPECT_EQ(mutex.holder()->node, "lock") << "it has no second node";
}

// Both watch one node, for one session: a waiter that leaves takes only its own watch along.
TEST_F(UnfairMutexTest, StopRequestEndsOneWaitAndNoOther) {
  UnfairMutex mutex(client(), "/lock");
  Lease held = mutex.acquire();
  auto staying = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  for (int i = 0; i < 5; ++i) {
    std::stop_source stop;
    auto leaving = in_thread([&] { return error_of([&] { (void)mutex.acquire({.stop = stop.get_token()}); }); });
    EXPECT_EQ(leaving.wait_for(20ms), std::future_status::timeout);
    stop.request_stop();
    EXPECT_EQ(result_of(leaving), Errc::cancelled);
  }
  held.release();
  EXPECT_TRUE(result_of(staying).valid());
}

TEST_F(UnfairMutexTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { UnfairMutex(client(), "/lock", {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { UnfairMutex(client(), "lock"); }), Errc::invalid_path);
}

}  // namespace
}  // namespace zkrecipes
