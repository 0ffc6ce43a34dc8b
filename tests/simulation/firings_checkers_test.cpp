// The judge of firings must refuse histories that are wrong, and nothing else.

#include <gtest/gtest.h>

#include <string>

#include "storm/checkers/firings.hpp"

namespace storm {
namespace {

struct FiringNote {
  const char* what = "";
  std::int64_t a = 0;
  std::int64_t b = 1;
};

std::string judge_firings(std::initializer_list<FiringNote> notes, bool at_most_once) {
  History history;
  for (const FiringNote& one : notes)
    history.add({Nanos(1), "p0", one.what, one.a, one.b, ""});
  std::string all;
  for (const std::string& fault : check_firings(history, at_most_once))
    all += fault + "; ";
  return all;
}

TEST(FiringsChecker, TakesWhatIsRight) {
  for (const bool once : {false, true}) {
    EXPECT_EQ(judge_firings({}, once), "");
    EXPECT_EQ(
        judge_firings(
            {{"begins", 5}, {"ended", 5}, {"begins", 6}, {"ended", 6}, {"success", 6}, {"success", 5}, {"settled", 6}},
            once),
        "");
  }
  EXPECT_EQ(judge_firings({{"begins", 5}, {"begins", 5, 2}, {"ended", 5}, {"success", 5}, {"settled", 5}}, false), "")
      << "its first runner has died";
  EXPECT_EQ(judge_firings({{"begins", 5}, {"ended", 5}, {"begins", 5, 2}, {"ended", 5}, {"settled", 5}}, false), "")
      << "it died before the record";
  EXPECT_EQ(judge_firings({{"ended", 5}, {"begins", 6}, {"ended", 7}, {"settled", 7}}, true), "")
      << "one of which nobody has heard the end";
}

TEST(FiringsChecker, RefusesWhatIsWrong) {
  for (const bool once : {false, true}) {
    EXPECT_NE(judge_firings({{"begins", 5}, {"begins", 5}, {"ended", 5}}, once), "") << "two processes run one firing";
    EXPECT_NE(judge_firings({{"begins", 5}, {"success", 5}}, once), "") << "success without an end";
    EXPECT_NE(judge_firings({{"ended", 5}, {"success", 5}, {"success", 5}}, once), "");
  }
  EXPECT_NE(judge_firings({{"begins", 5}, {"begins", 5, 2}}, true), "") << "twice";
  EXPECT_NE(judge_firings({{"ended", 5}, {"ended", 7}, {"settled", 7}}, false), "") << "6 is left out";
  EXPECT_NE(judge_firings({{"ended", 5}, {"begins", 6}, {"settled", 6}}, false), "");
}

}  // namespace
}  // namespace storm
