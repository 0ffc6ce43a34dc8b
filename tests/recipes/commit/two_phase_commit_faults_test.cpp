// One test for each row of the table "What goes wrong" in <zkrecipes/two_phase_commit.hpp> that needs a fault; the
// others are in tests/recipes/commit/two_phase_commit_test.cpp.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>

#include <zktesting/expire.hpp>

#include "recipes/commit/commit_record.hpp"

#include "tests/support/commit_test.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::Gate;
using testkit::TestParticipant;
using Calls = std::vector<std::string>;

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers commits_on_real_servers{"Variants/TwoPhaseCommitFaults.BeginLost/Mediated",
                                                     "Variants/TwoPhaseCommitFaults.CoordinatorSessionLost/AllToAll"};

class TwoPhaseCommitFaults : public testkit::FaultTest, public ::testing::WithParamInterface<CommitVariant> {
 protected:
  void TearDown() override {
    participants.clear();
    FaultTest::TearDown();
  }
  TestParticipant& add_stopped(const std::string& name, const Client& client, CommitParticipantOptions options = {}) {
    participants.push_back(std::make_unique<TestParticipant>(client, "/2pc", name, options));
    return *participants.back();
  }
  TestParticipant& add(const std::string& name, const Client& client, CommitParticipantOptions options = {}) {
    TestParticipant& added = add_stopped(name, client, std::move(options));
    added.start(observer);
    return added;
  }
  void add_all(int count, CommitParticipantOptions options = {}) {
    for (int i = 0; i < count; ++i)
      add("p" + std::to_string(i), observer, options);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& participant : participants)
      all.push_back(participant->name());
    return all;
  }
  /// A gate in commit() or abort(), but only the first time. What is done there is recognised by its id.
  struct Applying : testkit::Gate {
    std::atomic<int> calls{0};
    std::set<std::string> done;  // Of ids.
    std::atomic<int> repeated{0};

    void operator()(const CommitTransaction& transaction) {
      if (!done.insert(transaction.id).second) ++repeated;
      if (calls++ > 0) return;
      reached.put(transaction.id);
      open.take();
    }
  };
  // A busy machine must not end sessions by itself.
  zkclient::Client direct() { return Client(server.connect_string(), {.session_timeout = 10s}); }
  zkclient::Client proxied() { return Client(proxy.connect_string(), {.session_timeout = 10s}); }
  /// It has aborted it, or was too late to do anything.
  static bool has_aborted(TestParticipant& participant, const std::string& id) {
    const Calls calls = participant.calls(id);
    return participant.log().empty() && std::count(calls.begin(), calls.end(), "commit") == 0 &&
           (calls.empty() || calls.back() == "abort");
  }
  CommitOptions how(std::chrono::milliseconds timeout = 20s) const {
    return {.timeout = timeout, .variant = GetParam()};
  }
  CommitOptions applied() const {
    return {.timeout = 20s, .variant = GetParam(), .wait = CommitOptions::Wait::applied};
  }
  static Path transaction(const std::string& id) { return Path("/2pc/transactions") / id; }
  bool appears(const Path& path) {
    return eventually([&] { return observer.exists(path).has_value(); });
  }
  static bool has_called(const TestParticipant& participant, const std::string& id, const Calls& calls) {
    return eventually([&] { return participant.calls(id) == calls; });
  }
  std::size_t count(const Path& path) {
    std::error_code error;
    return observer.children(path, {}, error).names.size();
  }
  void expire(const Client& client) const {
    const auto session = client.connect({.deadline = soon()});
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  }
  void expect_nothing_left() {
    EXPECT_TRUE(eventually([&] { return count("/2pc/transactions") == 0; }));
    for (const auto& participant : participants) {
      EXPECT_TRUE(eventually([&] { return participant->log().empty(); })) << participant->name();
      EXPECT_EQ(count(Path("/2pc/inbox") / participant->name()), 0U) << participant->name();
    }
  }

  Client observer = direct();
  std::vector<std::unique_ptr<TestParticipant>> participants;
};

INSTANTIATE_TEST_SUITE_P(Variants, TwoPhaseCommitFaults,
                         ::testing::Values(CommitVariant::mediated, CommitVariant::all_to_all), [](const auto& tested) {
                           return tested.param == CommitVariant::mediated ? "Mediated" : "AllToAll";
                         });

/// Where there is no coordinator to decide.
class AllToAllFaults : public TwoPhaseCommitFaults {};
INSTANTIATE_TEST_SUITE_P(Variants, AllToAllFaults, ::testing::Values(CommitVariant::all_to_all));

