#include <zkrecipes/revoke.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class RevokeTest : public testkit::RecipeTest {
 protected:
  RevokeTest() : RecipeTest("/lock") {}
  void SetUp() override {
    RecipeTest::SetUp();
    other_ = make_client();
  }
  void TearDown() override {
    other_.reset();
    RecipeTest::TearDown();
  }
  Client& other() { return *other_; }

 private:
  std::optional<Client> other_;
};

TEST_F(RevokeTest, TheHolderIsAsked) {
  Mutex mutex(client(), "/lock", {.id = "me"});
  Lease lease = mutex.acquire();
  EXPECT_FALSE(lease.revoke_requested().stop_requested());
  EXPECT_EQ(revoke_holders(other(), "/lock"), RevokeOutcome::requested);
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  EXPECT_TRUE(lease.valid()) << "it is only asked";
  EXPECT_FALSE(lease.lost().stop_requested());
  EXPECT_TRUE(eventually([&] { return mutex.contenders().front().data.starts_with("id=me host="); }))
      << "its words are there again";
  lease.release();
  EXPECT_EQ(revoke_holders(other(), "/lock"), RevokeOutcome::released) << "nobody holds";
}

// Or not any more. With a grace time nobody waits for its end.
TEST_F(RevokeTest, NobodyHolds) {
  client().create("/lock", "words");
  client().create("/lock/foreign", "words");
  for (const RevokeOptions& options : {RevokeOptions(), RevokeOptions{.break_after = 1h}}) {
    const auto ask = [&](const Path& path) { return revoke_holders(other(), path, options, {.deadline = soon()}); };
    EXPECT_EQ(ask("/missing"), RevokeOutcome::released);
    EXPECT_EQ(ask("/lock"), RevokeOutcome::released);
    std::vector<Lease> leases;
    leases.push_back(Mutex(client(), "/lock").acquire());
    leases.push_back(UnfairMutex(client(), "/unfair").acquire());
    leases.push_back(Semaphore(client(), "/semaphore", 1).acquire());
    for (Lease& lease : leases) {
      const Path node = lease.node();
      lease.release();
      EXPECT_EQ(revoke(other(), node, options, {.deadline = soon()}), RevokeOutcome::released) << node.str();
      EXPECT_EQ(ask(node.parent()), RevokeOutcome::released) << node.str();
      EXPECT_FALSE(lease.revoke_requested().stop_requested());
    }
  }
  EXPECT_EQ(client().get("/lock").data, "words");
  EXPECT_EQ(client().get("/lock/foreign").data, "words");
}

// What Curator writes, and what ZooKeeper's documentation says; any other words mean nothing.
TEST_F(RevokeTest, UnderstandsBothForms) {
  Mutex mutex(client(), "/lock");
  for (const char* words : {"__REVOKE__", "unlock"}) {
    Lease lease = mutex.acquire();
    other().set(lease.node(), "some words");
    EXPECT_FALSE(stopped(lease.revoke_requested(), 50ms));
    other().set(lease.node(), words);
    EXPECT_TRUE(stopped(lease.revoke_requested())) << words;
  }
}

