// What goes wrong with any election: each row that the tables of <zkrecipes/leader_election.hpp> and
// <zkrecipes/unfair_leader_election.hpp> have in common, once, run for both. What the fair one promises besides follows
// at the end; the unfair one's part is in unfair_leader_election_test.cpp.

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include "tests/support/any_election.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

using Seen = std::optional<Leader>;

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers elections_on_real_servers{
    "All/ElectionFaults.CreateReplyLost/Fair", "All/ElectionFaults.SessionLostWhileLeading/Fair",
    "All/ElectionFaults.ServerRestartWhileLeadingCampaigningAndObserving/Fair"};

class ElectionFaults : public testkit::AnyElectionTest {};
INSTANTIATE_FOR_ALL_ELECTIONS(ElectionFaults);

/// What only candidates that queue up promise, and what takes long and does not depend on the kind.
class FairElectionFaults : public ElectionFaults {};
INSTANTIATE_TEST_SUITE_P(Fair, FairElectionFaults, ::testing::Values(&testkit::fair));

// --- create: request or reply lost --------------------------------------------------------------------------------

TEST_P(ElectionFaults, CreateReplyLost) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  election.campaign().release();
  auto fault = proxy.drop_next_reply(kind().creation);
  Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_TRUE(fault.wait(testkit::patience));
  if (is_fair()) {
    EXPECT_EQ(proxy.request_count(RequestType::create2), 2u) << "it was found, and not created again";
  }
  EXPECT_EQ(names().size(), kind().leading);
  EXPECT_EQ(election.leader()->term, leadership.token());
  leadership.release();
  expect_nothing_left();
}

// The reply of the create is lost, and the look for the node ends before it has found it.
TEST_P(FairElectionFaults, EndedWhileLookingForTheOwnNode) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  election.campaign().release();
  for (const bool by_stop : {false, true}) {
    auto held = proxy.hold_next_reply(kind().creation);
    std::stop_source stop;
    const auto deadline = by_stop ? soon() : SteadyClock::now() + 10s;  // Not before the look has begun.
    auto waiting = in_thread([&] { return election.campaign({.deadline = deadline, .stop = stop.get_token()}); });
    ASSERT_TRUE(held.wait(patience));
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    if (by_stop) stop.request_stop();
    EXPECT_EQ(failure_of(waiting), by_stop ? Errc::cancelled : Errc::deadline_exceeded);
    EXPECT_EQ(names().size(), kind().leading) << "the server has created it";
    proxy.refuse(false);
    EXPECT_TRUE(remain(0));
  }
  expect_nothing_left();
}

TEST_P(ElectionFaults, ReadLostTooOftenWhileCampaigning) {
  Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  Election& election = candidate(client, "a");
  election.campaign().release();
  Election& other = candidate(the_operator(), "b");
  Leadership held = other.campaign();
  auto fault = proxy.drop_next_reply(RequestType::get_data);
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  EXPECT_EQ(failure_of(waiting), Errc::connection_loss);
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_TRUE(remain(kind().leading));
  held.release();
  expect_nothing_left();
}

TEST_P(ElectionFaults, CreateRequestLost) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  election.campaign().release();
  auto fault = proxy.drop_next_request(kind().creation);
  Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_TRUE(fault.wait(testkit::patience));
  EXPECT_EQ(names().size(), kind().leading);
  EXPECT_TRUE(leadership.valid());
  leadership.release();
  expect_nothing_left();
}

// The node of the lost reply dies with its session; the candidate queues again, once.
TEST_P(ElectionFaults, SessionLostWhileCreateInFlight) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  election.campaign().release();
  auto held = proxy.hold_next_reply(kind().creation);
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  ASSERT_TRUE(held.wait(patience));
  const auto session = client.session();
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  proxy.refuse(false);
  Leadership leadership = result_of(waiting);
  EXPECT_NE(leadership.session()->id(), session.id());
  EXPECT_TRUE(leadership.valid());
  EXPECT_EQ(names().size(), kind().leading);
  leadership.release();
  expect_nothing_left();
}

