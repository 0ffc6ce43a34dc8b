// One test for each row of the table "What goes wrong" in <zkrecipes/two_phase_commit.hpp> that needs a fault; the others
// are in tests/recipes/two_phase_commit_test.cpp.

#include <gtest/gtest.h>

#include <memory>

#include <zktesting/expire.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::error_of;
using testkit::eventually;
using testkit::in_thread;
using testkit::patience;
using testkit::result_of;
using testkit::soon;
using testkit::TestParticipant;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Path;
using zktesting::RequestType;
using Calls = std::vector<std::string>;

class TwoPhaseCommitFaults : public testkit::FaultTest, public ::testing::WithParamInterface<CommitVariant> {
 protected:
  void TearDown() override {
    participants.clear();
    FaultTest::TearDown();
  }
  TestParticipant& add(const std::string& name, const Client& client, CommitParticipantOptions options = {}) {
    participants.push_back(std::make_unique<TestParticipant>(client, "/2pc", name, options));
    participants.back()->start(observer);
    return *participants.back();
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
  /// Has a participant wait in prepare() until told.
  struct Gate {
    testkit::Box<std::string> reached;
    testkit::Box<int> open;
  };
  static void hold(TestParticipant& participant, Gate& gate) {
    participant.on_prepare = [&gate](const CommitTransaction& transaction) {
      gate.reached.put(transaction.id);
      gate.open.take();
      return CommitVote::yes();
    };
  }
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
// (all to all). What is left is removed by their own sweep, or by whoever recovers it.
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
      coordinator.async_run(names(), "", how(by_sweep ? 1s : 20s), [](auto) {});
      id = gate.reached.take();
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
  coordinator.async_run(names(), "", how(2s), [](auto) {});
  const std::string id = gate.reached.take();
  client.close();
  gate.open.put(1);
  const bool commits = GetParam() == CommitVariant::all_to_all;
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
    const CommitOutcome outcome = coordinator.run(names(), "", how(2s), {.deadline = soon()});
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
  // Found, or gone already; never begun a second time.
  const auto outcome = result_of(running);
  EXPECT_TRUE(outcome || error == Errc::in_doubt);
  for (const auto& participant : participants)
    EXPECT_TRUE(eventually([&] { return participant->log().empty(); }));
  EXPECT_EQ(participants[0]->ids().size(), 1U);
  CommitCoordinator successor(observer, "/2pc");
  EXPECT_TRUE(eventually([&] {
    (void)successor.recover({.deadline = soon()});
    return count("/2pc/transactions") == 0;
  }));
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

TEST_P(TwoPhaseCommitFaults, ParticipantSessionLost) {
  // A client that comes back in the instant in which its session is expired learns of that only when its server has been
  // silent for two thirds of its timeout.
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
  auto running = in_thread([&] { return error_of([&] { (void)coordinator.run(names(), "", how(1s)); }); });
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
  std::jthread flapping([&](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      proxy.cut();
      never.wait_for(lock, stop, 150ms, [] { return false; });
    }
  });
  std::vector<CommitOutcome> outcomes;
  for (int i = 0; i < 8; ++i)
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
  EXPECT_EQ(server.ephemeral_count(), 2U) << server.four_letter_word("dump");
  expect_nothing_left();
}

}  // namespace
}  // namespace zkrecipes
