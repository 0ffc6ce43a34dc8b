#include <zkrecipes/two_phase_commit.hpp>

#include <gtest/gtest.h>

#include <memory>

#include <boost/asio/use_future.hpp>

#include <zkrecipes/asio.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::TestParticipant;
using Calls = std::vector<std::string>;

class TwoPhaseCommit : public testkit::ServerTest, public ::testing::WithParamInterface<CommitVariant> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    client = std::make_unique<Client>(make_client());
  }
  void TearDown() override {
    participants.clear();
    client.reset();
    ServerTest::TearDown();
  }
  TestParticipant& add(const std::string& name, CommitParticipantOptions options = {}) {
    participants.push_back(std::make_unique<TestParticipant>(*client, "/2pc", name, options));
    return *participants.back();
  }
  void add_all(int count, const CommitParticipantOptions& options = {}) {
    for (int i = 0; i < count; ++i)
      add("p" + std::to_string(i), options).start(*client);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& participant : participants)
      all.push_back(participant->name());
    return all;
  }
  CommitOptions how(std::chrono::milliseconds timeout = 20s) const {
    return {.timeout = timeout, .variant = GetParam()};
  }
  CommitOptions applied() const {
    return {.timeout = 20s, .variant = GetParam(), .wait = CommitOptions::Wait::applied};
  }
  std::size_t count(const Path& path) {
    std::error_code error;
    return client->children(path, {}, error).names.size();
  }
  void expect_nothing_left() {
    EXPECT_TRUE(eventually([&] { return count("/2pc/transactions") == 0; }));
    for (const std::string& name : names())
      EXPECT_EQ(count(Path("/2pc/inbox") / name), 0U) << name;
    for (const auto& participant : participants) {
      EXPECT_TRUE(eventually([&] { return participant->log().empty(); })) << participant->name();
      EXPECT_TRUE(participant->participant().in_doubt().empty());
    }
  }

  std::unique_ptr<Client> client;
  std::vector<std::unique_ptr<TestParticipant>> participants;
};

INSTANTIATE_TEST_SUITE_P(Variants, TwoPhaseCommit,
                         ::testing::Values(CommitVariant::mediated, CommitVariant::all_to_all), [](const auto& tested) {
                           return tested.param == CommitVariant::mediated ? "Mediated" : "AllToAll";
                         });

TEST_P(TwoPhaseCommit, AllCommit) {
  add_all(3);
  CommitCoordinator coordinator(*client, "/2pc");
  const CommitOutcome outcome = coordinator.run(names(), "payload", applied(), {.deadline = soon()});
  EXPECT_TRUE(outcome.committed);
  EXPECT_EQ(outcome.reason, "");
  for (const auto& participant : participants) {
    EXPECT_EQ(participant->calls(outcome.id), (Calls{"prepare", "commit"}));
    EXPECT_EQ(participant->payload(), "payload");
  }
  expect_nothing_left();
  EXPECT_EQ(participants[0]->log().entries(),
            (Calls{"begin", "sync", "ready", "sync", "commit", "sync", "applied", "sync", "end"}));
}