TEST_P(ElectionFaults, ResignWhileCreateInFlight) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  election.campaign().release();
  auto held = proxy.hold_next_reply(kind().creation);
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  ASSERT_TRUE(held.wait(patience));
  auto resigning = in_thread([&] { election.resign({.deadline = soon()}); });
  EXPECT_EQ(failure_of(waiting), Errc::cancelled);
  held.release();
  result_of(resigning);
  expect_nothing_left();
}

TEST_P(ElectionFaults, CloseWhileCreateInFlight) {
  for (const bool reply_comes : {true, false}) {
    Client client = brief_proxied();
    Election& election = candidate(client, "a");
    client.connect({.deadline = soon()});
    auto held = proxy.hold_next_reply(kind().creation);
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

TEST_P(ElectionFaults, ParentMissing) {
  Client client = calm_direct();
  Election& election = candidate(client, "a", "/a/b/election");
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

TEST_P(ElectionFaults, ParentRemovedWhileCampaigning) {
  Client client = calm_direct();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  held.proclaim("of a");
  Box<Seen> seen;
  const auto subscription = election.observe([&](const Seen& leader) { seen.put(leader); });
  auto waiting = campaign_behind(election, client, own(held));
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

TEST_P(ElectionFaults, ConnectionBreaksWhileCampaigning) {
  Client client = calm_proxied();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, own(held));
  const std::vector<std::string> places = names();
  for (int i = 0; i < 3; ++i) {
    const std::size_t accepted = proxy.accepted_connections();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > accepted; }));
    ASSERT_TRUE(watches(client, own(held)));
  }
  held.release();
  Leadership leadership = result_of(waiting);
  const bool kept = std::find(places.begin(), places.end(), Path(leadership.node()).name()) != places.end();
  EXPECT_EQ(kept, is_fair()) << "the place of a candidate that has one";
  leadership.release();
  expect_nothing_left();
}

TEST_P(ElectionFaults, ConnectionBreaksWhileCampaigningAndTheLeaderGoes) {
  Client client = calm_proxied();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, own(held));
  refuse_and_cut();
  held.release();
  ASSERT_TRUE(remain(kind().queued));
  proxy.refuse(false);
  result_of(waiting).release();
  expect_nothing_left();
}

TEST_P(ElectionFaults, PredecessorVanishesBeforeItIsWatched) {
  Client client = calm_proxied();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
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

TEST_P(ElectionFaults, SessionLostWhileCampaigning) {
  Client client = calm_direct();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, own(held));
  const std::int64_t old_session = client.session().id();
  expire(client);
  ASSERT_TRUE(eventually([&] { return client.session().id() != old_session && watches(client, own(held)); }));
  EXPECT_TRUE(held.valid());
  held.release();
  Leadership leadership = result_of(waiting);
  EXPECT_EQ(leadership.session()->id(), client.session().id());
  leadership.release();
  expect_nothing_left();
}

// --- session lost while leading -----------------------------------------------------------------------------------

