#include "recipes/values/shared_value_decider.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {
namespace {

using zkclient::Errc;

SharedValueRequest storing(std::string data) { return {SharedValueRequest::Kind::set, std::move(data), {}}; }
SharedValueRequest replacing(ValueVersion expected, std::string data) {
  return {SharedValueRequest::Kind::compare_set, std::move(data), expected};
}
constexpr ValueVersion nothing_there;

TEST(SharedValueDecider, WhatIsNotThereIsMade) {
  for (const SharedValueRequest& request : {storing("x"), replacing(nothing_there, "x")}) {
    const SharedValueStep step = decide_shared_value(nothing_there, request);
    EXPECT_EQ(step.write, ValueWrite::create);
    EXPECT_EQ(step.data, "x");
    EXPECT_TRUE(step.answers.front().matched);
    EXPECT_FALSE(step.answers.front().error);
  }
}

TEST(SharedValueDecider, WhatIsThereIsReplacedOnConditionOfItsVersion) {
  for (const std::int32_t version :
       {0, 1, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min(), -3}) {
    const ValueVersion present{7, version};
    for (const SharedValueRequest& request : {storing("x"), replacing(present, "x")}) {
      const SharedValueStep step = decide_shared_value(present, request);
      EXPECT_EQ(step.write, ValueWrite::set) << version;
      EXPECT_EQ(step.data, "x");
      EXPECT_TRUE(step.answers.front().matched);
    }
  }
}

// Also if the versions of two nodes are equal.
TEST(SharedValueDecider, AnotherVersionIsConfirmedAndNotWritten) {
  const ValueVersion present{7, 2};
  for (const ValueVersion& expected : {ValueVersion{7, 1}, ValueVersion{7, 3}, ValueVersion{6, 2}, nothing_there}) {
    const SharedValueStep step = decide_shared_value(present, replacing(expected, "x"));
    EXPECT_EQ(step.write, ValueWrite::check);
    EXPECT_FALSE(step.answers.front().matched);
    EXPECT_FALSE(step.answers.front().error);
  }
  const SharedValueStep step = decide_shared_value(nothing_there, replacing(present, "x"));
  EXPECT_EQ(step.write, ValueWrite::check_absent);
  EXPECT_FALSE(step.answers.front().matched);
}

// Its caller looks again anyway.
TEST(SharedValueDecider, ASwapWithAnotherVersionAsksNobody) {
  const ValueVersion present{7, 2};
  for (const ValueVersion& now : {present, nothing_there}) {
    const SharedValueStep step = decide_shared_value(now, {SharedValueRequest::Kind::swap, "x", ValueVersion{7, 1}});
    EXPECT_EQ(step.write, ValueWrite::nothing);
    EXPECT_FALSE(step.answers.front().matched);
    EXPECT_FALSE(step.answers.front().error);
  }
  const SharedValueStep step = decide_shared_value(present, {SharedValueRequest::Kind::swap, "x", present});
  EXPECT_EQ(step.write, ValueWrite::set);
  EXPECT_TRUE(step.answers.front().matched);
}

TEST(SharedValueDecider, ARefusalTellsOfAnotherVersion) {
  for (const ValueWrite write : {ValueWrite::set, ValueWrite::set_twice}) {
    EXPECT_TRUE(tells_of_another_version(write, zk::rc::bad_version));
    EXPECT_TRUE(tells_of_another_version(write, zk::rc::no_node));
    EXPECT_FALSE(tells_of_another_version(write, zk::rc::node_exists));
  }
  EXPECT_TRUE(tells_of_another_version(ValueWrite::create, zk::rc::node_exists));
  EXPECT_FALSE(tells_of_another_version(ValueWrite::create, zk::rc::no_node)) << "its parent is missing";
  for (const ValueWrite write : {ValueWrite::check, ValueWrite::check_absent})  // The other way round.
    EXPECT_FALSE(tells_of_another_version(write, zk::rc::bad_version));
}

TEST(SharedValueDecider, MinusOneIsSkippedAndIsNoCondition) {
  const ValueVersion last{7, -2};
  EXPECT_EQ(decide_shared_value(last, storing("x")).write, ValueWrite::set_twice);
  EXPECT_EQ(decide_shared_value(last, replacing(last, "x")).write, ValueWrite::set_twice);
  EXPECT_EQ(decide_shared_value(last, replacing({7, -3}, "x")).write, ValueWrite::check);
  const ValueVersion any{7, -1};
  EXPECT_EQ(decide_shared_value(any, storing("x")).write, ValueWrite::set_always);
  for (const ValueVersion& expected : {any, ValueVersion{7, 0}, nothing_there}) {
    const SharedValueStep step = decide_shared_value(any, replacing(expected, "x"));
    EXPECT_EQ(step.write, ValueWrite::nothing);
    EXPECT_EQ(step.answers.front().error, Errc::bad_version);
  }
}

}  // namespace
}  // namespace zkrecipes::detail
