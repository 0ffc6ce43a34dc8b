// One test for each row of the tables "What goes wrong" in <zkrecipes/barrier.hpp> and <zkrecipes/double_barrier.hpp>
// that needs a fault; the others are in barrier_test.cpp and double_barrier_test.cpp. And rounds of processes that are
// killed at random: the workers are this same program, started with "--worker".
//
// ZKRECIPES_SEED=number repeats a run of the latter (as far as threads and processes can be repeated),
// ZKRECIPES_SOAK=<anything> makes it 1,000 rounds, ZKRECIPES_ROUNDS=number as many as one likes.

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/barrier.hpp>
#include <zkrecipes/double_barrier.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/self_process.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::SelfProcess;

// They have processes of their own.
const testkit::OnRealServers barriers_on_real_servers{"DoubleBarrierFaults.MemberCrashesWhileEntering",
                                                      "DoubleBarrierFaults.MemberCrashesInside",
                                                      "DoubleBarrierFaults.RoundsOfProcessesThatAreKilled"};

// --- Barrier ------------------------------------------------------------------------------------------------------

class BarrierFaults : public testkit::RecipeFaultTest {
 protected:
  BarrierFaults() : RecipeFaultTest("/gates") {}
};

TEST_F(BarrierFaults, RaiseLost) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  for (const BarrierLife life : {BarrierLife::persistent, BarrierLife::ephemeral}) {
    for (const bool request : {true, false}) {
      auto fault = lose(request, RequestType::create2);
      EXPECT_TRUE(barrier.raise(life, patient())) << "it was us";
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_TRUE(barrier.state());
      EXPECT_FALSE(barrier.raise(life, patient()));
      barrier.lower(patient());
    }
  }
}

// What was lost was lowered by another client, which saw it: here it is raised a second time, and the table says that
// it may.
TEST_F(BarrierFaults, RaiseLostAndLowered) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  for (const BarrierLife life : {BarrierLife::persistent, BarrierLife::ephemeral}) {
    auto held = proxy.hold_next_reply(RequestType::create2);
    auto raising = in_thread([&] { return barrier.raise(life, patient()); });
    ASSERT_TRUE(held.wait(patience));
    ASSERT_TRUE(other.state());
    other.lower(patient());
    proxy.cut();
    held.release();
    EXPECT_TRUE(result_of(raising));
    EXPECT_TRUE(other.state());
    barrier.lower(patient());
    EXPECT_FALSE(other.state());
  }
}

// What another client raised since is not taken for our own.
TEST_F(BarrierFaults, RaiseLostAndRaisedByAnother) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto raising = in_thread([&] { return barrier.raise(BarrierLife::persistent, patient()); });
  ASSERT_TRUE(held.wait(patience));
  other.lower(patient());
  EXPECT_TRUE(other.raise(BarrierLife::persistent, patient()));
  proxy.cut();
  held.release();
  EXPECT_FALSE(result_of(raising));
}

// Nor is what another client had raised before: it falls before it can be told apart, and nothing of ours was ever up.
TEST_F(BarrierFaults, RaiseLostAndGateOfAnotherFalls) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  for (const BarrierLife life : {BarrierLife::persistent, BarrierLife::ephemeral}) {
    EXPECT_TRUE(other.raise());
    auto fault = lose(true, RequestType::create2);
    auto held = proxy.hold_next_reply(RequestType::create2);  // It says that there is a node.
    auto raising = in_thread([&] { return barrier.raise(life, patient()); });
    ASSERT_TRUE(fault.wait(patience));
    ASSERT_TRUE(held.wait(patience));
    other.lower(patient());
    held.release();
    EXPECT_TRUE(result_of(raising));
    EXPECT_TRUE(other.state()) << "it was raised";
    barrier.lower(patient());
  }
}

// As a server does that lags behind: what it says is old by the time that a majority is asked.
TEST_F(BarrierFaults, RaisedAtAnotherServer) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  auto old = proxy.hold_next_reply(RequestType::get_data);
  auto waiting = in_thread([&] { barrier.wait(patient()); });
  ASSERT_TRUE(old.wait(patience));
  EXPECT_TRUE(other.raise(BarrierLife::persistent, patient()));
  old.release();
  EXPECT_TRUE(watches(client, "/gates/barrier"));
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  other.lower(patient());
  result_of(waiting);
}

