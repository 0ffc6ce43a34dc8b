// The judges of interventions, and of operations in histories, must refuse histories that are wrong, and nothing else.

#include <gtest/gtest.h>

#include <string>

#include "storm/checkers/interventions.hpp"
#include "storm/checkers/operations.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

struct Note {
  int ms = 0;
  const char* who = "";
  const char* what = "";
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::string text = {};
};

template <typename Judge>
std::string judgement(std::initializer_list<Note> notes, Judge judge) {
  History history;
  for (const Note& one : notes)
    history.add({std::chrono::milliseconds(one.ms), one.who, one.what, one.a, one.b, one.text});
  std::string all;
  for (const std::string& fault : judge(history))
    all += fault + "; ";
  return all;
}

const auto soon_lost = [](const History& history) { return check_broken_leases(history, 1s); };
const auto from_zero = [](const History& history) { return check_operations(history, 0); };

TEST(BrokenLeasesChecker, AGrantThatIsHeardOfAfterTheBreakSaysNothingOfTokens) {
  const std::initializer_list<Note> told_late = {{1, "p0", "breaking", 7}, {2, "p0", "broken", 7},
                                                 {3, "p1", "acquired", 8}, {4, "p1", "valid", 8},
                                                 {5, "p2", "acquired", 7}, {6, "p2", "lost", 7}};
  EXPECT_EQ(judgement(told_late, soon_lost), "");
  const std::initializer_list<Note> not_broken = {
      {3, "p1", "acquired", 8}, {4, "p1", "valid", 8}, {5, "p2", "acquired", 7}, {6, "p2", "valid", 7}};
  EXPECT_NE(judgement(not_broken, soon_lost), "");
}

// --- Operations ----------------------------------------------------------------------------------

Note begins(std::int64_t number, const Operation& one) {
  return {0, "p0", "begins", number, one.kind, text_of("x", one)};
}
Note tries(std::int64_t number, const Operation& one) {
  return {0, "p0", "tries", number, one.kind, text_of("x", one)};
}
Note ends(std::int64_t number, const Operation& one) { return {0, "p0", "ends", number, one.kind, text_of("x", one)}; }
const Note fails_one = {0, "p0", "fails", 1};

const Operation write_one = {Operation::write, 0, 0, 1};
const Operation read_any = {Operation::read};
const Operation read_zero = {Operation::read, 0, 0, 0};
const Operation read_one = {Operation::read, 0, 0, 1};

TEST(OperationsChecker, AReadFindsWhatWasWrittenBefore) {
  EXPECT_EQ(judgement({begins(1, write_one), ends(1, write_one), begins(2, read_any), ends(2, read_one)}, from_zero),
            "");
  EXPECT_NE(judgement({begins(1, write_one), ends(1, write_one), begins(2, read_any), ends(2, read_zero)}, from_zero),
            "");
  EXPECT_EQ(judgement({begins(1, write_one), begins(2, read_any), ends(1, write_one), ends(2, read_zero)}, from_zero),
            "");
}
TEST(OperationsChecker, WhatHasNoEndIsInDoubt) {
  EXPECT_EQ(judgement({begins(1, write_one), begins(2, read_any), ends(2, read_one)}, from_zero), "");
  EXPECT_EQ(judgement({begins(1, write_one), begins(2, read_any), ends(2, read_zero)}, from_zero), "");
}
TEST(OperationsChecker, WhatFailedWasNotDone) {
  EXPECT_NE(judgement({begins(1, write_one), fails_one, begins(2, read_any), ends(2, read_one)}, from_zero), "");
  EXPECT_EQ(judgement({begins(1, write_one), fails_one, begins(2, read_any), ends(2, read_zero)}, from_zero), "");
}
TEST(OperationsChecker, OfWhatWasTriedTheLastOneCounts) {
  const Operation first = {Operation::change, 0, 0, 1, 0};
  const Operation last = {Operation::change, 0, 0, 2, 0};
  const Operation read_two = {Operation::read, 0, 0, 2};
  EXPECT_EQ(judgement({begins(1, read_any), tries(1, first), tries(1, last), begins(2, read_any), ends(2, read_two)},
                      from_zero),
            "");
  EXPECT_NE(judgement({begins(1, read_any), tries(1, first), tries(1, last), begins(2, read_any), ends(2, read_one)},
                      from_zero),
            "");
}
TEST(OperationsChecker, EachObjectIsForItself) {
  const Note other_write = {0, "p0", "begins", 1, Operation::write, text_of("y", write_one)};
  const Note other_end = {0, "p0", "ends", 1, Operation::write, text_of("y", write_one)};
  EXPECT_EQ(judgement({other_write, other_end, begins(2, read_any), ends(2, read_zero)}, from_zero), "");
}
TEST(OperationsChecker, SaysWhoCannotBeExplained) {
  EXPECT_EQ(judgement({begins(1, write_one), ends(1, write_one), begins(2, read_any), ends(2, read_zero)}, from_zero),
            "x: no order of operations explains: read 0 of p0, from 0 to 0 us; ");
}