TEST_P(TwoPhaseCommit, OneVotesForAbort) {
  add_all(3);
  participants[1]->on_prepare = [](const auto&) { return CommitVote::no("no funds"); };
  CommitCoordinator coordinator(*client, "/2pc");
  const CommitOutcome outcome = coordinator.run(names(), "", applied(), {.deadline = soon()});
  EXPECT_FALSE(outcome.committed);
  EXPECT_EQ(outcome.reason, "vote of p1: no funds");
  for (const auto& participant : participants) {
    const Calls calls = participant->calls(outcome.id);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "commit"), 0);
    EXPECT_TRUE(calls.empty() || calls.back() == "abort") << participant->name();
  }
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, ManyAtOnce) {
  add_all(3);
  CommitCoordinator coordinator(*client, "/2pc");
  participants[2]->on_prepare = [](const CommitTransaction& transaction) {
    return transaction.payload == "odd" ? CommitVote::no("odd") : CommitVote::yes();
  };
  constexpr int all = 200;
  CommitOptions in_any_time = applied();
  in_any_time.timeout = testkit::patience;
  testkit::Box<zkclient::Result<CommitOutcome>> outcomes;
  for (int i = 0; i < all; ++i) {
    coordinator.async_run(names(), i % 2 == 0 ? "even" : "odd", in_any_time,
                          [&](zkclient::Result<CommitOutcome> outcome) { outcomes.put(std::move(outcome)); },
                          {.deadline = soon()});
  }
  int committed = 0;
  for (int i = 0; i < all; ++i) {
    const CommitOutcome outcome = outcomes.take().value();
    committed += outcome.committed ? 1 : 0;
    for (const auto& participant : participants) {
      const Calls calls = participant->calls(outcome.id);
      EXPECT_EQ(std::count(calls.begin(), calls.end(), "commit"), outcome.committed ? 1 : 0);
    }
  }
  EXPECT_EQ(committed, all / 2);
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, TimeIsUp) {
  add_all(3);
  testkit::Box<int> go_on;
  participants[0]->on_prepare = [&](const auto&) {
    go_on.take();
    return CommitVote::yes();
  };
  CommitCoordinator coordinator(*client, "/2pc");
  const CommitOutcome outcome = coordinator.run(names(), "", how(200ms), {.deadline = soon()});
  EXPECT_FALSE(outcome.committed);
  go_on.put(1);
  expect_nothing_left();
  for (const auto& participant : participants) {
    // On a busy machine it was over before this one had heard of it, and it may only be about to begin.
    EXPECT_TRUE(eventually([&] {
      const Calls calls = participant->calls(outcome.id);
      return calls.empty() || calls == Calls({"prepare", "abort"});
    })) << participant->name();
  }
  participants[0]->stop();  // It uses what is here.
}

TEST_P(TwoPhaseCommit, PrepareThrows) {
  add_all(2);
  participants[0]->on_prepare = [](const auto&) -> CommitVote { throw std::runtime_error("no disk"); };
  CommitCoordinator coordinator(*client, "/2pc");
  EXPECT_EQ(coordinator.run(names(), "", applied(), {.deadline = soon()}).reason, "vote of p0: no disk");
  participants[0]->on_prepare = [](const auto&) -> CommitVote { throw 1; };
  EXPECT_FALSE(coordinator.run(names(), "", applied(), {.deadline = soon()}).committed);
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, CommitOrAbortThrows) {
  add_all(2);
  std::atomic<bool> fails{true};
  participants[0]->on_commit = [&](const auto&) {
    if (fails) throw std::runtime_error("not now");
  };
  CommitCoordinator coordinator(*client, "/2pc");
  const CommitOutcome outcome = coordinator.run(names(), "x", how(), {.deadline = soon()});
  EXPECT_TRUE(outcome.committed);
  EXPECT_TRUE(eventually([&] {
    const auto doubts = participants[0]->participant().in_doubt();
    return doubts.size() == 1 && doubts[0].problem == "not now" && doubts[0].id == outcome.id &&
           doubts[0].payload == "x" && doubts[0].state == LogState::committed;
  }));
  fails = false;
  EXPECT_TRUE(eventually([&] { return participants[0]->calls(outcome.id) == Calls{"prepare", "commit"}; }));
  expect_nothing_left();

  std::atomic<bool> failed{false};
  participants[0]->on_abort = [&](const auto&) {
    if (!failed.exchange(true)) throw std::runtime_error("not now");
  };
  participants[1]->on_prepare = [](const auto&) { return CommitVote::no(""); };
  EXPECT_FALSE(coordinator.run(names(), "x", applied(), {.deadline = soon()}).committed);
  expect_nothing_left();
}

