#include "zkclient/detail/requests/size_suspects.hpp"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using zkclient::detail::SizeSuspects;

const SizeSuspects::TimePoint now{std::chrono::hours(1)};

TEST(SizeSuspects, OnlyWhatCostTheConnectionTwiceAloneIsRefused) {
  SizeSuspects suspects;
  suspects.lost(50000, false, now, now);
  EXPECT_TRUE(suspects.is_suspect(50000, now));
  EXPECT_FALSE(suspects.is_suspect(50001, now));
  suspects.lost(50000, true, now, now);
  EXPECT_FALSE(suspects.is_refused(50000, now));
  suspects.lost(50000, false, now, now);
  EXPECT_FALSE(suspects.is_refused(50000, now)) << "something else was in flight";
  suspects.lost(50000, true, now, now);
  EXPECT_TRUE(suspects.is_refused(50000, now));
  EXPECT_TRUE(suspects.is_refused(50001, now)) << "no server takes more";
  EXPECT_FALSE(suspects.is_refused(49999, now));
}

TEST(SizeSuspects, AnAnswerClearsItsSizeAndTheSmallerOnes) {
  SizeSuspects suspects;
  for (const std::size_t bytes : {40000U, 50000U, 60000U})
    suspects.lost(bytes, true, now, now);
  suspects.answered(50000);
  EXPECT_FALSE(suspects.is_suspect(40000, now));
  EXPECT_FALSE(suspects.is_suspect(50000, now));
  EXPECT_TRUE(suspects.is_suspect(60000, now));
}

TEST(SizeSuspects, SmallOnesAndSlowOnesAreAboveSuspicion) {
  SizeSuspects suspects;
  suspects.lost(SizeSuspects::least_suspicious - 1, true, now, now);
  suspects.lost(50000, true, now - SizeSuspects::at_once - 1ms, now);
  EXPECT_TRUE(suspects.empty());
  // A server that is far away needs longer.
  suspects.lost(50000, true, now - SizeSuspects::at_once - 1ms, now, SizeSuspects::at_once / 2);
  EXPECT_TRUE(suspects.is_suspect(50000, now));
}

TEST(SizeSuspects, TheyForget) {
  SizeSuspects suspects;
  suspects.lost(50000, true, now, now);
  suspects.lost(50000, true, now, now);
  EXPECT_TRUE(suspects.is_refused(50000, now + SizeSuspects::memory));
  EXPECT_FALSE(suspects.is_refused(50000, now + SizeSuspects::memory + 1ms));
  EXPECT_TRUE(suspects.empty());
}

TEST(SizeSuspects, ManySizesCostNoMemory) {
  SizeSuspects suspects;
  for (std::size_t bytes = 20000; bytes < 22000; ++bytes)
    suspects.lost(bytes, true, now, now);
  EXPECT_FALSE(suspects.is_suspect(20000, now));
  EXPECT_TRUE(suspects.is_suspect(21999, now)) << "the largest ones stay";
}

}  // namespace
