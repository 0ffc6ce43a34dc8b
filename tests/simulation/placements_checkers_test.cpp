// The judge of placements must refuse histories that are wrong, and nothing else.

#include <gtest/gtest.h>

#include <string>

#include "storm/checkers/placements.hpp"

namespace storm {
namespace {

struct PlacementNote {
  const char* what = "";
  std::int64_t a = 0;
  std::int64_t b = 0;
  const char* text = "";
  const char* who = "p0";
};

const PlacementNote well_settled{"settled", 5, 3, "red p0:r0 p1:r1 p2:r2"};

std::string judge_placements(std::initializer_list<PlacementNote> notes) {
  History history;
  std::int64_t now = 0;
  for (const PlacementNote& one : notes)
    history.add({Nanos(++now), one.who, one.what, one.a, one.b, one.text});
  std::string all;
  for (const std::string& fault : check_placements(history, {.replicas = 3, .minimum = 3, .least_in_sync = 2}))
    all += fault + "; ";
  return all;
}

TEST(PlacementsChecker, TakesWhatIsRight) {
  EXPECT_EQ(judge_placements({well_settled}), "");
  EXPECT_EQ(judge_placements({{"settled", 2, 2, "red p0:r0 p1:r1"}}), "") << "there are no more hosts";
  EXPECT_EQ(judge_placements({{"settled", 3, 2, "red p0:r0 p1:r1 p3:r0"}}), "") << "nor more racks";
  EXPECT_EQ(judge_placements({{"took over", 1, 0, "red"},
                              {"acquired", 1, 0, "red"},
                              {"valid", 1, 0, "red"},
                              {"acknowledged", 7, 1, "red"},
                              {"given up", 3, 2, "red"},
                              {"calm"},
                              {"took over", 2, 0, "red 7", "p1"},
                              {"acquired", 2, 0, "red", "p1"},
                              {"acknowledged", 8, 2, "red", "p1"},
                              well_settled}),
            "");
  EXPECT_EQ(judge_placements({{"acquired", 1, 0, "red"},
                              {"acquired", 1, 0, "blue", "p1"},
                              {"valid", 1, 0, "red"},
                              {"valid", 1, 0, "blue", "p1"},
                              {"acknowledged", 7, 1, "red"},
                              {"took over", 1, 0, "blue 6", "p1"},
                              well_settled}),
            "")
      << "another partition";
}

TEST(PlacementsChecker, RefusesWhatIsWrong) {
  EXPECT_NE(judge_placements({}), "") << "nobody has looked";
  EXPECT_NE(judge_placements({well_settled, {"not settled", 0, 0, "one is missing"}}), "");
  EXPECT_NE(judge_placements({{"settled", 5, 3, "red p0:r0 p1:r1"}}), "") << "too few";
  EXPECT_NE(judge_placements({{"settled", 5, 3, "red p0:r0 p1:r1 p2:r2 p3:r0"}}), "") << "too many";
  EXPECT_NE(judge_placements({{"settled", 5, 3, "red p0:r0 p1:r1 p3:r0"}}), "") << "two on one rack";
  EXPECT_NE(judge_placements({{"given up", 2, 2, "red"}, well_settled}), "") << "below the minimum";
  EXPECT_NE(judge_placements({{"given up", 3, 1, "red"}, well_settled}), "") << "one disk alone has the last writes";
  EXPECT_NE(judge_placements({{"acquired", 1, 0, "red"},
                              {"acquired", 2, 0, "red", "p1"},
                              {"valid", 1, 0, "red"},
                              {"valid", 2, 0, "red", "p1"},
                              well_settled}),
            "")
      << "two primaries";
  EXPECT_NE(judge_placements({{"acknowledged", 7, 1, "red"}, {"took over", 2, 0, "red 6", "p1"}, well_settled}), "")
      << "a write is lost";
  EXPECT_NE(judge_placements({{"acknowledged", 7, 1, "red"},
                              {"acknowledged", 8, 1, "blue"},
                              {"calm"},
                              {"acknowledged", 9, 1, "red"},
                              well_settled}),
            "")
      << "one partition does not go on";
}

}  // namespace
}  // namespace storm
