#include <zkrecipes/double_barrier.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class DoubleBarrierTest : public testkit::RecipeTest {
 protected:
  DoubleBarrierTest() : RecipeTest("/barrier") {}
  static CallOptions within(std::chrono::milliseconds time) { return {.deadline = SteadyClock::now() + time}; }
};

TEST_F(DoubleBarrierTest, EnterTogetherLeaveTogether) {
  Client other = make_client();
  DoubleBarrier a(client(), path(), 2, {.id = "a"});
  DoubleBarrier b(other, path(), 2);
  auto entering = in_thread([&] { return a.enter(patient()); });
  ASSERT_TRUE(remain(1));
  EXPECT_FALSE(a.inside());
  EXPECT_TRUE(client().get(path() / names().front()).data.starts_with("id=a host="));
  const Round round = b.enter(patient());
  EXPECT_EQ(result_of(entering), round);
  EXPECT_EQ(round.members.size(), 2u);
  EXPECT_GT(round.number, 0);
  EXPECT_TRUE(a.inside() && b.inside());
  auto leaving = in_thread([&] { a.leave(patient()); });
  ASSERT_TRUE(remain(1));
  EXPECT_TRUE(b.inside());
  EXPECT_EQ(leaving.wait_for(30ms), std::future_status::timeout) << "the other one is inside";
  b.leave(patient());
  result_of(leaving);
  EXPECT_FALSE(a.inside() || b.inside());
  EXPECT_TRUE(remain(0));
  EXPECT_EQ(error_of([&] { a.leave(); }), Errc::not_held);
}

TEST_F(DoubleBarrierTest, RoundAfterRound) {
  constexpr int crew = 4;
  constexpr int rounds = 25;
  std::mutex mutex;
  std::map<std::int64_t, std::vector<int>> seen;
  std::atomic<int> inside{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < crew; ++t) {
      threads.emplace_back([&, t] {
        Client own = t % 2 == 0 ? make_client() : client();
        DoubleBarrier barrier(own, path(), crew);
        std::int64_t last = 0;
        for (int i = 0; i < rounds; ++i) {
          const Round round = barrier.enter(patient());
          EXPECT_GT(round.number, last);
          last = round.number;
          ++inside;
          {
            const std::lock_guard lock(mutex);
            seen[round.number].push_back(t);
          }
          EXPECT_LE(inside, crew);
          --inside;
          barrier.leave(patient());
        }
      });
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(rounds));
  for (auto& [number, members] : seen) {
    std::sort(members.begin(), members.end());
    EXPECT_EQ(members, (std::vector<int>{0, 1, 2, 3})) << number;
  }
  EXPECT_TRUE(remain(0));
}

TEST_F(DoubleBarrierTest, DeadlineOrStopWhileEntering) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  EXPECT_EQ(error_of([&] { (void)a.enter(within(50ms)); }), Errc::deadline_exceeded);
  EXPECT_TRUE(remain(0)) << "it has withdrawn";
  EXPECT_FALSE(b.try_enter_for(50ms)) << "the other one is not there any more";
  std::stop_source stop;
  auto entering = in_thread([&] { return error_of([&] { (void)a.enter({.stop = stop.get_token()}); }); });
  ASSERT_TRUE(remain(1));
  stop.request_stop();
  EXPECT_EQ(result_of(entering), Errc::cancelled);
  EXPECT_TRUE(remain(0));
  auto again = in_thread([&] { return a.enter(patient()); });
  const Round round = b.enter(patient());
  EXPECT_EQ(result_of(again), round) << "both can be used again";
}

TEST_F(DoubleBarrierTest, NoTimeMeansOneTry) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  EXPECT_FALSE(b.try_enter_for(0ms));
  EXPECT_TRUE(remain(0)) << "it has withdrawn";
  auto first = in_thread([&] { return a.enter(patient()); });
  ASSERT_TRUE(remain(1));
  const std::optional<Round> round = b.try_enter_for(0ms);
  ASSERT_TRUE(round) << "all of the others were there";
  EXPECT_EQ(result_of(first), *round);
  EXPECT_FALSE(b.try_leave_for(0ms)) << "the other one is inside still";
  EXPECT_FALSE(b.inside());
  EXPECT_TRUE(a.try_leave_for(0ms)) << "the other one has left";
  EXPECT_TRUE(remain(0));
}