TEST(AdditionsChecker, ACountIsNotBehindWhatWasAdded) {
  EXPECT_EQ(
      judgement({{0, "p0", "adding", 1}, {1, "p1", "counting"}, {2, "p0", "added", 0, 1}, {3, "p1", "counted", 0}},
                check_additions),
      "");
  EXPECT_NE(
      judgement({{0, "p0", "adding", 1}, {1, "p0", "added", 0, 1}, {2, "p1", "counting"}, {3, "p1", "counted", 0}},
                check_additions),
      "");
}
TEST(AdditionsChecker, WhoWasKilledHasAddedPerhaps) {
  EXPECT_EQ(judgement({{0, "p0", "adding", 1},
                       {1, "p0", "killed"},
                       {2, "p0", "adding", 1},
                       {3, "p0", "added", 1, 2},
                       {4, "p1", "adding", 1},
                       {5, "p1", "added", 2, 3}},
                      check_additions),
            "");
  EXPECT_NE(
      judgement({{0, "p0", "adding", 1}, {1, "p0", "not added"}, {2, "p0", "adding", 1}, {3, "p0", "added", 1, 2}},
                check_additions),
      "");
}
// Each of these alone could be explained, which is as far as other judges look.
TEST(AdditionsChecker, AnAdditionInDoubtHelpsOnlyOnce) {
  EXPECT_NE(judgement({{0, "p0", "adding", 1},
                       {1, "p1", "counting"},
                       {2, "p1", "counted", 1},
                       {3, "p1", "counting"},
                       {4, "p1", "counted", 0}},
                      check_additions),
            "");
}

// --- Broken leases -------------------------------------------------------------------------------

TEST(InterventionCheckers, ABrokenLeaseMayBeValidUntilItsHolderKnows) {
  EXPECT_EQ(judgement({{0, "p0", "acquired", 1},
                       {1, "p1", "breaking", 1},
                       {2, "p1", "broken", 1},
                       {3, "p2", "acquired", 2},
                       {4, "p0", "valid", 1},
                       {5, "p2", "valid", 2}},
                      soon_lost),
            "");
  EXPECT_NE(judgement({{0, "p0", "acquired", 1}, {3, "p2", "acquired", 2}, {4, "p0", "valid", 1}}, soon_lost), "");
  EXPECT_NE(judgement({{0, "p0", "acquired", 1},
                       {1, "p1", "breaking", 1},
                       {2, "p1", "broken", 1},
                       {3, "p2", "acquired", 2},
                       {4, "p3", "acquired", 3},
                       {5, "p2", "valid", 2}},
                      soon_lost),
            "")
      << "of those that nobody broke, one is valid";
}
TEST(InterventionCheckers, AHolderLearnsInTimeThatItsLeaseIsBroken) {
  EXPECT_NE(
      judgement({{0, "p0", "acquired", 1}, {1, "p1", "breaking", 1}, {2, "p1", "broken", 1}, {1500, "p0", "valid", 1}},
                soon_lost),
      "");
}
TEST(InterventionCheckers, TokensGrowThoughLeasesAreBroken) {
  EXPECT_NE(judgement({{0, "p0", "acquired", 2}, {1, "p1", "breaking", 2}, {3, "p2", "acquired", 1}}, soon_lost), "");
}

