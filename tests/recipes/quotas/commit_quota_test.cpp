// Two-phase commit on a server that enforces quotas: what has begun ends when the quota is full.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <zkrecipes/two_phase_commit.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/quota_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::Gate;
using testkit::TestParticipant;
using Calls = std::vector<std::string>;

class CommitQuota : public testkit::QuotaTest, public ::testing::WithParamInterface<CommitVariant> {
 protected:
  void TearDown() override { participants.clear(); }
  TestParticipant& add(const std::string& name) {
    CommitParticipantOptions options;
    options.sweep_interval = 0ms;
    participants.push_back(std::make_unique<TestParticipant>(proxied(), path(), name, options));
    participants.back()->start(the_operator());
    return *participants.back();
  }
  Path path() const { return root() / "2pc"; }
  Path transaction(const std::string& id) const { return path() / "transactions" / id; }
  static CommitOptions how(std::chrono::milliseconds timeout) { return {.timeout = timeout, .variant = GetParam()}; }
  void begin(CommitCoordinator& coordinator, std::chrono::milliseconds timeout) {
    const auto handler = [ended = ended](Result<CommitOutcome> outcome) { ended->put(std::move(outcome)); };
    coordinator.async_run({"a", "b"}, "", how(timeout), handler, {.deadline = soon(), .stop = stop.get_token()});
  }
  bool calls(const TestParticipant& participant, const std::string& id, const char* last) {
    return eventually([&] { return participant.calls(id) == Calls{"prepare", last}; });
  }
  bool appears(const Path& node) {
    return eventually([&] { return the_operator().exists(node).has_value(); });
  }
  void expect_nothing_left() {
    EXPECT_TRUE(eventually([&] { return children(path() / "transactions") == 0; }));
    for (const auto& participant : participants) {
      EXPECT_TRUE(eventually([&] { return participant->log().empty(); })) << participant->name();
      EXPECT_EQ(children(path() / "inbox" / participant->name()), 0U) << participant->name();
    }
  }

  std::vector<std::unique_ptr<TestParticipant>> participants;
  std::stop_source stop;
  std::shared_ptr<Box<Result<CommitOutcome>>> ended = std::make_shared<Box<Result<CommitOutcome>>>();
};

INSTANTIATE_TEST_SUITE_P(Variants, CommitQuota, ::testing::Values(CommitVariant::mediated, CommitVariant::all_to_all),
                         [](const auto& tested) {
                           return tested.param == CommitVariant::mediated ? "Mediated" : "AllToAll";
                         });

TEST_P(CommitQuota, WhatIsToBeginSaysWhichQuotaIsFull) {
  add("a");
  allow_no_node();
  CommitCoordinator coordinator(the_operator(), path());
  expect_full([&] { coordinator.run({"a"}, "", how(20s), patient()); });
}

// The last vote takes the last room; the coordinator's own node, and then the entries of the inboxes, make some.
TEST_P(CommitQuota, WhatAllHaveVotedForIsDecided) {
  TestParticipant& a = add("a");
  TestParticipant& b = add("b");
  Gate gate;
  hold(b, gate);
  CommitCoordinator coordinator(the_operator(), path());
  begin(coordinator, 60s);
  const std::string id = gate.reached.take();
  ASSERT_TRUE(appears(transaction(id) / "vote-a"));
  allow_nodes(1);
  gate.open.put(1);
  const char* last = "commit";
  if (GetParam() == CommitVariant::mediated) {
    EXPECT_TRUE(ended->take().value().committed);
  } else {  // The coordinator does not decide this, unless it wants it aborted.
    ASSERT_TRUE(appears(transaction(id) / "vote-b"));
    stop.request_stop();
    EXPECT_EQ(ended->take().error().errc(), Errc::in_doubt);
    EXPECT_TRUE(eventually([&] { return a.calls(id).size() == 2; }));
    if (a.calls(id) != Calls{"prepare", last}) last = "abort";
  }
  EXPECT_TRUE(calls(a, id, last));
  EXPECT_TRUE(calls(b, id, last));
  expect_nothing_left();
}

// Who votes against it makes room for the decision.
TEST_P(CommitQuota, WhatHasNoRoomForItsVotesIsAborted) {
  TestParticipant& a = add("a");
  TestParticipant& b = add("b");
  Gate of_a;
  Gate of_b;
  hold(a, of_a);
  hold(b, of_b, false);
  CommitCoordinator coordinator(the_operator(), path());
  begin(coordinator, 60s);
  const std::string id = of_a.reached.take();
  of_b.reached.take();
  allow_no_node();
  of_a.open.put(1);
  of_b.open.put(1);
  EXPECT_FALSE(ended->take().value().committed);
  EXPECT_TRUE(calls(a, id, "abort"));
  EXPECT_TRUE(calls(b, id, "abort"));
  allow_all();  // For the acknowledgements.
  expect_nothing_left();
}

TEST_P(CommitQuota, AcknowledgementsAreGivenOnceThoughRepliesAreLost) {
  TestParticipant& a = add("a");
  TestParticipant& b = add("b");
  Gate gate;
  b.on_commit = [&](const CommitTransaction& of) {
    gate.reached.put(of.id);
    gate.open.take();
  };
  CommitCoordinator coordinator(the_operator(), path());
  begin(coordinator, 60s);
  const std::string id = gate.reached.take();
  ASSERT_TRUE(appears(transaction(id) / "ack-a"));
  allow_no_node();
  const auto lost = proxy.drop_next_reply(RequestType::remove);
  gate.open.put(1);
  EXPECT_TRUE(ended->take().value().committed);
  expect_nothing_left();
  EXPECT_TRUE(lost.happened());
  EXPECT_EQ(a.calls(id), (Calls{"prepare", "commit"}));
  EXPECT_EQ(b.calls(id), (Calls{"prepare", "commit"}));
}

class AbandonedCommitQuota : public CommitQuota {};
INSTANTIATE_TEST_SUITE_P(Variants, AbandonedCommitQuota, ::testing::Values(CommitVariant::mediated));

// Who has not voted in time makes room for the decision.
TEST_P(AbandonedCommitQuota, WhatHasLostItsCoordinatorIsAborted) {
  TestParticipant& a = add("a");
  TestParticipant& b = add("b");
  Gate of_a;
  Gate of_b;
  hold(a, of_a);
  hold(b, of_b);
  Client client = proxied();
  CommitCoordinator coordinator(client, path());
  begin(coordinator, 10s);
  const std::string id = of_a.reached.take();
  of_b.reached.take();
  client.close();
  allow_no_node();
  of_a.open.put(1);
  of_b.open.put(1);
  EXPECT_TRUE(calls(a, id, "abort"));
  EXPECT_TRUE(calls(b, id, "abort"));
  allow_all();  // For the acknowledgements.
  CommitCoordinator(the_operator(), path()).recover(patient());
  expect_nothing_left();
}

}  // namespace
}  // namespace zkrecipes
