// What a mutex promises besides the rows that all locks have in common, which are in locks_faults_test.cpp; and what
// others got wrong.

#include <gtest/gtest.h>

#include <condition_variable>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers mutexes_on_real_servers{
    "MutexFaults.CreateReplyLostSeveralTimes", "MutexFaults.SessionLostWhileReleasing",
    "MutexFaults.OneWayPartitionsWhileHolding", "MutexFaults.ServerRestartWhileHoldingAndWaiting"};

class MutexFaults : public testkit::RecipeFaultTest {
 protected:
  MutexFaults() : RecipeFaultTest("/lock") {}

  /// At that age a list no longer tells whether one's own node is still there.
  static constexpr auto old_list = 10ms;

  /// A waiter in a thread of its own, which is at rest when this returns: its watch is armed.
  std::future<Lease> wait_behind(Mutex& mutex, const Client& client, const Path& predecessor) {
    auto waiting = in_thread([&mutex] { return mutex.acquire({.deadline = soon()}); });
    EXPECT_TRUE(watches(client, predecessor));
    return waiting;
  }
};

// Other clients rest on it that a holder is told, whatever its executor does.
TEST_F(MutexFaults, AnExecutorThatDropsItsTasksHidesNoLoss) {
  zkclient::Runtime runtime({.callback_executor = [](const std::function<void()>&) {}});
  const Client client(runtime, proxy.connect_string(), {.session_timeout = calm});
  Mutex mutex(client, "/lock", {.id = "me"});
  const Lease lease = mutex.acquire({.deadline = soon()});
  const zkclient::Session session = client.session();
  EXPECT_EQ(revoke_holders(the_operator(), mutex.path()), RevokeOutcome::requested);
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  const auto words = [&] { return the_operator().get(lease.node()).data; };
  EXPECT_TRUE(eventually([&] { return words().starts_with("id=me"); })) << "the holder's own again";
  the_operator().remove(lease.node());
  EXPECT_TRUE(stopped(lease.lost()));
  expire(client);
  EXPECT_TRUE(stopped(session.lost()));
}

// A request whose size has cost a connection is sent alone, but for heartbeats: it may take long.
TEST_F(MutexFaults, HeartbeatsGoBesideARequestOfASuspectSize) {
  const Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  const Lease lease = mutex.acquire({.deadline = soon()});
  const std::string large(20'000, 'x');
  const auto lost = proxy.drop_next_request(RequestType::set_data);
  EXPECT_EQ(error_of([&] { client.set("/lock", large); }), Errc::in_doubt);
  client.sync("/", {.deadline = soon()});  // Behind the heartbeat that comes with a connection.
  auto held = proxy.hold_next_reply(RequestType::set_data);
  Box<bool> done;
  client.async_set("/lock", large, any_version, [&](const auto& result) { done.put(result.has_value()); });
  ASSERT_TRUE(held.wait(patience));
  const std::size_t beats = proxy.request_count(RequestType::multi);
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, beats + 1, patience));
  EXPECT_TRUE(done.empty()) << "on the same connection";
  held.release();
  EXPECT_TRUE(done.take());
  EXPECT_TRUE(lease.valid());
}

// --- create: request or reply lost --------------------------------------------------------------------------------

// The reply of the create is lost, and the look for the node ends before it has found it.
TEST_F(MutexFaults, EndedWhileLookingForTheOwnNode) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  mutex.acquire().release();
  for (const bool by_stop : {false, true}) {
    auto held = proxy.hold_next_reply(RequestType::create2);
    std::stop_source stop;
    const auto deadline = by_stop ? soon() : SteadyClock::now() + 10s;  // Time enough to send the create.
    auto waiting = in_thread([&] { return mutex.acquire({.deadline = deadline, .stop = stop.get_token()}); });
    ASSERT_TRUE(held.wait(patience));
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    if (by_stop) stop.request_stop();
    EXPECT_EQ(failure_of(waiting), by_stop ? Errc::cancelled : Errc::deadline_exceeded);
    EXPECT_EQ(names().size(), 1u) << "the server has created it";
    proxy.refuse(false);
    EXPECT_TRUE(remain(0));
  }
  expect_nothing_left();
}