// The participants are not blocked: at the deadline at the latest they abort (mediated), or have committed on their own
// (all to all). What is left is removed by their own sweep, or by the coordinator that recovers it.
TEST_P(TwoPhaseCommitFaults, CoordinatorDiesBeforeDecision) {
  for (const bool by_sweep : {true, false}) {
    participants.clear();
    add_all(3, {.sweep_interval = by_sweep ? 300ms : 0ms});
    Gate gate;
    hold(*participants[2], gate);
    std::string id;
    {
      Client client = direct();
      CommitCoordinator coordinator(client, "/2pc");
      coordinator.async_run(names(), "", how(by_sweep ? 10s : 20s), [](auto) {});
      id = gate.reached.take();
      if (by_sweep) {
        EXPECT_TRUE(appears(transaction(id) / "vote-p0"));
      }
      client.close();
    }
    std::future<std::vector<CommitOutcome>> recovered;
    CommitCoordinator successor(observer, "/2pc");
    if (!by_sweep) recovered = in_thread([&] { return successor.recover({.deadline = soon()}); });
    if (by_sweep) {
      EXPECT_TRUE(eventually([&] { return participants[0]->calls(id) == Calls{"prepare", "abort"}; }));
    }
    gate.open.put(1);
    for (const auto& participant : participants) {
      EXPECT_TRUE(eventually([&] {
        return by_sweep ? has_aborted(*participant, id) : participant->calls(id) == Calls{"prepare", "commit"};
      })) << participant->name();
    }
    if (!by_sweep) {
      const auto outcomes = result_of(recovered);
      ASSERT_EQ(outcomes.size(), 1U);
      EXPECT_EQ(outcomes[0], (CommitOutcome{id, true, ""}));
    }
    expect_nothing_left();
  }
}

// No coordinator, no recovery: all to all, the participants commit on their own.
TEST_P(TwoPhaseCommitFaults, AllToAllNeedsNoCoordinator) {
  add_all(3);
  Gate gate;
  hold(*participants[1], gate);
  Client client = direct();
  CommitCoordinator coordinator(client, "/2pc");
  const bool commits = GetParam() == CommitVariant::all_to_all;
  coordinator.async_run(names(), "", how(commits ? 20s : 10s), [](auto) {});
  const std::string id = gate.reached.take();
  EXPECT_TRUE(appears(transaction(id) / "vote-p0") && appears(transaction(id) / "vote-p2"));
  client.close();
  gate.open.put(1);
  for (const auto& participant : participants) {
    EXPECT_TRUE(eventually([&] {
      return participant->calls(id) == Calls{"prepare", commits ? "commit" : "abort"};
    })) << participant->name();
  }
  CommitCoordinator successor(observer, "/2pc");
  EXPECT_EQ(successor.recover({.deadline = soon()}).size(), 1U);
  expect_nothing_left();
}

// The last voter has decided nothing: the others look at the votes themselves.
TEST_P(AllToAllFaults, LastVoterDiesBeforeItDecides) {
  add_all(2);
  Client own = proxied();
  TestParticipant& last = add("p2", own);
  Gate gate;
  hold(last, gate);
  CommitCoordinator coordinator(observer, "/2pc");
  auto running = in_thread([&] { return coordinator.run(names(), "", how(), {.deadline = soon()}); });
  gate.reached.take();
  auto held = proxy.hold_next_reply(RequestType::multi);  // Its vote is cast, and it does not know it.
  gate.open.put(1);
  EXPECT_TRUE(held.wait(patience));
  EXPECT_TRUE(result_of(running).committed);
  held.release();
  expect_nothing_left();
}

TEST_P(TwoPhaseCommitFaults, CoordinatorDiesAfterDecision) {
  for (const bool by_sweep : {true, false}) {
    participants.clear();
    add_all(2, {.sweep_interval = by_sweep ? 300ms : 0ms});
    testkit::Box<int> committing;
    testkit::Box<int> go_on;
    participants[1]->on_commit = [&](const auto&) {
      committing.put(1);
      go_on.take();
    };
    Client client = direct();
    CommitCoordinator coordinator(client, "/2pc");
    const CommitOutcome outcome = coordinator.run(names(), "", how(10s), {.deadline = soon()});
    EXPECT_TRUE(outcome.committed);
    committing.take();
    client.close();
    std::future<std::vector<CommitOutcome>> recovered;
    CommitCoordinator successor(observer, "/2pc");
    if (!by_sweep) recovered = in_thread([&] { return successor.recover({.deadline = soon()}); });
    go_on.put(1);
    for (const auto& participant : participants) {
      EXPECT_TRUE(eventually([&] { return participant->calls(outcome.id) == Calls{"prepare", "commit"}; }));
    }
    if (!by_sweep) {
      EXPECT_EQ(result_of(recovered), std::vector<CommitOutcome>{outcome});
    }
    expect_nothing_left();
  }
}