// As a server does that lags behind: it has the barrier of before still, which has been lowered, and raised again.
TEST_F(BarrierFaults, RaisedAgainAtAnotherServer) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  EXPECT_TRUE(other.raise(BarrierLife::persistent, patient()));
  auto old = proxy.hold_next_reply(RequestType::get_data);
  auto waiting = in_thread([&] { barrier.wait(patient()); });
  ASSERT_TRUE(old.wait(patience));
  other.lower(patient());
  EXPECT_TRUE(other.raise(BarrierLife::persistent, patient()));
  old.release();
  EXPECT_TRUE(watches(client, "/gates/barrier"));
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  other.lower(patient());
  result_of(waiting);
}

TEST_F(BarrierFaults, SessionLostWhileRaisingEphemerally) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  for (const bool request : {true, false}) {
    auto fault = lose(request, RequestType::create2);
    const zkclient::Session session = client.connect(patient());
    proxy.refuse(true);  // It cannot come back.
    auto raising = in_thread([&] { return error_of([&] { (void)barrier.raise(BarrierLife::ephemeral, patient()); }); });
    ASSERT_TRUE(fault.wait(patience));
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    EXPECT_FALSE(other.state()) << "it has fallen";
    proxy.refuse(false);
    EXPECT_EQ(result_of(raising), Errc::session_lost);
    EXPECT_FALSE(other.state()) << "nor does the next session raise it";
    EXPECT_TRUE(barrier.raise(BarrierLife::ephemeral, patient()));
    barrier.lower(patient());
  }
}

TEST_F(BarrierFaults, DeadlineOrStopWhileRaisingOrLowering) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  for (const bool by_deadline : {true, false}) {
    std::stop_source stop;
    const auto limits = [&] {
      return CallOptions{.deadline = by_deadline ? SteadyClock::now() + 10s : soon(), .stop = stop.get_token()};
    };
    const auto give_up = [&](auto action, RequestType type) {
      stop = std::stop_source();
      auto held = proxy.hold_next_reply(type);
      auto acting = in_thread([&] { return error_of(action); });
      if (by_deadline) {
        EXPECT_EQ(result_of(acting), Errc::in_doubt);
      }
      EXPECT_TRUE(held.wait(patience));
      stop.request_stop();
      if (!by_deadline) {
        EXPECT_EQ(result_of(acting), Errc::in_doubt);
      }
    };
    give_up([&] { (void)barrier.raise(BarrierLife::persistent, limits()); }, RequestType::create2);
    EXPECT_TRUE(other.state());
    give_up([&] { barrier.lower(limits()); }, RequestType::remove);
    EXPECT_FALSE(other.state());
  }
}

// The answer was lost first, and then the time is over: what is not known must not be told as if it were.
TEST_F(BarrierFaults, DeadlineAfterRaiseOrLowerLost) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  const auto give_up = [&](auto action, RequestType type) {
    std::stop_source stop;
    client.connect(patient());
    auto fault = proxy.drop_next_reply(type);
    proxy.refuse(true);  // It cannot come back.
    const CallOptions stoppable{.deadline = soon(), .stop = stop.get_token()};
    auto acting = in_thread([&] { return error_of([&] { action(stoppable); }); });
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(reaches(client, zkclient::ConnectionState::suspended));
    stop.request_stop();
    EXPECT_EQ(result_of(acting), Errc::in_doubt);
    proxy.refuse(false);
  };
  for (const BarrierLife life : {BarrierLife::persistent, BarrierLife::ephemeral}) {
    give_up([&](const CallOptions& call) { (void)barrier.raise(life, call); }, RequestType::create2);
    EXPECT_TRUE(other.state());
    give_up([&](const CallOptions& call) { barrier.lower(call); }, RequestType::remove);
    EXPECT_FALSE(other.state());
  }
}

