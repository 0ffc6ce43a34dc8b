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

using TimePoint = WritePace::Clock::time_point;
using Duration = WritePace::Duration;

constexpr Duration trip = milliseconds(1);
constexpr TimePoint begin{};

WritePace refused_times(unsigned times) {
  WritePace pace(1);
  for (unsigned i = 0; i < times; ++i)
    pace.refused(trip);
  return pace;
}

TEST(WritePace, OneWriterHardlyEverWaits) {
  WritePace pace(1);
  Duration sum{0};
  for (int version = 1; version <= 6400; ++version) {
    EXPECT_EQ(pace.pause(version - 1, begin), Duration::zero());
    pace.applied(trip / 4, version);
    sum += pace.make_way();
  }
  EXPECT_FALSE(pace.is_contended());
  EXPECT_LE(sum, 6400 * trip / 4 / 100);
}

TEST(WritePace, TriesAgainAtOnceAfterOneRefusal) {
  WritePace pace = refused_times(1);
  EXPECT_TRUE(pace.is_contended());
  EXPECT_EQ(pace.pause(7, begin), Duration::zero());
}

TEST(WritePace, MakesWayWhenItsTurnIsOver) {
  WritePace pace = refused_times(1);
  std::vector<int> ways;
  for (int version = 1; version <= 1024; ++version) {
    pace.applied(trip / 4, version);
    if (const Duration way = pace.make_way(); way > Duration::zero()) {
      EXPECT_EQ(way / trip, 0);
      ways.push_back(version);
    }
    EXPECT_EQ(pace.make_way(), Duration::zero()) << "once for each change";
  }
  EXPECT_EQ(ways, (std::vector<int>{64, 128, 192, 256, 512, 768, 1024})) << "less often when there are no others";
}

TEST(WritePace, SlowWritersMakeWayEachTime) {
  WritePace pace(1);
  int ways = 0;
  for (int version = 1; version <= 1024; ++version) {
    pace.applied(trip, version);
    ways += pace.make_way() == 2 * trip ? 1 : 0;
  }
  EXPECT_EQ(ways, 16);
}

TEST(WritePace, WhatChangesNothingEndsNoTurn) {
  WritePace pace(1);
  pace.applied(trip, 64);
  EXPECT_GT(pace.make_way(), Duration::zero());
  pace.applied(trip, 64);
  EXPECT_EQ(pace.make_way(), Duration::zero());
}

TEST(WritePace, WhoMadeWayForAnotherWaitsForTheNextTurn) {
  WritePace pace(1);
  pace.applied(trip, 64);
  EXPECT_GT(pace.make_way(), Duration::zero());
  EXPECT_GT(pace.pause(65, begin), Duration::zero());
  EXPECT_TRUE(pace.is_contended());
}

TEST(WritePace, WhoMadeWayForNobodyGoesOn) {
  WritePace pace(1);
  pace.applied(trip, 64);
  EXPECT_GT(pace.make_way(), Duration::zero());
  EXPECT_EQ(pace.pause(64, begin), Duration::zero());
}

TEST(WritePace, SleepsUntilTheTurnIsNearlyOverAndTries) {
  WritePace pace = refused_times(2);
  TimePoint now = begin;
  const auto version = [&] { return std::min(64, 1 + static_cast<int>((now - begin) / trip)); };
  int looks = 0;
  for (;; ++looks) {
    const Duration pause = pace.pause(version(), now);
    if (pause == Duration::zero()) break;
    now += pause + trip;
    ASSERT_LT(looks, 20);
  }
  EXPECT_EQ(version(), 64);
  EXPECT_LE(now - begin, 68 * trip);
  EXPECT_LE(looks, 10);
}

TEST(WritePace, TriesAtOnceWhereTheOthersTakeNoTurns) {
  WritePace pace = refused_times(2);
  const Duration pause = pace.pause(3, begin);
  EXPECT_GT(pause, Duration::zero());
  EXPECT_LE(pause, 4 * trip) << "nobody knows yet how fast the node changes";
  EXPECT_EQ(pace.pause(4, begin + 2 * trip), Duration::zero());
}

TEST(WritePace, TriesInTheEndThoughTheOthersAreTooFast) {
  WritePace pace = refused_times(2);
  TimePoint now = begin;
  int looks = 0;
  for (int version = 1; pace.pause(version, now) > Duration::zero(); version += 96) {
    now += trip;
    ASSERT_LT(++looks, 50);
  }
  EXPECT_GT(looks, 10);
}

TEST(WritePace, ANodeThatWasMadeAgainIsNoTrap) {
  WritePace pace = refused_times(2);
  EXPECT_GT(pace.pause(1'000'000, begin), Duration::zero());
  EXPECT_LE(pace.pause(3, begin + trip), milliseconds(250));
  EXPECT_EQ(pace.pause(3, begin + 10 * trip), Duration::zero());
}