TEST_P(TwoPhaseCommitFaults, OutcomeThatIsKnownNeedsNoServer) {
  add_all(2);
  Applying applying;
  participants[0]->on_commit = std::ref(applying);
  Client client = proxied();
  CommitCoordinator coordinator(client, "/2pc");
  const CommitOutcome outcome = coordinator.run(names(), "", how(), patient());
  EXPECT_EQ(applying.reached.take(), outcome.id);
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(coordinator.status(outcome.id, {.deadline = 100ms}).outcome, outcome);
  EXPECT_EQ(error_of([&] { (void)coordinator.status("another", {.deadline = 100ms}); }), Errc::deadline_exceeded);
  proxy.refuse(false);
  applying.open.put(1);
  expect_nothing_left();
}

TEST_P(TwoPhaseCommitFaults, ParticipantDiesBeforeItsVote) {
  add_all(2, {.absence_grace = 300ms});
  Client own = direct();
  TestParticipant& dying = add("p2", own);
  Gate gate;
  hold(dying, gate);
  CommitCoordinator coordinator(observer, "/2pc", {.absence_grace = 300ms});
  auto running = in_thread([&] { return coordinator.run(names(), "", how(), {.deadline = soon()}); });
  const std::string id = gate.reached.take();
  // Its session is over; the process is stuck.
  auto closed = in_thread([&] { own.close(); });
  const CommitOutcome outcome = result_of(running);
  EXPECT_FALSE(outcome.committed);
  EXPECT_EQ(outcome.reason, "participant p2 is gone");
  gate.open.put(1);
  closed.get();
  EXPECT_EQ(dying.end().code(), Errc::closed);
  // It is back: of what it had prepared it finds only that it was aborted.
  dying.use(observer);
  dying.start(observer);
  EXPECT_TRUE(eventually([&] { return dying.calls(id) == Calls{"prepare", "abort"}; }));
  expect_nothing_left();
}

TEST_P(TwoPhaseCommitFaults, ParticipantDiesAfterItsVote) {
  add_all(2);
  Client own = direct();
  TestParticipant& dying = add("p2", own);
  Gate gate;
  hold(*participants[0], gate);
  CommitCoordinator coordinator(observer, "/2pc", {.absence_grace = 0ms});
  auto running = in_thread([&] { return coordinator.run(names(), "", how(), {.deadline = soon()}); });
  const std::string id = gate.reached.take();
  EXPECT_TRUE(eventually([&] { return observer.exists(Path("/2pc/transactions") / id / "vote-p2").has_value(); }));
  own.close();
  EXPECT_EQ(dying.end().code(), Errc::closed);
  gate.open.put(1);
  EXPECT_TRUE(result_of(running).committed) << "it has voted, that is enough";
  EXPECT_EQ(dying.calls(id), Calls{"prepare"});
  EXPECT_TRUE(eventually([&] { return coordinator.status(id).acknowledged.size() == 2; }));
  dying.use(observer);
  dying.start(observer);
  EXPECT_TRUE(eventually([&] { return dying.calls(id) == Calls{"prepare", "commit"}; }));
  expect_nothing_left();
}

// Its log knows of the transaction from before prepare() was called: what that has begun is undone, or prepared again.
TEST_P(TwoPhaseCommitFaults, ParticipantDiesInPrepare) {
  for (const bool aborted : {true, false}) {
    participants.clear();
    const auto grace = aborted ? 300ms : 20'000ms;
    add_all(1, {.absence_grace = grace});
    Client own = direct();
    TestParticipant& dying = add("p1", own);
    Gate gate;
    std::atomic<int> calls{0};
    dying.on_prepare = [&](const CommitTransaction& transaction) {
      if (calls++ == 0) {
        gate.reached.put(transaction.id);
        gate.open.take();
      }
      return CommitVote::yes();
    };
    CommitCoordinator coordinator(observer, "/2pc", {.absence_grace = grace});
    auto running = in_thread([&] { return coordinator.run(names(), "", how(), {.deadline = soon()}); });
    const std::string id = gate.reached.take();
    dying.die();
    ASSERT_EQ(dying.log().open().size(), 1U);
    EXPECT_EQ(dying.log().open().front().state, LogState::begun);
    if (aborted) {
      EXPECT_EQ(result_of(running), (CommitOutcome{id, false, "participant p1 is gone"}));
    }
    dying.use(observer);
    dying.start(observer);
    if (aborted) {
      EXPECT_TRUE(has_called(dying, id, {"abort"}));
    } else {
      EXPECT_TRUE(result_of(running).committed);
      EXPECT_TRUE(has_called(dying, id, {"prepare", "commit"}));
    }
    gate.open.put(1);
    dying.bury();
    expect_nothing_left();
  }
}

