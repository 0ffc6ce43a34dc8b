// One test for each row of the table "What goes wrong" in <zkrecipes/leader_election.hpp>, and for what others got
// wrong.

#include <gtest/gtest.h>

#include <condition_variable>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/unfair_leader_election.hpp>

#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::Box;
using testkit::error_of;
using testkit::eventually;
using testkit::in_thread;
using testkit::patience;
using testkit::result_of;
using testkit::soon;
using testkit::SteadyClock;
using testkit::stopped;
using zkclient::Client;
using zkclient::ConnectionState;
using zkclient::Errc;
using zkclient::Path;
using zkclient::Transaction;
using zktesting::Direction;
using zktesting::RequestType;

using Seen = std::optional<Leader>;

class LeaderElectionFaults : public testkit::RecipeFaultTest {
 protected:
  LeaderElectionFaults() : RecipeFaultTest("/election") {}

  static LeaderElection candidate(const Client& client, const std::string& id) {
    return {client, "/election", {.id = id}};
  }
  /// A candidate in a thread of its own, which is at rest when this returns: its node is there and its watch is armed
  /// (an observer of the same client may have armed one before).
  std::future<Leadership> campaign_behind(LeaderElection& election, const Client& client, const Path& predecessor) {
    const std::size_t before = names().size();
    auto waiting = in_thread([&election] { return election.campaign({.deadline = soon()}); });
    EXPECT_TRUE(remain(before + 1));
    EXPECT_TRUE(watches(client, predecessor));
    return waiting;
  }
};

// --- create: request or reply lost --------------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, CreateReplyLost) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  election.campaign().release();
  auto fault = proxy.drop_next_reply(RequestType::create2);
  Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_TRUE(fault.wait(testkit::patience));
  EXPECT_EQ(proxy.request_count(RequestType::create2), 2u) << "it was found, and not created again";
  EXPECT_EQ(names().size(), 1u);
  EXPECT_EQ(election.leader()->term, leadership.token());
  leadership.release();
  expect_nothing_left();
}

// The reply of the create is lost, and the look for the node ends before it has found it.
TEST_F(LeaderElectionFaults, EndedWhileLookingForTheOwnNode) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  election.campaign().release();
  for (const bool by_stop : {false, true}) {
    auto held = proxy.hold_next_reply(RequestType::create2);
    std::stop_source stop;
    const auto deadline = by_stop ? soon() : SteadyClock::now() + 3s;
    auto waiting = in_thread([&] { return election.campaign({.deadline = deadline, .stop = stop.get_token()}); });
    ASSERT_TRUE(held.wait(patience));
    proxy.refuse(true);
    proxy.cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    if (by_stop) stop.request_stop();
    EXPECT_EQ(failure_of(waiting), by_stop ? Errc::cancelled : Errc::deadline_exceeded);
    EXPECT_EQ(names().size(), 1u) << "the server has created it";
    proxy.refuse(false);
    EXPECT_TRUE(remain(0));
  }
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, ReadLostTooOftenWhileCampaigning) {
  Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  LeaderElection election = candidate(client, "a");
  election.campaign().release();
  LeaderElection other = candidate(the_operator(), "b");
  Leadership held = other.campaign();
  auto fault = proxy.drop_next_reply(RequestType::get_data);
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  EXPECT_EQ(failure_of(waiting), Errc::connection_loss);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(remain(1));
  held.release();
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, CreateRequestLost) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  election.campaign().release();
  auto fault = proxy.drop_next_request(RequestType::create2);
  Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_TRUE(fault.wait(testkit::patience));
  EXPECT_EQ(names().size(), 1u);
  EXPECT_TRUE(leadership.valid());
  leadership.release();
  expect_nothing_left();
}