TEST_F(MutexFaults, CreateReplyLostSeveralTimes) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  std::vector<zktesting::Fault> faults;
  faults.push_back(proxy.drop_next_request(RequestType::create2));
  faults.push_back(proxy.drop_next_request(RequestType::create2));
  faults.push_back(proxy.drop_next_reply(RequestType::create2));
  faults.push_back(proxy.drop_next_reply(RequestType::get_children2));
  faults.push_back(proxy.drop_next_reply(RequestType::multi));  // Ahead of the look for the node.
  faults.push_back(proxy.drop_next_reply(RequestType::exists));
  Lease lease = mutex.acquire({.deadline = soon()});
  for (auto& fault : faults)
    EXPECT_TRUE(fault.wait(patience));
  EXPECT_EQ(names().size(), 1u);
  EXPECT_TRUE(lease.valid());
  lease.release();
  expect_nothing_left();
}

// Promise: nothing is claimed of a node that another session owns, or none, whatever its name says.
TEST_F(MutexFaults, ANodeOfTheSameNameIsNotTheOwnNode) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  mutex.acquire().release();
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(held.wait(patience));
  ASSERT_EQ(names().size(), 1u);
  const Path node = Path("/lock") / names().front();
  the_operator().commit(Transaction().remove(node).create(node, ""));
  proxy.cut();
  held.release();
  EXPECT_EQ(failure_of(waiting), Errc::session_lost);
}

TEST_F(MutexFaults, DeadlineWhileCreateInFlight) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  mutex.acquire().release();
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto waiting = in_thread([&] { return mutex.try_acquire_for(10s); });  // Time enough to send the create.
  ASSERT_TRUE(held.wait(patience));
  EXPECT_FALSE(result_of(waiting));
  held.release();
  expect_nothing_left();
}

TEST_F(MutexFaults, CloseWhileCreateInFlight) {
  for (const bool reply_comes : {true, false}) {
    // Not so brief that the client gives the silent connection up before it is closed.
    Client client(proxy.connect_string(), {.session_timeout = 12s});
    Mutex mutex(client, "/lock");
    client.connect({.deadline = soon()});
    auto held = proxy.hold_next_reply(RequestType::create2);
    auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
    ASSERT_TRUE(held.wait(patience));
    auto closing = in_thread([&] { client.close(); });
    ASSERT_TRUE(reaches(client, ConnectionState::closed));
    if (reply_comes) held.release();
    result_of(closing);
    EXPECT_EQ(failure_of(waiting), Errc::closed);
    held.release();
    expect_nothing_left();
  }
}

// --- parent missing or removed ------------------------------------------------------------------------------------

TEST_F(MutexFaults, ParentMissing) {
  Client client = calm_proxied();
  Mutex mutex(client, "/a/b/c");
  mutex.acquire({.deadline = soon()}).release();
  std::error_code gone_already;  // Empty containers: the server may have been quicker.
  for (const char* path : {"/a/b/c", "/a/b", "/a"})
    the_operator().remove(path, zkclient::any_version, {}, gone_already);
  auto reply_lost = proxy.drop_next_reply(RequestType::create_container);
  auto request_lost = proxy.drop_next_request(RequestType::create_container);
  const Lease lease = mutex.acquire({.deadline = soon()});
  EXPECT_TRUE(reply_lost.wait(patience));
  EXPECT_TRUE(request_lost.wait(patience));
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(names("/a/b/c").size(), 1u);
}

// The node of the second create is the one that goes.
TEST_F(MutexFaults, StopWhileCreatedAgainAfterTheParentWasRemoved) {
  Client client = calm_proxied();
  client.connect({.deadline = soon()});
  Mutex mutex(client, "/lock");
  proxy.refuse(true);
  auto unseen = proxy.drop_next_reply(RequestType::get_children2);
  std::stop_source stop;
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon(), .stop = stop.get_token()}); });
  ASSERT_TRUE(unseen.wait(patience));
  the_operator().remove_tree("/lock", {.deadline = soon()});
  auto created = proxy.hold_next_reply(RequestType::create2);
  proxy.refuse(false);
  ASSERT_TRUE(created.wait(patience));
  ASSERT_TRUE(remain(1));
  stop.request_stop();
  EXPECT_EQ(failure_of(waiting), Errc::cancelled);
  created.release();
  EXPECT_TRUE(remain(0));
  expect_nothing_left();
}