// Whoever gives up in the moment in which the round begins is in it, or is not: the others see the same.
TEST_F(DoubleBarrierTest, DeadlineInTheMomentOfTheBegin) {
  Client other = make_client();
  int entered = 0;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(remain(0)) << "of those before";
    DoubleBarrier a(client(), path(), 2);
    DoubleBarrier b(other, path(), 2);
    std::stop_source stop;
    auto first = in_thread([&] {
      try {
        return std::optional<Round>(a.enter({.deadline = soon(), .stop = stop.get_token()}));
      } catch (const zkclient::Error& error) {
        EXPECT_EQ(error.errc(), Errc::cancelled);
        return std::optional<Round>();
      }
    });
    ASSERT_TRUE(remain(1));
    const auto begin = SteadyClock::now();
    auto second = in_thread([&] { return b.try_enter_for(250ms); });
    std::this_thread::sleep_for(std::chrono::microseconds(i * 60));
    stop.request_stop();
    // Who gives up has half a second to find out; where the machine took longer, the other one may see it crash.
    const std::optional<Round> mine = result_of(first);
    bool in_time = SteadyClock::now() - begin < 500ms;
    const std::optional<Round> theirs = result_of(second);
    in_time = in_time && SteadyClock::now() - begin < 250ms + 500ms;
    if (in_time || (mine && theirs)) {
      EXPECT_EQ(mine, theirs);
    }
    if (mine) ++entered;
  }
  GTEST_LOG_(INFO) << entered << " of 40 entered";
  EXPECT_TRUE(remain(0));
}

TEST_F(DoubleBarrierTest, DeadlineOrStopWhileLeaving) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  auto entering = in_thread([&] { return a.enter(patient()); });
  (void)b.enter(patient());
  result_of(entering);
  EXPECT_FALSE(a.try_leave_for(30ms)) << "the other one is in still";
  EXPECT_FALSE(a.inside()) << "but this one is out";
  EXPECT_TRUE(remain(1));
  b.leave(patient());
  EXPECT_TRUE(remain(0));

  auto again = in_thread([&] { return a.enter(patient()); });
  (void)b.enter(patient());
  result_of(again);
  std::stop_source stop;
  const CallOptions stoppable{.deadline = soon(), .stop = stop.get_token()};
  auto leaving = in_thread([&] { return error_of([&] { a.leave(stoppable); }); });
  ASSERT_TRUE(remain(1));
  stop.request_stop();
  EXPECT_EQ(result_of(leaving), Errc::cancelled);
  EXPECT_FALSE(a.inside());
  EXPECT_TRUE(b.inside());
  EXPECT_EQ(error_of([&] { a.leave(patient()); }), Errc::not_held) << "it is out";
  b.leave(patient());
  EXPECT_TRUE(remain(0));
}

// The stop came before leave() did: it is out all the same.
TEST_F(DoubleBarrierTest, StoppedBeforeLeaving) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  auto entering = in_thread([&] { return a.enter(patient()); });
  (void)b.enter(patient());
  result_of(entering);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of([&] { a.leave({.stop = stop.get_token()}); }), Errc::cancelled);
  EXPECT_FALSE(a.inside());
  b.leave(patient());
  EXPECT_TRUE(remain(0));
}

TEST_F(DoubleBarrierTest, ExtraMembersWaitForTheNextRound) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  DoubleBarrier c(client(), path(), 2);
  DoubleBarrier d(client(), path(), 2);
  auto first = in_thread([&] { return a.enter(patient()); });
  (void)b.enter(patient());
  const Round round = result_of(first);
  auto third = in_thread([&] { return c.enter(patient()); });
  auto fourth = in_thread([&] { return d.enter(patient()); });
  ASSERT_TRUE(remain(4));
  EXPECT_EQ(third.wait_for(30ms), std::future_status::timeout);
  auto leaving = in_thread([&] { a.leave(patient()); });
  ASSERT_TRUE(remain(3));
  EXPECT_EQ(third.wait_for(30ms), std::future_status::timeout) << "the round goes on";
  b.leave(patient());
  result_of(leaving);
  const Round next = result_of(third);
  EXPECT_EQ(result_of(fourth), next);
  EXPECT_GT(next.number, round.number);
}