// Wherever the log fails: serve() says so, and the participant takes up where the log is when it serves again.
TEST_P(TwoPhaseCommit, LogFails) {
  constexpr auto grace = std::chrono::milliseconds::max();  // Nobody takes it for gone while it is away.
  add_all(2, {.absence_grace = grace});
  TestParticipant& weak = *participants[0];
  CommitCoordinator coordinator(*client, "/2pc", {.absence_grace = grace});
  for (const LogEntry entry : {LogEntry::begin, LogEntry::ready, LogEntry::commit, LogEntry::applied, LogEntry::end}) {
    weak.log().fail_at(entry);
    testkit::Box<zkclient::Result<CommitOutcome>> outcomes;
    coordinator.async_run(names(), "", how(), [&](auto outcome) { outcomes.put(std::move(outcome)); },
                          {.deadline = soon()});
    const auto ended = weak.end();
    ASSERT_FALSE(ended.has_value()) << to_string(entry);
    EXPECT_NE(ended.error().detail().find("the log has failed"), std::string::npos) << ended.error().what();
    weak.log().fail_at(std::nullopt);
    weak.start(*client);
    const CommitOutcome outcome = outcomes.take().value();
    EXPECT_TRUE(outcome.committed) << to_string(entry) << ": " << outcome.reason;
    EXPECT_TRUE(eventually([&] { return weak.log().empty(); })) << to_string(entry);
    const Calls calls = weak.calls(outcome.id);
    // What was applied but not logged is applied again, with the same id; nothing else is done twice.
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "commit"), entry == LogEntry::applied ? 2 : 1) << to_string(entry);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "abort"), 0) << to_string(entry);
  }
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, LogWasLost) {
  add_all(2);
  TestParticipant& forgetful = *participants[0];
  testkit::Box<int> prepared;
  participants[1]->on_prepare = [&](const auto&) {
    prepared.put(1);
    return CommitVote::yes();
  };
  for (const bool commit : {true, false}) {
    forgetful.log().fail_at(LogEntry::commit);  // It has voted, and hears of the decision.
    CommitCoordinator coordinator(*client, "/2pc");
    const CommitOutcome outcome = coordinator.run(names(), "x", how(), {.deadline = soon()});
    ASSERT_TRUE(outcome.committed);
    EXPECT_FALSE(forgetful.end().has_value());
    forgetful.log().fail_at(std::nullopt);
    forgetful.log().forget_all();
    forgetful.start(*client);
    EXPECT_TRUE(eventually([&] {
      const auto doubts = forgetful.participant().in_doubt();
      return doubts.size() == 1 && doubts[0].id == outcome.id && !doubts[0].problem.empty();
    }));
    EXPECT_EQ(error_of([&] { forgetful.participant().resolve("another", true); }), Errc::no_node);
    forgetful.participant().resolve(outcome.id, commit);
    EXPECT_TRUE(eventually([&] {
      return forgetful.calls(outcome.id) == Calls{"prepare", commit ? "commit" : "abort"};
    }));
    expect_nothing_left();
  }
}

