// The pauses before what failed is tried again: how they grow, and that they are not the same for all.

#include <chrono>
#include <set>

#include <gtest/gtest.h>

#include "recipes/kernel/growing_pause.hpp"

namespace zkrecipes::detail {
namespace {

using namespace std::chrono_literals;

TEST(GrowingPause, DoublesUpToItsBound) {
  GrowingPause pauses(20ms, 500ms);
  for (const auto most : {20ms, 40ms, 80ms, 160ms, 320ms, 500ms, 500ms}) {
    const auto pause = pauses.next();
    EXPECT_LE(pause, most);
    EXPECT_GE(pause, most / 2);
  }
}

TEST(GrowingPause, StaysAtItsBoundHoweverOften) {
  GrowingPause pauses(1ms, 500ms);
  for (int i = 0; i < 100; ++i)
    pauses.next();
  for (int i = 0; i < 100; ++i) {
    const auto pause = pauses.next();
    EXPECT_LE(pause, 500ms);
    EXPECT_GE(pause, 250ms);
  }
}

TEST(GrowingPause, BeginsAnewAfterASuccess) {
  GrowingPause pauses(20ms, 500ms);
  for (int i = 0; i < 10; ++i)
    pauses.next();
  pauses.reset();
  EXPECT_LE(pauses.next(), 20ms);
}

// Those who failed together do not come back together.
TEST(GrowingPause, IsNotTheSameForAll) {
  std::set<std::chrono::milliseconds> seen;
  for (int i = 0; i < 100; ++i)
    seen.insert(GrowingPause(1s, 1s).next());
  EXPECT_GT(seen.size(), 10U);
}

}  // namespace
}  // namespace zkrecipes::detail
