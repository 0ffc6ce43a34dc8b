#include "zkclient/detail/connection/repeated_lines.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using zkclient::detail::RepeatedLines;
using Lines = std::vector<std::string>;

constexpr RepeatedLines::Clock::time_point start{1000h};

// As the C client writes them: a date, the process, the level, and the place in its source before the text.
std::string logged(const std::string& text, const std::string& level = "ERROR", int second = 0) {
  return "2026-01-01 10:00:0" + std::to_string(second) + ",000:17(0x7f00):ZOO_" + level + "@check_events@2985: " + text;
}

const std::string refusal_of_one = "Socket 10.0.0.1:2181 zk retcode=-4, errno=111(Connection refused): server refused";
const std::string closing_of_one =
    "Socket 10.0.0.1:2181 zk retcode=-4, errno=112(Host is down): failed while receiving";
const std::string refusal_of_another =
    "Socket 10.0.0.2:2181 zk retcode=-4, errno=111(Connection refused): server refused";

TEST(RepeatedLines, TheSameOfOneServerIsToldOnceAndThenItsNumber) {
  RepeatedLines repeated;
  EXPECT_EQ(repeated.add(logged(refusal_of_one), start), Lines{logged(refusal_of_one)});
  EXPECT_EQ(repeated.add(logged(refusal_of_another), start), Lines{logged(refusal_of_another)});
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(repeated.add(logged(refusal_of_one, "ERROR", i), start), Lines{});
    EXPECT_EQ(repeated.add(logged(refusal_of_another, "ERROR", i), start), Lines{})
        << "servers that take turns are no change";
  }
  EXPECT_EQ(repeated.add(logged(closing_of_one), start),
            (Lines{logged(refusal_of_one, "ERROR", 8) + " (9 more of these)", logged(closing_of_one)}));
  EXPECT_EQ(repeated.add(logged(refusal_of_one), start), (Lines{logged(refusal_of_one)}))
      << "the one before had not been repeated";
}

TEST(RepeatedLines, TheNumberIsToldOnceAMinute) {
  RepeatedLines repeated;
  repeated.add(logged(refusal_of_one), start);
  EXPECT_EQ(repeated.add(logged(refusal_of_one), start + 59s), Lines{});
  EXPECT_EQ(repeated.add(logged(refusal_of_one), start + 60s), Lines{logged(refusal_of_one) + " (2 more of these)"});
  EXPECT_EQ(repeated.add(logged(refusal_of_one), start + 119s), Lines{});
  EXPECT_EQ(repeated.add(logged(refusal_of_one), start + 120s), Lines{logged(refusal_of_one) + " (2 more of these)"});
}

TEST(RepeatedLines, AtTheEndTheNumbersAreToldAndEverythingIsNewAgain) {
  RepeatedLines repeated;
  repeated.add(logged(refusal_of_one), start);
  repeated.add(logged(refusal_of_another), start);
  repeated.add(logged(refusal_of_one), start);
  EXPECT_EQ(repeated.finish(), Lines{logged(refusal_of_one) + " (1 more of these)"});
  EXPECT_EQ(repeated.finish(), Lines{});
  EXPECT_EQ(repeated.add(logged(refusal_of_one), start), Lines{logged(refusal_of_one)});
}

TEST(RepeatedLines, MillisecondsAreNoDifference) {
  RepeatedLines repeated;
  EXPECT_EQ(repeated.add(logged("Exceeded deadline by 12ms\n", "WARN"), start).size(), 1U);
  EXPECT_EQ(repeated.add(logged("Exceeded deadline by 7ms\n", "WARN"), start), Lines{});
  EXPECT_EQ(repeated.finish(), Lines{logged("Exceeded deadline by 7ms (1 more of these)", "WARN")});
}

TEST(RepeatedLines, WhatIsNoTroubleIsToldEachTime) {
  RepeatedLines repeated;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(repeated.add(logged("Initiated connection", "INFO"), start),
              Lines{logged("Initiated connection", "INFO")});
}

TEST(RepeatedLines, TheirNumberIsBounded) {
  RepeatedLines repeated;
  std::size_t told = 0;
  for (int i = 0; i < 1000; ++i) {
    told += repeated.add(logged("odd " + std::to_string(i), "WARN"), start).size();
    told += repeated.add(logged("odd " + std::to_string(i), "WARN"), start).size();
  }
  told += repeated.finish().size();
  EXPECT_EQ(told, 2000U) << "each, and its number";
}

}  // namespace
