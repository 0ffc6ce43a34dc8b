#include "recipes/kernel/timed.hpp"

#include <gtest/gtest.h>

namespace zkrecipes::detail {
namespace {

using namespace std::chrono_literals;

const auto now = std::chrono::steady_clock::time_point(1h);  // Long past for the clock itself.

TEST(TimedCallTest, ADeadlineThatPassesInTheNextMomentIsStillOne) {
  const TimedCall timed = timed_call(now + 1ns, {}, now);
  EXPECT_FALSE(timed.once);
  EXPECT_EQ(timed.limits.deadline, now + 1ns);
}

TEST(TimedCallTest, ATimeThatIsOverMeansOnce) {
  for (const auto ago : {0ns, 1ns}) {
    const TimedCall timed = timed_call(now - ago, {}, now);
    EXPECT_TRUE(timed.once);
    EXPECT_FALSE(timed.limits.deadline.has_value()) << "the operation timeout of the client";
  }
}

TEST(TimedCallTest, ForEverIsNoDeadline) {
  EXPECT_EQ(from_now(std::chrono::nanoseconds::max()), for_ever);
  const TimedCall timed = timed_call(for_ever, {}, now);
  EXPECT_FALSE(timed.once);
  EXPECT_FALSE(timed.limits.deadline.has_value());
}

TEST(TimedCallTest, TheStopTokenIsPassedOn) {
  std::stop_source stop;
  for (const auto deadline : {now, now + 1s, for_ever}) {
    const TimedCall timed = timed_call(deadline, stop.get_token(), now);
    EXPECT_EQ(static_cast<const std::stop_token&>(timed.limits.stop), stop.get_token());
  }
}

}  // namespace
}  // namespace zkrecipes::detail
