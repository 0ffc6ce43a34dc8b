// The judge of latches must refuse histories that are wrong, and nothing else.

#include <gtest/gtest.h>

#include <string>

#include "storm/checkers/latches.hpp"

namespace storm {
namespace {

struct LatchNote {
  const char* what = "";
  std::int64_t a = 0;
  std::int64_t b = 0;
  const char* text = "1";
};

// Of latches that open after 3 counts.
std::string judge_latches(std::initializer_list<LatchNote> notes) {
  History history;
  for (const LatchNote& one : notes)
    history.add({Nanos(1), "p0", one.what, one.a, one.b, one.text});
  std::string all;
  for (const std::string& fault : check_latches(history, 3))
    all += fault + "; ";
  return all;
}

TEST(LatchesChecker, TakesWhatIsRight) {
  EXPECT_EQ(judge_latches({}), "");
  EXPECT_EQ(judge_latches({{"counting", 1, 2},
                           {"counted", 1, 1},
                           {"counting", 2, 2},
                           {"counted", 2, 0},
                           {"passed", 1},
                           {"left", 1, 0},
                           {"left", 2, 3}}),
            "")
      << "more is counted than is left";
  EXPECT_EQ(judge_latches({{"counting", 1, 2}, {"counting", 2, 1}, {"passed", 1}, {"left", 1, 0}}), "") << "in doubt";
  EXPECT_EQ(judge_latches({{"counting", 1, 2}, {"counting", 2, 1}, {"counted", 2, 2}, {"left", 1, 2}}), "")
      << "in doubt, and not counted";
  EXPECT_EQ(judge_latches({{"counting", 1, 1}, {"counting", 2, 1}, {"counted", 2, 1}, {"counted", 1, 2}}), "")
      << "answers come late";
  EXPECT_EQ(judge_latches({{"counting", 1, 1, "2"}, {"too early", 1}, {"counting", 2, 1}, {"not counted", 2}}), "");
  EXPECT_EQ(judge_latches({{"counting", 1, 3}, {"counting", 2, 1, "2"}, {"counted", 2, 2}}), "")
      << "the first one was opened by a count that is in doubt";
  EXPECT_EQ(judge_latches({{"counting", 1, 1, "2"}, {"counting", 2, 3}, {"counted", 2, 0}, {"too early", 1}}), "")
      << "it was opened meanwhile";
}

TEST(LatchesChecker, RefusesWhatIsWrong) {
  EXPECT_NE(judge_latches({{"counting", 1, 2}, {"counted", 1, 1}, {"passed", 1}}), "") << "passed a closed one";
  EXPECT_NE(judge_latches({{"passed", 1}, {"counting", 1, 3}, {"counted", 1, 0}}), "") << "before it was opened";
  EXPECT_NE(judge_latches({{"counting", 1, 3}, {"not counted", 1}, {"passed", 1}}), "") << "opened by nothing";
  EXPECT_NE(judge_latches({{"counting", 1, 3}, {"counted", 1, 0}, {"passed", 2}}), "") << "another generation";
  EXPECT_NE(judge_latches({{"counting", 1, 1}, {"counted", 1, 1}}), "") << "counted twice";
  EXPECT_NE(judge_latches({{"counting", 1, 1}, {"counted", 1, 2}, {"counting", 2, 1}, {"counted", 2, 2}}), "")
      << "a count was lost";
  EXPECT_NE(judge_latches({{"counting", 1, 1}, {"counting", 2, 1}, {"counted", 1, 2}, {"counted", 2, 2}}), "")
      << "two were the same step";
  EXPECT_NE(judge_latches({{"counting", 1, 1}, {"counted", 1, 2}, {"left", 1, 3}}), "") << "lost";
  EXPECT_NE(judge_latches({{"counting", 1, 1}, {"counted", 1, 2}, {"left", 1, 1}}), "") << "counted once more";
  EXPECT_NE(judge_latches({{"counting", 1, 2}, {"not counted", 1}, {"left", 1, 1}}), "") << "counted all the same";
  EXPECT_NE(judge_latches({{"counting", 1, 2}, {"counted", 1, 1}, {"counting", 2, 1, "2"}, {"counted", 2, 2}}), "")
      << "the first one is not open";
  EXPECT_NE(judge_latches({{"counting", 1, 3}, {"counted", 1, 0}, {"counting", 2, 1, "2"}, {"too early", 2}}), "")
      << "the first one was open";
  EXPECT_NE(judge_latches({{"wrong", 0, 0, "no latch"}}), "");
}

}  // namespace
}  // namespace storm