// One has voted and stops; the other, with a log of its own, finds a vote that it did not cast. Both must do the same.
TEST_P(TwoPhaseCommit, TheNameGoesToAnotherProcessAfterTheVote) {
  auto& slow = add("p0");
  testkit::Box<int> preparing;
  testkit::Box<int> go_on;
  slow.on_prepare = [&](const auto&) {
    preparing.put(1);
    go_on.take();
    return CommitVote::yes();
  };
  slow.start(*client);
  auto& first = add("p1");
  first.start(*client);
  CommitCoordinator coordinator(*client, "/2pc");
  auto running = in_thread([&] { return coordinator.run(names(), "", how(), {.deadline = soon()}); });
  preparing.take();
  ASSERT_TRUE(eventually([&] { return first.participant().in_doubt().size() == 1; }));
  const std::string id = first.participant().in_doubt().front().id;
  ASSERT_TRUE(eventually([&] { return client->exists(Path("/2pc/transactions") / id / "vote-p1").has_value(); }));
  first.stop();
  TestParticipant second(*client, "/2pc", "p1", {}, "another log");
  second.start(*client);
  const CommitOutcome outcome = result_of(running);
  EXPECT_FALSE(outcome.committed);
  EXPECT_EQ(outcome.reason, "participant p1 has voted in another process");
  go_on.put(1);
  EXPECT_TRUE(eventually([&] { return second.calls(id) == Calls{"prepare", "abort"}; }));
  second.stop();
  first.start(*client);
  EXPECT_TRUE(eventually([&] { return first.calls(id) == Calls{"prepare", "abort"}; }));
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, TwoProcessesOfOneName) {
  // What a process leaves behind that was killed: it had our log, so it is dead, and need not be waited for.
  Client other = make_client();
  other.ensure("/2pc/participants", zkclient::CreateMode::persistent);
  other.create("/2pc/participants/p0", "log of p0", {.mode = zkclient::CreateMode::ephemeral});
  add("p0").start();
  EXPECT_TRUE(eventually([&] {
    const auto node = client->exists("/2pc/participants/p0");
    return node && node->ephemeral_owner == client->session().id();
  }));

  // A process with another log may be alive.
  Client third_client = make_client();
  class OtherLog final : public ParticipantLog {
   public:
    std::string identity() const override { return "another log"; }
    std::vector<LoggedTransaction> open() const override { return log.open(); }
    void append(LogEntry entry, std::string_view id, std::string_view data) override { log.append(entry, id, data); }
    void sync() override { log.sync(); }
    testkit::MemoryLog log{"inner"};
  };
  CommitParticipant third(third_client, "/2pc", "p0", std::make_shared<OtherLog>());
  std::atomic<int> served{0};
  CommitHandlers waiting;
  waiting.prepare = [&](const auto&) {
    ++served;
    return CommitVote::yes();
  };
  waiting.commit = [](const auto&) {};
  waiting.abort = [](const auto&) {};
  std::stop_source stop;
  auto serving = in_thread([&] { third.serve(std::move(waiting), {.stop = stop.get_token()}); });
  CommitCoordinator coordinator(*client, "/2pc");
  EXPECT_TRUE(coordinator.run({"p0"}, "", applied(), {.deadline = soon()}).committed);
  EXPECT_EQ(served, 0) << "it waits";
  participants[0]->stop();
  EXPECT_TRUE(eventually([&] {
    const auto node = client->exists("/2pc/participants/p0");
    return node && node->ephemeral_owner == third_client.session().id();
  }));
  EXPECT_TRUE(coordinator.run({"p0"}, "", applied(), {.deadline = soon()}).committed);
  EXPECT_EQ(served, 1) << "its turn";
  stop.request_stop();
  serving.get();
}

TEST_P(TwoPhaseCommit, ParticipantThatNeverServed) {
  CommitCoordinator coordinator(*client, "/2pc");
  EXPECT_EQ(error_of([&] { (void)coordinator.run({"typo"}, "", how()); }), Errc::no_node) << "there is not even a tree";
  add_all(1);
  try {
    (void)coordinator.run({"p0", "typo"}, "", how());
    FAIL();
  } catch (const zkclient::Error& error) {
    EXPECT_EQ(error.errc(), Errc::no_node);
    EXPECT_NE(error.detail().find("participant typo"), std::string::npos) << error.what();
  }
  EXPECT_EQ(client->children("/2pc/inbox").names, std::vector<std::string>{"p0"});
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, RunStopRequestOrDeadline) {
  add_all(2);
  testkit::Box<int> preparing;
  testkit::Box<int> go_on;
  participants[0]->on_prepare = [&](const auto&) {
    preparing.put(1);
    go_on.take();
    return CommitVote::yes();
  };
  CommitCoordinator coordinator(*client, "/2pc");
  std::stop_source before;
  before.request_stop();
  EXPECT_EQ(error_of([&] { (void)coordinator.run(names(), "", how(), {.stop = before.get_token()}); }),
            Errc::cancelled);
  for (const bool by_deadline : {false, true}) {
    std::stop_source stop;
    zkclient::CallOptions call{.stop = stop.get_token()};
    if (by_deadline) call.deadline = testkit::SteadyClock::now() + 10s;  // By then it has begun.
    auto running = in_thread([&] { return error_of([&] { (void)coordinator.run(names(), "", how(), call); }); });
    preparing.take();
    if (!by_deadline) stop.request_stop();
    EXPECT_EQ(result_of(running), Errc::in_doubt);
    // It is aborted at once, although one of the participants has not even voted.
    EXPECT_TRUE(eventually([&] {
      const auto all = coordinator.transactions();
      return all.size() == 1 && all[0].outcome && all[0].outcome->reason == "run() was given up";
    }));
    const std::string id = coordinator.transactions().at(0).id;
    go_on.put(1);
    expect_nothing_left();
    EXPECT_EQ(coordinator.status(id).outcome, (CommitOutcome{id, false, "run() was given up"})) << "it has done it";
  }
}

