// Judges must refuse histories that are wrong, and nothing else.

#include <gtest/gtest.h>

#include "storm/checkers/checkers.hpp"
#include "storm/checkers/commands.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

struct Line {
  int ms = 0;
  const char* who = "";
  const char* what = "";
  std::int64_t a = 0;
  std::int64_t b = 0;
};

template <typename Judge>
std::string judged(std::initializer_list<Line> lines, Judge judge) {
  History history;
  for (const Line& line : lines)
    history.add({std::chrono::milliseconds(line.ms), line.who, line.what, line.a, line.b, ""});
  std::string all;
  for (const std::string& fault : judge(history))
    all += fault + "; ";
  return all;
}

const auto exclusive = [](const History& history) { return check_leases(history, 1); };
const auto two_at_once = [](const History& history) { return check_leases(history, 2); };
const auto any_order = [](const History& history) { return check_queue(history, false); };
const auto in_order = [](const History& history) { return check_queue(history, true); };
const auto progress = [](const History& history) { return check_progress(history, "acquired"); };

TEST(Checkers, LeasesOneAfterTheOther) {
  EXPECT_EQ(judged({{0, "p0", "acquired", 1}, {5, "p0", "valid", 1}, {6, "p1", "acquired", 2}, {9, "p1", "valid", 2}},
                   exclusive),
            "");
}
TEST(Checkers, AHolderThatNeverLooksAgainHoldsNothing) {
  EXPECT_EQ(judged({{0, "p0", "acquired", 1}, {5, "p1", "acquired", 2}, {9, "p1", "valid", 2}}, exclusive), "");
}
TEST(Checkers, TwoHoldersAreRefused) {
  EXPECT_NE(judged({{0, "p0", "acquired", 1}, {4, "p1", "acquired", 2}, {5, "p0", "valid", 1}}, exclusive), "");
}
TEST(Checkers, AProcessMayBeItsOwnTwin) {
  EXPECT_NE(judged({{0, "p0", "acquired", 1}, {4, "p0", "acquired", 2}, {5, "p0", "valid", 1}}, exclusive), "");
}
TEST(Checkers, ATokenThatFallsIsRefused) {
  EXPECT_NE(judged({{0, "p0", "acquired", 2}, {4, "p1", "acquired", 1}}, exclusive), "");
  EXPECT_NE(judged({{0, "p0", "acquired", 2}, {4, "p1", "acquired", 2}}, exclusive), "");
}
TEST(Checkers, ThreeOfTwoAreRefused) {
  EXPECT_EQ(judged({{0, "p0", "acquired", 1}, {1, "p1", "acquired", 2}, {5, "p0", "valid", 1}, {5, "p1", "valid", 2}},
                   two_at_once),
            "");
  EXPECT_NE(judged({{0, "p0", "acquired", 1},
                    {1, "p1", "acquired", 2},
                    {2, "p2", "acquired", 3},
                    {5, "p0", "valid", 1},
                    {5, "p1", "valid", 2}},
                   two_at_once),
            "");
}
TEST(Checkers, ReadersShareAndAWriterDoesNot) {
  EXPECT_EQ(
      judged({{0, "p0", "acquired", 1, 1}, {1, "p1", "acquired", 2, 1}, {5, "p0", "valid", 1}}, check_shared_leases),
      "");
  EXPECT_NE(
      judged({{0, "p0", "acquired", 1, 1}, {1, "p1", "acquired", 2, 0}, {5, "p0", "valid", 1}}, check_shared_leases),
      "");
  EXPECT_NE(
      judged({{0, "p0", "acquired", 1, 0}, {1, "p1", "acquired", 2, 1}, {5, "p0", "valid", 1}}, check_shared_leases),
      "");
}

TEST(Checkers, ItemsComeOnce) {
  EXPECT_EQ(judged({{0, "p0", "pushing", 1000}, {1, "p0", "pushed", 1000}, {2, "p1", "popped", 1000}}, any_order), "");
  EXPECT_NE(judged({{0, "p0", "pushing", 1000}, {2, "p1", "popped", 1000}, {3, "p1", "popped", 1000}}, any_order), "");
  EXPECT_NE(judged({{2, "p1", "popped", 1000}}, any_order), "") << "from nowhere";
}
TEST(Checkers, AnItemMayBeLostToAPopInDoubtOnly) {
  EXPECT_NE(judged({{0, "p0", "pushing", 1000}, {1, "p0", "pushed", 1000}}, any_order), "");
  EXPECT_EQ(judged({{0, "p0", "pushing", 1000}, {1, "p0", "pushed", 1000}, {2, "p1", "pop in doubt"}}, any_order), "");
  EXPECT_EQ(judged({{0, "p0", "pushing", 1000}}, any_order), "") << "in doubt whether it was pushed";
}
TEST(Checkers, ItemsOfOneProducerKeepTheirOrder) {
  EXPECT_NE(judged({{0, "p0", "pushing", 1001},
                    {0, "p0", "pushing", 2001},
                    {2, "p1", "popped", 2001},
                    {3, "p1", "popped", 1001}},
                   in_order),
            "");
}