TEST_F(RevokeTest, HolderThatGivesWay) {
  Mutex mutex(client(), "/lock");
  Mutex mine(other(), "/lock");
  auto holding = in_thread([&] {
    Lease lease = mutex.acquire();
    const bool asked = stopped(lease.revoke_requested());
    lease.release();
    return asked;
  });
  ASSERT_TRUE(remain(1));
  auto waiting = in_thread([&] { return mine.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  EXPECT_EQ(revoke_holders(other(), "/lock", {.break_after = testkit::patience}), RevokeOutcome::released);
  EXPECT_TRUE(result_of(holding));
  EXPECT_TRUE(result_of(waiting).valid());
}

TEST_F(RevokeTest, HolderThatDoesNotReactIsBroken) {
  Mutex mutex(client(), "/lock");
  Lease lease = mutex.acquire();
  const auto start = testkit::SteadyClock::now();
  EXPECT_EQ(revoke(other(), lease.node(), {.break_after = 100ms}), RevokeOutcome::broken);
  EXPECT_GE(testkit::SteadyClock::now() - start, 100ms);
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(names().empty());
  EXPECT_EQ(revoke(other(), lease.node(), {.break_after = 100ms}), RevokeOutcome::released);
}

TEST_F(RevokeTest, HolderReleasesWhileItIsBroken) {
  for (const bool fair : {true, false}) {
    Mutex mutex(client(), "/lock");
    UnfairMutex unfair(client(), "/unfair");
    Mutex next_mutex(other(), "/lock");
    UnfairMutex next_unfair(other(), "/unfair");
    for (int i = 0; i < 15; ++i) {
      Lease lease = fair ? mutex.acquire() : unfair.acquire();
      auto waiting = in_thread(
          [&] { return fair ? next_mutex.acquire({.deadline = soon()}) : next_unfair.acquire({.deadline = soon()}); });
      const std::string node = lease.node();
      auto breaking = in_thread([&] { return revoke(other(), node, {.break_after = 0ms}); });
      std::error_code error;
      lease.release({}, error);
      const RevokeOutcome outcome = result_of(breaking);
      EXPECT_TRUE(outcome == RevokeOutcome::released || outcome == RevokeOutcome::broken) << to_string(outcome);
      Lease next = result_of(waiting);
      EXPECT_TRUE(next.valid()) << "the successor is untouched";
      EXPECT_FALSE(next.revoke_requested().stop_requested());
      other().commit(Transaction().check(next.guard()));
      next.release();
    }
  }
}

TEST_F(RevokeTest, DeadlineBeforeTheGraceIsOver) {
  Mutex mutex(client(), "/lock");
  const Lease lease = mutex.acquire();
  EXPECT_EQ(error_of([&] {
              revoke(other(), lease.node(), {.break_after = 1h}, {.deadline = testkit::SteadyClock::now() + 50ms});
            }),
            Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] {
    return error_of([&] { revoke(other(), lease.node(), {.break_after = 1h}, {.stop = stop.get_token()}); });
  });
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_TRUE(lease.valid());
}

// Without a deadline of the caller's, the grace time comes on top of what an operation may take.
TEST_F(RevokeTest, TheGraceMayBeLongerThanAnOperation) {
  Client hasty = make_client({.operation_timeout = 8000ms});
  Mutex mutex(client(), "/lock");
  const Lease lease = mutex.acquire();
  EXPECT_EQ(revoke(hasty, lease.node(), {.break_after = 8500ms}), RevokeOutcome::broken);
  EXPECT_TRUE(stopped(lease.lost()));
}

// A contender that waits is asked as well; it sees it when it holds.
TEST_F(RevokeTest, TheGraceMayBeForEver) {
  Mutex mutex(client(), "/lock");
  Lease lease = mutex.acquire();
  auto asking =
      in_thread([&] { return revoke(other(), lease.node(), {.break_after = std::chrono::milliseconds::max()}); });
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  EXPECT_EQ(asking.wait_for(100ms), std::future_status::timeout) << "it does not break at once";
  EXPECT_TRUE(lease.valid());
  lease.release();
  EXPECT_EQ(result_of(asking), RevokeOutcome::released);
}

TEST_F(RevokeTest, AWaiterIsAsked) {
  Mutex mutex(client(), "/lock");
  Lease held = mutex.acquire();
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  EXPECT_EQ(revoke(other(), Path("/lock") / mutex.contenders()[1].node), RevokeOutcome::requested);
  EXPECT_FALSE(stopped(held.revoke_requested(), 30ms));
  held.release();
  const Lease lease = result_of(waiting);
  EXPECT_TRUE(stopped(lease.revoke_requested()));
}

TEST_F(RevokeTest, AllReaders) {
  SharedMutex mutex(client(), "/lock");
  Lease first = mutex.acquire_shared();
  Lease second = mutex.acquire_shared();
  EXPECT_EQ(revoke_holders(other(), "/lock"), RevokeOutcome::requested);
  EXPECT_TRUE(stopped(first.revoke_requested()));
  EXPECT_TRUE(stopped(second.revoke_requested()));
  first.release();
  EXPECT_EQ(revoke_holders(other(), "/lock", {.break_after = 50ms}), RevokeOutcome::broken);
  EXPECT_TRUE(stopped(second.lost()));
}

TEST_F(RevokeTest, SemaphoreToo) {
  Semaphore semaphore(client(), "/semaphore", 2);
  std::vector<Lease> leases = semaphore.acquire_many(2);
  EXPECT_EQ(revoke_holders(other(), "/semaphore/leases"), RevokeOutcome::requested);
  for (const Lease& lease : leases)
    EXPECT_TRUE(stopped(lease.revoke_requested()));
  EXPECT_EQ(revoke(other(), leases[0].node(), {.break_after = 50ms}), RevokeOutcome::broken);
  EXPECT_TRUE(stopped(leases[0].lost()));
  EXPECT_TRUE(leases[1].valid());
}

TEST_F(RevokeTest, UnfairMutexToo) {
  UnfairMutex mutex(client(), "/lock", {.id = "me"});
  UnfairMutex mine(other(), "/lock");
  Lease lease = mutex.acquire();
  EXPECT_EQ(revoke(other(), lease.node()), RevokeOutcome::requested);
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  EXPECT_TRUE(eventually([&] { return mutex.holder()->data.starts_with("id=me"); }));
  auto waiting = in_thread([&] { return mine.acquire({.deadline = soon()}); });
  EXPECT_EQ(revoke_holders(client(), "/lock", {.break_after = 50ms}), RevokeOutcome::broken);
  EXPECT_TRUE(stopped(lease.lost()));
  const Lease next = result_of(waiting);
  EXPECT_EQ(revoke(client(), lease.node(), {.break_after = 0ms}), RevokeOutcome::released)
      << "that holding is over; the next one is not meant";
  EXPECT_TRUE(next.valid());
}

// What looks like a holding, but was not made together with the node that all want, is nobody's any more.
TEST_F(RevokeTest, AFormerHoldingIsNotMeant) {
  UnfairMutex mutex(client(), "/lock");
  const Lease lease = mutex.acquire();
  for (const char digit : std::string("02468ace")) {
    const std::string uuid = std::string(8, digit) + "-0000-0000-0000-000000000000";
    const Path former = Path("/lock") / ("_c_" + uuid + "-lock");
    client().create(former, "");
    EXPECT_EQ(revoke(other(), former), RevokeOutcome::released);
  }
  EXPECT_FALSE(stopped(lease.revoke_requested(), 50ms));
  EXPECT_EQ(revoke_holders(other(), "/lock", {.break_after = 0ms}), RevokeOutcome::broken);
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_FALSE(mutex.holder());
}

// A broken holder that does not know it yet: its guard fails, and its release harms nobody.
TEST_F(RevokeTest, BrokenHolderIsFenced) {
  UnfairMutex mutex(client(), "/lock");
  UnfairMutex mine(other(), "/lock");
  for (int i = 0; i < 10; ++i) {
    Lease robbed = mutex.acquire();
    const zkclient::Check guard = robbed.guard();
    EXPECT_EQ(revoke_holders(other(), "/lock", {.break_after = 0ms}), RevokeOutcome::broken);
    Lease next = mine.acquire({.deadline = soon()});
    std::error_code error;
    client().commit(Transaction().create("/written", "").check(guard), {}, error);
    EXPECT_EQ(error, Errc::transaction_failed);
    robbed.release({}, error);
    EXPECT_TRUE(next.valid());
    next.release();
    EXPECT_TRUE(remain(0));
  }
}

// Persistent nodes and containers are nobody's: neither their words nor they themselves are touched.
TEST_F(RevokeTest, RefusesWhatIsNotAContendersNode) {
  for (const char* directory : {"/lock", "/other"}) {  // The former has the name of an UnfairMutex's node.
    Mutex mutex(client(), directory);
    const Lease lease = mutex.acquire();
    client().set(directory, "words");
    for (const RevokeOptions& options : {RevokeOptions(), RevokeOptions{.break_after = 0ms}}) {
      try {
        revoke(other(), directory, options);
        ADD_FAILURE() << "no error was thrown";
      } catch (const zkclient::Error& error) {
        EXPECT_EQ(error.errc(), Errc::invalid_argument);
        EXPECT_EQ(error.operation(), "revoke");
        EXPECT_EQ(error.path(), directory);
        EXPECT_NE(error.detail().find("not the node of a contender"), std::string::npos) << error.detail();
      }
    }
    EXPECT_EQ(client().get(directory).data, "words");
    EXPECT_TRUE(lease.valid());
  }
  client().create("/persistent", "words");
  EXPECT_EQ(error_of([&] { revoke(other(), "/persistent", {.break_after = 0ms}); }), Errc::invalid_argument);
  EXPECT_EQ(client().get("/persistent").data, "words");
  EXPECT_EQ(error_of([&] { revoke(other(), "/"); }), Errc::invalid_argument);
  EXPECT_EQ(revoke(other(), "/missing"), RevokeOutcome::released);
  EXPECT_EQ(revoke(other(), "/missing/lock"), RevokeOutcome::released);
}

// A lock within the directory of another one, called like an UnfairMutex's node.
TEST_F(RevokeTest, ALockBelowIsNotMeant) {
  Mutex above(client(), "/lock");
  Mutex below(client(), "/lock/lock");
  const Lease held = above.acquire();
  const Lease inner = below.acquire();
  client().set("/lock/lock", "words");
  EXPECT_EQ(revoke_holders(other(), "/lock"), RevokeOutcome::requested);
  EXPECT_TRUE(stopped(held.revoke_requested()));
  EXPECT_FALSE(inner.revoke_requested().stop_requested());
  EXPECT_EQ(client().get("/lock/lock").data, "words");
}

// Children that are nobody's, with names of contenders, before the holder and beside it.
TEST_F(RevokeTest, PersistentNodesDoNotHold) {
  Mutex mutex(client(), "/lock");
  client().create("/lock/_c_x-latch-0000000000", "words", {.parents = true});
  const Lease held = mutex.acquire();
  client().create("/lock/_c_x-latch--000000001", "words");
  EXPECT_EQ(revoke_holders(other(), "/lock"), RevokeOutcome::requested);
  EXPECT_TRUE(stopped(held.revoke_requested()));
  EXPECT_EQ(revoke_holders(other(), "/lock", {.break_after = 0ms}), RevokeOutcome::broken);
  EXPECT_TRUE(stopped(held.lost()));
  EXPECT_EQ(client().get("/lock/_c_x-latch-0000000000").data, "words");
  EXPECT_EQ(client().get("/lock/_c_x-latch--000000001").data, "words");
  EXPECT_EQ(revoke_holders(other(), "/lock", {.break_after = 0ms}), RevokeOutcome::released);
}

TEST_F(RevokeTest, Asynchronously) {
  Mutex mutex(client(), "/lock");
  Lease lease = mutex.acquire();
  Box<Result<RevokeOutcome>> outcome;
  async_revoke(other(), lease.node(), {}, [&](Result<RevokeOutcome> result) { outcome.put(std::move(result)); });
  EXPECT_EQ(outcome.take().value(), RevokeOutcome::requested);
  async_revoke_holders(other(), "/lock", {.break_after = 10ms},
                       [&](Result<RevokeOutcome> result) { outcome.put(std::move(result)); });
  EXPECT_EQ(outcome.take().value(), RevokeOutcome::broken);
}

// However the grace time ends: with it, by a release, or because the one who asked goes.
TEST_F(RevokeTest, LeavesNoWatch) {
  if (!zktesting::SharedServer::instance().has_control()) GTEST_SKIP() << "the server is not ours to ask";
  zktesting::Server& server = zktesting::SharedServer::instance().server();
  const auto none_left = [&] { return eventually([&] { return server.watch_count() == 0; }); };
  for (const bool fair : {true, false}) {
    Mutex mutex(client(), "/lock");
    UnfairMutex unfair(client(), "/unfair");
    Lease lease = fair ? mutex.acquire() : unfair.acquire();
    EXPECT_EQ(revoke(other(), lease.node(), {.break_after = 50ms}), RevokeOutcome::broken);
    EXPECT_TRUE(none_left()) << server.four_letter_word("wchp");

    lease = fair ? mutex.acquire() : unfair.acquire();
    auto asking = in_thread([&, node = lease.node()] {
      return revoke(other(), node, {.break_after = testkit::patience}, {.deadline = soon() + testkit::patience});
    });
    const Path watched(prefix().str() + lease.node());
    EXPECT_TRUE(testkit::watch_appears(server, other().session().id(), watched));
    lease.release();
    EXPECT_EQ(result_of(asking), RevokeOutcome::released);
    EXPECT_TRUE(none_left()) << server.four_letter_word("wchp");

    lease = fair ? mutex.acquire() : unfair.acquire();
    EXPECT_EQ(error_of([&] {
                revoke(other(), lease.node(), {.break_after = 1h}, {.deadline = testkit::SteadyClock::now() + 50ms});
              }),
              Errc::deadline_exceeded);
    EXPECT_TRUE(eventually([&] {
      const auto watches = testkit::watches_at(server);
      return std::none_of(watches.begin(), watches.end(),
                          [&](const auto& watch) { return watch.session_id == other().session().id(); });
    })) << "while it is still held";
    lease.release();
    EXPECT_TRUE(none_left()) << server.four_letter_word("wchp");
  }
}

TEST_F(RevokeTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { revoke(client(), "/lock/x", {.break_after = -1ms}); }), Errc::invalid_argument);
  EXPECT_EQ(revoke(client(), "/lock/x"), RevokeOutcome::released) << "there is no such contender";
}

}  // namespace
}  // namespace zkrecipes
