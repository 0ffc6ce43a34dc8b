#include "recipes/values/write_pace.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>
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
    pace.refused(trip, begin);
  return pace;
}

// The pause before the next change.
Duration change(WritePace& pace, int version, Duration took = trip) {
  pace.applied(took, begin);
  pace.changed(version);
  return pace.make_way(begin);
}

TEST(WritePace, OneWriterHardlyEverWaits) {
  WritePace pace(1);
  Duration sum{0};
  for (int version = 1; version <= 6400; ++version) {
    EXPECT_EQ(pace.pause(version - 1, begin), Duration::zero());
    sum += change(pace, version, trip / 4);
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
  WritePace pace(1);
  pace.refused(trip / 4, begin);
  std::vector<int> ways;
  for (int version = 1; version <= 1024; ++version) {
    const Duration way = change(pace, version, trip / 4);
    if (way == Duration::zero()) continue;
    EXPECT_EQ(way, version < 256 ? trip : trip / 2);
    ways.push_back(version);
    EXPECT_EQ(pace.make_way(begin), Duration::zero()) << "once for each change";
  }
  EXPECT_EQ(ways, (std::vector<int>{64, 128, 192, 256, 512, 768, 1024})) << "less often when there are no others";
}

TEST(WritePace, SlowWritersMakeWayEachTime) {
  WritePace pace(1);
  int ways = 0;
  for (int version = 1; version <= 1024; ++version)
    ways += change(pace, version) == 2 * trip ? 1 : 0;
  EXPECT_EQ(ways, 16);
}

TEST(WritePace, WhatChangesNothingEndsNoTurn) {
  WritePace pace(1);
  EXPECT_EQ(change(pace, 63), Duration::zero());
  pace.applied(trip, begin);
  EXPECT_EQ(pace.make_way(begin), Duration::zero());
  EXPECT_GT(change(pace, 64), Duration::zero());
}

TEST(WritePace, TheWayIsOpenFromTheChangeOn) {
  WritePace pace(1);
  pace.applied(trip, begin);
  pace.changed(64);
  EXPECT_EQ(pace.make_way(begin + trip / 2), trip * 3 / 2);
  pace.applied(trip, begin);
  pace.changed(128);
  EXPECT_EQ(pace.make_way(begin + 3 * trip), Duration::zero());
  EXPECT_EQ(pace.pause(130, begin + 4 * trip), Duration::zero()) << "it has given nothing away";
}

TEST(WritePace, WhoMadeWayForAnotherWaitsForTheNextTurn) {
  WritePace pace(1);
  EXPECT_GT(change(pace, 64), Duration::zero());
  EXPECT_GT(pace.pause(65, begin), Duration::zero());
  EXPECT_TRUE(pace.is_contended());
}

TEST(WritePace, WhoMadeWayForNobodyGoesOn) {
  WritePace pace(1);
  EXPECT_GT(change(pace, 64), Duration::zero());
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

TEST(WritePace, AsksWhoWritesBeforeItWaitsForATurn) {
  EXPECT_FALSE(refused_times(1).asks_who_writes(begin + milliseconds(1)));
  for (const bool foreign : {false, true}) {
    WritePace pace = refused_times(2);
    EXPECT_TRUE(pace.asks_who_writes(begin + milliseconds(1)));
    pace.told_who_writes(foreign, begin + milliseconds(1));
    EXPECT_EQ(pace.takes_no_turns(), foreign);
    EXPECT_EQ(pace.pause(3, begin + milliseconds(1)) == Duration::zero(), foreign);
    EXPECT_FALSE(pace.asks_who_writes(begin + milliseconds(400)));
    EXPECT_EQ(pace.asks_who_writes(begin + milliseconds(600)), !foreign);
    EXPECT_TRUE(pace.asks_who_writes(begin + milliseconds(2100)));
  }
}

TEST(WritePace, AsksLessOftenWhenItWasAnsweredThatNobodyElseWrites) {
  for (const Duration round_trip : {trip, 10 * trip}) {
    WritePace pace(1);
    for (int i = 0; i < 100; ++i)
      pace.refused(round_trip, begin);
    TimePoint now = begin;
    for (const int units : {1, 2, 4, 8, 8}) {
      EXPECT_TRUE(pace.asks_who_writes(now));
      pace.told_who_writes(false, now);
      const Duration rest = units * std::max<Duration>(milliseconds(500), 256 * round_trip);
      EXPECT_FALSE(pace.asks_who_writes(now + rest - milliseconds(1)));
      now += rest;
    }
    pace.told_who_writes(true, now);
    pace.told_who_writes(false, now);
    EXPECT_TRUE(pace.asks_who_writes(now + milliseconds(3000)));
  }
}

TEST(WritePace, MakesWayForOtherLibrariesWhenItIsNoLongerBehind) {
  WritePace pace = refused_times(2);
  EXPECT_EQ(change(pace, 1), Duration::zero());
  pace.told_who_writes(true, begin);
  for (int version = 12; version <= 20; ++version)
    EXPECT_EQ(change(pace, version), Duration::zero()) << "others have written 2 to 11";
  EXPECT_EQ(change(pace, 21), 4 * trip);
  EXPECT_EQ(pace.pause(24, begin), Duration::zero()) << "it tries at once";
  EXPECT_EQ(change(pace, 25), Duration::zero());
  EXPECT_EQ(change(pace, 26), Duration::zero());
  EXPECT_GT(change(pace, 27), Duration::zero());
  EXPECT_EQ(pace.pause(27, begin), Duration::zero());
  EXPECT_FALSE(pace.takes_no_turns()) << "nobody has come";
  EXPECT_EQ(change(pace, 28), Duration::zero());
}

TEST(WritePace, EachFourthAttemptComesAtARandomTime) {
  for (const unsigned refusals : {3u, 7u, 51u}) {
    const Duration most = trip * (1 << std::min(refusals, 5u));
    Duration sum{0};
    Duration longest{0};
    for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
      WritePace pace(seed * 7919);
      for (unsigned i = 0; i < refusals; ++i)
        pace.refused(trip, begin);
      const Duration pause = pace.pause(7, begin);
      EXPECT_LE(pause, most);
      sum += pause;
      longest = std::max(longest, pause);
      EXPECT_EQ(pace.pause(8, begin + pause), Duration::zero()) << "it looks once";
    }
    EXPECT_GT(sum / 1000, most * 4 / 10);
    EXPECT_LT(sum / 1000, most * 6 / 10);
    EXPECT_GT(longest, most * 9 / 10);
  }
  for (const unsigned refusals : {2u, 4u, 5u, 6u, 8u}) {
    WritePace pace = refused_times(refusals);
    EXPECT_GT(pace.pause(7, begin), Duration::zero());
    EXPECT_GT(pace.pause(8, begin + trip), Duration::zero()) << "it waits for the end of the turn";
  }
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

TEST(WritePace, AContentionThatIsOverIsForgotten) {
  for (const milliseconds idle : {milliseconds(400), milliseconds(600)}) {
    const bool over = idle > milliseconds(500);
    WritePace pace = refused_times(2);
    EXPECT_GT(pace.pause(7, begin), Duration::zero());
    EXPECT_EQ(pace.make_way(begin + idle), Duration::zero());
    EXPECT_EQ(pace.is_contended(), !over);
    EXPECT_EQ(pace.pause(7 + 400, begin + idle) == Duration::zero(), over);
  }
  WritePace holder(1);
  holder.applied(trip, begin);
  holder.changed(64);
  EXPECT_EQ(holder.make_way(begin + std::chrono::hours(5)), Duration::zero()) << "the way was open all the time";
  EXPECT_EQ(holder.pause(70, begin + std::chrono::hours(5)), Duration::zero());
}

TEST(WritePace, OneSlowTripHardlyCounts) {
  WritePace pace(1);
  for (int i = 0; i < 10; ++i)
    pace.applied(trip, begin);
  pace.applied(std::chrono::seconds(1), begin);
  pace.changed(64);
  EXPECT_LT(pace.make_way(begin), 3 * trip);
}

TEST(WritePace, SlowTripsDoNotMakeItWaitForSeconds) {
  for (const int refusals : {50, 51}) {
    for (std::uint32_t seed = 1; seed < 1000; ++seed) {
      WritePace pace(seed);
      for (int i = 0; i < refusals; ++i)
        pace.refused(std::chrono::seconds(10), begin);
      EXPECT_LE(pace.pause(1, begin), milliseconds(250));
      EXPECT_LE(pace.pause(9, begin + milliseconds(500)), milliseconds(250));
    }
  }
}

// A writer sends a request, which arrives half a trip later; its answer comes after another half. It knows the node
// from its own last change, or from a look. A foreign writer takes no turns: it looks, and tries. A quick one looks only
// when it was refused.
struct WriterKind {
  bool foreign = false;
  bool quick = false;
  double trip = 1;  // In milliseconds, as all times here.
};

struct Writer {
  Writer(std::uint32_t seed, WriterKind its_kind) : pace(seed), kind(its_kind) {}

  WritePace pace;
  WriterKind kind;
  double sent = 0;
  double arrives = 0;  // At the server.
  bool looks = true;
  int knows = -1;
  int changes = 0;
  int questions = 0;
  double longest_wait = 0;
  double last_change = 0;
};

struct Race {
  int number = 0;
  bool foreign = false;  // The last change.
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
  // Of fair shares.
  double least_share() const {
    int least = number;
    for (const Writer& writer : writers)
      least = std::min(least, writer.changes);
    return static_cast<double>(least) * static_cast<double>(writers.size()) / number;
  }
};

Race race(const std::vector<WriterKind>& kinds, std::uint32_t seed, double noise) {
  constexpr int changes = 10'000;
  std::mt19937 random(seed);
  std::exponential_distribution<double> delay(1.0);
  const auto half = [&](const Writer& writer) { return writer.kind.trip * (1 - noise + noise * delay(random)) / 2; };
  const auto time = [](double at) {
    return begin + std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(at));
  };
  Race race;
  for (const WriterKind& kind : kinds) {
    const std::size_t i = race.writers.size();
    race.writers.emplace_back(seed * 100 + static_cast<std::uint32_t>(i), kind);
    race.writers.back().arrives = 0.01 * static_cast<double>(i);
  }
  while (race.number < changes) {
    const auto earlier = [](const Writer& a, const Writer& b) { return a.arrives < b.arrives; };
    Writer& writer = *std::min_element(race.writers.begin(), race.writers.end(), earlier);
    const double now = race.took = writer.arrives;
    const double answered = now + half(writer);
    ++(writer.looks ? race.looks : race.transactions);
    const bool looked = std::exchange(writer.looks, false);
    const bool applied = !looked && writer.knows == race.number;
    if (applied) {
      ++race.number;
      race.foreign = writer.kind.foreign;
      ++writer.changes;
      writer.longest_wait = std::max(writer.longest_wait, now - writer.last_change);
      writer.last_change = now;
    }
    writer.knows = race.number;
    Duration pause{0};
    if (writer.kind.foreign) {
      writer.looks = !looked && !(applied && writer.kind.quick);
    } else if (looked && writer.pace.asks_who_writes(time(answered))) {
      ++writer.questions;
      writer.pace.told_who_writes(race.foreign, time(answered));
      pause = 2 * std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(writer.kind.trip));
      writer.looks = true;
    } else if (looked) {
      pause = writer.pace.pause(writer.knows, time(answered));
      writer.looks = pause > Duration::zero();
    } else {
      const TimePoint end = time(answered);
      const Duration took = end - time(writer.sent);
      applied ? writer.pace.applied(took, end) : writer.pace.refused(took, end);
      if (applied) writer.pace.changed(writer.knows);
      pause = writer.pace.make_way(end);
      const bool told = !applied && writer.pace.takes_no_turns();  // By a read behind the attempt.
      if (told) pause = writer.pace.pause(writer.knows, end);
      writer.looks = (!applied && !told) || pause > Duration::zero();
    }
    writer.sent = answered + std::chrono::duration<double, std::milli>(pause).count();
    writer.arrives = writer.sent + half(writer);
  }
  return race;
}