// The node of the lost reply dies with its session; the candidate queues again, once.
TEST_F(LeaderElectionFaults, SessionLostWhileCreateInFlight) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  election.campaign().release();
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  ASSERT_TRUE(held.wait(patience));
  const auto session = client.session();
  proxy.refuse(true);
  proxy.cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  proxy.refuse(false);
  Leadership leadership = result_of(waiting);
  EXPECT_NE(leadership.session()->id(), session.id());
  EXPECT_TRUE(leadership.valid());
  EXPECT_EQ(names().size(), 1u);
  leadership.release();
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, ResignWhileCreateInFlight) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  election.campaign().release();
  auto held = proxy.hold_next_reply(RequestType::create2);
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  ASSERT_TRUE(held.wait(patience));
  auto resigning = in_thread([&] { election.resign({.deadline = soon()}); });
  EXPECT_EQ(failure_of(waiting), Errc::cancelled);
  held.release();
  result_of(resigning);
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, CloseWhileCreateInFlight) {
  for (const bool reply_comes : {true, false}) {
    Client client = brief_proxied();
    LeaderElection election = candidate(client, "a");
    client.connect({.deadline = soon()});
    auto held = proxy.hold_next_reply(RequestType::create2);
    auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
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

TEST_F(LeaderElectionFaults, ParentMissing) {
  Client client = calm_direct();
  LeaderElection election(client, "/a/b/election");
  for (int i = 0; i < 2; ++i) {
    Leadership leadership = election.campaign({.deadline = soon()});
    leadership.proclaim("x");
    EXPECT_EQ(election.leader()->value, "x");
    leadership.release();
    std::error_code gone_already;  // Empty containers: the server may have been quicker.
    for (const char* path : {"/a/b/election", "/a/b", "/a"})
      the_operator().remove(path, zkclient::any_version, {}, gone_already);
    EXPECT_FALSE(election.leader());
  }
}

TEST_F(LeaderElectionFaults, ParentRemovedWhileCampaigning) {
  Client client = calm_direct();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  held.proclaim("of a");
  Box<Seen> seen;
  const auto subscription = election.observe([&](const Seen& leader) { seen.put(leader); });
  auto waiting = campaign_behind(election, client, held.node());
  Transaction removal;
  for (const std::string& name : names())
    removal.remove(Path("/election") / name);
  the_operator().commit(removal.remove("/election"));
  const Leadership leadership = result_of(waiting);
  EXPECT_TRUE(leadership.valid());
  EXPECT_TRUE(stopped(held.lost()));
  EXPECT_GT(leadership.token(), held.token());
  const Seen last = seen.take_until([&](const Seen& leader) { return leader && leader->id == "b"; });
  EXPECT_EQ(last->term, leadership.token());
  EXPECT_FALSE(last->value);
}

// --- connection breaks while campaigning --------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, ConnectionBreaksWhileCampaigning) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, held.node());
  const std::string place = "/election/" + first.candidates()[1].node;
  for (int i = 0; i < 3; ++i) {
    const std::size_t accepted = proxy.accepted_connections();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > accepted; }));
    ASSERT_TRUE(watches(client, held.node()));
  }
  held.release();
  Leadership leadership = result_of(waiting);
  EXPECT_EQ(leadership.node(), place) << "the place is kept";
  leadership.release();
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, ConnectionBreaksWhileCampaigningAndTheLeaderGoes) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, held.node());
  proxy.refuse(true);
  proxy.cut();
  held.release();
  ASSERT_TRUE(remain(1));
  proxy.refuse(false);
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, PredecessorVanishesBeforeItIsWatched) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto list = proxy.hold_next_reply(RequestType::get_children2);
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  ASSERT_TRUE(list.wait(patience));
  held.release();
  list.release();
  EXPECT_TRUE(result_of(waiting).valid());
  expect_nothing_left();
}

// --- session lost while campaigning -------------------------------------------------------------------------------

// No zombie: the candidate is one again, at the end, with the new session.
TEST_F(LeaderElectionFaults, SessionLostWhileCampaigning) {
  Client client = calm_direct();
  LeaderElection election = candidate(client, "b");
  Client behind_client = calm_direct();
  LeaderElection behind = candidate(behind_client, "c");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, held.node());
  auto waiting_behind = campaign_behind(behind, behind_client, Path("/election") / first.candidates()[1].node);
  const std::int64_t old_session = client.session().id();
  expire(client);
  ASSERT_TRUE(eventually([&] {
    const auto candidates = first.candidates();
    return candidates.size() == 3 && candidates[1].data == "c" && candidates[2].data == "b" &&
           candidates[2].session_id != old_session;
  }));
  EXPECT_TRUE(held.valid());
  held.release();
  Leadership leadership = result_of(waiting_behind);
  leadership.release();
  Leadership last = result_of(waiting);
  EXPECT_TRUE(last.valid());
  EXPECT_EQ(last.session()->id(), client.session().id());
  last.release();
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, PartitionedPastExpiryWhileCampaigning) {
  Client client = brief_proxied();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, held.node());
  proxy.stall(Direction::both);
  ASSERT_TRUE(remain(1)) << "the server expires it";
  proxy.unstall(Direction::both);
  ASSERT_TRUE(remain(2)) << "and it comes back";
  held.release();
  result_of(waiting).release();
  expect_nothing_left();
}