TEST(Checkers, AdditionsAreStepsOfOneCount) {
  EXPECT_EQ(judged({{0, "p0", "adding", 1},
                    {1, "p0", "added", 0, 1},
                    {2, "p1", "adding", 1},
                    {3, "p1", "added", 1, 2},
                    {4, "end", "total", 2}},
                   check_counter),
            "");
}
TEST(Checkers, AnAdditionCountedTwiceOrNotAtAllIsRefused) {
  EXPECT_NE(judged({{0, "p0", "adding", 1}, {1, "p0", "added", 0, 1}, {4, "end", "total", 2}}, check_counter), "");
  EXPECT_NE(judged({{0, "p0", "adding", 1}, {1, "p0", "added", 0, 1}, {4, "end", "total", 0}}, check_counter), "");
  EXPECT_EQ(judged({{0, "p0", "adding", 1}, {1, "p0", "added", 0, 1}, {2, "p1", "adding", 1}, {4, "end", "total", 2}},
                   check_counter),
            "")
      << "in doubt";
}
TEST(Checkers, TwoAdditionsFromTheSameValueAreRefused) {
  EXPECT_NE(judged({{0, "p0", "adding", 1},
                    {0, "p1", "adding", 1},
                    {1, "p0", "added", 0, 1},
                    {1, "p1", "added", 0, 1},
                    {4, "end", "total", 2}},
                   check_counter),
            "");
}
TEST(Checkers, AnAdditionThatGoesBackInTimeIsRefused) {
  EXPECT_NE(judged({{0, "p0", "adding", 1},
                    {1, "p0", "added", 1, 2},
                    {2, "p1", "adding", 1},
                    {3, "p1", "added", 0, 1},
                    {4, "end", "total", 2}},
                   check_counter),
            "");
}

TEST(Checkers, NoProgressAfterTheLastFaultIsRefused) {
  EXPECT_NE(judged({{0, "p0", "acquired", 1}, {5, "--", "calm"}}, progress), "");
  EXPECT_EQ(judged({{5, "--", "calm"}, {6, "p0", "acquired", 1}}, progress), "");
}

// --- Commands of zkr ----------------------------------------------------------------------------------------------

constexpr std::int64_t long_ago = 4'000'000;  // In nanoseconds.

TEST(Checkers, CommandsOneAfterTheOther) {
  EXPECT_EQ(judged({{0, "p0", "acquired", 1, 9},
                    {5, "p0", "valid", 1, 4},
                    {6, "p0", "releasing", 1},
                    {7, "p1", "acquired", 2, 9},
                    {8, "p1", "valid", 2, 8}},
                   check_commands),
            "");
}
TEST(Checkers, ALineBehindANewerTokenIsRefused) {
  EXPECT_NE(
      judged({{0, "p0", "acquired", 1, 9}, {4, "p1", "acquired", 2, 9}, {5, "p0", "valid", 1, 4}}, check_commands), "");
}
TEST(Checkers, ALineWithoutACertainLeaseIsRefused) {
  EXPECT_NE(judged({{0, "p0", "acquired", 1, 9}, {9, "p0", "valid", 1, 0}}, check_commands), "");
}
TEST(Checkers, ALineBehindTheReleaseIsRefused) {
  EXPECT_NE(judged({{0, "p0", "acquired", 1, 9}, {4, "p0", "releasing", 1}, {5, "p0", "valid", 1, 4}}, check_commands),
            "");
}
TEST(Checkers, OneOfTwoThatIsLateExcusesNothing) {
  for (const char* who : {"late keeper", "late front"}) {
    EXPECT_NE(
        judged({{0, "p0", "acquired", 1, 9}, {9, "p0", "valid", 1, -1}, {10, "p0", who, 1, long_ago}}, check_commands),
        "");
  }
}
TEST(Checkers, WhatIsWrittenWhileBothStandStillIsNotJudged) {
  const auto with_a_line_at = [](int ms) {
    return judged({{0, "p0", "acquired", 1, 9},
                   {ms, "p0", "valid", 1, -1},
                   {9, "p0", "late keeper", 1, long_ago},
                   {10, "p0", "late front", 1, long_ago}},
                  check_commands);
  };
  EXPECT_EQ(with_a_line_at(7), "");
  EXPECT_NE(with_a_line_at(5), "") << "the front was not late by then";
  EXPECT_NE(with_a_line_at(10), "") << "the keeper was there again";
}
TEST(Checkers, AFrontThatIsGoneEndsNothing) {
  EXPECT_EQ(judged({{0, "p0", "acquired", 1, 9},
                    {1, "p0", "no front", 1},
                    {8, "p0", "valid", 1, -1},
                    {9, "p0", "late keeper", 1, long_ago}},
                   check_commands),
            "");
}

TEST(Checkers, AKeeperThatHangsHearsOfNoEarlyEnd) {
  const auto with = [](const char* what, std::int64_t left) {
    return judged(
        {{0, "p0", "acquired", 1, 9}, {3, "p0", what, 1}, {4, "p1", "acquired", 2, 9}, {5, "p0", "valid", 1, left}},
        check_commands);
  };
  EXPECT_EQ(with("ended early", 4), "");
  EXPECT_NE(with("ended early", 0), "") << "the front should have ended it";
  EXPECT_NE(with("nothing", 4), "");
}

}  // namespace
}  // namespace storm