// Nobody hears of its death: what it leaves ends when the server gives up its session.
TEST_F(BarrierFaults, RaisersProcessDies) {
  Client dying = brief_proxied();
  EXPECT_TRUE(Barrier(dying, "/gates/ephemeral").raise(BarrierLife::ephemeral, patient()));
  EXPECT_TRUE(Barrier(dying, "/gates/persistent").raise(BarrierLife::persistent, patient()));
  const Barrier ephemeral(the_operator(), "/gates/ephemeral");
  const Barrier persistent(the_operator(), "/gates/persistent");
  auto waiting = in_thread([&] { ephemeral.wait(patient()); });
  refuse_and_cut();
  result_of(waiting);
  EXPECT_FALSE(persistent.wait_for(30ms));
  EXPECT_TRUE(persistent.state());
}

TEST_F(BarrierFaults, LowerLost) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  for (const bool request : {true, false}) {
    barrier.raise(BarrierLife::persistent, patient());
    auto fault = lose(request, RequestType::remove);
    barrier.lower(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_FALSE(other.state());
  }
}

// A barrier that another client raised since is not taken for the one that was to be lowered.
TEST_F(BarrierFaults, LowerLostAndRaisedAgain) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  barrier.raise(BarrierLife::persistent, patient());
  auto held = proxy.hold_next_reply(RequestType::remove);
  auto lowering = in_thread([&] { barrier.lower(patient()); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_TRUE(other.raise());
  proxy.cut();
  held.release();
  result_of(lowering);
  EXPECT_TRUE(other.state());
}

TEST_F(BarrierFaults, ConnectionBreaksWhileWaiting) {
  Client client = calm_proxied();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  other.raise();
  auto waiting = in_thread([&] { barrier.wait(patient()); });
  ASSERT_TRUE(watches(client, "/gates/barrier"));
  refuse_and_cut();
  other.lower();
  proxy.refuse(false);
  result_of(waiting);
}

TEST_F(BarrierFaults, SessionLostWhileWaiting) {
  Client client = calm_direct();
  Barrier barrier(client, "/gates/barrier");
  Barrier other(the_operator(), "/gates/barrier");
  other.raise();
  auto waiting = in_thread([&] { barrier.wait(patient()); });
  ASSERT_TRUE(watches(client, "/gates/barrier"));
  const auto before = client.session().id();
  expire(client);
  ASSERT_TRUE(eventually([&] { return client.connect(patient()).id() != before; }));
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  other.lower();
  result_of(waiting);
}

// --- DoubleBarrier ------------------------------------------------------------------------------------------------

class DoubleBarrierFaults : public testkit::RecipeFaultTest {
 protected:
  DoubleBarrierFaults() : RecipeFaultTest("/barrier") {}
  auto enter(DoubleBarrier& barrier) {
    return in_thread([&barrier] { return barrier.enter(patient()); });
  }
  /// Whether the only member, of that client, has looked and waits to be woken: the last thing before is its own watch.
  bool waits_alone(const Client& client) {
    return remain(1) && watches(client, zkclient::Path("/barrier") / names().front());
  }
  /// Nothing if it was stopped.
  auto enter_or_give_up(DoubleBarrier& barrier, const std::stop_source& stop) {
    return in_thread([&barrier, stop]() -> std::optional<Round> {
      try {
        return barrier.enter({.deadline = soon(), .stop = stop.get_token()});
      } catch (const Error& error) {
        EXPECT_EQ(error.errc(), Errc::cancelled);
        return std::nullopt;
      }
    });
  }
  /// Of one who was told to stop after `begin`, when the others are in `round`: it sees that it is, too. It has half a
  /// second to find that out; where the machine took longer, the others see it crash.
  static void expect_one_view(const std::optional<Round>& mine, const Round& round, SteadyClock::time_point begin) {
    const bool in_time = SteadyClock::now() - begin < 500ms;
    if (mine || in_time) {
      EXPECT_EQ(mine, round);
    }
  }
};

TEST_F(DoubleBarrierFaults, CreateLost) {
  Client client = calm_proxied();
  DoubleBarrier a(client, "/barrier", 2);
  DoubleBarrier b(the_operator(), "/barrier", 2);
  for (const bool request : {true, false}) {
    auto fault = lose(request, RequestType::create2);
    auto first = enter(a);
    EXPECT_TRUE(fault.wait(patience));
    auto second = enter(b);
    EXPECT_EQ(result_of(first), result_of(second));
    auto leaving = in_thread([&] { a.leave(patient()); });
    b.leave(patient());
    result_of(leaving);
    EXPECT_TRUE(remain(0));
  }
}

TEST_F(DoubleBarrierFaults, BeginLost) {
  Client client = calm_proxied();
  DoubleBarrier a(the_operator(), "/barrier", 2);
  DoubleBarrier b(client, "/barrier", 2);
  for (const bool request : {true, false}) {
    auto first = enter(a);
    ASSERT_TRUE(waits_alone(the_operator())) << "or it may begin the round itself";
    auto fault = lose(request);
    const Round round = b.enter(patient());
    EXPECT_EQ(result_of(first), round);
    EXPECT_TRUE(fault.wait(patience));
    auto leaving = in_thread([&] { a.leave(patient()); });
    b.leave(patient());
    result_of(leaving);
  }
}

TEST_F(DoubleBarrierFaults, LeaveLost) {
  Client client = calm_proxied();
  DoubleBarrier a(the_operator(), "/barrier", 2);
  DoubleBarrier b(client, "/barrier", 2);
  for (const bool request : {true, false}) {
    auto first = enter(a);
    const Round round = b.enter(patient());
    EXPECT_EQ(result_of(first), round);
    auto fault = lose(request, RequestType::remove);
    auto leaving = in_thread([&] { a.leave(patient()); });
    b.leave(patient());
    result_of(leaving);
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(remain(0));
  }
}

TEST_F(DoubleBarrierFaults, ConnectionBreaksWhileEnteringAndLeaving) {
  Client client = calm_proxied();
  DoubleBarrier a(client, "/barrier", 2);
  DoubleBarrier b(the_operator(), "/barrier", 2);
  auto first = enter(a);
  ASSERT_TRUE(remain(1));
  ASSERT_TRUE(watches(client, "/barrier"));
  refuse_and_cut();
  const Round round = b.enter(patient());
  proxy.refuse(false);
  EXPECT_EQ(result_of(first), round);
  auto leaving = in_thread([&] { a.leave(patient()); });
  ASSERT_TRUE(remain(1));
  refuse_and_cut();
  b.leave(patient());
  proxy.refuse(false);
  result_of(leaving);
}

TEST_F(DoubleBarrierFaults, SessionLostWhileEntering) {
  Client client = calm_direct();
  DoubleBarrier a(client, "/barrier", 3);
  DoubleBarrier b(the_operator(), "/barrier", 3);
  Client third = calm_direct();
  DoubleBarrier c(third, "/barrier", 3);
  auto first = in_thread([&] { return error_of([&] { (void)a.enter(patient()); }); });
  ASSERT_TRUE(remain(1));
  auto second = enter(b);
  ASSERT_TRUE(remain(2));
  expire(client);
  EXPECT_EQ(result_of(first), Errc::session_lost);
  ASSERT_TRUE(remain(1));
  auto others = enter(c);
  ASSERT_TRUE(remain(2));
  EXPECT_EQ(second.wait_for(30ms), std::future_status::timeout) << "its place is free again";
  auto again = enter(a);
  const Round round = result_of(again);
  EXPECT_EQ(result_of(second), round);
  EXPECT_EQ(result_of(others), round);
}

TEST_F(DoubleBarrierFaults, SessionLostInside) {
  Client client = calm_direct();
  DoubleBarrier a(client, "/barrier", 2);
  DoubleBarrier b(the_operator(), "/barrier", 2);
  auto first = enter(a);
  (void)b.enter(patient());
  result_of(first);
  auto leaving = in_thread([&] { b.leave(patient()); });
  EXPECT_EQ(leaving.wait_for(30ms), std::future_status::timeout);
  const std::stop_token lost = a.lost();
  const std::int64_t old_session = client.session().id();
  expire(client);
  result_of(leaving);
  EXPECT_TRUE(stopped(lost));
  // The deletion of its node may be known before the end of the session is.
  ASSERT_TRUE(eventually([&] { return client.session().id() != old_session && client.session().id() != 0; }));
  EXPECT_FALSE(a.inside());
  EXPECT_EQ(error_of([&] { a.leave(patient()); }), Errc::session_lost);
  auto again = enter(a);
  const Round round = b.enter(patient());
  EXPECT_EQ(result_of(again), round) << "both go on";
}

TEST_F(DoubleBarrierFaults, SessionLostWhileLeaving) {
  Client client = calm_proxied();
  DoubleBarrier a(client, "/barrier", 2);
  DoubleBarrier b(the_operator(), "/barrier", 2);
  for (const bool delete_lost : {false, true}) {
    auto first = enter(a);
    (void)b.enter(patient());
    result_of(first);
    const zkclient::Session session = client.session();
    std::optional<zktesting::Fault> fault;
    if (delete_lost) fault = proxy.drop_next_request(RequestType::remove);
    proxy.refuse(true);  // It cannot come back.
    auto leaving = in_thread([&] { a.leave(patient()); });
    if (delete_lost) {
      EXPECT_TRUE(fault->wait(patience));
    } else {
      EXPECT_TRUE(remain(1));
    }
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    EXPECT_TRUE(remain(1)) << "it is out in any case";
    proxy.refuse(false);
    ASSERT_TRUE(eventually([&] { return client.connect(patient()).id() != session.id(); }));
    EXPECT_EQ(leaving.wait_for(50ms), std::future_status::timeout) << "the other one is inside still";
    b.leave(patient());
    result_of(leaving);
  }
}

// Who would begin the round dies before it has: those who come after it do not wait for it.
TEST_F(DoubleBarrierFaults, BeginnerDiesBeforeTheBegin) {
  Client client = calm_proxied();
  Client third = calm_direct();
  DoubleBarrier a(the_operator(), "/barrier", 2);
  DoubleBarrier b(client, "/barrier", 2);
  DoubleBarrier c(third, "/barrier", 2);
  auto first = enter(a);
  ASSERT_TRUE(waits_alone(the_operator()));
  const zkclient::Session session = client.connect(patient());
  auto fault = proxy.drop_next_request(RequestType::multi);
  proxy.refuse(true);  // It cannot come back.
  auto second = in_thread([&] { return error_of([&] { (void)b.enter(patient()); }); });
  ASSERT_TRUE(fault.wait(patience));
  auto beyond = enter(c);
  ASSERT_TRUE(remain(3));
  EXPECT_EQ(beyond.wait_for(30ms), std::future_status::timeout) << "two are before it";
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  const Round round = result_of(beyond);
  EXPECT_EQ(result_of(first), round);
  proxy.refuse(false);
  EXPECT_EQ(result_of(second), Errc::session_lost);
}

TEST_F(DoubleBarrierFaults, ClientClosedWhileInsideOrLeaving) {
  for (const bool leaving_first : {false, true}) {
    Client own = calm_direct();
    DoubleBarrier a(own, "/barrier", 2);
    DoubleBarrier b(the_operator(), "/barrier", 2);
    auto first = enter(a);
    (void)b.enter(patient());
    result_of(first);
    if (leaving_first) {
      auto leaving = in_thread([&] { return error_of([&] { a.leave(patient()); }); });
      ASSERT_TRUE(remain(1));
      own.close();
      EXPECT_EQ(result_of(leaving), Errc::closed);
    } else {
      const std::stop_token lost = a.lost();
      own.close();
      EXPECT_TRUE(stopped(lost));
      EXPECT_FALSE(a.inside());
      EXPECT_EQ(error_of([&] { a.leave(patient()); }), Errc::closed);
    }
    b.leave(patient());
    EXPECT_TRUE(remain(0));
  }
}

// The round is there before it is told to stop, which it does not know yet.
TEST_F(DoubleBarrierFaults, StopAfterTheBegin) {
  Client client = calm_proxied();
  DoubleBarrier a(client, "/barrier", 2);
  DoubleBarrier b(the_operator(), "/barrier", 2);
  std::stop_source stop;
  auto first = enter_or_give_up(a, stop);
  ASSERT_TRUE(waits_alone(client));
  client.sync("/", patient());  // The reply to the read that armed its watch is not held.
  auto held = proxy.hold_next_reply(RequestType::get_data);
  const Round round = b.enter(patient());
  ASSERT_TRUE(held.wait(patience));
  const std::size_t before = proxy.request_count(RequestType::get_data);
  const auto begin = SteadyClock::now();
  stop.request_stop();
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::get_data, before + 1, patience));
  held.release();
  expect_one_view(result_of(first), round, begin);
}