// --- Who is there --------------------------------------------------------------------------------

TEST(InterventionCheckers, ThereAreAsManyAsStay) {
  EXPECT_EQ(judgement({{0, "p0", "stay", 0, 0, "x"}, {0, "p1", "stay", 0, 0, "x"}, {1, "p0", "counts", 2, 0, "x"}},
                      check_counts),
            "");
  EXPECT_NE(judgement({{0, "p0", "stay", 0, 0, "x"}, {1, "p0", "counts", 2, 0, "x"}}, check_counts), "");
  EXPECT_NE(judgement({{0, "p0", "stay", 0, 0, "x"}, {1, "p0", "counts", 1, 0, "y"}}, check_counts), "");
  EXPECT_NE(judgement({{0, "p0", "stay", 0, 0, "x"}}, check_counts), "");
}

TEST(InterventionCheckers, AGateStaysUpAsLongAsItsSession) {
  EXPECT_NE(judgement({{0, "p0", "raising"}, {1, "p0", "up", 7}, {2, "p0", "passed", 7}}, check_mortal_gate), "");
  EXPECT_EQ(judgement({{0, "p0", "raising"}, {1, "p0", "up", 7}, {2, "p0", "passed", 8}}, check_mortal_gate), "");
  EXPECT_EQ(judgement({{0, "p0", "raising"}, {1, "p0", "up", 7}, {2, "p1", "lowering"}, {3, "p0", "passed", 7}},
                      check_mortal_gate),
            "");
  EXPECT_EQ(judgement({{0, "p1", "lowering"}, {1, "p0", "raising"}, {2, "p0", "up", 7}, {3, "p0", "passed", 7}},
                      check_mortal_gate),
            "")
      << "under way";
  EXPECT_NE(judgement({{0, "p0", "raised"}, {9, "end", "still up"}}, check_mortal_gate), "");
}

TEST(InterventionCheckers, WhatWasResolvedIsNoMoreInDoubt) {
  EXPECT_NE(judgement({{0, "p0", "resolved", 1, 0, "t"}, {20000, "p0", "in doubt", 0, 0, "t problem"}},
                      check_nothing_in_doubt),
            "");
  EXPECT_EQ(judgement({{0, "p0", "resolved", 1, 0, "t"}, {20000, "p1", "in doubt", 0, 0, "t problem"}},
                      check_nothing_in_doubt),
            "");
  EXPECT_EQ(
      judgement(
          {{0, "p0", "resolved", 1, 0, "t"}, {1, "p0", "log lost", 2}, {20000, "p0", "in doubt", 0, 0, "t problem"}},
          check_nothing_in_doubt),
      "");
}

TEST(InterventionCheckers, AReadShowsWhatWasAcknowledgedBefore) {
  EXPECT_EQ(judgement({{0, "p0", "acknowledged", 5}, {1, "p1", "served", 0, 0, "4,5"}}, check_served), "");
  EXPECT_NE(judgement({{0, "p0", "acknowledged", 5}, {1, "p1", "served", 0, 0, "4"}}, check_served), "");
  EXPECT_NE(judgement({{0, "p0", "acknowledged", 5}, {1, "p1", "served"}}, check_served), "");
  EXPECT_EQ(judgement({{1, "p1", "served", 0, 0, "4"}, {2, "p0", "acknowledged", 5}}, check_served), "");
  EXPECT_EQ(
      judgement({{0, "p0", "acknowledged", 5}, {1, "p2", "given up"}, {2, "p1", "served", 0, 0, "4"}}, check_served),
      "");
}

}  // namespace
}  // namespace storm