// --- connection breaks while waiting ------------------------------------------------------------------------------

TEST_F(MutexFaults, ConnectionBreaksWhileProving) {
  for (const bool request : {true, false}) {
    Client client = calm_proxied();  // Nothing was proven for its session.
    Mutex mutex(client, "/lock");
    auto reply_lost = proxy.drop_next_reply(RequestType::create2);  // What is read afterwards proves nothing.
    auto fault = lose(request);
    Lease lease = mutex.acquire({.deadline = soon()});
    EXPECT_TRUE(reply_lost.happened());
    EXPECT_TRUE(fault.happened()) << "before the grant, and not with a heartbeat";
    EXPECT_TRUE(lease.valid());
    EXPECT_EQ(names().size(), 1u);
    lease.release();
  }
  expect_nothing_left();
}

// --- session lost while waiting -----------------------------------------------------------------------------------

// The predecessor goes and the session dies, in one go; whatever is seen first.
TEST_F(MutexFaults, SessionLostWhileThePredecessorGoes) {
  for (int i = 0; i < 8; ++i) {
    Client client = calm_proxied();
    Mutex mutex(client, "/lock");
    Mutex other(the_operator(), "/lock");
    Lease held = other.acquire();
    auto waiting = wait_behind(mutex, client, held.node());
    const auto session = client.session();
    refuse_and_cut();
    held.release();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    proxy.refuse(false);
    EXPECT_EQ(failure_of(waiting), Errc::session_lost);
    EXPECT_TRUE(remain(0));
  }
  expect_nothing_left();
}

TEST_F(MutexFaults, PartitionedPastExpiryWhileWaiting) {
  Client client = brief_proxied();
  Mutex mutex(client, "/lock");
  Mutex other(the_operator(), "/lock");
  const Lease held = other.acquire();
  auto waiting = wait_behind(mutex, client, held.node());
  proxy.stall(Direction::both);
  EXPECT_EQ(failure_of(waiting), Errc::session_lost);
  EXPECT_TRUE(remain(1)) << "the server has expired it as well";
  EXPECT_TRUE(held.valid());
  proxy.unstall(Direction::both);
  EXPECT_TRUE(reaches(client, ConnectionState::connected));
}

// --- own node deleted by hand while waiting -----------------------------------------------------------------------

TEST_F(MutexFaults, OwnNodeDeletedWhileWaiting) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  Client behind_client = calm_direct();
  Mutex behind(behind_client, "/lock");
  Mutex first(the_operator(), "/lock");
  Lease held = first.acquire();
  auto waiting = wait_behind(mutex, client, held.node());
  const Path own = Path("/lock") / first.contenders()[1].node;
  auto waiting_behind = wait_behind(behind, behind_client, own);
  testkit::let_age(old_list);
  the_operator().remove(own);
  ASSERT_TRUE(watches(behind_client, held.node())) << "the next one closes the gap, and does not overtake the holder";
  EXPECT_TRUE(held.valid());
  held.release();
  Lease lease = result_of(waiting_behind);
  ASSERT_TRUE(remain(2)) << "the one whose node was deleted queues again, at the end";
  EXPECT_TRUE(lease.valid());
  lease.release();
  Lease last = result_of(waiting);
  EXPECT_GT(last.token(), lease.token());
  last.release();
  expect_nothing_left();
}

// --- predecessor vanishes before it is watched --------------------------------------------------------------------

// Nobody would wake a waiter that watches what is no longer there.
TEST_F(MutexFaults, PredecessorVanishesBeforeItIsWatched) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Mutex other(the_operator(), "/lock");
  Lease held = other.acquire();
  auto list = proxy.hold_next_reply(RequestType::get_children2);
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(list.wait(patience));
  held.release();
  list.release();
  Lease lease = result_of(waiting);
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(names().size(), 1u) << "and it keeps its own node";
  EXPECT_EQ(proxy.request_count(RequestType::create2), 1u);
  lease.release();
  expect_nothing_left();
}