// The place of one who crashes inside stays empty until the round is over.
TEST_F(DoubleBarrierTest, MemberBeyondNTakesNoPlaceInARound) {
  Client dying = make_client();
  DoubleBarrier a(dying, path(), 2);
  DoubleBarrier b(client(), path(), 2);
  DoubleBarrier c(client(), path(), 2);
  auto first = in_thread([&] { return a.enter(patient()); });
  (void)b.enter(patient());
  const Round round = result_of(first);
  auto beyond = in_thread([&] { return c.enter(patient()); });
  ASSERT_TRUE(remain(3));
  dying.close();
  ASSERT_TRUE(remain(2));
  EXPECT_EQ(beyond.wait_for(30ms), std::future_status::timeout) << "the round goes on";
  b.leave(patient());
  EXPECT_TRUE(remain(1));
  EXPECT_EQ(beyond.wait_for(30ms), std::future_status::timeout) << "it is alone";
  const Round next = b.enter(patient());
  EXPECT_EQ(result_of(beyond), next);
  EXPECT_GT(next.number, round.number);
}

TEST_F(DoubleBarrierTest, ExtraMembersAreRefused) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  DoubleBarrier c(client(), path(), 2, {.refuse_extra = true});
  auto first = in_thread([&] { return a.enter(patient()); });
  (void)b.enter(patient());
  result_of(first);
  EXPECT_EQ(error_of([&] { (void)c.enter(patient()); }), Errc::overloaded);
  EXPECT_TRUE(remain(2)) << "it left nothing";
  EXPECT_FALSE(a.try_leave_for(0ms));
  EXPECT_TRUE(remain(1));
  EXPECT_FALSE(c.try_enter_for(50ms)) << "a place is free in the next round";
  ASSERT_TRUE(remain(1)) << "it has withdrawn";
  auto third = in_thread([&] { return c.enter(patient()); });
  ASSERT_TRUE(remain(2));
  b.leave(patient());
  const Round next = a.enter(patient());
  EXPECT_EQ(result_of(third), next);
}

// It can come and go, but not write the record.
TEST_F(DoubleBarrierTest, BeginIsRefused) {
  const int no_write = zkclient::Acl::read | zkclient::Acl::create | zkclient::Acl::remove;
  client().create(path(), "", {.acl = {{no_write, "world", "anyone"}}});
  DoubleBarrier alone(client(), path(), 1);
  EXPECT_EQ(error_of([&] { alone.enter(patient()); }), Errc::no_auth);
  EXPECT_FALSE(alone.inside());
  EXPECT_TRUE(remain(0));
}

TEST_F(DoubleBarrierTest, OwnNodeDeletedByHandWhileEntering) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  auto first = in_thread([&] { return a.enter(patient()); });
  ASSERT_TRUE(remain(1));
  const std::string name = names().front();
  client().remove(path() / name);
  EXPECT_TRUE(eventually([&] { return names().size() == 1 && names().front() != name; })) << "it comes again";
  const Round round = b.enter(patient());
  EXPECT_EQ(result_of(first), round);
}

TEST_F(DoubleBarrierTest, OwnNodeDeletedByHandInside) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  auto first = in_thread([&] { return a.enter(patient()); });
  ASSERT_TRUE(remain(1));
  const std::string name = names().front();
  (void)b.enter(patient());
  result_of(first);
  client().remove(path() / name);
  EXPECT_TRUE(testkit::stopped(a.lost()));
  EXPECT_FALSE(a.inside());
  b.leave(patient());
  EXPECT_EQ(error_of([&] { a.leave(patient()); }), Errc::not_held);
  EXPECT_FALSE(a.try_enter_for(20ms)) << "it can be used again";
}

