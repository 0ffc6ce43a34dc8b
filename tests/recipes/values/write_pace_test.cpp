#include "recipes/values/write_pace.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace zkrecipes::detail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds trip{1};

WritePace refused_times(unsigned times, std::uint32_t seed = 1) {
  WritePace pace(seed);
  for (unsigned i = 0; i < times; ++i)
    pace.refused(trip);
  return pace;
}

TEST(WritePace, OneWriterHardlyEverWaits) {
  WritePace pace(1);
  WritePace::Duration sum{0};
  for (int i = 0; i < 6400; ++i) {
    sum += pace.pause();
    pace.applied(trip);
  }
  EXPECT_FALSE(pace.is_contended());
  EXPECT_LE(sum, 6400 * trip / 30);
}

TEST(WritePace, TriesAgainAtOnceAfterOneRefusal) {
  WritePace pace = refused_times(1);
  EXPECT_TRUE(pace.is_contended());
  EXPECT_EQ(pace.pause(), WritePace::Duration::zero());
}

TEST(WritePace, WaitsForARandomTimeThatGrowsUpToABound) {
  for (const unsigned refusals : {2u, 3u, 4u, 5u, 6u, 50u}) {
    WritePace pace = refused_times(refusals);
    const WritePace::Duration most = trip * (1 << std::min(refusals, 5u));
    WritePace::Duration sum{0};
    WritePace::Duration longest{0};
    for (int i = 0; i < 1000; ++i) {
      const WritePace::Duration pause = pace.pause();
      EXPECT_GE(pause, WritePace::Duration::zero());
      EXPECT_LE(pause, most);
      sum += pause;
      longest = std::max(longest, pause);
    }
    EXPECT_GT(sum / 1000, most * 4 / 10);
    EXPECT_LT(sum / 1000, most * 6 / 10);
    EXPECT_GT(longest, most * 9 / 10);
  }
}

TEST(WritePace, SlowTripsDoNotMakeItWaitForSeconds) {
  WritePace pace(1);
  for (int i = 0; i < 50; ++i)
    pace.refused(std::chrono::seconds(10));
  for (int i = 0; i < 1000; ++i)
    EXPECT_LE(pace.pause(), milliseconds(320));
}

TEST(WritePace, MakesWayAfterSomeChangesWhileThereAreOthers) {
  WritePace pace = refused_times(3);
  int pauses = 0;
  for (int i = 0; i < 192; ++i) {
    pace.applied(trip);
    pauses += pace.pause() > WritePace::Duration::zero() ? 1 : 0;
  }
  EXPECT_EQ(pauses, 6);
  for (int i = 0; i < 1000; ++i)
    pace.applied(trip);  // There are no others any more.
  pauses = 0;
  for (int i = 0; i < 64; ++i) {
    pace.applied(trip);
    pauses += pace.pause() > WritePace::Duration::zero() ? 1 : 0;
  }
  EXPECT_EQ(pauses, 1);
}

// A writer that knows the number sends its transaction, which arrives half a trip later, and is applied if the number is
// the same still. Its answer comes after another half: what was applied, or the number as it was then. After a pause it
// reads the number first.
struct Writer {
  WritePace pace;
  double next = 0;  // When its request arrives.
  bool looks = true;
  int knows = -1;
  int changes = 0;
};

TEST(WritePace, ManyWritersCostFewAttemptsAndAllGetTheirTurn) {
  constexpr int writers = 8;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> jitter(0.9, 1.1);
    std::vector<Writer> all;
    for (int i = 0; i < writers; ++i)
      all.push_back({.pace = WritePace(seed * 100 + static_cast<std::uint32_t>(i)), .next = 0.01 * i});
    int number = 0;
    int requests = 0;
    while (number < 10000) {
      const auto earlier = [](const Writer& a, const Writer& b) { return a.next < b.next; };
      Writer& writer = *std::min_element(all.begin(), all.end(), earlier);
      ++requests;
      if (!writer.looks) {
        const bool applied = writer.knows == number;
        number += applied ? 1 : 0;
        writer.changes += applied ? 1 : 0;
        applied ? writer.pace.applied(trip) : writer.pace.refused(trip);
      }
      const bool looked = std::exchange(writer.looks, false);
      writer.knows = number;
      const auto pause = looked ? WritePace::Duration::zero() : writer.pace.pause();
      writer.looks = pause > WritePace::Duration::zero();
      writer.next += jitter(random) + std::chrono::duration<double, std::milli>(pause).count();
    }
    int fewest = number;
    double now = 0;
    for (const Writer& writer : all) {
      fewest = std::min(fewest, writer.changes);
      now = std::max(now, writer.next);
    }
    EXPECT_LT(requests, 3 * number) << "seed " << seed;
    EXPECT_GT(fewest, number / writers / 2) << "seed " << seed;
    EXPECT_GT(number, now * 8 / 10) << "changes in a round trip; seed " << seed;
  }
}

}  // namespace
}  // namespace zkrecipes::detail