// With a waiter left before us: the list is read again, and the next one is watched.
TEST_F(MutexFaults, NearestOfTwoVanishesBeforeItIsWatched) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Client middle_client = calm_direct();
  Mutex middle(middle_client, "/lock");
  Mutex first(the_operator(), "/lock");
  Lease held = first.acquire();
  std::stop_source stop;
  auto giving_up = in_thread([&] { return middle.acquire({.stop = stop.get_token()}); });
  ASSERT_TRUE(watches(middle_client, held.node()));
  auto list = proxy.hold_next_reply(RequestType::get_children2);
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(list.wait(patience));
  stop.request_stop();
  EXPECT_EQ(failure_of(giving_up), Errc::cancelled);
  ASSERT_TRUE(remain(2));
  list.release();
  ASSERT_TRUE(watches(client, held.node()));
  EXPECT_TRUE(held.valid());
  EXPECT_NE(waiting.wait_for(0ms), std::future_status::ready);
  held.release();
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_F(MutexFaults, AMiddleWaiterLeavesAndItsFollowerIsNotPromoted) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  Client middle_client = calm_direct();
  Mutex middle(middle_client, "/lock");
  Mutex first(the_operator(), "/lock");
  Lease held = first.acquire();
  auto closing = wait_behind(middle, middle_client, held.node());
  auto waiting = wait_behind(mutex, client, Path("/lock") / first.contenders()[1].node);
  middle_client.close();
  EXPECT_EQ(failure_of(closing), Errc::closed);
  ASSERT_TRUE(watches(client, held.node()));
  EXPECT_TRUE(held.valid());
  EXPECT_NE(waiting.wait_for(0ms), std::future_status::ready);
  held.release();
  result_of(waiting).release();
  expect_nothing_left();
}

// --- cut off while holding ----------------------------------------------------------------------------------------

// One direction at a time: the server hears us and we do not hear it, and the other way round.
TEST_F(MutexFaults, OneWayPartitionsWhileHolding) {
  for (const Direction direction : {Direction::to_server, Direction::to_client}) {
    // A session that short may end a lease before it is cut off.
    bool cut_off = false;
    for (int attempt = 0; !cut_off; ++attempt) {
      ASSERT_LT(attempt, 10) << "it never holds until it is cut off";
      Client client(proxy.connect_string(), {.session_timeout = testkit::contended_session});
      Mutex mutex(client, "/lock");
      Mutex other(the_operator(), "/lock");
      Lease lease = mutex.acquire({.deadline = soon()});
      const testkit::StallWatch stalls;
      auto waiting = in_thread([&] {
        Lease next = other.acquire({.deadline = soon()});
        EXPECT_FALSE(lease.valid());
        EXPECT_TRUE(lease.lost().stop_requested() || stalls.seen());
        return next;
      });
      ASSERT_TRUE(eventually([&] { return names().size() == 2 || !lease.valid(); }));
      proxy.stall(direction);
      cut_off = lease.valid();
      (void)result_of(waiting);
      proxy.unstall(direction);
    }
  }
  expect_nothing_left();
}

// --- own node deleted by hand while holding -----------------------------------------------------------------------

TEST_F(MutexFaults, OwnNodeDeletedAtAnyTimeWhileHolding) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  for (int i = 0; i < 25; ++i) {
    Lease lease = mutex.acquire({.deadline = soon()});
    const auto moment = SteadyClock::now() + i * 1500us;  // Around the instant at which the own node gets its watch.
    while (SteadyClock::now() < moment)
      std::this_thread::yield();
    the_operator().remove(lease.node());
    EXPECT_TRUE(stopped(lease.lost())) << i;
  }
  expect_nothing_left();
}