TEST(WritePace, SlowTripsDoNotMakeItWaitForSeconds) {
  for (std::uint32_t seed = 1; seed < 1000; ++seed) {
    WritePace pace(seed);
    for (int i = 0; i < 50; ++i)
      pace.refused(std::chrono::seconds(10));
    EXPECT_LE(pace.pause(1, begin), milliseconds(250));
    EXPECT_LE(pace.pause(9, begin + milliseconds(500)), milliseconds(250));
  }
}

// A writer sends a request, which arrives half a trip later; its answer comes after another half. It knows the node from
// its own last change, or from a look. A foreign writer takes no turns: it looks, and tries.
struct Writer {
  explicit Writer(std::uint32_t seed, bool is_foreign) : pace(seed), foreign(is_foreign) {}

  WritePace pace;
  bool foreign;
  double sent = 0;     // In milliseconds, as all of them.
  double arrives = 0;  // At the server.
  bool looks = true;
  int knows = -1;
  int changes = 0;
  double longest_wait = 0;
  double last_change = 0;
};

struct Race {
  int number = 0;
  int transactions = 0;
  int looks = 0;
  double took = 0;
  std::vector<Writer> writers;

  double longest_wait() const {
    double longest = 0;
    for (const Writer& writer : writers)
      longest = std::max({longest, writer.longest_wait, took - writer.last_change});
    return longest;
  }
  int fewest() const {
    int least = number;
    for (const Writer& writer : writers)
      least = std::min(least, writer.changes);
    return least;
  }
};

Race race(int count, int foreign, std::uint32_t seed, double noise) {
  constexpr int changes = 10'000;
  std::mt19937 random(seed);
  std::exponential_distribution<double> delay(1.0);
  const auto half = [&] { return (1 - noise + noise * delay(random)) / 2; };
  const auto time = [](double milliseconds) {
    return begin + std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(milliseconds));
  };
  Race race;
  for (int i = 0; i < count; ++i) {
    race.writers.emplace_back(seed * 100 + static_cast<std::uint32_t>(i), i < foreign);
    race.writers.back().arrives = 0.01 * i;
  }
  while (race.number < changes) {
    const auto earlier = [](const Writer& a, const Writer& b) { return a.arrives < b.arrives; };
    Writer& writer = *std::min_element(race.writers.begin(), race.writers.end(), earlier);
    const double now = race.took = writer.arrives;
    const double answered = now + half();
    ++(writer.looks ? race.looks : race.transactions);
    const bool looked = std::exchange(writer.looks, false);
    const bool applied = !looked && writer.knows == race.number;
    if (applied) {
      ++race.number;
      ++writer.changes;
      writer.longest_wait = std::max(writer.longest_wait, now - writer.last_change);
      writer.last_change = now;
    }
    writer.knows = race.number;
    Duration pause{0};
    if (writer.foreign) {
      writer.looks = !looked;
    } else if (looked) {
      pause = writer.pace.pause(writer.knows, time(answered));
      writer.looks = pause > Duration::zero();
    } else {
      const Duration took = time(answered) - time(writer.sent);
      applied ? writer.pace.applied(took, writer.knows) : writer.pace.refused(took);
      pause = writer.pace.make_way();
      writer.looks = !applied || pause > Duration::zero();
    }
    writer.sent = answered + std::chrono::duration<double, std::milli>(pause).count();
    writer.arrives = writer.sent + half();
  }
  return race;
}

TEST(WritePace, ManyWritersCostFewAttemptsAndAllGetTheirTurn) {
  for (const double noise : {0.05, 0.3}) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
      const Race eight = race(8, 0, seed, noise);
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", noise " << noise);
      EXPECT_LT(eight.transactions, eight.number * 12 / 10);
      EXPECT_LT(eight.looks, eight.number);
      EXPECT_GT(eight.fewest(), eight.number / 8 / 2);
      EXPECT_LT(eight.longest_wait(), 2500);
      EXPECT_GT(eight.number, eight.took * 95 / 100) << "changes in a round trip";
    }
  }
}

TEST(WritePace, ANewcomerGetsItsTurnSoon) {
  for (const double noise : {0.05, 0.3}) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
      const Race two = race(2, 0, seed, noise);
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", noise " << noise);
      EXPECT_GT(two.fewest(), two.number / 2 * 8 / 10);
      EXPECT_LT(two.longest_wait(), 700);
      EXPECT_GT(two.number, two.took * 95 / 100) << "changes in a round trip";
    }
  }
}

TEST(WritePace, GoesOnBesideWritersThatTakeNoTurns) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Race four = race(4, 2, seed, 0.2);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    EXPECT_GT(four.fewest(), four.number / 4 / 3);
    EXPECT_LT(four.longest_wait(), 1500);
  }
}

}  // namespace
}  // namespace zkrecipes::detail