// The others know its node before it does.
TEST_F(DoubleBarrierFaults, StopBeforeTheReplyOfTheCreate) {
  Client client = calm_proxied();
  DoubleBarrier a(client, "/barrier", 2);
  DoubleBarrier b(the_operator(), "/barrier", 2);
  std::stop_source stop;
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto first = enter_or_give_up(a, stop);
  ASSERT_TRUE(held.wait(patience));
  const Round round = b.enter(patient());
  const std::size_t before = proxy.request_count(RequestType::multi);
  const auto begin = SteadyClock::now();
  stop.request_stop();
  ASSERT_TRUE(proxy.wait_for_requests(RequestType::multi, before + 1, patience));  // Ahead of the look for the node.
  held.release();
  expect_one_view(result_of(first), round, begin);
}

// It has been told to stop, looks, and the round begins before its node is gone.
TEST_F(DoubleBarrierFaults, BeginAfterTheStop) {
  Client client = calm_proxied();
  DoubleBarrier a(client, "/barrier", 2);
  DoubleBarrier b(the_operator(), "/barrier", 2);
  std::stop_source stop;
  auto first = enter_or_give_up(a, stop);
  ASSERT_TRUE(waits_alone(client));
  client.sync("/", patient());
  auto held = proxy.hold_next_reply(RequestType::get_data);
  const auto begin = SteadyClock::now();
  stop.request_stop();
  ASSERT_TRUE(held.wait(patience));
  const Round round = b.enter(patient());
  held.release();
  expect_one_view(result_of(first), round, begin);
}

