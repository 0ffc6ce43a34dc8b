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

// In nanoseconds most of these wrap round, to before now.
TEST(TimedCallTest, AnyUnitMayMeanForEver) {
  EXPECT_EQ(from_now(std::chrono::milliseconds::max()), for_ever);
  EXPECT_EQ(from_now(std::chrono::hours::max()), for_ever);
  EXPECT_EQ(after(now, std::chrono::milliseconds::max()), for_ever);
  EXPECT_EQ(after(for_ever, 1ns), for_ever);
  EXPECT_EQ(after(for_ever, 1ms), for_ever);
  EXPECT_EQ(after(for_ever - 1ms, 1ms), for_ever);
  EXPECT_EQ(after(for_ever - 2ms, 1ms), for_ever - 1ms);
  EXPECT_EQ(after(now, 0ms), now);
  EXPECT_EQ(after(now, 1ms), now + 1ms);
  EXPECT_EQ(after(now, -1ms), now - 1ms);
}

TEST(TimeoutTest, AnyDurationIsOne) {
  const auto time_of = [](Timeout timeout) { return timeout.get(); };
  EXPECT_EQ(time_of(5s), 5s);
  EXPECT_EQ(time_of(std::chrono::duration<double, std::milli>(0.5)), 500us);
  EXPECT_EQ(time_of(std::chrono::duration<double, std::nano>(0.5)), 1ns) << "not shorter than asked for";
  EXPECT_EQ(time_of(0ms), 0ns);
  EXPECT_EQ(time_of(-1ms), 0ns);
  EXPECT_EQ(time_of(std::chrono::milliseconds::min()), 0ns);
  EXPECT_EQ(time_of(std::chrono::nanoseconds::max()), std::chrono::nanoseconds::max());
  EXPECT_EQ(time_of(std::chrono::milliseconds::max()), std::chrono::nanoseconds::max());
  EXPECT_EQ(time_of(std::chrono::hours::max()), std::chrono::nanoseconds::max());
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
