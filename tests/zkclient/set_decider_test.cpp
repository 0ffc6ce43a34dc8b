#include "zkclient/detail/requests/set_decider.hpp"

#include <gtest/gtest.h>

#include <limits>

#include <zkclient/reconfig.hpp>

namespace {

using zkclient::parse_ensemble_config;
using zkclient::Stat;
using zkclient::detail::decide_set;
using zkclient::detail::SetOutcome;

Stat stat(std::int64_t czxid, std::int32_t version) {
  Stat result;
  result.czxid = czxid;
  result.version = version;
  return result;
}

TEST(SetDeciderTest, OurDataUnderTheNextVersionWasWrittenByUs) {
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 4), "ours", false), SetOutcome::applied);
}

TEST(SetDeciderTest, TheVersionAfterTheHighestIsTheLowest) {
  constexpr auto highest = std::numeric_limits<std::int32_t>::max();
  constexpr auto lowest = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(decide_set(stat(7, highest), "ours", stat(7, lowest), "ours", false), SetOutcome::applied);
}

TEST(SetDeciderTest, TheSameVersionWasNotWritten) {
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 3), "old", false), SetOutcome::not_applied);
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 3), "ours", false), SetOutcome::not_applied);
}

TEST(SetDeciderTest, OtherDataUnderTheNextVersionExcludesOurs) {
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 4), "theirs", false), SetOutcome::superseded);
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 4), "", false), SetOutcome::superseded);
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 4), "", true), SetOutcome::superseded);
}

TEST(SetDeciderTest, LaterVersionsHideWhetherItHappened) {
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 5), "theirs", false), SetOutcome::unknown);
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 5), "ours", false), SetOutcome::unknown);
  EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(7, 0), "ours", false), SetOutcome::unknown);
}

TEST(SetDeciderTest, AnotherNodeAtThePathTellsNothing) {
  for (const int version : {0, 3, 4, 5})
    EXPECT_EQ(decide_set(stat(7, 3), "ours", stat(8, version), "ours", false), SetOutcome::unknown) << version;
}

TEST(EnsembleConfigTest, ReadsMembersAndVersion) {
  const auto config = parse_ensemble_config(
      "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:observer;0.0.0.0:3\nversion=1000000a0");
  ASSERT_EQ(config.members.size(), 2u);
  EXPECT_EQ(config.members[1], "server.2=b:1:2:observer;0.0.0.0:3");
  EXPECT_EQ(config.version, 0x1000000a0);
}

TEST(EnsembleConfigTest, LeavesOutWhatItDoesNotUnderstand) {
  EXPECT_EQ(parse_ensemble_config("").version, -1);
  EXPECT_EQ(parse_ensemble_config("").members.size(), 0u);
  for (const char* text :
       {"version=", "version=xyz", "version=1z", "version=ffffffffffffffffff", "\n\n=\n", "weight.1=1"})
    EXPECT_EQ(parse_ensemble_config(text).version, -1) << text;
  const auto config = parse_ensemble_config("group.1=1:2\nserver.1=x\n");
  EXPECT_EQ(config.members.size(), 1u);
  EXPECT_EQ(config.text, "group.1=1:2\nserver.1=x\n");
}

}  // namespace