TEST_F(DoubleBarrierFaults, DeadlineWithoutConnection) {
  Client client = calm_proxied();
  DoubleBarrier a(client, "/barrier", 2);
  std::stop_source stop;
  auto first = in_thread([&] { return error_of([&] { (void)a.enter({.stop = stop.get_token()}); }); });
  ASSERT_TRUE(remain(1));
  refuse_and_cut();
  stop.request_stop();
  EXPECT_EQ(result_of(first), Errc::cancelled);
  proxy.refuse(false);
  EXPECT_TRUE(remain(0)) << "withdrawn in the background";
  expect_nothing_left();
}

// The same, and the round begins before the node can be withdrawn: with us, as if we had crashed in it.
TEST_F(DoubleBarrierFaults, WithoutConnectionOthersFindUsInTheirRound) {
  Client client = calm_proxied();
  DoubleBarrier a(client, "/barrier", 2);
  DoubleBarrier b(the_operator(), "/barrier", 2);
  std::stop_source stop;
  const CallOptions stoppable{.deadline = soon(), .stop = stop.get_token()};
  auto first = in_thread([&] { return error_of([&] { (void)a.enter(stoppable); }); });
  ASSERT_TRUE(remain(1));
  const std::string name = names().front();
  refuse_and_cut();
  stop.request_stop();
  EXPECT_EQ(result_of(first), Errc::cancelled);
  const Round round = b.enter(patient());
  EXPECT_EQ(round.members.size(), 2u);
  EXPECT_EQ(round.members.front(), name);
  EXPECT_FALSE(a.inside());
  auto leaving = in_thread([&] { b.leave(patient()); });
  EXPECT_TRUE(remain(1));
  EXPECT_EQ(leaving.wait_for(30ms), std::future_status::timeout) << "it stands in the round";
  proxy.refuse(false);
  result_of(leaving);
  expect_nothing_left();
}