TEST_P(ElectionFaults, SessionLostWhileLeading) {
  Client client = calm_direct();
  Election& election = candidate(client, "a");
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
TEST_P(ElectionFaults, PartitionedPastExpiryWhileLeading) {
  Client client(proxy.connect_string(), {.session_timeout = testkit::contended_session});
  Election& first = candidate(client, "a");
  Election& second = candidate(the_operator(), "b");
  Leadership leadership = first.campaign({.deadline = soon()});
  const testkit::StallWatch stalls;
  auto waiting = in_thread([&] {
    Leadership next = second.campaign({.deadline = soon()});
    EXPECT_FALSE(leadership.valid());
    EXPECT_TRUE(leadership.lost().stop_requested() || stalls.seen());
    return next;
  });
  // A session as short as this may end the leadership before; the second one is judged all the same.
  ASSERT_TRUE(eventually([&] { return names().size() == kind().leading + kind().queued || !leadership.valid(); }));
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
TEST_P(ElectionFaults, OwnNodeDeletedWhileLeading) {
  Client client = calm_direct();
  Election& first = candidate(client, "a");
  Client other = calm_direct();
  Election& second = candidate(other, "b");
  Leadership leadership = first.campaign();
  leadership.proclaim("of a");
  auto waiting = campaign_behind(second, other, own(leadership));
  ASSERT_TRUE(watches(client, own(leadership)));
  the_operator().remove(own(leadership));
  ASSERT_TRUE(stopped(leadership.lost())) << "at once, and not with a heartbeat, which comes every 5 s";
  EXPECT_EQ(leadership.state(), LeaseState::lost);
  EXPECT_EQ(client.session().state(), ConnectionState::connected);
  EXPECT_EQ(error_of([&] { leadership.ready(); }), Errc::not_held);
  Leadership next = result_of(waiting);
  EXPECT_EQ(second.leader()->term, next.token());
  auto again = campaign_behind(first, client, own(next));
  next.release();
  result_of(again).release();
  expect_nothing_left();
}

// A record that was on its way when the leader's node was deleted is refused, and not attributed to anybody.
TEST_P(ElectionFaults, OwnNodeDeletedWhileProclaiming) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  Leadership leadership = election.campaign();
  proxy.stall(Direction::to_server);
  auto proclaiming = in_thread([&] { return error_of([&] { leadership.proclaim("late", {.deadline = soon()}); }); });
  the_operator().remove(leadership.node());  // The one that its transactions check.
  proxy.unstall(Direction::to_server);
  EXPECT_EQ(result_of(proclaiming), Errc::not_held);
  EXPECT_TRUE(stopped(leadership.lost()));
  EXPECT_EQ(the_operator().get("/election").data, "");
  expect_nothing_left();
}

TEST_P(ElectionFaults, ProclaimReplyLost) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  Leadership leadership = election.campaign();
  const auto held = proxy.hold_next_reply(RequestType::multi);  // The answer, or a heartbeat's before it.
  auto proclaiming = in_thread([&] { return error_of([&] { leadership.proclaim("x", {.deadline = soon()}); }); });
  ASSERT_TRUE(eventually([&] { return !the_operator().get("/election").data.empty(); }));
  ASSERT_TRUE(held.wait(patience)) << "otherwise the answer to ready() would be held";
  proxy.cut();
  EXPECT_EQ(result_of(proclaiming), Errc::in_doubt);
  ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::held; }));
  leadership.ready({.deadline = soon()});
  EXPECT_EQ(election.leader()->value, "x");
  EXPECT_TRUE(election.leader()->ready);
}

// --- connection breaks while leading ------------------------------------------------------------------------------

TEST_P(ElectionFaults, ConnectionBreaksWhileLeading) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  Leadership leadership = election.campaign();
  EXPECT_EQ(leadership.state(), LeaseState::held);
  for (int i = 0; i < 3; ++i) {
    refuse_and_cut();
    ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::uncertain; }));
    proxy.refuse(false);
    ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::held; }));
  }
  EXPECT_FALSE(leadership.lost().stop_requested());
  EXPECT_EQ(names().size(), kind().leading) << "the node was left alone";
  leadership.release();
  expect_nothing_left();
}

TEST_P(FairElectionFaults, ConnectionBreaksWhileLeadingForTooLong) {
  Client client = brief_proxied();
  Election& election = candidate(client, "a");
  Leadership leadership = election.campaign({.deadline = soon()});
  refuse_and_cut();
  EXPECT_TRUE(stopped(leadership.lost()));
  EXPECT_EQ(leadership.state(), LeaseState::lost);
  proxy.refuse(false);
  Leadership again = election.campaign({.deadline = soon()});
  EXPECT_GT(again.token(), leadership.token());
  EXPECT_EQ(leadership.state(), LeaseState::lost) << "for ever";
  std::error_code lost_as_well;  // A session as short as this may have ended.
  again.release({.deadline = soon()}, lost_as_well);
  expect_nothing_left();
}

// --- resign: request or reply lost --------------------------------------------------------------------------------