// --- own node deleted by hand while campaigning -------------------------------------------------------------------

TEST_F(LeaderElectionFaults, OwnNodeDeletedWhileCampaigning) {
  Client client = calm_direct();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, held.node());
  the_operator().remove(Path("/election") / first.candidates()[1].node);
  held.release();
  Leadership leadership = result_of(waiting);
  EXPECT_TRUE(leadership.valid());
  EXPECT_EQ("/election/" + names().front(), leadership.node());
  leadership.release();
  expect_nothing_left();
}

// --- session lost while leading -----------------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, SessionLostWhileLeading) {
  Client client = calm_direct();
  LeaderElection election = candidate(client, "a");
  Leadership leadership = election.campaign();
  leadership.proclaim("x");
  expire(client);
  ASSERT_TRUE(stopped(leadership.lost()));
  EXPECT_EQ(leadership.state(), LeaseState::lost);
  EXPECT_EQ(error_of([&] { leadership.proclaim("late"); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { leadership.ready(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { leadership.release(); }), Errc::not_held);
  election.resign({.deadline = soon()});
  Leadership again = election.campaign({.deadline = soon()});
  EXPECT_GT(again.token(), leadership.token());
  EXPECT_FALSE(election.leader()->value);
  again.release();
  expect_nothing_left();
}

// The leader that was cut off is told before the next one leads.
TEST_F(LeaderElectionFaults, PartitionedPastExpiryWhileLeading) {
  Client client(proxy.connect_string(), {.session_timeout = testkit::contended_session});
  LeaderElection first = candidate(client, "a");
  LeaderElection second = candidate(the_operator(), "b");
  Leadership leadership = first.campaign({.deadline = soon()});
  auto waiting = in_thread([&] {
    Leadership next = second.campaign({.deadline = soon()});
    EXPECT_FALSE(leadership.valid());
    EXPECT_TRUE(leadership.lost().stop_requested());
    return next;
  });
  ASSERT_TRUE(remain(2));
  proxy.stall(Direction::both);
  Leadership next = result_of(waiting);
  EXPECT_EQ(error_of([&] { leadership.proclaim("late"); }), Errc::not_held);
  EXPECT_FALSE(second.leader()->value);
  proxy.unstall(Direction::both);
  next.release();
  expect_nothing_left();
}

// --- own node deleted by hand while leading -----------------------------------------------------------------------

// The old leader is demoted at once, and there are not two.
TEST_F(LeaderElectionFaults, OwnNodeDeletedWhileLeading) {
  Client client = calm_direct();
  LeaderElection first = candidate(client, "a");
  Client other = calm_direct();
  LeaderElection second = candidate(other, "b");
  Leadership leadership = first.campaign();
  leadership.proclaim("of a");
  auto waiting = campaign_behind(second, other, leadership.node());
  ASSERT_TRUE(watches(client, leadership.node()));
  the_operator().remove(leadership.node());
  ASSERT_TRUE(stopped(leadership.lost())) << "at once, and not with a heartbeat, which comes every 5 s";
  EXPECT_EQ(leadership.state(), LeaseState::lost);
  EXPECT_EQ(client.session().state(), ConnectionState::connected);
  EXPECT_EQ(error_of([&] { leadership.ready(); }), Errc::not_held);
  Leadership next = result_of(waiting);
  EXPECT_EQ(second.leader()->term, next.token());
  auto again = campaign_behind(first, client, next.node());
  next.release();
  result_of(again).release();
  expect_nothing_left();
}

// A record that was on its way when the leader's node was deleted is refused, and not attributed to anybody.
TEST_F(LeaderElectionFaults, OwnNodeDeletedWhileProclaiming) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  Leadership leadership = election.campaign();
  proxy.stall(Direction::to_server);
  auto proclaiming = in_thread([&] { return error_of([&] { leadership.proclaim("late", {.deadline = soon()}); }); });
  the_operator().remove(leadership.node());
  proxy.unstall(Direction::to_server);
  EXPECT_EQ(result_of(proclaiming), Errc::not_held);
  EXPECT_TRUE(stopped(leadership.lost()));
  EXPECT_EQ(the_operator().get("/election").data, "");
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, ProclaimReplyLost) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  Leadership leadership = election.campaign();
  (void)proxy.drop_next_reply(RequestType::multi);
  EXPECT_EQ(error_of([&] { leadership.proclaim("x", {.deadline = soon()}); }), Errc::in_doubt);
  ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::held; }));
  leadership.ready({.deadline = soon()});
  EXPECT_EQ(election.leader()->value, "x");
  EXPECT_TRUE(election.leader()->ready);
}

