#include "recipes/values/latch_decider.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <zkclient/types.hpp>

namespace zkrecipes::detail {
namespace {

using zkclient::Errc;

LatchView latch_at(std::int64_t generation, std::int64_t count, std::int64_t left) {
  return {true, LatchRecord{generation, count, left}, 7};
}

TEST(LatchDecider, TheRecordIsReadAsItIsWritten) {
  const LatchRecord record{3, 5, 2};
  EXPECT_EQ(encode_latch(record), "generation=3 count=5 left=2");
  EXPECT_EQ(decode_latch(encode_latch(record)), record);
  EXPECT_EQ(decode_latch(""), LatchRecord());
}

TEST(LatchDecider, NoOtherDataIsALatch) {
  for (const char* data : {"x", "generation=1 count=3", "generation=1 count=3 left=2 ", "generation=1  count=3 left=2",
                           "generation=0 count=3 left=2", "generation=1 count=0 left=0", "generation=1 count=3 left=4",
                           "generation=1 count=3 left=-1", "generation=99999999999999999999 count=3 left=2",
                           "generation=+1 count=3 left=2"}) {
    EXPECT_FALSE(decode_latch(data)) << data;
  }
}

// All small nodes, uses and counts, against what the header says in words.
TEST(LatchDecider, EveryCountOfEverySmallLatch) {
  for (std::int64_t generation = 1; generation <= 3; ++generation) {
    for (std::int64_t left = 0; left <= 2; ++left) {
      for (std::int64_t own = 1; own <= 3; ++own) {
        for (std::int64_t by = 1; by <= 3; ++by) {
          const LatchView view = latch_at(generation, 2, left);
          const LatchStep step = decide_latch(view, {by}, {own, 2});
          const LatchAnswer& answer = step.answers.at(0);
          const std::int64_t before = own == generation ? left : 2;
          if (own > generation + 1 || (own > generation && left > 0)) {
            EXPECT_EQ(answer.error, Errc::not_available);
            EXPECT_EQ(step.write, ValueWrite::check);
          } else if (own < generation || before == 0) {
            EXPECT_EQ(answer.left, 0);
            EXPECT_EQ(step.write, ValueWrite::check) << "nothing changes";
          } else {
            EXPECT_EQ(answer.left, by > before ? 0 : before - by);
            EXPECT_EQ(step.write, ValueWrite::set);
            EXPECT_EQ(step.record, (LatchRecord{own, 2, answer.left}));
          }
        }
      }
    }
  }
}

// Waiters of a generation that is left out would pass although nobody has counted it.
TEST(LatchDecider, NoGenerationIsLeftOut) {
  const auto refusal_of = [](const LatchView& view, std::int64_t generation) {
    const LatchStep step = decide_latch(view, {1}, {generation, 5});
    EXPECT_EQ(step.answers.at(0).error, Errc::not_available);
    EXPECT_EQ(step.record, *view.record);
    return step.answers.at(0).why;
  };
  const LatchView missing;
  const LatchView empty{true, decode_latch(""), 0};
  EXPECT_EQ(refusal_of(missing, 2), "no generation has begun: generation 2 begins when generation 1 is open");
  EXPECT_EQ(refusal_of(empty, 3), "no generation has begun: generation 3 begins when generation 2 is open");
  EXPECT_EQ(refusal_of(latch_at(1, 1, 0), 3),
            "generation 1 is open, and the next one has not begun: generation 3 begins when generation 2 is open");
  EXPECT_EQ(refusal_of(latch_at(1, 3, 2), 3),
            "generation 1 is not open, and 2 are left of it: generation 3 begins when generation 2 is open");
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(decide_latch(latch_at(most - 1, 1, 0), {1}, {most, 5}).answers.at(0).left, 4);
}

TEST(LatchDecider, CallsShareATransaction) {
  const LatchStep step = decide_latch({}, {1, 1, 5}, {1, 4});
  EXPECT_EQ(step.write, ValueWrite::create);
  EXPECT_EQ(step.record, (LatchRecord{1, 4, 0}));
  ASSERT_EQ(step.answers.size(), 3U);
  EXPECT_EQ(step.answers[0].left, 3);
  EXPECT_EQ(step.answers[1].left, 2);
  EXPECT_EQ(step.answers[2].left, 0);
}

TEST(LatchDecider, NothingOverflows) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(decide_latch({}, {most, most}, {1, most}).answers[1].left, 0);
  EXPECT_EQ(decide_latch({}, {1}, {1, most}).answers[0].left, most - 1);
}

TEST(LatchDecider, AnotherCountIsNamed) {
  const LatchStep step = decide_latch(latch_at(1, 3, 2), {1}, {1, 4});
  EXPECT_EQ(step.answers[0].error, Errc::invalid_argument);
  EXPECT_EQ(step.answers[0].why, "this generation was begun with a count of 3, not of 4");
  EXPECT_EQ(step.write, ValueWrite::check);
  EXPECT_EQ(decide_latch(latch_at(1, 3, 0), {1}, {2, 4}).answers[0].left, 3) << "the next one may have its own";
}

TEST(LatchDecider, WhatIsNoLatchIsLeftAlone) {
  const LatchStep step = decide_latch({true, decode_latch("text"), 0}, {1}, {1, 4});
  EXPECT_EQ(step.answers[0].error, Errc::foreign_node);
  EXPECT_EQ(step.write, ValueWrite::check);
}

TEST(LatchDecider, VersionsThatMeanAny) {
  LatchView view = latch_at(1, 3, 2);
  view.version = zkclient::any_version - 1;
  EXPECT_EQ(decide_latch(view, {1}, {1, 3}).write, ValueWrite::set_twice) << "-1 is skipped";
  view.version = zkclient::any_version;
  const LatchStep step = decide_latch(view, {1}, {1, 3});
  EXPECT_EQ(step.write, ValueWrite::nothing);
  EXPECT_EQ(step.answers[0].error, Errc::bad_version);
}

}  // namespace
}  // namespace zkrecipes::detail