TEST_P(ElectionFaults, ResignLost) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  for (const bool request : {true, false}) {
    const Leadership leadership = election.campaign({.deadline = soon()});
    ASSERT_TRUE(watches(client, own(leadership)));
    auto fault = lose(request, kind().removal);
    election.resign({.deadline = soon()});
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(names().empty()) << "it waited until its nodes were gone";
    EXPECT_EQ(leadership.state(), LeaseState::released);
  }
  expect_nothing_left();
}

// A leadership that is being given back already is waited for as well.
TEST_P(ElectionFaults, ResignTwice) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  std::optional<Leadership> leadership = election.campaign();
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  leadership.reset();
  EXPECT_EQ(error_of([&] { election.resign({.deadline = SteadyClock::now() + 50ms}); }), Errc::deadline_exceeded);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of([&] { election.resign({.stop = stop.get_token()}); }), Errc::cancelled);
  EXPECT_EQ(names().size(), kind().leading);
  proxy.refuse(false);
  election.resign({.deadline = soon()});
  EXPECT_TRUE(names().empty());
  expect_nothing_left();
}

TEST_P(ElectionFaults, ResignWhileDisconnected) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  const Leadership leadership = election.campaign();
  refuse_and_cut();
  EXPECT_EQ(error_of([&] { election.resign({.deadline = SteadyClock::now() + 100ms}); }), Errc::deadline_exceeded);
  EXPECT_FALSE(leadership.valid()) << "given up all the same";
  proxy.refuse(false);
  expect_nothing_left();
}

// --- deadline, stop request while campaigning ---------------------------------------------------------------------

TEST_P(ElectionFaults, DeadlineOrStopWhileCampaigning) {
  Client client = calm_proxied();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  EXPECT_EQ(error_of([&] { (void)election.campaign({.deadline = SteadyClock::now() + 100ms}); }),
            Errc::deadline_exceeded);
  EXPECT_TRUE(remain(kind().leading));
  std::stop_source stop;
  auto waiting = in_thread([&] { return election.campaign({.stop = stop.get_token()}); });
  ASSERT_TRUE(remain(kind().leading + kind().queued));
  ASSERT_TRUE(watches(client, own(held)));
  std::optional<zktesting::Fault> fault;  // The clean-up is stubborn, where there is one.
  if (kind().queued > 0) fault = proxy.drop_next_request(kind().removal);
  stop.request_stop();
  EXPECT_EQ(failure_of(waiting), Errc::cancelled);
  EXPECT_TRUE(!fault || fault->wait(patience));
  EXPECT_TRUE(remain(kind().leading));
  held.release();
  expect_nothing_left();
}

// --- client closed ------------------------------------------------------------------------------------------------

TEST_P(ElectionFaults, ClientClosedWhileCampaigning) {
  Client client = calm_proxied();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
  Leadership held = first.campaign();
  auto waiting = campaign_behind(election, client, own(held));
  client.close();
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  EXPECT_TRUE(eventually([&] { return names().size() == kind().leading; }));
  held.release();
  expect_nothing_left();
}

TEST_P(ElectionFaults, ClientClosedWhileLeading) {
  Client client = calm_proxied();
  Election& election = candidate(client, "a");
  Leadership leadership = election.campaign();
  client.close();
  EXPECT_TRUE(leadership.lost().stop_requested());
  EXPECT_EQ(leadership.state(), LeaseState::lost);
  EXPECT_TRUE(eventually([&] { return names().empty(); }));
  election.resign();
  expect_nothing_left();
}

// --- foreign child in the directory -------------------------------------------------------------------------------

TEST_P(ElectionFaults, ForeignChildIgnored) {
  for (const char* name : {"nodash", "ready", "n_0000000000", "_c_x-lock-0000000000", "_c_x-leader", "latch-"})
    the_operator().create(Path("/election") / name, "");
  Election& election = candidate(the_operator(), "a");
  EXPECT_FALSE(election.leader());
  const Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_EQ(election.leader()->id, "a");
  EXPECT_EQ(election.candidates().size(), 1u);
}

// --- The server itself --------------------------------------------------------------------------------------------