TEST_F(MutexFaults, OneOfManyNodesDeletedWhileHolding) {
  Client client = calm_direct();
  std::vector<Mutex> mutexes;
  std::vector<Lease> leases;
  for (int i = 0; i < 8; ++i) {
    mutexes.emplace_back(client, Path("/lock" + std::to_string(i)));
    leases.push_back(mutexes.back().acquire());
  }
  the_operator().remove(leases[3].node());
  ASSERT_TRUE(stopped(leases[3].lost()));
  for (std::size_t i = 0; i < leases.size(); ++i)
    EXPECT_EQ(leases[i].valid(), i != 3) << i;
}

// What an operator writes into the holder's node is no loss.
TEST_F(MutexFaults, OwnNodeChangedWhileHolding) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  Lease lease = mutex.acquire();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(watches(client, lease.node()));
    the_operator().set(lease.node(), std::to_string(i));
  }
  ASSERT_TRUE(watches(client, lease.node()));
  EXPECT_EQ(lease.state(), LeaseState::held);
  the_operator().remove(lease.node());
  EXPECT_TRUE(stopped(lease.lost()));
}

TEST_F(MutexFaults, TheWatchOfTheOwnNodeIsLost) {
  Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  Mutex mutex(client, "/lock");
  auto fault = proxy.drop_next_request(RequestType::get_data);  // Who contends alone reads nothing before it holds.
  Lease lease = mutex.acquire({.deadline = soon()});
  ASSERT_TRUE(fault.wait(patience));
  ASSERT_TRUE(watches(client, lease.node())) << "armed all the same";
  the_operator().remove(lease.node());
  EXPECT_TRUE(stopped(lease.lost()));
  expect_nothing_left();
}

// Who holds is told in the node's data again, though the connection breaks meanwhile.
TEST_F(MutexFaults, TheWordsOfTheHolderAreRestored) {
  for (const bool request : {true, false}) {
    Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
    Mutex mutex(client, "/lock", {.id = "me"});
    Lease lease = mutex.acquire({.deadline = soon()});
    ASSERT_TRUE(watches(client, lease.node()));
    auto fault = lose(request, RequestType::set_data);
    EXPECT_EQ(revoke(the_operator(), lease.node()), RevokeOutcome::requested);
    EXPECT_TRUE(stopped(lease.revoke_requested()));
    ASSERT_TRUE(fault.wait(patience));
    EXPECT_TRUE(eventually([&] { return the_operator().get(lease.node()).data.starts_with("id=me "); }));
    EXPECT_TRUE(lease.valid());
    lease.release({.deadline = soon()});
  }
  expect_nothing_left();
}

TEST_F(MutexFaults, PredecessorsNodeChangedWhileWaiting) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  Mutex other(the_operator(), "/lock");
  Lease held = other.acquire();
  auto waiting = wait_behind(mutex, client, held.node());
  for (int i = 0; i < 3; ++i) {
    the_operator().set(held.node(), std::to_string(i));
    ASSERT_TRUE(watches(client, held.node()));
  }
  EXPECT_NE(waiting.wait_for(0ms), std::future_status::ready);
  held.release();
  result_of(waiting).release();
  expect_nothing_left();
}

// --- connection breaks while holding ------------------------------------------------------------------------------

TEST_F(MutexFaults, ConnectionBreaksWhileHoldingForTooLong) {
  Client client(proxy.connect_string(), {.session_timeout = 12s});
  Mutex mutex(client, "/lock");
  Lease lease = mutex.acquire({.deadline = soon()});
  refuse_and_cut();
  // What is told of the lease, and until when it was promised, all in one look.
  BootClock::time_point until = BootClock::time_point::min();
  bool uncertain = false;
  EXPECT_TRUE(eventually([&] {
    const BootClock::time_point promised = lease.valid_until();
    const LeaseState state = lease.state();
    if (state == LeaseState::uncertain) uncertain = true;
    if (state != LeaseState::lost) until = std::max(until, promised);
    return state == LeaseState::lost;
  }));
  EXPECT_GE(BootClock::now(), until);
  EXPECT_TRUE(uncertain);
  EXPECT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(client.session().state() == ConnectionState::connected, false);
  // Lost is lost, even if the server knew better: the node, if it is still there, is taken away.
  proxy.refuse(false);
  EXPECT_TRUE(remain(0));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  mutex.acquire({.deadline = soon()}).release();
  expect_nothing_left();
}