// commit() or abort() is called again, with the same id, by which what was done is recognised.
TEST_P(TwoPhaseCommitFaults, ParticipantDiesWhileItApplies) {
  for (const bool commits : {true, false}) {
    participants.clear();
    Gate voting;
    hold(add("p0", observer), voting, commits);
    Client own = direct();
    TestParticipant& dying = add("p1", own);
    Applying applying;
    (commits ? dying.on_commit : dying.on_abort) = std::ref(applying);
    CommitCoordinator coordinator(observer, "/2pc");
    auto running = in_thread([&] { return coordinator.run(names(), "", how(), {.deadline = soon()}); });
    const std::string id = voting.reached.take();
    EXPECT_TRUE(appears(transaction(id) / "vote-p1"));
    voting.open.put(1);
    EXPECT_EQ(result_of(running).committed, commits);
    EXPECT_EQ(applying.reached.take(), id);
    dying.die();
    dying.use(observer);
    dying.start(observer);
    EXPECT_TRUE(has_called(dying, id, {"prepare", commits ? "commit" : "abort"}));
    EXPECT_EQ(applying.calls, 2);
    EXPECT_EQ(applying.repeated, 1) << "with the same id";
    applying.open.put(1);
    dying.bury();
    expect_nothing_left();
  }
}

// The timeout has passed once more: nobody waits for it. When it is back, it finds nothing, and takes that for an
// abort.
TEST_P(TwoPhaseCommitFaults, ParticipantStaysAwayPastAnAbort) {
  for (const bool voted : {true, false}) {
    participants.clear();
    Gate gate;
    TestParticipant& refusing = add("p0", observer);
    Client own = direct();
    TestParticipant& away = add("p1", own);
    hold(voted ? refusing : away, gate, false);
    CommitCoordinator coordinator(observer, "/2pc");
    auto running = in_thread([&] { return coordinator.run(names(), "", how(10s), {.deadline = soon()}); });
    const std::string id = gate.reached.take();
    if (voted) {
      EXPECT_TRUE(appears(transaction(id) / "vote-p1"));
    }
    away.die();
    gate.open.put(1);
    away.bury();
    EXPECT_FALSE(result_of(running).committed);
    EXPECT_TRUE(eventually([&] { return count("/2pc/transactions") == 0; }));
    EXPECT_EQ(count("/2pc/inbox/p1"), 0U) << "it has not acknowledged it";
    EXPECT_EQ(away.log().open().size(), 1U);
    away.on_prepare = [](const auto&) { return CommitVote::yes(); };
    away.use(observer);
    away.start(observer);
    EXPECT_TRUE(has_called(away, id, voted ? Calls{"prepare", "abort"} : Calls{"abort"}));
    expect_nothing_left();
  }
}

TEST_P(TwoPhaseCommitFaults, BeginLost) {
  add_all(2);
  Client client = proxied();
  CommitCoordinator coordinator(client, "/2pc");
  for (const bool request : {true, false}) {
    auto fault = request ? proxy.drop_next_request(RequestType::multi) : proxy.drop_next_reply(RequestType::multi);
    const CommitOutcome outcome = coordinator.run(names(), "", applied(), {.deadline = soon()});
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(outcome.committed);
    for (const auto& participant : participants) {
      EXPECT_EQ(participant->calls(outcome.id), (Calls{"prepare", "commit"}));
      EXPECT_EQ(participant->ids().size(), request ? 1U : 2U) << "begun once";
    }
    expect_nothing_left();
  }
}

TEST_P(TwoPhaseCommitFaults, ServeEndsBeforeItKnowsOfItsPresence) {
  const Client client = proxied();
  client.connect({.deadline = soon()});
  CommitParticipant participant(client, "/2pc", "p", std::make_shared<testkit::MemoryLog>("x"));
  CommitHandlers handlers;
  handlers.prepare = [](const auto&) { return CommitVote::yes(); };
  handlers.commit = [](const auto&) {};
  handlers.abort = [](const auto&) {};
  std::stop_source stop;
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto serving = in_thread([&] {
    participant.serve(std::move(handlers), {.stop = stop.get_token()});
    return true;
  });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_EQ(count("/2pc/participants"), 1u);
  stop.request_stop();
  EXPECT_TRUE(result_of(serving));
  held.release();
  EXPECT_TRUE(eventually([&] { return count("/2pc/participants") == 0; })) << "its presence went with it";
  client.sync("/2pc");
}

