#include "zkclient/detail/requests/size_suspects.hpp"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using zkclient::detail::SizeSuspects;

const SizeSuspects::TimePoint now{std::chrono::hours(1)};

TEST(SizeSuspects, OnlyWhatCostTheConnectionTwiceAloneIsRefused) {
  SizeSuspects suspects;
  suspects.lost(5000, false, now, now);
  EXPECT_TRUE(suspects.is_suspect(5000, now));
  EXPECT_FALSE(suspects.is_suspect(5001, now));
  suspects.lost(5000, true, now, now);
  EXPECT_FALSE(suspects.is_refused(5000, now));
  suspects.lost(5000, false, now, now);
  EXPECT_FALSE(suspects.is_refused(5000, now)) << "something else was in flight";
  suspects.lost(5000, true, now, now);
  EXPECT_TRUE(suspects.is_refused(5000, now));
  EXPECT_TRUE(suspects.is_refused(5001, now)) << "no server takes more";
  EXPECT_FALSE(suspects.is_refused(4999, now));
}

TEST(SizeSuspects, AnAnswerClearsItsSizeAndTheSmallerOnes) {
  SizeSuspects suspects;
  for (const std::size_t bytes : {4000U, 5000U, 6000U})
    suspects.lost(bytes, true, now, now);
  suspects.answered(5000);
  EXPECT_FALSE(suspects.is_suspect(4000, now));
  EXPECT_FALSE(suspects.is_suspect(5000, now));
  EXPECT_TRUE(suspects.is_suspect(6000, now));
}

TEST(SizeSuspects, SmallOnesAndSlowOnesAreAboveSuspicion) {
  SizeSuspects suspects;
  suspects.lost(SizeSuspects::least_suspicious - 1, true, now, now);
  suspects.lost(5000, true, now - SizeSuspects::longest_flight - 1ms, now);
  EXPECT_TRUE(suspects.empty());
}

TEST(SizeSuspects, TheyForget) {
  SizeSuspects suspects;
  suspects.lost(5000, true, now, now);
  suspects.lost(5000, true, now, now);
  EXPECT_TRUE(suspects.is_refused(5000, now + SizeSuspects::memory));
  EXPECT_FALSE(suspects.is_refused(5000, now + SizeSuspects::memory + 1ms));
  EXPECT_TRUE(suspects.empty());
}

TEST(SizeSuspects, ManySizesCostNoMemory) {
  SizeSuspects suspects;
  for (std::size_t bytes = 2000; bytes < 4000; ++bytes)
    suspects.lost(bytes, true, now, now);
  EXPECT_FALSE(suspects.is_suspect(2000, now));
  EXPECT_TRUE(suspects.is_suspect(3999, now)) << "the largest ones stay";
}

}  // namespace