// The library may be used in the very callback that tells the loss.
TEST_F(MutexFaults, ALossCallbackMayUseTheMutex) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  Lease lease = mutex.acquire();
  Box<FencingToken> box;
  const std::stop_callback again(lease.lost(), [&] {
    std::error_code error;
    lease.release({}, error);
    EXPECT_EQ(error, Errc::not_held);
    Lease next = mutex.acquire({.deadline = soon()});
    box.put(next.token());
  });
  expire(client);
  EXPECT_GT(box.take(), lease.token());
  expect_nothing_left();
}

// --- release: request or reply lost -------------------------------------------------------------------------------

TEST_F(MutexFaults, ReleaseLostSeveralTimesWithoutWaiting) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  std::vector<zktesting::Fault> faults;
  for (int i = 0; i < 3; ++i)
    faults.push_back(proxy.drop_next_request(RequestType::remove));
  { const Lease lease = mutex.acquire(); }
  // A later acquisition does not queue up behind the ghost of the one before for longer than it has to.
  mutex.acquire({.deadline = soon()}).release();
  for (const auto& fault : faults)
    EXPECT_TRUE(fault.happened());
  expect_nothing_left();
}

TEST_F(MutexFaults, ReleaseWhileDisconnected) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Lease lease = mutex.acquire();
  refuse_and_cut();
  ASSERT_TRUE(eventually([&] { return lease.state() == LeaseState::uncertain; }));
  EXPECT_EQ(error_of([&] { lease.release({.deadline = SteadyClock::now() + 100ms}); }), Errc::deadline_exceeded);
  EXPECT_EQ(lease.state(), LeaseState::releasing);
  EXPECT_FALSE(lease.valid());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of([&] { lease.release({.stop = stop.get_token()}); }), Errc::cancelled);
  EXPECT_EQ(names().size(), 1u);
  proxy.refuse(false);
  lease.release({.deadline = soon()});
  EXPECT_EQ(lease.state(), LeaseState::released);
  EXPECT_FALSE(lease.lost().stop_requested());
  expect_nothing_left();
}

TEST_F(MutexFaults, SessionLostWhileReleasing) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Lease lease = mutex.acquire();
  const auto session = client.session();
  refuse_and_cut();
  auto releasing = in_thread([&] { lease.release({.deadline = soon()}); });
  ASSERT_TRUE(eventually([&] { return lease.state() == LeaseState::releasing; }));
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  proxy.refuse(false);
  result_of(releasing);
  EXPECT_EQ(lease.state(), LeaseState::released);
  expect_nothing_left();
}

// --- deadline, stop request while waiting -------------------------------------------------------------------------

// The clean-up outlives the call, and the connection.
TEST_F(MutexFaults, StopWhileWaitingAndDisconnected) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Mutex other(the_operator(), "/lock");
  const Lease held = other.acquire();
  std::stop_source stop;
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon(), .stop = stop.get_token()}); });
  ASSERT_TRUE(watches(client, held.node()));
  refuse_and_cut();
  stop.request_stop();
  EXPECT_EQ(failure_of(waiting), Errc::cancelled);
  EXPECT_EQ(names().size(), 2u);
  proxy.refuse(false);
  EXPECT_TRUE(remain(1));
  EXPECT_TRUE(held.valid());
}

// --- client closed ------------------------------------------------------------------------------------------------

// The watch is armed at the server, and its event is on the way, when the waiter has gone already.
TEST_F(MutexFaults, ClientClosedWhileTheWatchIsOnItsWay) {
  Mutex other(the_operator(), "/lock");
  for (int i = 0; i < 5; ++i) {
    Client client = calm_proxied();
    Mutex mutex(client, "/lock");
    Lease held = other.acquire({.deadline = soon()});
    auto watch = proxy.hold_next_reply(RequestType::get_data);
    auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
    ASSERT_TRUE(watch.wait(patience));
    auto closing = in_thread([&] { client.close(); });
    ASSERT_TRUE(reaches(client, ConnectionState::closed));
    held.release();
    watch.release();
    EXPECT_EQ(failure_of(waiting), Errc::closed);
    result_of(closing);
  }
  expect_nothing_left();
}