// --- connection breaks while leading ------------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, ConnectionBreaksWhileLeading) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  Leadership leadership = election.campaign();
  EXPECT_EQ(leadership.state(), LeaseState::held);
  for (int i = 0; i < 3; ++i) {
    proxy.refuse(true);
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::uncertain; }));
    proxy.refuse(false);
    ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::held; }));
  }
  EXPECT_FALSE(leadership.lost().stop_requested());
  EXPECT_EQ(names().size(), 1u) << "the node was left alone";
  leadership.release();
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, ConnectionBreaksWhileLeadingForTooLong) {
  Client client = brief_proxied();
  LeaderElection election = candidate(client, "a");
  Leadership leadership = election.campaign({.deadline = soon()});
  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(stopped(leadership.lost()));
  EXPECT_EQ(leadership.state(), LeaseState::lost);
  proxy.refuse(false);
  Leadership again = election.campaign({.deadline = soon()});
  EXPECT_GT(again.token(), leadership.token());
  EXPECT_EQ(leadership.state(), LeaseState::lost) << "for ever";
  again.release();
  expect_nothing_left();
}

// --- resign: request or reply lost --------------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, ResignReplyLost) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  const Leadership leadership = election.campaign();
  auto fault = proxy.drop_next_reply(RequestType::remove);
  election.resign({.deadline = soon()});
  EXPECT_TRUE(fault.wait(testkit::patience));
  EXPECT_EQ(leadership.state(), LeaseState::released);
  expect_nothing_left();
}

// A leadership that is being given back already is waited for as well.
TEST_F(LeaderElectionFaults, ResignTwice) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  std::optional<Leadership> leadership = election.campaign();
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  leadership.reset();
  EXPECT_EQ(error_of([&] { election.resign({.deadline = SteadyClock::now() + 50ms}); }), Errc::deadline_exceeded);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of([&] { election.resign({.stop = stop.get_token()}); }), Errc::cancelled);
  EXPECT_EQ(names().size(), 1u);
  proxy.refuse(false);
  election.resign({.deadline = soon()});
  EXPECT_TRUE(names().empty());
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, ResignRequestLost) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  const Leadership leadership = election.campaign();
  auto fault = proxy.drop_next_request(RequestType::remove);
  election.resign({.deadline = soon()});
  EXPECT_TRUE(fault.wait(testkit::patience));
  EXPECT_TRUE(names().empty()) << "it waited until the node was gone";
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, ResignWhileDisconnected) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  const Leadership leadership = election.campaign();
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(error_of([&] { election.resign({.deadline = SteadyClock::now() + 100ms}); }), Errc::deadline_exceeded);
  EXPECT_FALSE(leadership.valid()) << "given up all the same";
  proxy.refuse(false);
  expect_nothing_left();
}

// --- deadline, stop request while campaigning ---------------------------------------------------------------------

TEST_F(LeaderElectionFaults, DeadlineWhileCampaigning) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  EXPECT_EQ(error_of([&] { (void)election.campaign({.deadline = SteadyClock::now() + 100ms}); }),
            Errc::deadline_exceeded);
  EXPECT_TRUE(remain(1));
  held.release();
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, StopWhileCampaigning) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  std::stop_source stop;
  auto waiting = in_thread([&] { return election.campaign({.stop = stop.get_token()}); });
  ASSERT_TRUE(watches(client, held.node()));
  (void)proxy.drop_next_request(RequestType::remove);
  stop.request_stop();
  EXPECT_EQ(failure_of(waiting), Errc::cancelled);
  EXPECT_TRUE(remain(1));
  held.release();
  expect_nothing_left();
}