// --- Processes that are killed ------------------------------------------------------------------------------------

// A worker enters and leaves until it is killed, stays inside for up to `stay` (0: for ever), and reports each step in
// a line:
//   in <round> <time> <members...>      out <round> <time>, before it leaves
int run_worker(const std::string& hosts, int count, std::chrono::milliseconds session_timeout, unsigned seed,
               std::chrono::microseconds stay) {
  std::minstd_rand random(seed);
  const Client client(hosts, {.session_timeout = session_timeout, .server_tick = testkit::server_tick});
  DoubleBarrier barrier(client, "/barrier", count);
  const auto now = [] { return SteadyClock::now().time_since_epoch() / 1ns; };
  const auto report = [](const std::ostringstream& line) {
    const std::string text = line.str() + "\n";
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
  };
  for (;;) {
    try {
      const Round round = barrier.enter({.deadline = soon()});
      std::ostringstream in;
      in << "in " << round.number << ' ' << now();
      for (const std::string& member : round.members)
        in << ' ' << member;
      report(in);
      while (stay.count() == 0)
        ::pause();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(stay.count())));
      const auto last = now();          // It was inside then, if it still is afterwards; whatever comes later is late.
      if (!barrier.inside()) continue;  // Lost: the others do not wait for us.
      std::ostringstream out;
      out << "out " << round.number << ' ' << last;
      report(out);
      barrier.leave({.deadline = soon()});
    } catch (const Error& error) {
      if (error.errc() == Errc::session_lost || error.errc() == Errc::not_held) continue;
      std::ostringstream failed;
      failed << "failed 0 0 " << error.what();
      report(failed);
      return EXIT_FAILURE;
    }
  }
}

