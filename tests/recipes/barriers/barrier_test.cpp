#include <zkrecipes/barrier.hpp>

#include <gtest/gtest.h>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class BarrierTest : public testkit::RecipeTest {
 protected:
  BarrierTest() : RecipeTest("/gates/barrier") {}
};

TEST_F(BarrierTest, RaiseWaitLower) {
  Barrier barrier(client(), path(), {.id = "me"});
  EXPECT_FALSE(barrier.state());
  barrier.wait(patient());  // It is down.
  EXPECT_TRUE(barrier.raise());
  EXPECT_FALSE(barrier.raise()) << "it was up";
  const std::optional<BarrierState> state = barrier.state();
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->data.starts_with("id=me host="));
  EXPECT_FALSE(state->session_id);
  EXPECT_FALSE(barrier.wait_for(0ms));
  EXPECT_FALSE(barrier.wait_for(30ms));
  Client other = make_client();
  Barrier same(other, path());
  auto first = in_thread([&] { same.wait(patient()); });
  auto second = in_thread([&] { return barrier.wait_for(testkit::patience); });
  Box<Result<void>> third;
  barrier.async_wait([&](Result<void> result) { third.put(std::move(result)); });
  EXPECT_FALSE(barrier.wait_for(30ms));
  same.lower();
  result_of(first);
  EXPECT_TRUE(result_of(second));
  third.take().value();
  EXPECT_TRUE(barrier.wait_until(SteadyClock::now() - 1s));
  same.lower();  // It is down already.
}

TEST_F(BarrierTest, AsynchronousForms) {
  Barrier barrier(client(), path());
  Box<Result<bool>> raised;
  barrier.async_raise(BarrierLife::ephemeral, [&](Result<bool> result) { raised.put(std::move(result)); });
  EXPECT_TRUE(raised.take().value());
  Box<Result<void>> lowered;
  barrier.async_lower([&](Result<void> result) { lowered.put(std::move(result)); });
  lowered.take().value();
  EXPECT_FALSE(barrier.state());
}

TEST_F(BarrierTest, ParentMissing) {
  Barrier barrier(client(), path());
  for (const BarrierLife life : {BarrierLife::persistent, BarrierLife::ephemeral}) {
    EXPECT_FALSE(client().exists(path().parent()));
    EXPECT_FALSE(barrier.state());
    barrier.lower(patient());
    barrier.wait(patient());
    EXPECT_TRUE(barrier.raise(life, patient()));
    EXPECT_TRUE(barrier.state());
    auto waiting = in_thread([&] { barrier.wait(patient()); });
    EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
    client().remove_tree(path().parent());
    result_of(waiting);
  }
}

TEST_F(BarrierTest, DeadlineOrStopWhileWaiting) {
  Barrier barrier(client(), path());
  barrier.raise();
  EXPECT_FALSE(barrier.wait_for(30ms));
  EXPECT_EQ(error_of([&] { barrier.wait({.deadline = SteadyClock::now() + 30ms}); }), Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { barrier.wait({.stop = stop.get_token()}); }); });
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
}

TEST_F(BarrierTest, RaisersProcessDies) {
  Barrier barrier(client(), path());
  for (const BarrierLife life : {BarrierLife::ephemeral, BarrierLife::persistent}) {
    Client brief = make_client();
    EXPECT_TRUE(Barrier(brief, path()).raise(life));
    EXPECT_EQ(barrier.state()->session_id.has_value(), life == BarrierLife::ephemeral);
    const auto time = life == BarrierLife::ephemeral ? testkit::patience : 50ms;
    auto waiting = in_thread([&] { return barrier.wait_for(time); });
    brief.close();
    EXPECT_EQ(result_of(waiting), life == BarrierLife::ephemeral);
  }
}

TEST_F(BarrierTest, ClientClosed) {
  Barrier other(client(), path());
  other.raise();
  Client own = make_client();
  Barrier barrier(own, path());
  Barrier another(own, path().parent() / "another");
  EXPECT_TRUE(another.raise(BarrierLife::ephemeral));
  auto waiting = in_thread([&] { return error_of([&] { barrier.wait(patient()); }); });
  own.close();
  EXPECT_EQ(result_of(waiting), Errc::closed);
  EXPECT_EQ(error_of([&] { barrier.raise(); }), Errc::closed);
  EXPECT_EQ(error_of([&] { barrier.lower(); }), Errc::closed);
  EXPECT_TRUE(Barrier(client(), another.path()).wait_for(testkit::patience)) << "it falls with its raiser's session";
  EXPECT_TRUE(other.state());
}

TEST_F(BarrierTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { Barrier(client(), "/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Barrier(client(), path(), {.acl = {}}); }), Errc::invalid_acl);
  client().ensure("/gates/barrier/child");
  EXPECT_EQ(error_of([&] { Barrier(client(), path()).lower(); }), Errc::not_empty);
}

}  // namespace
}  // namespace zkrecipes