// Nothing that lies there from before, or is put there by others, lets anybody in or keeps anybody out.
TEST_F(DoubleBarrierTest, ForeignDataAndChildren) {
  client().ensure(path() / "ready", zkclient::CreateMode::persistent);
  client().set(path(), "zkrecipes round\n_c_0-member-0000000007\n");
  DoubleBarrier a(client(), path(), 2);
  EXPECT_FALSE(a.try_enter_for(50ms));
  ASSERT_TRUE(remain(1)) << "`ready`: it has withdrawn";
  DoubleBarrier b(client(), path(), 2);
  auto first = in_thread([&] { return a.enter(patient()); });
  const Round round = b.enter(patient());
  EXPECT_EQ(result_of(first), round);
}

// Where it blocks others for ever: of three, round after round.
TEST_F(DoubleBarrierTest, ReadyOfOthersWithThreeMembers) {
  client().ensure(path() / "ready", zkclient::CreateMode::persistent);
  DoubleBarrier a(client(), path(), 3);
  DoubleBarrier b(client(), path(), 3);
  DoubleBarrier c(client(), path(), 3);
  for (int i = 0; i < 2; ++i) {
    auto first = in_thread([&] { return a.enter(patient()); });
    auto second = in_thread([&] { return b.enter(patient()); });
    ASSERT_TRUE(remain(3)) << "with `ready`";
    EXPECT_EQ(first.wait_for(30ms), std::future_status::timeout);
    EXPECT_EQ(second.wait_for(0ms), std::future_status::timeout);
    const Round round = c.enter(patient());
    EXPECT_EQ(result_of(first), round);
    EXPECT_EQ(result_of(second), round);
    auto leaving = in_thread([&] { a.leave(patient()); });
    auto leaving_too = in_thread([&] { b.leave(patient()); });
    ASSERT_TRUE(remain(2));
    EXPECT_EQ(leaving.wait_for(30ms), std::future_status::timeout);
    EXPECT_EQ(leaving_too.wait_for(0ms), std::future_status::timeout);
    c.leave(patient());
    result_of(leaving);
    result_of(leaving_too);
    EXPECT_EQ(names(), std::vector<std::string>{"ready"});
  }
}

// What the table says: one who is inside may be counted into the next round, where it is seen to leave. Nobody waits
// for ever, and all agree again afterwards.
TEST_F(DoubleBarrierTest, RecordOverwrittenByHand) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  DoubleBarrier c(client(), path(), 2);
  auto first = in_thread([&] { return a.enter(patient()); });
  ASSERT_TRUE(remain(1));
  (void)b.enter(patient());
  const Round round = result_of(first);
  client().set(path(), "overwritten by hand");
  EXPECT_TRUE(a.inside() && b.inside());
  auto third = in_thread([&] { return c.enter(patient()); });
  ASSERT_TRUE(remain(3));
  EXPECT_EQ(third.wait_for(30ms), std::future_status::timeout) << "two are before it";
  auto leaving = in_thread([&] { a.leave(patient()); });
  EXPECT_EQ(result_of(third).members.front(), round.members.back()) << "it counted one who is inside";
  b.leave(patient());
  result_of(leaving);
  c.leave(patient());
  EXPECT_TRUE(remain(0));
  auto again = in_thread([&] { return a.enter(patient()); });
  const Round next = b.enter(patient());
  EXPECT_EQ(result_of(again), next);
}

TEST_F(DoubleBarrierTest, ParentRemovedWhileLeaving) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  auto first = in_thread([&] { return a.enter(patient()); });
  (void)b.enter(patient());
  result_of(first);
  auto leaving = in_thread([&] { a.leave(patient()); });
  ASSERT_TRUE(remain(1));
  client().remove_tree(path());
  result_of(leaving);
  EXPECT_TRUE(testkit::stopped(b.lost()));
  EXPECT_EQ(error_of([&] { b.leave(patient()); }), Errc::not_held);
}