TEST_F(MutexFaults, StopWhileTheWatchIsOnItsWay) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Mutex other(the_operator(), "/lock");
  for (int i = 0; i < 5; ++i) {
    Lease held = other.acquire({.deadline = soon()});
    auto watch = proxy.hold_next_reply(RequestType::get_data);
    std::stop_source stop;
    auto waiting = in_thread([&] { return mutex.acquire({.stop = stop.get_token()}); });
    ASSERT_TRUE(watch.wait(patience));
    stop.request_stop();
    EXPECT_EQ(failure_of(waiting), Errc::cancelled);
    held.release();
    watch.release();
    ASSERT_TRUE(remain(0));
  }
  expect_nothing_left();
}

TEST_F(MutexFaults, ClientClosedWhileDisconnected) {
  Client client = brief_proxied();
  Mutex mutex(client, "/lock");
  const std::size_t threads = testkit::thread_count();
  {
    Client second = brief_proxied();
    Mutex waiting_mutex(second, "/lock");
    const Lease lease = mutex.acquire({.deadline = soon()});
    Box<Result<Lease>> box;
    waiting_mutex.async_acquire([&](Result<Lease> result) { box.put(std::move(result)); });
    ASSERT_TRUE(remain(2));
    refuse_and_cut();
    const auto start = SteadyClock::now();
    second.close();
    EXPECT_TRUE(SteadyClock::now() - start < 10s || !time_is_made());
    ASSERT_EQ(box.size(), 1u);
    EXPECT_FALSE(box.take());
  }
  EXPECT_TRUE(eventually([&] { return testkit::thread_count() <= threads; }));
  proxy.refuse(false);
  expect_nothing_left();
}

// --- foreign child in the directory -------------------------------------------------------------------------------

// Listing, and then reading one by one: a contender that has gone in between is left out.
TEST_F(MutexFaults, AContenderVanishesWhileTheyAreListed) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Mutex other(the_operator(), "/lock");
  Lease held = other.acquire();
  std::stop_source stop;
  auto leaving = in_thread([&] { return other.acquire({.stop = stop.get_token()}); });
  ASSERT_TRUE(remain(2));
  auto list = proxy.hold_next_reply(RequestType::get_children2);
  auto listing = in_thread([&] { return mutex.contenders({.deadline = soon()}); });
  ASSERT_TRUE(list.wait(patience));
  stop.request_stop();
  EXPECT_EQ(failure_of(leaving), Errc::cancelled);
  ASSERT_TRUE(remain(1));
  list.release();
  const std::vector<Contender> left = result_of(listing);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ("/lock/" + left.front().node, held.node());
}

// --- The server itself --------------------------------------------------------------------------------------------

// Without a server there is no lock, and there is one as soon as it is back.
TEST_F(MutexFaults, ServerDown) {
  Client client = calm_direct();
  Mutex mutex(client, "/lock");
  mutex.acquire().release();
  server.stop();
  EXPECT_EQ(error_of([&] { (void)mutex.acquire({.deadline = SteadyClock::now() + 100ms}); }), Errc::deadline_exceeded);
  EXPECT_FALSE(mutex.try_acquire_for(50ms));
  // A time that is over means one try, which waits for a connection as any operation does.
  Client hasty(server.connect_string(), {.operation_timeout = 100ms});
  Mutex tried(hasty, "/lock");
  EXPECT_FALSE(tried.try_acquire_for(0ms));
  EXPECT_FALSE(tried.try_lock());
  EXPECT_FALSE(MultiLock().add(tried).try_acquire_for(0ms));
  EXPECT_EQ(error_of([&] { (void)tried.try_acquire(); }), Errc::deadline_exceeded);
  auto waiting = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  server.start();
  Lease lease = result_of(waiting);
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(remain(1));
  lease.release();
  expect_nothing_left();
}