std::size_t rounds_wanted() {
  const char* given = std::getenv("ZKRECIPES_ROUNDS");
  if (given != nullptr) return std::strtoul(given, nullptr, 10);
  return std::getenv("ZKRECIPES_SOAK") != nullptr ? 1000 : 40;
}

std::vector<std::string> worker_arguments(const testkit::FaultServer& server, int count,
                                          std::chrono::milliseconds session_timeout, unsigned seed,
                                          std::chrono::microseconds stay) {
  return {
      "--worker",           server.connect_string(),     std::to_string(count), std::to_string(session_timeout.count()),
      std::to_string(seed), std::to_string(stay.count())};
}

TEST_F(DoubleBarrierFaults, MemberCrashesWhileEntering) {
  Client third = calm_direct();
  DoubleBarrier a(the_operator(), "/barrier", 3);
  DoubleBarrier b(the_operator(), "/barrier", 3);
  DoubleBarrier c(third, "/barrier", 3);
  auto dying = std::make_unique<SelfProcess>(worker_arguments(server, 3, brief, 1, 0us));
  ASSERT_TRUE(remain(1));
  const std::string dead = names().front();
  auto first = enter(a);
  ASSERT_TRUE(remain(2));
  dying.reset();
  ASSERT_TRUE(remain(1)) << "its place is free again";
  auto second = enter(b);
  ASSERT_TRUE(remain(2));
  EXPECT_EQ(first.wait_for(30ms), std::future_status::timeout) << "the dead do not count";
  const Round round = c.enter(patient());
  EXPECT_EQ(result_of(first), round);
  EXPECT_EQ(result_of(second), round);
  EXPECT_EQ(std::count(round.members.begin(), round.members.end(), dead), 0);
}

TEST_F(DoubleBarrierFaults, MemberCrashesInside) {
  DoubleBarrier a(the_operator(), "/barrier", 2);
  testkit::Box<std::string> steps;
  const auto note = [&](const std::vector<std::string>& words) { steps.put(words.front()); };
  auto dying = std::make_unique<SelfProcess>(worker_arguments(server, 2, brief, 1, 0us), note);
  (void)a.enter(patient());
  EXPECT_EQ(steps.take(), "in");
  auto leaving = in_thread([&] { a.leave(patient()); });
  ASSERT_TRUE(remain(1));
  EXPECT_EQ(leaving.wait_for(30ms), std::future_status::timeout) << "it lives still";
  dying.reset();
  result_of(leaving);
  EXPECT_TRUE(remain(0));
}