TEST_F(DoubleBarrierTest, ParentRemoved) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  auto first = in_thread([&] { return a.enter(patient()); });
  ASSERT_TRUE(remain(1));
  client().remove_tree(path());
  auto second = in_thread([&] { return b.enter(patient()); });
  EXPECT_EQ(result_of(second), result_of(first));
  client().remove_tree(path());
  EXPECT_TRUE(testkit::stopped(a.lost()));
}

TEST_F(DoubleBarrierTest, APlaceThatNobodyTookIsLeft) {
  testkit::DroppingRuntime dropping;
  Client owner(dropping.runtime(), hosts(), {.prefix = prefix()});
  owner.connect(patient());
  DoubleBarrier barrier(owner, path(), 1);
  dropping.drop();
  barrier.async_enter([](Result<Round>) {}, patient());
  ASSERT_TRUE(dropping.dropped_one());
  dropping.run();
  EXPECT_TRUE(remain(0));
  EXPECT_EQ(barrier.enter(patient()).members.size(), 1u) << "it is outside, and not on its way";
  barrier.leave(patient());
  owner.close();
}

TEST_F(DoubleBarrierTest, AsynchronousForms) {
  DoubleBarrier a(client(), path(), 2);
  DoubleBarrier b(client(), path(), 2);
  Box<Result<Round>> entered;
  Box<Result<void>> left;
  a.async_enter([&](Result<Round> result) { entered.put(std::move(result)); });
  EXPECT_EQ(error_of([&] { (void)a.enter(); }), Errc::would_deadlock) << "it is on its way";
  b.async_enter([&](Result<Round> result) { entered.put(std::move(result)); });
  const Round round = entered.take().value();
  EXPECT_EQ(entered.take().value(), round);
  EXPECT_EQ(error_of([&] { (void)a.enter(); }), Errc::would_deadlock) << "it is inside";
  a.async_leave([&](Result<void> result) { left.put(std::move(result)); });
  b.async_leave([&](Result<void> result) { left.put(std::move(result)); });
  left.take().value();
  left.take().value();
  EXPECT_TRUE(remain(0));
}

TEST_F(DoubleBarrierTest, ObjectGoneLeaves) {
  DoubleBarrier a(client(), path(), 2);
  {
    DoubleBarrier b(client(), path(), 2);
    auto first = in_thread([&] { return a.enter(patient()); });
    const Round round = b.enter(patient());
    EXPECT_EQ(result_of(first), round);
  }
  a.leave(patient());
  EXPECT_TRUE(remain(0));
}

TEST_F(DoubleBarrierTest, ObjectGoneWithdraws) {
  Box<Result<Round>> entered;
  {
    DoubleBarrier a(client(), path(), 2);
    a.async_enter([&](Result<Round> result) { entered.put(std::move(result)); });
    ASSERT_TRUE(remain(1));
  }
  EXPECT_EQ(entered.take().error().errc(), Errc::cancelled);
  EXPECT_TRUE(remain(0)) << "nobody enters a round with it";
}

TEST_F(DoubleBarrierTest, ClientClosed) {
  Client own = make_client();
  DoubleBarrier a(own, path(), 2);
  auto entering = in_thread([&] { return error_of([&] { (void)a.enter(patient()); }); });
  ASSERT_TRUE(remain(1));
  own.close();
  EXPECT_EQ(result_of(entering), Errc::closed);
  EXPECT_TRUE(remain(0));
}

TEST_F(DoubleBarrierTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { DoubleBarrier(client(), "/", 2); }), Errc::invalid_argument);
  for (const int members : {0, -1, 1001})
    EXPECT_EQ(error_of([&] { DoubleBarrier(client(), path(), members); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { DoubleBarrier(client(), path(), 2, {.acl = {}}); }), Errc::invalid_acl);
  DoubleBarrier alone(client(), path(), 1);
  EXPECT_EQ(alone.enter(patient()).members.size(), 1u);
  alone.leave(patient());
}

}  // namespace
}  // namespace zkrecipes