TEST_F(MutexFaults, ServerRestartWhileHoldingAndWaiting) {
  // A slow machine takes its time for a restart.
  Client client(server.connect_string(), {.session_timeout = 60s, .server_tick = testkit::server_tick});
  Mutex mutex(client, "/lock");
  Client waiting_client(server.connect_string(), {.session_timeout = 60s});
  Mutex waiting_mutex(waiting_client, "/lock");
  Lease held = mutex.acquire();
  auto waiting = wait_behind(waiting_mutex, waiting_client, held.node());
  const auto before = names();
  server.restart();
  ASSERT_TRUE(eventually([&] { return held.state() == LeaseState::held; })) << to_string(held.state());
  EXPECT_FALSE(held.lost().stop_requested());
  ASSERT_TRUE(watches(waiting_client, held.node()));
  EXPECT_EQ(names().size(), before.size());
  held.release();
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_F(MutexFaults, ServerWiped) {
  Client client = brief_direct();
  Mutex mutex(client, "/lock");
  Client waiting_client = brief_direct();
  Mutex waiting_mutex(waiting_client, "/lock");
  Lease held = mutex.acquire({.deadline = soon()});
  auto waiting = in_thread([&] { return waiting_mutex.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  server.restart_wiped();
  EXPECT_EQ(failure_of(waiting), Errc::session_lost);
  ASSERT_TRUE(stopped(held.lost()));
  Lease again = mutex.acquire({.deadline = soon()});
  EXPECT_TRUE(again.valid()) << "with the next session, and a parent made anew";
  again.release();
}

// --- Many faults in a row -----------------------------------------------------------------------------------------

TEST_F(MutexFaults, FiveOutagesInARow) {
  Client client = calm_proxied();
  Mutex mutex(client, "/lock");
  Client waiting_client = calm_proxied();
  Mutex waiting_mutex(waiting_client, "/lock");
  Lease held = mutex.acquire();
  auto waiting = wait_behind(waiting_mutex, waiting_client, held.node());
  const std::string place = "/lock/" + mutex.contenders()[1].node;
  for (int i = 0; i < 5; ++i) {
    refuse_and_cut();
    ASSERT_TRUE(eventually([&] { return held.state() == LeaseState::uncertain; }));
    ASSERT_TRUE(reaches(waiting_client, ConnectionState::suspended));
    proxy.refuse(false);
    ASSERT_TRUE(eventually([&] { return held.state() == LeaseState::held; }));
    ASSERT_TRUE(reaches(waiting_client, ConnectionState::connected));
  }
  EXPECT_FALSE(held.lost().stop_requested());
  held.release({.deadline = soon()});
  Lease lease = result_of(waiting);
  EXPECT_EQ(lease.node(), place);
  lease.release({.deadline = soon()});
  expect_nothing_left();
}

TEST_F(MutexFaults, FlappingLink) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  constexpr std::size_t progress = 5;  // Holdings, at least.
  constexpr int sessions = 3;
  testkit::Holdings holdings;
  std::atomic<int> ended{0};
  {
    std::vector<std::jthread> crew;
    for (int s = 0; s < sessions; ++s) {
      crew.emplace_back([&](const std::stop_token& stop) {
        Client client = brief_proxied();
        Mutex mutex(client, "/lock");
        while (!stop.stop_requested()) {
          try {
            Lease lease = mutex.acquire({.deadline = soon()});
            holdings.hold(lease, 2ms);
            std::error_code error;
            lease.release({.deadline = soon()}, error);
            EXPECT_TRUE(!error || error == Errc::not_held) << error.message();
          } catch (const zkclient::Error& error) {
            // Or a read was lost too often, or answers came too late for a session that short.
            const bool expected = error.errc() == Errc::session_lost || error.errc() == Errc::connection_loss ||
                                  error.errc() == Errc::connection_too_slow;
            EXPECT_TRUE(expected) << error.what();
            ++ended;
          }
        }
      });
    }
    flap(seed, [&] { return holdings.size() > progress; });
  }
  holdings.expect_no_overlap();
  EXPECT_GT(holdings.size(), progress);
  std::cout << holdings.size() << " holdings, " << ended << " lost waits\n";
  expect_nothing_left();
}

}  // namespace
}  // namespace zkrecipes