// --- client closed ------------------------------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, ClientClosedWhileCampaigning) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "b");
  LeaderElection first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, held.node());
  client.close();
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  EXPECT_TRUE(eventually([&] { return names().size() == 1; }, 10s));
  held.release();
  expect_nothing_left();
}

TEST_F(LeaderElectionFaults, ClientClosedWhileLeading) {
  Client client = calm_proxied();
  LeaderElection election = candidate(client, "a");
  Leadership leadership = election.campaign();
  client.close();
  EXPECT_TRUE(leadership.lost().stop_requested());
  EXPECT_EQ(leadership.state(), LeaseState::lost);
  EXPECT_TRUE(eventually([&] { return names().empty(); }, 10s));
  election.resign();
  expect_nothing_left();
}

// --- foreign child in the directory -------------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, ForeignChildIgnored) {
  for (const char* name : {"nodash", "ready", "n_0000000000", "_c_x-lock-0000000000", "latch-"})
    the_operator().create(Path("/election") / name, "");
  LeaderElection election = candidate(the_operator(), "a");
  EXPECT_FALSE(election.leader());
  const Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_EQ(election.leader()->id, "a");
  EXPECT_EQ(election.candidates().size(), 1u);
}

// --- The server itself --------------------------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, CampaignBeforeTheServerIsUp) {
  zktesting::Server own;
  own.stop();
  const Client client(own.connect_string(), {.session_timeout = calm});
  LeaderElection fair = candidate(client, "a");
  UnfairLeaderElection unfair(client, "/unfair");
  auto first = in_thread([&] { return fair.campaign({.deadline = soon()}); });
  auto second = in_thread([&] { return unfair.campaign({.deadline = soon()}); });
  own.start();
  EXPECT_TRUE(result_of(first).valid());
  EXPECT_TRUE(result_of(second).valid());
}

TEST_F(LeaderElectionFaults, ServerRestartWhileLeadingCampaigningAndObserving) {
  const zkclient::ClientOptions options{.session_timeout = 60s};  // A server takes its time on a busy machine.
  Client client(server.connect_string(), options);
  LeaderElection first = candidate(client, "a");
  Client other(server.connect_string(), options);
  LeaderElection second = candidate(other, "b");
  Leadership leadership = first.campaign();
  auto waiting = campaign_behind(second, other, leadership.node());
  Box<Seen> seen;
  const auto subscription = second.observe([&](const Seen& leader) { seen.put(leader); });
  EXPECT_EQ(seen.take()->id, "a");
  server.restart();
  ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::held; }, patience))
      << to_string(leadership.state());
  leadership.proclaim("after", {.deadline = soon()});
  EXPECT_EQ(seen.take()->value, "after");
  leadership.release({.deadline = soon()});
  const Leadership next = result_of(waiting);
  EXPECT_EQ(seen.take_until([](const Seen& leader) { return leader && leader->id == "b"; })->term, next.token());
}

