#include "recipes/commit/commit_decider.hpp"

#include <gtest/gtest.h>

#include <set>

namespace zkrecipes::detail {
namespace {

using Kind = DriveStep::Kind;
using Names = std::set<std::string, std::less<>>;
using Step = ParticipantStep;

const std::vector<std::string> both{"a", "b"};

// --- Who drives ---------------------------------------------------------------------------------------------------

TEST(DecideDrive, EveryCombination) {
  const std::vector<Names> subsets{{}, {"a"}, {"b"}, {"a", "b"}, {"stranger"}, {"a", "stranger"}};
  int seen = 0;
  for (const Names& voted : subsets) {
    for (const Names& acknowledged : subsets) {
      for (const std::optional<bool> decided : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
        for (int bits = 0; bits < 32; ++bits) {
          DriveFacts facts;
          facts.participants = &both;
          facts.voted = voted;
          facts.acknowledged = acknowledged;
          facts.decided = decided;
          facts.late = (bits & 1) != 0;
          if ((bits & 2) != 0) facts.unwanted = "unwanted";
          if ((bits & 4) != 0) facts.gone = "b";
          facts.settled = (bits & 8) != 0;
          facts.kept = (bits & 16) != 0;
          const Kind kind = decide_drive(facts).kind;
          ++seen;
          const bool all_voted = voted.contains("a") && voted.contains("b");
          const bool all_acknowledged = acknowledged.contains("a") && acknowledged.contains("b");
          // Validity.
          if (kind == Kind::commit) {
            EXPECT_TRUE(!decided && all_voted);
          }
          // A decision is made once.
          if (decided) {
            EXPECT_TRUE(kind != Kind::commit && kind != Kind::abort && kind != Kind::wait_for_votes);
          }
          // Nobody waits for votes when the time is up, or for those who will not come.
          if (!decided && (facts.late || facts.gone || !facts.unwanted.empty())) {
            EXPECT_NE(kind, Kind::wait_for_votes);
          }
          // What was committed stays until everybody knows it.
          const bool over = kind == Kind::remove || kind == Kind::keep;
          if (over) {
            EXPECT_TRUE(decided && (all_acknowledged || (!*decided && facts.settled)));
          }
          if (decided && all_acknowledged) {
            EXPECT_EQ(kind, facts.kept ? Kind::keep : Kind::remove);
          }
        }
      }
    }
  }
  EXPECT_EQ(seen, 6 * 6 * 3 * 32);
}

TEST(DecideDrive, Reasons) {
  DriveFacts facts;
  facts.participants = &both;
  facts.voted = {"a"};
  facts.gone = "b";
  EXPECT_EQ(decide_drive(facts), (DriveStep{Kind::abort, "participant b is gone"}));
  facts.late = true;
  EXPECT_EQ(decide_drive(facts), (DriveStep{Kind::abort, "not all votes came in time"}));
  facts.unwanted = "given up";
  EXPECT_EQ(decide_drive(facts), (DriveStep{Kind::abort, "given up"}));
  facts.unwanted.clear();
  facts.voted = {"a", "b"};
  EXPECT_EQ(decide_drive(facts), (DriveStep{Kind::commit, ""})) << "late, but all there";
}

// --- Who takes part -----------------------------------------------------------------------------------------------

TEST(DecideParticipant, EveryCombination) {
  struct Row {
    LogState logged;
    // exists and open, exists and committed, exists and aborted, gone from this tree, gone with the tree
    std::vector<Step> steps;
  };
  const std::vector<Row> rows{
      {LogState::none, {Step::prepare, Step::ask_operator, Step::acknowledge, Step::forget, Step::forget}},
      {LogState::begun, {Step::prepare, Step::ask_operator, Step::abort, Step::abort, Step::abort}},
      {LogState::ready, {Step::vote, Step::commit, Step::abort, Step::abort, Step::ask_operator}},
      {LogState::committed, {Step::commit, Step::commit, Step::commit, Step::commit, Step::commit}},
      {LogState::aborted, {Step::abort, Step::abort, Step::abort, Step::abort, Step::abort}},
      {LogState::applied, {Step::acknowledge, Step::acknowledge, Step::acknowledge, Step::forget, Step::forget}},
  };
  for (const Row& row : rows) {
    for (const bool voted : {false, true}) {
      const std::vector<ParticipantFacts> columns{
          {row.logged, true, true, voted, std::nullopt},   {row.logged, true, true, voted, true},
          {row.logged, true, true, voted, false},          {row.logged, false, true, voted, std::nullopt},
          {row.logged, false, false, voted, std::nullopt},
      };
      for (std::size_t i = 0; i < columns.size(); ++i) {
        Step expected = row.steps[i];
        if (expected == Step::vote && voted) expected = Step::wait;
        if (row.logged == LogState::ready && i == 1 && !voted) expected = Step::vote;  // With whose vote?
        EXPECT_EQ(decide_participant(columns[i]), expected)
            << to_string(row.logged) << ", column " << i << ", voted " << voted << ": "
            << to_string(decide_participant(columns[i]));
      }
    }
  }
}

TEST(DecideParticipant, TheVoteOfAnotherLogIsNotOurs) {
  EXPECT_EQ(decide_participant({LogState::ready, true, true, false, std::nullopt, true}), Step::vote) << "to abort it";
  EXPECT_EQ(decide_participant({LogState::ready, true, true, false, false, true}), Step::abort);
  EXPECT_EQ(decide_participant({LogState::ready, true, true, false, true, true}), Step::ask_operator);
}

// Whatever a participant reads, and however often it forgets what it has read, it never does both, nor anything that
// its log does not allow.
TEST(DecideParticipant, StepsFitTheLog) {
  for (const LogState logged :
       {LogState::none, LogState::begun, LogState::ready, LogState::committed, LogState::aborted, LogState::applied}) {
    for (int bits = 0; bits < 8; ++bits) {
      for (const std::optional<bool> decided : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
        const Step step = decide_participant({logged, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, decided});
        if (step == Step::commit && logged != LogState::committed) {
          EXPECT_TRUE(advance(logged, LogEntry::commit));
        }
        if (step == Step::abort && logged != LogState::aborted) {
          EXPECT_TRUE(advance(logged, LogEntry::abort));
        }
        if (step == Step::vote) {
          EXPECT_EQ(logged, LogState::ready) << "the log comes before the vote";
        }
        if (step == Step::prepare) {
          EXPECT_TRUE(logged == LogState::none || logged == LogState::begun);
        }
      }
    }
  }
}

// --- The inbox ----------------------------------------------------------------------------------------------------

TEST(DecideInbox, EveryCombination) {
  for (const std::int64_t czxid : {1, 2}) {
    for (std::int32_t version = 0; version < 4; ++version) {
      const InboxVersion found{czxid, version};
      EXPECT_EQ(decide_inbox(std::nullopt, found), InboxStep::list);
      for (std::int32_t before = 0; before < 4; ++before) {
        const InboxStep step = decide_inbox(InboxVersion{1, before}, found);
        const bool same = czxid == 1;
        // An entry is taken from the inbox's data only if it is certainly the only new one.
        EXPECT_EQ(step == InboxStep::take_newest, same && version == before + 1);
        EXPECT_EQ(step == InboxStep::nothing, same && version == before);
      }
    }
  }
}

// --- What the nodes hold ------------------------------------------------------------------------------------------

TEST(CommitRecord, TransactionRoundTrip) {
  const TransactionHeader header{CommitVariant::all_to_all,
                                 std::chrono::milliseconds(1500),
                                 std::chrono::milliseconds(7),
                                 {"a", "b c", "d"},
                                 std::string("x\n\0y", 4)};
  const std::string text = encode(header);
  EXPECT_EQ(decode_transaction(text), header);
  // Cut anywhere before the payload it is not one.
  for (std::size_t length = 0; length < text.size() - header.payload.size(); ++length)
    EXPECT_EQ(decode_transaction(text.substr(0, length)), std::nullopt) << length;
}

TEST(CommitRecord, WhatIsNotATransaction) {
  for (const char* text :
       {"", "2pc/2 mediated 1 0 1\na\n", "2pc/1 other 1 0 1\na\n", "2pc/1 mediated -1 0 1\na\n",
        "2pc/1 mediated 1 0 0\n", "2pc/1 mediated 1 0 2\na\n", "2pc/1 mediated 1 0 1\n\n",
        "2pc/1 mediated 1 0 1\na/b\n", "2pc/1 mediated 1 0 1\n..\n", "2pc/1 mediated 99999999999999999999 0 1\na\n",
        "2pc/1 mediated 1 0 1000\na\n", "2pc/1 mediated 9999999999999 0 1\na\n", "2pc/1 mediated 1x 0 1\na\n"})
    EXPECT_EQ(decode_transaction(text), std::nullopt) << text;
}

TEST(CommitRecord, Decision) {
  EXPECT_EQ(decode_decision(encode(Decision{true, {}})), (Decision{true, {}}));
  EXPECT_EQ(decode_decision(encode(Decision{false, "why"})), (Decision{false, "why"}));
  EXPECT_EQ(decode_decision(encode(Decision{false, {}})), (Decision{false, {}}));
  EXPECT_EQ(encode(Decision{false, std::string(5000, 'x')}).size(), max_reason + 6);
  for (const char* text : {"", "commit ", "committed", "abort", "Commit", "abor"})
    EXPECT_EQ(decode_decision(text), std::nullopt) << text;
}

TEST(CommitRecord, Logged) {
  const LoggedData data{77, "pay load"};
  EXPECT_EQ(decode_logged(encode(data)), data);
  for (const char* text : {"", "x y", "77", " 77", "-1 x"})
    EXPECT_EQ(decode_logged(text), std::nullopt) << text;
}

TEST(CommitRecord, ChildrenAreSortedOut) {
  const Ballot ballot = sort_out({"vote-a", "vote-b-c", "ack-a", "decision", "coordinator", "stranger", "vote", "ack"});
  EXPECT_EQ(ballot.voted, (Names{"a", "b-c"}));
  EXPECT_EQ(ballot.acknowledged, Names{"a"});
  EXPECT_TRUE(ballot.decided && ballot.coordinated);
  EXPECT_FALSE(sort_out({}).decided);
}

TEST(CommitRecord, Names) {
  for (const char* name : {"a", "host:8080", "with space", "\xC3\xA9"})
    EXPECT_EQ(name_defect(name), nullptr) << name;
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("."), std::string(".."),
                                  std::string("a\nb"), std::string(129, 'x'), std::string("\xFF")})
    EXPECT_NE(name_defect(name), nullptr) << name;
}

}  // namespace
}  // namespace zkrecipes::detail