TEST_P(TwoPhaseCommitFaults, BeginInDoubtAndSessionLost) {
  add_all(2);
  Client client = proxied();
  client.connect({.deadline = soon()});
  CommitCoordinator coordinator(client, "/2pc");
  const auto session = client.session();
  auto held = proxy.hold_next_reply(RequestType::multi);
  std::optional<Errc> error;
  auto running = in_thread([&]() -> std::optional<CommitOutcome> {
    try {
      return coordinator.run(names(), "", how(), {.deadline = soon()});
    } catch (const zkclient::Error& thrown) {
      error = thrown.errc();
      return std::nullopt;
    }
  });
  ASSERT_TRUE(held.wait(patience));
  proxy.refuse(true);
  proxy.cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  held.release();
  EXPECT_TRUE(eventually([&] { return participants[0]->ids().size() == 1; })) << "it was begun";
  proxy.refuse(false);
  // Found: nobody has removed it.
  const auto outcome = result_of(running);
  ASSERT_TRUE(outcome) << "the error " << (error ? static_cast<int>(*error) : -1);
  for (const auto& participant : participants)
    EXPECT_TRUE(eventually([&] { return participant->log().empty(); }));
  EXPECT_EQ(participants[0]->ids(), std::vector<std::string>{outcome->id}) << "it was not begun a second time";
  CommitCoordinator successor(observer, "/2pc");
  EXPECT_TRUE(eventually([&] {
    (void)successor.recover({.deadline = soon()});
    return count("/2pc/transactions") == 0;
  }));
}

TEST_P(TwoPhaseCommitFaults, BeginInDoubtAndNotFound) {
  add_all(2);
  Client client = proxied();
  const auto session = client.connect({.deadline = soon()});
  CommitCoordinator coordinator(client, "/2pc");
  proxy.refuse(true);  // It keeps its connection until the request is dropped, and gets no other one in this session.
  auto dropped = proxy.drop_next_request(RequestType::multi);
  std::string what;
  auto running = in_thread([&]() -> std::optional<Errc> {
    try {
      (void)coordinator.run(names(), "", how(), {.deadline = soon()});
    } catch (const zkclient::Error& thrown) {
      what = thrown.what();
      return thrown.errc();
    }
    return std::nullopt;
  });
  EXPECT_TRUE(dropped.wait(patience));
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  proxy.refuse(false);
  EXPECT_EQ(result_of(running), Errc::in_doubt);
  EXPECT_NE(what.find("/2pc/transactions/"), std::string::npos) << "it names the transaction: " << what;
  // It was not begun, and is not begun a second time.
  EXPECT_TRUE(coordinator.run(names(), "", applied(), {.deadline = soon()}).committed);
  for (const auto& participant : participants)
    EXPECT_EQ(participant->ids().size(), 1U);
  expect_nothing_left();
}

TEST_P(TwoPhaseCommitFaults, RunEndsBeforeItHasBegun) {
  add_all(1);
  proxy.refuse(true);
  Client client = proxied();
  CommitCoordinator coordinator(client, "/2pc");
  EXPECT_EQ(
      error_of([&] { (void)coordinator.run(names(), "", how(), {.deadline = testkit::SteadyClock::now() + 200ms}); }),
      Errc::deadline_exceeded);
  std::stop_source stop;
  auto running = in_thread(
      [&] { return error_of([&] { (void)coordinator.run(names(), "", how(), {.stop = stop.get_token()}); }); });
  stop.request_stop();
  EXPECT_EQ(result_of(running), Errc::cancelled);
  proxy.refuse(false);
  const CommitOutcome outcome = coordinator.run(names(), "", applied(), {.deadline = soon()});
  EXPECT_TRUE(outcome.committed);
  EXPECT_EQ(participants[0]->ids(), std::vector<std::string>{outcome.id}) << "of the others nothing was begun";
  expect_nothing_left();
}