// One of the processes is killed every dozen rounds.
TEST_F(DoubleBarrierFaults, RoundsOfProcessesThatAreKilled) {
  constexpr int count = 8;
  std::size_t wanted = rounds_wanted();
  const char* chosen = std::getenv("ZKRECIPES_SEED");
  const unsigned seed =
      chosen != nullptr ? static_cast<unsigned>(std::strtoul(chosen, nullptr, 10)) : std::random_device()();
  GTEST_LOG_(INFO) << "ZKRECIPES_SEED=" << seed;
  std::minstd_rand random(seed);

  struct Seen {
    std::vector<std::string> members;
    std::set<int> workers;
    std::int64_t first_in = 0;
    std::int64_t last_out = 0;
  };
  std::mutex mutex;
  std::map<std::int64_t, Seen> rounds;
  std::atomic<std::size_t> steps{0};  // Into a round, or out of it.
  const auto listen = [&](int worker, const std::vector<std::string>& words) {
    if (words.size() < 3) return;  // Cut off by its death.
    const std::lock_guard lock(mutex);
    ASSERT_NE(words[0], "failed") << testing::PrintToString(words);
    const std::int64_t number = std::stoll(words[1]);
    const std::int64_t time = std::stoll(words[2]);
    Seen& seen = rounds[number];
    ++steps;
    if (words[0] == "out") {
      seen.last_out = std::max(seen.last_out, time);
      return;
    }
    const std::vector<std::string> members(words.begin() + 3, words.end());
    if (members.size() != count) return;  // Cut off.
    if (seen.members.empty()) seen.members = members;
    EXPECT_EQ(seen.members, members) << "two ideas of one round";
    EXPECT_TRUE(seen.workers.insert(worker).second) << "twice in one round";
    if (seen.first_in == 0 || time < seen.first_in) seen.first_in = time;
  };
  int started = 0;
  std::map<int, std::unique_ptr<SelfProcess>> crew;
  const auto start = [&] {
    const int number = started++;
    crew.emplace(number, std::make_unique<SelfProcess>(
                             worker_arguments(server, count, 6s, seed + static_cast<unsigned>(number), 2000us),
                             [&listen, number](const std::vector<std::string>& words) { listen(number, words); }));
  };
  for (int i = 0; i < count; ++i)
    start();
  const auto done = [&] {
    const std::lock_guard lock(mutex);
    return rounds.size();
  };
  int kills = 0;
  std::size_t milestone = 0;
  // They may be through before this thread gets the processor: one is killed all the same, and the others go on.
  while (done() < wanted || kills == 0) {
    const std::size_t before = done();
    milestone += 8 + random() % 8;
    ASSERT_TRUE(eventually([&] { return done() >= std::min(milestone, wanted) || done() > before + 12; }))
        << "stuck in round " << done();
    if (done() >= wanted && kills > 0) break;
    // In the middle of a round: some of them are in it, or out of it, already.
    const std::size_t step = steps + random() % (2 * count);
    ASSERT_TRUE(eventually([&] { return steps >= step; })) << "stuck in round " << done();
    auto victim = crew.begin();
    std::advance(victim, random() % crew.size());
    crew.erase(victim);
    ++kills;
    start();
    wanted = std::max(wanted, done() + 2);
  }
  crew.clear();
  const std::lock_guard lock(mutex);
  std::set<std::string> everybody;
  std::int64_t last_out = 0;
  for (const auto& [number, seen] : rounds) {
    for (const std::string& member : seen.members)
      EXPECT_TRUE(everybody.insert(member).second) << member << " is in two rounds";
    EXPECT_LE(seen.workers.size(), static_cast<std::size_t>(count));
    EXPECT_GE(seen.first_in, last_out) << "a round began before the one before was over";
    last_out = std::max(last_out, seen.last_out);
  }
  GTEST_LOG_(INFO) << rounds.size() << " rounds, " << kills << " processes killed";
  EXPECT_GT(kills, 0);
}

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 6 && arguments[0] == "--worker") {
    return zkrecipes::run_worker(
        arguments[1], std::stoi(arguments[2]), std::chrono::milliseconds(std::stol(arguments[3])),
        static_cast<unsigned>(std::stoul(arguments[4])), std::chrono::microseconds(std::stol(arguments[5])));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