constexpr WriterKind ours;
constexpr WriterKind foreign{.foreign = true};
constexpr WriterKind quick{.foreign = true, .quick = true};

class WriteRace : public ::testing::TestWithParam<std::tuple<double, std::uint32_t>> {
 protected:
  Race run(const std::vector<WriterKind>& kinds) const {
    return race(kinds, std::get<std::uint32_t>(GetParam()), std::get<double>(GetParam()));
  }
};

TEST_P(WriteRace, ManyWritersCostFewAttemptsAndAllGetTheirTurn) {
  const Race eight = run(std::vector<WriterKind>(8));
  EXPECT_LT(eight.transactions, eight.number * 13 / 10);
  EXPECT_LT(eight.looks, eight.number);
  EXPECT_GT(eight.least_share(), 0.5);
  EXPECT_LT(eight.longest_wait(), 2500);
  EXPECT_GT(eight.number, eight.took * 95 / 100) << "changes in a round trip";
}

TEST_P(WriteRace, OfTwoEachGetsItsTurnSoon) {
  const Race two = run({ours, ours});
  EXPECT_GT(two.least_share(), 0.8);
  EXPECT_LT(two.longest_wait(), 700);
  EXPECT_GT(two.number, two.took * 93 / 100) << "changes in a round trip";
}