// Every write of every party, one after the other: with the request lost, and with the reply lost.
TEST_P(TwoPhaseCommitFaults, VoteDecisionAcknowledgementLost) {
  add("p0", observer);
  Client own = proxied();
  TestParticipant& proxied_one = add("p1", own);
  proxied_one.on_prepare = [&](const CommitTransaction& transaction) {
    return transaction.payload == "no" ? CommitVote::no("no") : CommitVote::yes();
  };
  Client coordinators = proxied();
  CommitCoordinator coordinator(coordinators, "/2pc");
  EXPECT_TRUE(coordinator.run(names(), "", applied(), {.deadline = soon()}).committed);
  for (const char* payload : {"yes", "no"}) {
    // Begin, vote, decision, acknowledgement, removal; some of them are of another kind in some cases.
    for (int nth = 0; nth < 5; ++nth) {
      for (const bool request : {true, false}) {
        SCOPED_TRACE(std::string(payload) + ", write " + std::to_string(nth) + (request ? ", request" : ", reply"));
        const std::size_t multis = proxy.request_count(RequestType::multi);
        std::optional<zktesting::Fault> fault;
        std::jthread arm([&, nth, request](const std::stop_token& stop) {
          while (!stop.stop_requested() &&
                 !proxy.wait_for_requests(RequestType::multi, multis + static_cast<std::size_t>(nth), 5ms)) {
          }
          if (stop.stop_requested()) return;
          fault = request ? proxy.drop_next_request(RequestType::multi) : proxy.drop_next_reply(RequestType::multi);
        });
        const CommitOutcome outcome = coordinator.run(names(), payload, applied(), {.deadline = soon()});
        EXPECT_EQ(outcome.committed, std::string(payload) == "yes");
        arm.request_stop();
        arm.join();
        expect_nothing_left();
        if (fault) fault->cancel();
        for (const auto& participant : participants) {
          const Calls calls = participant->calls(outcome.id);
          EXPECT_EQ(std::count(calls.begin(), calls.end(), "commit"), outcome.committed ? 1 : 0) << participant->name();
          EXPECT_LE(std::count(calls.begin(), calls.end(), "abort"), outcome.committed ? 0 : 1) << participant->name();
        }
      }
    }
  }
}

TEST_P(TwoPhaseCommitFaults, CoordinatorSessionLost) {
  add_all(2);
  Gate gate;
  hold(*participants[1], gate);
  Client client = direct();
  CommitCoordinator coordinator(client, "/2pc");
  auto running = in_thread([&] { return coordinator.run(names(), "", applied(), {.deadline = soon()}); });
  gate.reached.take();
  expire(client);
  gate.open.put(1);
  EXPECT_TRUE(result_of(running).committed);
  expect_nothing_left();
}

// Its node goes with its session: others may finish the transaction, while it goes on itself.
TEST_P(TwoPhaseCommitFaults, CoordinatorSessionLostAfterDecision) {
  for (const bool recovered : {false, true}) {
    participants.clear();
    add_all(2);
    Applying applying;
    participants[1]->on_commit = std::ref(applying);
    Client client = direct();
    CommitCoordinator coordinator(client, "/2pc");
    auto running = in_thread([&] { return coordinator.run(names(), "", applied(), {.deadline = soon()}); });
    const std::string id = applying.reached.take();
    EXPECT_TRUE(appears(transaction(id) / "ack-p0"));
    // It waits for the other one, so it knows the decision.
    EXPECT_TRUE(testkit::watch_appears(server, client.session().id(), transaction(id) / "ack-p1"));
    expire(client);
    EXPECT_TRUE(eventually([&] { return !observer.exists(transaction(id) / "coordinator"); }));
    Client successors = direct();
    CommitCoordinator successor(successors, "/2pc");
    std::future<std::vector<CommitOutcome>> recovering;
    if (recovered) {
      recovering = in_thread([&] { return successor.recover({.deadline = soon()}); });
      const auto session = successors.connect({.deadline = soon()});
      EXPECT_TRUE(testkit::watch_appears(server, session.id(), transaction(id) / "ack-p1"));
    }
    applying.open.put(1);
    const CommitOutcome outcome = result_of(running);
    EXPECT_EQ(outcome, (CommitOutcome{id, true, ""}));
    if (recovered) {
      EXPECT_EQ(result_of(recovering), std::vector<CommitOutcome>{outcome});
    }
    for (const auto& participant : participants)
      EXPECT_EQ(participant->calls(id), (Calls{"prepare", "commit"})) << participant->name();
    expect_nothing_left();
  }
}

TEST_P(TwoPhaseCommitFaults, CoordinatorSessionLostAndFinishedByOthers) {
  add_all(2);
  Gate gate;
  hold(*participants[1], gate);
  Client client = proxied();
  CommitCoordinator coordinator(client, "/2pc");
  auto running = in_thread([&] { return error_of([&] { (void)coordinator.run(names(), "", how()); }); });
  const std::string id = gate.reached.take();
  const auto session = client.session();
  proxy.refuse(true);
  proxy.cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  gate.open.put(1);
  CommitCoordinator successor(observer, "/2pc");
  EXPECT_EQ(successor.recover({.deadline = soon()}), (std::vector<CommitOutcome>{{id, true, ""}}));
  EXPECT_EQ(count("/2pc/transactions"), 0U);
  proxy.refuse(false);
  EXPECT_EQ(result_of(running), Errc::in_doubt);
  expect_nothing_left();
}