TEST_P(FairElectionFaults, CampaignBeforeTheServerIsUp) {
  server.stop();
  const Client client(server.connect_string(), {.session_timeout = calm});
  Election& election = candidate(client, "a");
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  server.start();
  EXPECT_TRUE(result_of(waiting).valid());
}

TEST_P(ElectionFaults, ServerRestartWhileLeadingCampaigningAndObserving) {
  // A server takes its time on a busy machine.
  const zkclient::ClientOptions options{.session_timeout = 60s, .server_tick = testkit::server_tick};
  Client client(server.connect_string(), options);
  Election& first = candidate(client, "a");
  Client other(server.connect_string(), options);
  Election& second = candidate(other, "b");
  Leadership leadership = first.campaign();
  auto waiting = campaign_behind(second, other, own(leadership));
  Box<Seen> seen;
  const auto subscription = second.observe([&](const Seen& leader) { seen.put(leader); });
  EXPECT_EQ(seen.take()->id, "a");
  server.kill();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));  // Else it might still write to the one that was killed.
  server.start();
  ASSERT_TRUE(eventually([&] { return leadership.state() == LeaseState::held; }, patience))
      << to_string(leadership.state());
  leadership.proclaim("after", {.deadline = soon()});
  EXPECT_EQ(seen.take()->value, "after");
  leadership.release({.deadline = soon()});
  const Leadership next = result_of(waiting);
  EXPECT_EQ(seen.take_until([](const Seen& leader) { return leader && leader->id == "b"; })->term, next.token());
}

TEST_P(ElectionFaults, ServerWiped) {
  // So long that none ends before the server is wiped. Afterwards the clients have to give them up by themselves.
  const zkclient::ClientOptions options{.session_timeout = 10s, .server_tick = testkit::server_tick};
  Client client(server.connect_string(), options);
  Election& election = candidate(client, "a");
  Client other(server.connect_string(), options);
  Election& second = candidate(other, "b");
  Leadership leadership = election.campaign({.deadline = soon()});
  auto waiting = in_thread([&] { return second.campaign({.deadline = soon()}); });
  ASSERT_TRUE(remain(kind().leading + kind().queued));
  server.restart_wiped();
  ASSERT_TRUE(stopped(leadership.lost()));
  const Leadership next = result_of(waiting);
  EXPECT_TRUE(next.valid()) << "a candidate again, with a new session and a parent made anew";
  EXPECT_EQ(second.leader()->id, "b");
}

// --- Many faults in a row -----------------------------------------------------------------------------------------

TEST_P(FairElectionFaults, FlappingLink) {
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
        Election& election = candidate(client, std::to_string(c));
        while (!stop.stop_requested()) {
          try {
            const Leadership leadership = election.campaign({.deadline = soon()});
            terms.hold(leadership, 2ms);
            election.resign({.deadline = soon()});
          } catch (const zkclient::Error& error) {
            // A read was lost too often, or answers came too late for a session that short.
            const bool expected = error.errc() == Errc::connection_loss || error.errc() == Errc::connection_too_slow;
            EXPECT_TRUE(expected) << error.what();
          }
        }
      });
    }
    flap(seed, [&] { return terms.size() > progress; });
  }
  terms.expect_no_overlap();
  EXPECT_GT(terms.size(), progress);
  std::cout << terms.size() << " terms\n";
  expect_nothing_left();
}

// --- Special: candidates that queue up ----------------------------------------------------------------------------

// No zombie: the candidate is one again, at the end, with the new session.
TEST_P(FairElectionFaults, SessionLostWhileCampaigningMeansTheEndOfTheQueue) {
  Client client = calm_direct();
  Election& election = candidate(client, "b");
  Client behind_client = calm_direct();
  Election& behind = candidate(behind_client, "c");
  Election& first = candidate(the_operator(), "a");
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

TEST_P(FairElectionFaults, PartitionedPastExpiryWhileCampaigning) {
  Client client = brief_proxied();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
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

TEST_P(FairElectionFaults, OwnNodeDeletedWhileCampaigning) {
  Client client = calm_direct();
  Election& election = candidate(client, "b");
  Election& first = candidate(the_operator(), "a");
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

}  // namespace
}  // namespace zkrecipes
