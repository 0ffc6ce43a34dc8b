// The judges of agreements must refuse histories that are wrong, and nothing else.

#include <gtest/gtest.h>

#include "storm/checkers/agreements.hpp"

namespace storm {
namespace {

struct Told {
  int ms = 0;
  const char* who = "";
  const char* what = "";
  std::int64_t a = 0;
  std::int64_t b = 0;
  const char* text = "";
};

template <typename Judge>
std::string verdict(std::initializer_list<Told> lines, Judge judge) {
  History history;
  for (const Told& line : lines)
    history.add({std::chrono::milliseconds(line.ms), line.who, line.what, line.a, line.b, line.text});
  std::string all;
  for (const std::string& fault : judge(history))
    all += fault + "; ";
  return all;
}

const auto named_leases = [](const History& history) { return check_named_leases(history, 2); };
const auto total_of_ten = [](const History& history) { return check_transfers(history, 10); };

TEST(AgreementCheckers, EachNameIsALockOfItsOwn) {
  EXPECT_EQ(verdict({{0, "p0", "acquired", 2, 0, "first"},
                     {1, "p1", "acquired", 1, 0, "second"},
                     {5, "p0", "valid", 2, 0, "first"},
                     {5, "p1", "valid", 1, 0, "second"}},
                    named_leases),
            "");
  EXPECT_NE(verdict({{0, "p0", "acquired", 1, 0, "first"},
                     {1, "p1", "acquired", 2, 0, "first"},
                     {5, "p0", "valid", 1, 0, "first"}},
                    named_leases),
            "");
  EXPECT_NE(verdict({{0, "p0", "acquired", 2, 0, "red"}, {1, "p1", "acquired", 1, 0, "red"}}, named_leases), "")
      << "an epoch that falls";
}
TEST(AgreementCheckers, ASharedNameHasSoManyHolders) {
  EXPECT_EQ(verdict({{0, "p0", "acquired", 1, 0, "shared"},
                     {1, "p1", "acquired", 2, 0, "shared"},
                     {5, "p0", "valid", 1, 0, "shared"}},
                    named_leases),
            "");
  EXPECT_NE(verdict({{0, "p0", "acquired", 1, 0, "shared"},
                     {1, "p1", "acquired", 2, 0, "shared"},
                     {2, "p2", "acquired", 3, 0, "shared"},
                     {5, "p0", "valid", 1, 0, "shared"},
                     {5, "p1", "valid", 2, 0, "shared"}},
                    named_leases),
            "");
}

TEST(AgreementCheckers, EachNameMakesProgress) {
  const auto acquired = [](const History& history) { return check_named_progress(history, "acquired"); };
  EXPECT_EQ(
      verdict({{0, "p0", "acquired", 1, 0, "red"}, {5, "--", "calm"}, {6, "p1", "acquired", 2, 0, "red"}}, acquired),
      "");
  EXPECT_NE(
      verdict({{0, "p0", "acquired", 1, 0, "red"}, {5, "--", "calm"}, {6, "p1", "acquired", 2, 0, "blue"}}, acquired),
      "");
  EXPECT_EQ(verdict({{0, "p0", "acquired", 1, 0, "red"}, {5, "--", "calm"}, {6, "p0", "valid", 1, 0, "red"}}, acquired),
            "");
  EXPECT_NE(verdict({{0, "p0", "acquired", 1, 0, "red"}, {1, "p0", "valid", 1, 0, "red"}, {5, "--", "calm"}}, acquired),
            "");
}

TEST(AgreementCheckers, WhatWasSeenGoneIsNotHeld) {
  EXPECT_EQ(verdict({{1, "p0", "valid", 7}, {2, "p1", "gone", 7}, {3, "p0", "valid", 8}}, check_gone), "");
  EXPECT_NE(verdict({{1, "p0", "valid", 7}, {2, "p1", "gone", 7}, {3, "p0", "valid", 7}}, check_gone), "");
}

TEST(AgreementCheckers, DepthIsCounted) {
  EXPECT_EQ(verdict({{1, "p0", "depth", 2, 2}}, check_depth), "");
  EXPECT_NE(verdict({{1, "p0", "depth", 2, 1}}, check_depth), "");
}

TEST(AgreementCheckers, OneTermAtATime) {
  EXPECT_EQ(verdict({{1, "p0", "term begins"},
                     {2, "p0", "term ends"},
                     {3, "p0", "term begins"},
                     {4, "p0", "killed"},
                     {5, "p0", "term begins"},
                     {6, "p1", "term begins"}},
                    check_terms),
            "");
  EXPECT_NE(verdict({{1, "p0", "term begins"}, {3, "p0", "term begins"}}, check_terms), "");
}

TEST(AgreementCheckers, LowerPrioritiesComeFirst) {
  EXPECT_EQ(verdict({{1, "end", "drained", 8, -1}, {2, "end", "drained", 7, 2}}, check_drained_order), "");
  EXPECT_NE(verdict({{1, "end", "drained", 8, 2}, {2, "end", "drained", 7, -1}}, check_drained_order), "");
}

TEST(AgreementCheckers, AllCommitOrNone) {
  EXPECT_EQ(verdict({{0, "p0", "begun", 0, 0, "t p0,p1"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {1, "p1", "prepared", 1, 0, "t"},
                     {2, "p0", "committed", 0, 0, "t"},
                     {2, "p1", "committed", 0, 0, "t"},
                     {3, "p0", "decided", 1, 1, "t"},
                     {4, "p1", "committed", 0, 0, "t"}},
                    check_commits),
            "");
  EXPECT_EQ(verdict({{0, "p0", "begun", 0, 0, "t p0,p1"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {1, "p1", "prepared", 0, 0, "t"},
                     {2, "p0", "aborted", 0, 0, "t"},
                     {3, "p0", "decided", 0, 0, "t"}},
                    check_commits),
            "");
  EXPECT_NE(verdict({{0, "p0", "begun", 0, 0, "t p0,p1"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {1, "p1", "prepared", 1, 0, "t"},
                     {2, "p0", "committed", 0, 0, "t"},
                     {2, "p1", "aborted", 0, 0, "t"},
                     {9, "p1", "in doubt", 0, 0, "t"}},
                    check_commits),
            "");
}
TEST(AgreementCheckers, WhoHasNotCommittedMustBeInDoubt) {
  EXPECT_NE(verdict({{0, "p0", "begun", 0, 0, "t p0,p1"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {1, "p1", "prepared", 1, 0, "t"},
                     {2, "p0", "committed", 0, 0, "t"}},
                    check_commits),
            "");
  EXPECT_EQ(verdict({{0, "p0", "begun", 0, 0, "t p0,p1"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {1, "p1", "prepared", 1, 0, "t"},
                     {2, "p0", "committed", 0, 0, "t"},
                     {9, "p1", "in doubt", 0, 0, "t"}},
                    check_commits),
            "");
  EXPECT_NE(verdict({{0, "p0", "begun", 0, 0, "t p0"}, {2, "p0", "decided", 1, 0, "t"}}, check_commits), "")
      << "nobody has done what the coordinator was told";
}
TEST(AgreementCheckers, NobodyCommitsAgainstAVote) {
  EXPECT_NE(verdict({{0, "p0", "begun", 0, 0, "t p0,p1"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {1, "p1", "prepared", 0, 0, "t"},
                     {2, "p0", "committed", 0, 0, "t"},
                     {9, "p1", "in doubt", 0, 0, "t"}},
                    check_commits),
            "");
  EXPECT_NE(verdict({{0, "p0", "begun", 0, 0, "t p0,p1"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {2, "p0", "committed", 0, 0, "t"},
                     {9, "p1", "in doubt", 0, 0, "t"}},
                    check_commits),
            "")
      << "before all have prepared it";
}
TEST(AgreementCheckers, TheCoordinatorIsToldWhatHappens) {
  EXPECT_NE(verdict({{0, "p0", "begun", 0, 0, "t p0"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {2, "p0", "committed", 0, 0, "t"},
                     {3, "p0", "decided", 0, 0, "t"}},
                    check_commits),
            "");
  EXPECT_NE(verdict({{0, "p0", "begun", 0, 0, "t p0"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {2, "p0", "decided", 1, 0, "t"},
                     {3, "p0", "aborted", 0, 0, "t"},
                     {9, "p0", "in doubt", 0, 0, "t"}},
                    check_commits),
            "");
  EXPECT_NE(verdict({{0, "p0", "begun", 0, 0, "t p0"},
                     {1, "p0", "prepared", 1, 0, "t"},
                     {2, "p1", "decided", 1, 1, "t"},
                     {3, "p0", "committed", 0, 0, "t"}},
                    check_commits),
            "")
      << "told that all have applied it, too early";
}

TEST(AgreementCheckers, TheSumStays) {
  EXPECT_EQ(verdict({{0, "p0", "moving"},
                     {1, "p0", "moved", 1, 1'000'001},
                     {2, "p1", "sum", 10},
                     {9, "end", "changes", 0, 1},
                     {9, "end", "changes", 1, 1}},
                    total_of_ten),
            "");
  EXPECT_NE(verdict({{2, "p1", "sum", 11}}, total_of_ten), "");
}
TEST(AgreementCheckers, NoTransferIsLostOrDoneTwice) {
  EXPECT_NE(verdict({{0, "p0", "moving"},
                     {0, "p1", "moving"},
                     {1, "p0", "moved", 1, 1'000'001},
                     {1, "p1", "moved", 1, 2'000'001}},
                    total_of_ten),
            "");
  EXPECT_NE(verdict({{0, "p0", "moving"}, {1, "p0", "moved", 1, 1'000'001}, {9, "end", "changes", 0, 0}}, total_of_ten),
            "");
  EXPECT_NE(verdict({{0, "p0", "moving"}, {1, "p0", "moved", 1, 1'000'001}, {9, "end", "changes", 0, 2}}, total_of_ten),
            "");
  EXPECT_EQ(verdict({{0, "p0", "moving"}, {9, "end", "changes", 0, 1}}, total_of_ten), "") << "in doubt";
  EXPECT_NE(verdict({{0, "p0", "moving"}, {1, "p0", "not moved"}, {9, "end", "changes", 0, 1}}, total_of_ten), "");
}

TEST(AgreementCheckers, WhoLooksSeesWhatWasMovedBefore) {
  EXPECT_EQ(verdict({{0, "p0", "moving"}, {1, "p1", "looking"}, {2, "p0", "moved", 1, 1'000'001}, {3, "p1", "seen", 0}},
                    total_of_ten),
            "");
  EXPECT_NE(verdict({{0, "p0", "moving"}, {1, "p0", "moved", 1, 1'000'001}, {2, "p1", "looking"}, {3, "p1", "seen", 0}},
                    total_of_ten),
            "");
}

TEST(AgreementCheckers, NoIdComesTwice) {
  EXPECT_EQ(verdict({{0, "p0", "id", 7, 1, "block"}, {1, "p1", "id", 8, 1, "block"}, {1, "p1", "id", 7, 1, "worker"}},
                    check_ids),
            "");
  EXPECT_NE(verdict({{0, "p0", "id", 7, 1, "block"}, {1, "p1", "id", 7, 1, "block"}}, check_ids), "");
  EXPECT_NE(verdict({{0, "p0", "id", 7, 1, "block"}, {1, "p0", "id", 6, 1, "block"}}, check_ids), "");
  EXPECT_EQ(verdict({{0, "p0", "id", 7, 1, "block"}, {1, "p0", "id", 6, 2, "block"}}, check_ids), "");
}

TEST(AgreementCheckers, EveryoneSeesWhoIsThere) {
  EXPECT_EQ(verdict({{0, "p0", "stays"}, {0, "p1", "stays"}, {5, "p0", "sees", 0, 0, "p0,p1"}}, check_members), "");
  EXPECT_NE(verdict({{0, "p0", "stays"}, {0, "p1", "stays"}, {5, "p0", "sees", 0, 0, "p0"}}, check_members), "");
  EXPECT_NE(verdict({{0, "p0", "stays"}, {5, "p0", "sees", 0, 0, "p0,p1"}}, check_members), "");
  EXPECT_NE(verdict({{0, "p0", "stays"}}, check_members), "");
  for (const char* seen : {"p0", "p0,p1"})
    EXPECT_EQ(verdict({{0, "p0", "stays"}, {0, "p1", "stays"}, {5, "p0", "sees", 0, 0, seen}, {6, "p1", "left"}},
                      check_members),
              "");
  EXPECT_NE(verdict({{0, "p0", "stays"}, {0, "p1", "stays"}, {5, "p0", "sees", 0, 0, "p1"}, {6, "p1", "left"}},
                    check_members),
            "");
}

TEST(AgreementCheckers, ARevisionIsWholeAndTheSameEverywhere) {
  EXPECT_EQ(verdict({{0, "p0", "publishing", 0, 0, "a=1 b=1"},
                     {1, "p1", "seen", 1, 1, "a=1 b=1"},
                     {2, "p0", "published", 1, 1},
                     {3, "p1", "seen", 2, 1, "a=2 b=2"}},
                    check_revisions),
            "");
  EXPECT_NE(
      verdict(
          {{0, "p0", "publishing", 0, 0, "a=1 b=1"}, {2, "p0", "published", 1, 1}, {3, "p1", "seen", 1, 1, "a=1 b=0"}},
          check_revisions),
      "");
  EXPECT_NE(verdict({{1, "p1", "seen", 1, 1, "a=1"}, {1, "p2", "seen", 1, 1, "a=2"}}, check_revisions), "");
}
TEST(AgreementCheckers, RevisionsGrowAndAreOfOnePublication) {
  EXPECT_NE(verdict({{1, "p1", "seen", 2, 1, "a"}, {2, "p1", "seen", 1, 1, "b"}}, check_revisions), "");
  EXPECT_EQ(verdict({{1, "p1", "seen", 2, 1, "a"}, {2, "p1", "seen", 1, 2, "b"}}, check_revisions), "");
  EXPECT_NE(verdict({{0, "p0", "publishing", 0, 0, "a=1"},
                     {0, "p1", "publishing", 0, 0, "a=2"},
                     {2, "p0", "published", 1, 1},
                     {2, "p1", "published", 1, 1}},
                    check_revisions),
            "");
}

TEST(AgreementCheckers, TheLastRevisionIsInForceInTheEnd) {
  EXPECT_EQ(verdict({{1, "p1", "seen", 2, 1, "a"}, {9, "p1", "in force", 2}}, check_revisions), "");
  EXPECT_NE(verdict({{1, "p1", "seen", 2, 1, "a"}, {9, "p2", "in force", 1}}, check_revisions), "");
}

TEST(AgreementCheckers, NobodyPassesAGateThatIsUp) {
  EXPECT_NE(verdict({{0, "p0", "raising"}, {1, "p0", "up"}, {2, "p0", "passed"}}, check_gate), "");
  EXPECT_EQ(verdict({{0, "p0", "raising"}, {1, "p0", "up"}, {2, "p1", "passed"}}, check_gate), "") << "may be late";
  EXPECT_EQ(verdict({{0, "p0", "raising"}, {1, "p0", "up"}, {2, "p1", "lowering"}, {3, "p0", "passed"}}, check_gate),
            "");
  EXPECT_EQ(verdict({{0, "p1", "lowering"}, {1, "p0", "raising"}, {2, "p0", "up"}, {3, "p0", "passed"}}, check_gate),
            "")
      << "under way";
  EXPECT_EQ(
      verdict({{0, "p0", "raising"}, {1, "p1", "lowering"}, {2, "p1", "lowered"}, {3, "p0", "up"}, {4, "p0", "passed"}},
              check_gate),
      "")
      << "lowered before it was known to be up";
  EXPECT_NE(
      verdict({{0, "p1", "lowering"}, {1, "p1", "lowered"}, {2, "p0", "raising"}, {3, "p0", "up"}, {4, "p0", "passed"}},
              check_gate),
      "");
}

TEST(AgreementCheckers, ALaterPrimaryHasWhatWasAcknowledged) {
  EXPECT_EQ(verdict({{0, "p0", "took over", 1}, {1, "p0", "acknowledged", 5}, {2, "p1", "took over", 2, 0, "4,5"}},
                    check_replicas),
            "");
  EXPECT_NE(verdict({{0, "p0", "took over", 1}, {1, "p0", "acknowledged", 5}, {2, "p1", "took over", 2, 0, "4"}},
                    check_replicas),
            "");
  EXPECT_NE(verdict({{0, "p0", "took over", 2}, {2, "p1", "took over", 2}}, check_replicas), "");
  EXPECT_EQ(verdict({{0, "p0", "took over", 1},
                     {1, "p0", "acknowledged", 5},
                     {2, "end", "given up"},
                     {3, "p1", "took over", 2, 0, "4"}},
                    check_replicas),
            "");
}

}  // namespace
}  // namespace storm