TEST_F(LeaderElectionFaults, ServerWiped) {
  Client client = brief_direct();
  LeaderElection election = candidate(client, "a");
  Client other = brief_direct();
  LeaderElection second = candidate(other, "b");
  Leadership leadership = election.campaign({.deadline = soon()});
  auto waiting = in_thread([&] { return second.campaign({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  server.restart_wiped();
  ASSERT_TRUE(stopped(leadership.lost()));
  const Leadership next = result_of(waiting);
  EXPECT_TRUE(next.valid()) << "a candidate again, with a new session and a parent made anew";
  EXPECT_EQ(second.leader()->id, "b");
}

// --- Observers ----------------------------------------------------------------------------------------------------

// An observer misses no change for good, whatever happens to its connection: after each fault it is told the truth.
TEST_F(LeaderElectionFaults, ObserverUnderFaults) {
  Client client = calm_proxied();
  const LeaderElection observed = candidate(client, "observer");
  Box<Seen> seen;
  const auto subscription = observed.observe([&](const Seen& leader) { seen.put(leader); });
  LeaderElection election = candidate(the_operator(), "a");
  const std::function<void()> faults[] = {
      [&] { (void)proxy.drop_next_reply(RequestType::get_children2); },
      [&] { (void)proxy.drop_next_reply(RequestType::get_data); },
      [&] { (void)proxy.drop_next_request(RequestType::get_data); },
      [&] { (void)proxy.drop_next_reply(RequestType::exists); },
      [&] { (void)proxy.drop_next_reply(RequestType::set_watches); },
      [&] { proxy.cut(); },
      [&] { expire(client); },
  };
  for (std::size_t i = 0; i < std::size(faults); ++i) {
    faults[i]();
    Leadership leadership = election.campaign({.deadline = soon()});
    leadership.proclaim(std::to_string(i));
    (void)seen.take_until([&](const Seen& leader) {
      return leader && leader->term == leadership.token() && leader->value == std::to_string(i);
    });
    faults[i]();
    leadership.release({.deadline = soon()});
    (void)seen.take_until([](const Seen& leader) { return !leader; });
    if (i % 2 != 0) continue;
    std::error_code gone_already;  // Made anew it is a container, which the server removes by itself.
    the_operator().remove("/election", zkclient::any_version, {}, gone_already);
  }
}

// Who waits for a leader goes on waiting, whatever happens, and is told of the one that comes.
TEST_F(LeaderElectionFaults, WaitingForALeaderUnderFaults) {
  Client client = calm_proxied();
  const LeaderElection follower = candidate(client, "follower");
  LeaderElection election = candidate(the_operator(), "a");
  client.connect({.deadline = soon()});
  const std::function<void()> faults[] = {
      [&] { proxy.cut(); },
      [&] { expire(client); },
      [&] { (void)proxy.drop_next_reply(RequestType::get_data); },
      [&] { (void)proxy.drop_next_reply(RequestType::exists); },
      [&] { (void)proxy.drop_next_reply(RequestType::sync); },
      [&] { the_operator().remove("/election"); },
  };
  FencingToken last;
  for (const auto& fault : faults) {
    const std::size_t lists = proxy.request_count(RequestType::get_children2);
    auto waiting = in_thread([&] { return follower.wait_for_leader({.after = last}, {.deadline = soon()}); });
    ASSERT_TRUE(proxy.wait_for_requests(RequestType::get_children2, lists + 2, patience)) << "the second one watches";
    fault();
    Leadership leadership = election.campaign({.deadline = soon()});
    leadership.ready({.deadline = soon()});
    const Leader leader = result_of(waiting);
    EXPECT_EQ(leader.term, leadership.token());
    last = leader.term;
    leadership.release({.deadline = soon()});
  }
}

// --- Many faults in a row -----------------------------------------------------------------------------------------

TEST_F(LeaderElectionFaults, FlappingLink) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  constexpr std::size_t progress = 5;  // Terms, at least.
  constexpr int candidates = 3;
  testkit::Holdings terms;
  {
    std::vector<std::jthread> crew;
    for (int c = 0; c < candidates; ++c) {
      crew.emplace_back([&, c](const std::stop_token& stop) {
        Client client = brief_proxied();
        LeaderElection election = candidate(client, std::to_string(c));
        while (!stop.stop_requested()) {
          try {
            const Leadership leadership = election.campaign({.deadline = soon()});
            terms.hold(leadership, 2ms);
            election.resign({.deadline = soon()});
          } catch (const zkclient::Error& error) {
            EXPECT_EQ(error.errc(), Errc::connection_loss) << error.what();  // A read was lost too often.
          }
        }
      });
    }
    std::minstd_rand random(seed);
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    const auto pause = [&](unsigned most) { never.wait_for(lock, std::chrono::milliseconds(random() % most)); };
    const auto end = SteadyClock::now() + 4s;
    while (SteadyClock::now() < end || (terms.size() <= progress && SteadyClock::now() < end + patience)) {
      pause(100);
      proxy.cut();
      if (random() % 4 != 0) continue;
      proxy.refuse(true);
      pause(250);
      proxy.refuse(false);
    }
  }
  terms.expect_no_overlap();
  EXPECT_GT(terms.size(), progress);
  std::cout << terms.size() << " terms\n";
  expect_nothing_left();
}

}  // namespace
}  // namespace zkrecipes