// It cannot be taken back any more: it goes on in the background.
TEST_P(TwoPhaseCommit, RunStopRequestAfterDecision) {
  add_all(2);
  testkit::Box<std::string> committing;
  testkit::Box<int> go_on;
  participants[1]->on_commit = [&](const CommitTransaction& transaction) {
    committing.put(transaction.id);
    go_on.take();
  };
  CommitCoordinator coordinator(*client, "/2pc");
  std::stop_source stop;
  auto running = in_thread(
      [&] { return error_of([&] { (void)coordinator.run(names(), "", applied(), {.stop = stop.get_token()}); }); });
  const std::string id = committing.take();
  stop.request_stop();
  EXPECT_EQ(result_of(running), Errc::in_doubt);
  EXPECT_EQ(coordinator.status(id).outcome, (CommitOutcome{id, true, ""}));
  EXPECT_TRUE(coordinator.status(id).coordinated) << "it is not left to others";
  go_on.put(1);
  expect_nothing_left();
  for (const auto& participant : participants)
    EXPECT_EQ(participant->calls(id), (Calls{"prepare", "commit"})) << participant->name();
  EXPECT_EQ(coordinator.status(id).outcome, (CommitOutcome{id, true, ""})) << "also when it is gone";
  CommitCoordinator another(*client, "/2pc");
  EXPECT_EQ(error_of([&] { (void)another.status(id); }), Errc::no_node);
}

