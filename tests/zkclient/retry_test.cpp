#include <zkclient/retry.hpp>

#include <gtest/gtest.h>

namespace {

using zkclient::RetryPolicy;
using namespace std::chrono_literals;

constexpr auto plenty = std::chrono::milliseconds(1h);

TEST(RetryPolicyTest, GrowsExponentiallyUpToTheMaximum) {
  const RetryPolicy policy{.initial = 50ms, .max = 350ms, .multiplier = 2.0, .jitter = 0.0, .max_attempts = 10};
  EXPECT_EQ(policy.pause(1, plenty, 0.9), 50ms);
  EXPECT_EQ(policy.pause(2, plenty, 0.9), 100ms);
  EXPECT_EQ(policy.pause(3, plenty, 0.9), 200ms);
  EXPECT_EQ(policy.pause(4, plenty, 0.9), 350ms);
  EXPECT_EQ(policy.pause(9, plenty, 0.9), 350ms);
}

TEST(RetryPolicyTest, TheMaximumMayBeForEver) {
  constexpr auto for_ever = std::chrono::milliseconds::max();
  const RetryPolicy policy{.initial = for_ever, .max = for_ever, .jitter = 0.0, .max_attempts = 1000};
  for (const int attempt : {1, 2, 999}) {
    const auto pause = policy.pause(attempt, for_ever, 0.0);
    ASSERT_TRUE(pause);
    EXPECT_GE(*pause, 24h);
    EXPECT_LE(*pause, 366 * 24h) << "which can be added to a time";
  }
}

TEST(RetryPolicyTest, NoPauseStaysNoneHoweverOftenItIsMultiplied) {
  const RetryPolicy policy{.initial = 0ms, .jitter = 0.0, .max_attempts = 100'000};
  for (const int attempt : {1, 2, 2000, 99'999})
    EXPECT_EQ(policy.pause(attempt, plenty, 0.0), 0ms);
}

TEST(RetryPolicyTest, JitterOnlyShortensAndByNoMoreThanItsShare) {
  const RetryPolicy policy{.initial = 100ms, .max = 1000ms, .multiplier = 2.0, .jitter = 0.5, .max_attempts = 10};
  EXPECT_EQ(policy.pause(1, plenty, 0.0), 100ms);
  EXPECT_EQ(policy.pause(1, plenty, 0.5), 75ms);
  for (int attempt = 1; attempt < 10; ++attempt) {
    const auto whole = policy.pause(attempt, plenty, 0.0);
    ASSERT_TRUE(whole);
    for (const double random : {0.1, 0.3, 0.7, 0.999999}) {
      const auto pause = policy.pause(attempt, plenty, random);
      ASSERT_TRUE(pause);
      EXPECT_LE(*pause, *whole);
      EXPECT_GE(*pause, *whole / 2);
    }
  }
}

TEST(RetryPolicyTest, AttemptsAreABudget) {
  const RetryPolicy policy{.max_attempts = 3};
  EXPECT_TRUE(policy.pause(1, plenty, 0.0));
  EXPECT_TRUE(policy.pause(2, plenty, 0.0));
  EXPECT_FALSE(policy.pause(3, plenty, 0.0));
  EXPECT_FALSE(policy.pause(4, plenty, 0.0));
  EXPECT_FALSE((RetryPolicy{.max_attempts = 1}.pause(1, plenty, 0.0)));
  EXPECT_FALSE(policy.pause(0, plenty, 0.0));
  EXPECT_FALSE(policy.pause(-1, plenty, 0.0));
}

TEST(RetryPolicyTest, NoPauseReachesTheDeadline) {
  const RetryPolicy policy{.initial = 100ms, .jitter = 0.0};
  EXPECT_TRUE(policy.pause(1, 101ms, 0.0));
  EXPECT_FALSE(policy.pause(1, 100ms, 0.0));
  EXPECT_FALSE(policy.pause(1, 0ms, 0.0));
  EXPECT_FALSE(policy.pause(1, -5ms, 0.0));
}

TEST(RetryPolicyTest, OddPoliciesStayFinite) {
  const RetryPolicy shrinking{.initial = 100ms, .multiplier = 0.1, .jitter = 0.0};
  EXPECT_EQ(shrinking.pause(5, plenty, 0.0), 100ms);
  const RetryPolicy steep{.initial = 100ms, .max = 2000ms, .multiplier = 1e300, .jitter = 7.0, .max_attempts = 1000};
  EXPECT_EQ(steep.pause(999, plenty, 0.0), 2000ms);
  EXPECT_EQ(steep.pause(999, plenty, 0.5), 1000ms);
  const RetryPolicy none{.initial = 0ms, .max = 0ms};
  EXPECT_EQ(none.pause(1, plenty, 0.0), 0ms);
}

TEST(RetryPolicyTest, SameInputsGiveTheSamePause) {
  const RetryPolicy policy;
  EXPECT_EQ(policy.pause(4, plenty, 0.25), policy.pause(4, plenty, 0.25));
}

}  // namespace