TEST_P(WriteRace, AWriterWithLongerTripsGetsSomeTurns) {
  const Race two = run({ours, {.trip = 1.5}});
  EXPECT_GT(two.least_share(), 0.5);
}

TEST_P(WriteRace, GoesOnBesideWritersThatTakeNoTurns) {
  const Race two = run({foreign, ours});
  EXPECT_GT(two.least_share(), 0.25);
  const Race four = run({foreign, foreign, ours, ours});
  EXPECT_GT(four.least_share(), 0.2);
  const Race five = run({foreign, foreign, foreign, foreign, ours});
  EXPECT_GT(five.least_share(), 0.25);
}

TEST_P(WriteRace, SharesWithWritersThatNeedOneTrip) {
  const Race two = run({quick, ours});
  EXPECT_GT(two.least_share(), 0.18) << "more, the less regular the trips are";
  EXPECT_GT(two.number, two.took * 95 / 100) << "changes in a round trip";
  EXPECT_LE(two.writers.back().questions, 2 + static_cast<int>(two.took / 1000));
  const Race four = run({quick, quick, ours, ours});
  EXPECT_GT(four.least_share(), 0.25);
}

TEST_P(WriteRace, IsNotSoFastThatAForeignWriterGetsNothing) {
  const Race two = run({quick, {.trip = 0.5}});
  EXPECT_GT(two.least_share(), 0.2);
}

INSTANTIATE_TEST_SUITE_P(Noise, WriteRace,
                         testing::Combine(testing::Values(0.05, 0.3),
                                          testing::Range(std::uint32_t{1}, std::uint32_t{21})));

}  // namespace
}  // namespace zkrecipes::detail