TEST_P(TwoPhaseCommit, TreeRemovedByHand) {
  // They are away for a moment, and are not to be taken for gone.
  constexpr auto grace = testkit::patience;
  add_all(2, {.absence_grace = grace});
  testkit::Box<int> preparing;
  testkit::Box<int> go_on;
  participants[1]->on_prepare = [&](const auto&) {
    preparing.put(1);
    go_on.take();
    return CommitVote::yes();
  };
  CommitCoordinator coordinator(*client, "/2pc", {.absence_grace = grace});
  auto running = in_thread([&] { return error_of([&] { (void)coordinator.run(names(), "x", how(10s)); }); });
  preparing.take();
  std::string id;
  ASSERT_TRUE(eventually([&] {
    const auto doubts = participants[0]->participant().in_doubt();
    if (doubts.size() == 1) id = doubts[0].id;
    return doubts.size() == 1;
  }));
  ASSERT_TRUE(eventually([&] { return client->exists(Path("/2pc/transactions") / id / "vote-p0").has_value(); }));
  client->remove_tree("/2pc", {.deadline = soon()});
  EXPECT_EQ(result_of(running), Errc::in_doubt);
  // Nobody can know what became of it: neither is presumed.
  EXPECT_TRUE(eventually([&] {
    const auto doubts = participants[0]->participant().in_doubt();
    return doubts.size() == 1 && !doubts[0].problem.empty();
  }));
  EXPECT_EQ(participants[0]->calls(id), Calls{"prepare"});
  participants[0]->participant().resolve(id, false);
  EXPECT_TRUE(eventually([&] { return participants[0]->calls(id) == Calls{"prepare", "abort"}; }));
  go_on.put(1);
  EXPECT_TRUE(eventually([&] {
    const auto doubts = participants[1]->participant().in_doubt();
    return doubts.size() == 1 && !doubts[0].problem.empty();
  }));
  participants[1]->participant().resolve(id, false);
  // And everything works again.
  participants[1]->on_prepare = [](const auto&) { return CommitVote::yes(); };
  EXPECT_TRUE(eventually([&] { return count("/2pc/participants") == 2 && count("/2pc/inbox") == 2; }));
  EXPECT_TRUE(coordinator.run(names(), "", applied(), {.deadline = soon()}).committed);
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, ForeignNode) {
  add_all(2);
  client->create("/2pc/transactions/foreign", "not one of ours");
  client->create("/2pc/transactions/foreign/vote-p0");
  client->create("/2pc/inbox/p0/foreign");
  client->create("/2pc/inbox/p0/nothing");
  client->set("/2pc/inbox/p0", "foreign");
  participants[0]->stop();
  participants[0]->start(*client);
  CommitCoordinator coordinator(*client, "/2pc");
  EXPECT_TRUE(coordinator.run(names(), "", applied(), {.deadline = soon()}).committed);
  EXPECT_TRUE(coordinator.recover({.deadline = soon()}).empty());
  EXPECT_TRUE(coordinator.transactions().empty());
  EXPECT_EQ(error_of([&] { (void)coordinator.status("foreign"); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { (void)coordinator.status("none"); }), Errc::no_node);
  EXPECT_TRUE(client->exists("/2pc/transactions/foreign/vote-p0"));
  EXPECT_TRUE(eventually([&] { return !client->exists("/2pc/inbox/p0/nothing"); })) << "an entry without a transaction";
  EXPECT_TRUE(participants[0]->calls("foreign").empty());
}

// It is nobody's vote, and goes with the transaction; what has nodes below it stays, until it is emptied by hand.
TEST_P(TwoPhaseCommit, ForeignNodeInATransaction) {
  add_all(2);
  testkit::Gate gate;
  hold(*participants[1], gate);
  CommitCoordinator coordinator(*client, "/2pc");
  for (const bool nested : {false, true}) {
    auto running = in_thread([&] { return coordinator.run(names(), "", applied(), {.deadline = soon()}); });
    const std::string id = gate.reached.take();
    const Path transaction = Path("/2pc/transactions") / id;
    for (const char* name : {"foreign", "vote-foreign", "ack-foreign", "vote-", "decision-"})
      client->create(transaction / name);
    if (nested) client->create(transaction / "foreign" / "below");
    gate.open.put(1);
    EXPECT_EQ(result_of(running), (CommitOutcome{id, true, ""}));
    if (nested) {
      EXPECT_TRUE(eventually([&] { return !client->exists(transaction / "coordinator"); })) << "left to the next one";
      EXPECT_TRUE(client->exists(transaction / "foreign" / "below"));
      client->remove(transaction / "foreign" / "below");
      EXPECT_EQ(coordinator.recover({.deadline = soon()}), (std::vector<CommitOutcome>{{id, true, ""}}));
    }
    expect_nothing_left();
  }
}

// Nobody acts on a decision that cannot be read; the transaction waits until an operator has put it right.
TEST_P(TwoPhaseCommit, ForeignDecision) {
  add_all(2);
  testkit::Gate gate;
  hold(*participants[1], gate);
  CommitCoordinator coordinator(*client, "/2pc");
  auto running = in_thread([&] { return error_of([&] { (void)coordinator.run(names(), "x", how()); }); });
  const std::string id = gate.reached.take();
  const Path transaction = Path("/2pc/transactions") / id;
  ASSERT_TRUE(eventually([&] { return client->exists(transaction / "vote-p0").has_value(); }));
  client->create(transaction / "decision", "perhaps");
  EXPECT_EQ(result_of(running), Errc::in_doubt);
  gate.open.put(1);
  for (const auto& participant : participants) {
    EXPECT_TRUE(eventually([&] { return participant->calls(id) == Calls{"prepare"}; })) << participant->name();
    EXPECT_TRUE(eventually([&] {
      const auto doubts = participant->participant().in_doubt();
      return doubts.size() == 1 && doubts[0].id == id && doubts[0].state == LogState::ready;
    })) << participant->name();
  }
  client->set(transaction / "decision", "commit");
  for (const auto& participant : participants) {
    participant->stop();
    participant->start(*client);
  }
  for (const auto& participant : participants) {
    EXPECT_TRUE(eventually([&] {
      return participant->calls(id) == Calls{"prepare", "commit"};
    })) << participant->name();
  }
  EXPECT_EQ(coordinator.recover({.deadline = soon()}), (std::vector<CommitOutcome>{{id, true, ""}}));
  expect_nothing_left();
}

// A vote that an operator has written to is none.
TEST_P(TwoPhaseCommit, VoteChangedByHand) {
  add_all(2);
  testkit::Gate gate;
  hold(*participants[1], gate);
  CommitCoordinator coordinator(*client, "/2pc");
  auto running = in_thread([&] { return coordinator.run(names(), "", how(), {.deadline = soon()}); });
  const Path vote = Path("/2pc/transactions") / gate.reached.take() / "vote-p0";
  ASSERT_TRUE(eventually([&] { return client->exists(vote).has_value(); }));
  client->set(vote, "changed");
  gate.open.put(1);
  const CommitOutcome outcome = result_of(running);
  EXPECT_FALSE(outcome.committed);
  EXPECT_EQ(outcome.reason, "a vote was changed or removed");
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, KeptForAudit) {
  add_all(2);
  CommitCoordinator coordinator(*client, "/2pc");
  CommitOptions options = applied();
  options.retention = 1h;
  const CommitOutcome outcome = coordinator.run(names(), "", options, {.deadline = soon()});
  EXPECT_TRUE(outcome.committed);
  const CommitStatus status = coordinator.status(outcome.id);
  EXPECT_EQ(status.outcome, outcome);
  EXPECT_EQ(status.participants, names());
  EXPECT_EQ(status.voted, names());
  EXPECT_EQ(status.acknowledged, names());
  EXPECT_GT(status.begun_ms, 0);
  EXPECT_TRUE(eventually([&] { return !coordinator.status(outcome.id).coordinated; }));
  EXPECT_TRUE(coordinator.recover({.deadline = soon()}).empty()) << "it is not due";
  EXPECT_EQ(count("/2pc/transactions"), 1U);
  client->remove_tree(Path("/2pc/transactions") / outcome.id);
  options.retention = 1ms;
  EXPECT_TRUE(coordinator.run(names(), "", options, {.deadline = soon()}).committed);
  EXPECT_TRUE(eventually([&] {
    (void)coordinator.recover({.deadline = soon()});
    return count("/2pc/transactions") == 0;
  }));
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, BadArguments) {
  add_all(1);
  CommitCoordinator coordinator(*client, "/2pc");
  const auto error = [&](const std::vector<std::string>& who, const CommitOptions& options,
                         std::string_view payload = "") {
    return error_of([&] { (void)coordinator.run(who, payload, options); });
  };
  EXPECT_EQ(error({}, how()), Errc::invalid_argument);
  EXPECT_EQ(error({"p0", "p0"}, how()), Errc::invalid_argument);
  EXPECT_EQ(error({"a/b"}, how()), Errc::invalid_argument);
  EXPECT_EQ(error({""}, how()), Errc::invalid_argument);
  EXPECT_EQ(error(std::vector<std::string>(257, "x"), how()), Errc::invalid_argument);
  EXPECT_EQ(error({"p0"}, {.timeout = 0ms}), Errc::invalid_argument);
  EXPECT_EQ(error({"p0"}, {.retention = -1ms}), Errc::invalid_argument);
  EXPECT_EQ(error({"p0"}, how(), std::string(max_commit_payload + 1, 'x')), Errc::too_large);
  EXPECT_TRUE(coordinator.run({"p0"}, std::string(max_commit_payload, 'x'), applied(), {.deadline = soon()}).committed);
  EXPECT_EQ(participants[0]->payload().size(), max_commit_payload);
  EXPECT_EQ(error_of([&] { CommitCoordinator bad(*client, "/2pc", {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { CommitCoordinator bad(*client, "/2pc", {.absence_grace = -1ms}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { CommitParticipant bad(*client, "/2pc", "a/b", std::make_shared<testkit::MemoryLog>("x")); }),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { CommitParticipant bad(*client, "/2pc", "a", nullptr); }), Errc::invalid_argument);
  CommitParticipant idle(*client, "/2pc", "a", std::make_shared<testkit::MemoryLog>("x"));
  EXPECT_EQ(error_of([&] { idle.serve({}); }), Errc::invalid_argument);
  CommitHandlers handlers;
  handlers.prepare = [](const auto&) { return CommitVote::yes(); };
  handlers.commit = [](const auto&) {};
  handlers.abort = [](const auto&) {};
  EXPECT_EQ(error_of([&] { participants[0]->participant().serve(std::move(handlers)); }), Errc::would_deadlock);
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, WithCompletionTokens) {
  add_all(2);
  CommitCoordinator coordinator(*client, "/2pc");
  auto outcome = async_run(coordinator, names(), "payload", applied(), boost::asio::use_future);
  EXPECT_TRUE(result_of(outcome).committed);
  auto recovered = async_recover(coordinator, boost::asio::use_future);
  EXPECT_TRUE(result_of(recovered).empty());
  expect_nothing_left();
}

TEST_P(TwoPhaseCommit, ServeEndsAtItsDeadline) {
  CommitParticipant participant(*client, "/2pc", "p", std::make_shared<testkit::MemoryLog>("x"));
  CommitHandlers handlers;
  handlers.prepare = [](const auto&) { return CommitVote::yes(); };
  handlers.commit = [](const auto&) {};
  handlers.abort = [](const auto&) {};
  participant.serve(std::move(handlers), {.deadline = testkit::SteadyClock::now() + 200ms});
  EXPECT_TRUE(eventually([&] { return count("/2pc/participants") == 0; })) << "its presence went with it";
}

// What it drops is done with the next transaction, and the end of serving waits for no task.
TEST_P(TwoPhaseCommit, AnExecutorMayDropTheHandlers) {
  testkit::DroppingRuntime dropping;
  Client own(dropping.runtime(), hosts(), {.prefix = prefix()});
  CommitParticipant participant(own, "/2pc", "p", std::make_shared<testkit::MemoryLog>("x"));
  CommitHandlers handlers;
  handlers.prepare = [](const auto&) { return CommitVote::yes(); };
  handlers.commit = [](const auto&) {};
  handlers.abort = [](const auto&) {};
  std::stop_source stop;
  auto serving = testkit::in_thread([&] {
    participant.serve(std::move(handlers), {.stop = stop.get_token()});
    return true;
  });
  ASSERT_TRUE(eventually([&] { return count("/2pc/participants") == 1; }));
  CommitCoordinator coordinator(*client, "/2pc");
  dropping.drop();
  Box<Result<CommitOutcome>> first;
  coordinator.async_run({"p"}, "first", how(testkit::patience),
                        [&](Result<CommitOutcome> outcome) { first.put(std::move(outcome)); }, {.deadline = soon()});
  ASSERT_TRUE(dropping.dropped_one());
  dropping.run();
  EXPECT_TRUE(coordinator.run({"p"}, "second", how(testkit::patience), {.deadline = soon()}).committed);
  EXPECT_TRUE(first.take().value().committed);
  dropping.drop();
  stop.request_stop();
  EXPECT_TRUE(result_of(serving));
  dropping.run();
}

TEST_P(TwoPhaseCommit, ParticipantClientClosed) {
  Client own = make_client();
  TestParticipant participant(own, "/2pc", "p0");
  participant.start(*client);
  own.close();
  const auto ended = participant.end();
  EXPECT_EQ(ended.code(), Errc::closed);
}

}  // namespace
}  // namespace zkrecipes