TEST_P(TwoPhaseCommitFaults, ParticipantSessionLostWhileItApplies) {
  add_all(1);
  Client own = direct();
  TestParticipant& losing = add("p1", own);
  Applying applying;
  losing.on_commit = std::ref(applying);
  CommitCoordinator coordinator(observer, "/2pc");
  auto running = in_thread([&] { return coordinator.run(names(), "", applied(), {.deadline = soon()}); });
  const std::string id = applying.reached.take();
  const auto before = own.session().id();
  expire(own);
  EXPECT_TRUE(eventually([&] {
    const auto node = observer.exists("/2pc/participants/p1");
    return node && node->ephemeral_owner != before;
  })) << "it is present again";
  applying.open.put(1);
  EXPECT_TRUE(result_of(running).committed);
  EXPECT_EQ(losing.calls(id), (Calls{"prepare", "commit"}));
  expect_nothing_left();
}

// serve() ends although nothing can be heard of ZooKeeper.
TEST_P(TwoPhaseCommitFaults, LogFailsWithoutAConnection) {
  add_all(1);
  Client own = proxied();
  TestParticipant& weak = add("p1", own);
  Applying applying;
  weak.on_commit = std::ref(applying);
  CommitCoordinator coordinator(observer, "/2pc");
  const CommitOutcome outcome = coordinator.run(names(), "", how(), {.deadline = soon()});
  EXPECT_TRUE(outcome.committed);
  applying.reached.take();
  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(eventually([&] { return own.session().state() != zkclient::ConnectionState::connected; }));
  weak.log().fail_at(LogEntry::applied);
  applying.open.put(1);
  const auto ended = weak.end();
  ASSERT_FALSE(ended.has_value());
  EXPECT_NE(ended.error().detail().find("the log has failed"), std::string::npos) << ended.error().what();
  weak.log().fail_at(std::nullopt);
  proxy.refuse(false);
  weak.start(observer);
  EXPECT_TRUE(has_called(weak, outcome.id, {"prepare", "commit", "commit"}));
  EXPECT_EQ(applying.repeated, 1);
  expect_nothing_left();
}

// What was applied and acknowledged is over. Whoever has voted and knows no more cannot tell what became of it.
TEST_P(TwoPhaseCommitFaults, TreeRemovedByHandAfterDecision) {
  Gate gate;
  hold(add("p0", observer), gate);
  Client own = direct();
  TestParticipant& away = add("p1", own);
  CommitCoordinator coordinator(observer, "/2pc");
  auto running = in_thread([&] { return coordinator.run(names(), "x", applied(), {.deadline = soon()}); });
  const std::string id = gate.reached.take();
  EXPECT_TRUE(appears(transaction(id) / "vote-p1"));
  away.die();
  away.bury();
  gate.open.put(1);
  EXPECT_TRUE(appears(transaction(id) / "ack-p0"));
  observer.remove_tree("/2pc", {.deadline = soon()});
  EXPECT_EQ(result_of(running), (CommitOutcome{id, true, ""})) << "nobody is waited for any more";
  away.use(observer);
  away.start(observer);
  EXPECT_TRUE(eventually([&] {
    const auto doubts = away.participant().in_doubt();
    return doubts.size() == 1 && doubts[0].id == id && doubts[0].payload == "x" && !doubts[0].problem.empty();
  }));
  EXPECT_EQ(away.calls(id), Calls{"prepare"});
  away.participant().resolve(id, true);
  EXPECT_TRUE(has_called(away, id, {"prepare", "commit"}));
  EXPECT_EQ(participants[0]->calls(id), (Calls{"prepare", "commit"}));
  expect_nothing_left();
}

// The vote of the second one has committed what the first one had prepared. Whose part was it?
TEST_P(TwoPhaseCommitFaults, TwoProcessesOfOneNameAndCommitted) {
  add_all(1);
  Client own = direct();
  TestParticipant second(own, "/2pc", "p1", {}, "another log");
  Applying applying;
  second.on_commit = std::ref(applying);
  second.start(observer);
  CommitCoordinator coordinator(observer, "/2pc");
  const CommitOutcome outcome = coordinator.run({"p0", "p1"}, "x", how(), {.deadline = soon()});
  EXPECT_TRUE(outcome.committed);
  applying.reached.take();
  second.die();
  TestParticipant& first = add_stopped("p1", observer);
  const detail::LoggedData data{observer.exists("/2pc/transactions")->czxid, "x"};
  first.log().append(LogEntry::begin, outcome.id, detail::encode(data));
  first.log().append(LogEntry::ready, outcome.id, {});
  first.start(observer);
  EXPECT_TRUE(eventually([&] {
    const auto doubts = first.participant().in_doubt();
    return doubts.size() == 1 && doubts[0].problem == "it was committed with the vote of another process of our name";
  }));
  EXPECT_EQ(first.calls(outcome.id), Calls{});
  first.participant().resolve(outcome.id, true);
  EXPECT_TRUE(has_called(first, outcome.id, {"commit"}));
  applying.open.put(1);
  second.bury();
  expect_nothing_left();
}

TEST_P(TwoPhaseCommitFaults, ParticipantSessionLost) {
  // A client that comes back in the instant in which its session is expired learns of that only when its server has
  // been silent for two thirds of its timeout.
  add("p0", observer, {.absence_grace = 15s});
  Client own = direct();
  TestParticipant& losing = add("p1", own, {.absence_grace = 15s});
  CommitCoordinator coordinator(observer, "/2pc", {.absence_grace = 15s});
  // Before its vote.
  Gate gate;
  hold(losing, gate);
  auto running = in_thread([&] { return coordinator.run(names(), "", applied(), {.deadline = soon()}); });
  gate.reached.take();
  expire(own);
  gate.open.put(1);
  EXPECT_TRUE(result_of(running).committed);
  // After its vote.
  losing.on_prepare = [](const auto&) { return CommitVote::yes(); };
  Gate first;
  hold(*participants[0], first);
  running = in_thread([&] { return coordinator.run(names(), "", applied(), {.deadline = soon()}); });
  const std::string id = first.reached.take();
  EXPECT_TRUE(eventually([&] { return observer.exists(Path("/2pc/transactions") / id / "vote-p1").has_value(); }));
  expire(own);
  first.open.put(1);
  EXPECT_TRUE(result_of(running).committed);
  EXPECT_EQ(losing.calls(id), (Calls{"prepare", "commit"}));
  expect_nothing_left();
}

TEST_P(TwoPhaseCommitFaults, CoordinatorClientClosed) {
  add_all(2);
  Gate gate;
  hold(*participants[1], gate);
  Client client = direct();
  CommitCoordinator coordinator(client, "/2pc");
  auto running = in_thread([&] { return error_of([&] { (void)coordinator.run(names(), "", how(10s)); }); });
  const std::string id = gate.reached.take();
  client.close();
  EXPECT_EQ(result_of(running), Errc::in_doubt);
  EXPECT_TRUE(eventually([&] { return has_aborted(*participants[0], id); }));
  gate.open.put(1);
  CommitCoordinator successor(observer, "/2pc");
  (void)successor.recover({.deadline = soon()});
  expect_nothing_left();
  EXPECT_EQ(error_of([&] { (void)coordinator.run(names(), "", how()); }), Errc::closed);
}

// The connections of everybody break again and again.
TEST_P(TwoPhaseCommitFaults, FlappingConnections) {
  Client one = proxied();
  Client two = proxied();
  Client three = proxied();
  add("p0", one);
  add("p1", two);
  CommitCoordinator coordinator(three, "/2pc");
  std::atomic<int> cuts{0};
  std::jthread flapping([&](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      proxy.cut();
      ++cuts;
      never.wait_for(lock, stop, 500ms, [] { return false; });  // All must come to something in between.
    }
  });
  std::vector<CommitOutcome> outcomes;
  for (int i = 0; i < 8 || cuts < 5; ++i)
    outcomes.push_back(coordinator.run(names(), "", how(), {.deadline = soon()}));
  flapping.request_stop();
  flapping.join();
  expect_nothing_left();
  for (const CommitOutcome& outcome : outcomes) {
    for (const auto& participant : participants) {
      const Calls calls = participant->calls(outcome.id);
      EXPECT_EQ(std::count(calls.begin(), calls.end(), "commit"), outcome.committed ? 1 : 0) << outcome.reason;
    }
  }
}

// Nothing is left behind at the server: no watch, no ephemeral node.
TEST_P(TwoPhaseCommitFaults, NothingLeaks) {
  add_all(2);
  CommitCoordinator coordinator(observer, "/2pc");
  for (int i = 0; i < 20; ++i)
    (void)coordinator.run(names(), "", applied(), {.deadline = soon()});
  // Of each participant one watch on itself and one on its inbox, and the coordinator's on all participants.
  EXPECT_TRUE(eventually([&] { return server.watch_count() <= 5; })) << server.four_letter_word("wchp");
  EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 2; })) << server.four_letter_word("dump");
  expect_nothing_left();
}

}  // namespace
}  // namespace zkrecipes
