// How ids are made from a clock, which number a worker takes, and when the next block of ids is asked for: rules without a
// server.

#include "recipes/values/id_generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "recipes/values/block_stock.hpp"
#include "recipes/values/number_decider.hpp"

namespace zkrecipes::detail {
namespace {

constexpr std::int64_t noon = 1'700'000'000'000;
constexpr IdLayout narrow_layout = {.worker_bits = 2, .sequence_bits = 2};  // Four ids a millisecond.

IdGenerator reserved_until(std::int64_t until, const IdLayout& layout = narrow_layout, std::int64_t floor = noon) {
  IdGenerator generator(layout, 3, floor);
  generator.reserve(until);
  return generator;
}

std::int64_t time_of(std::int64_t id, const IdLayout& layout = narrow_layout) {
  return std::chrono::floor<std::chrono::milliseconds>(layout.parts_of(id).time.time_since_epoch()).count();
}

TEST(IdGenerator, AnIdIsTimeWorkerAndSequence) {
  const IdLayout snowflake;
  IdGenerator generator = reserved_until(noon + 10, snowflake);
  const std::int64_t id = *generator.next(noon + 5);
  EXPECT_EQ(id, ((noon + 5 - 1'288'834'974'657) << 22) + (3 << 12)) << "as Twitter's";
  const IdParts parts = snowflake.parts_of(*generator.next(noon + 5));
  EXPECT_EQ(parts.time.time_since_epoch(), std::chrono::milliseconds(noon + 5));
  EXPECT_EQ(parts.worker, 3);
  EXPECT_EQ(parts.sequence, 1);
}

TEST(IdGenerator, NothingWithoutReservedTime) {
  IdGenerator generator(narrow_layout, 3, noon);
  for (const std::int64_t now : {noon - 5, noon, noon + 5})
    EXPECT_FALSE(generator.next(now));
  generator.reserve(noon + 5);
  EXPECT_EQ(time_of(*generator.next(noon + 5)), noon + 5);
  generator.reserve(noon);
  EXPECT_EQ(generator.reserved(), noon + 5) << "it does not shrink";
}

// V91
TEST(IdGenerator, ABeginnerIsAboveWhatWasReserved) {
  IdGenerator generator = reserved_until(noon + 10);
  EXPECT_EQ(time_of(*generator.next(noon - 1000)), noon + 1);
  EXPECT_EQ(time_of(*generator.next(noon)), noon + 1);
}

// V89
TEST(IdGenerator, ClockStepsBackWithinASequence) {
  IdGenerator generator = reserved_until(noon + 10);
  const std::int64_t first = *generator.next(noon + 5);
  const std::int64_t second = *generator.next(noon + 4);
  const std::int64_t third = *generator.next(noon + 5);
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(third, first + 2);
}

TEST(IdGenerator, ASequenceThatIsFullGoesOnInTheNextMillisecond) {
  IdGenerator generator = reserved_until(noon + 2);
  std::map<std::int64_t, int> times;
  while (const auto id = generator.next(noon + 1))
    ++times[time_of(*id)];
  EXPECT_EQ(times, (std::map<std::int64_t, int>{{noon + 1, 4}, {noon + 2, 4}}));
  EXPECT_EQ(generator.last(), generator.reserved());
}

TEST(IdGenerator, BeyondTheReservedTimeIdsGoOnFromTheLastOne) {
  IdGenerator generator = reserved_until(noon + 100);
  ASSERT_TRUE(generator.next(noon + 99));
  std::vector<std::int64_t> ids;
  while (const auto id = generator.next(noon + 1'000))
    ids.push_back(*id);
  EXPECT_EQ(ids.size(), 7u);
  EXPECT_EQ(time_of(ids.back()), noon + 100);
  generator.reserve(noon + 2'000);
  EXPECT_EQ(time_of(*generator.next(noon + 1'000)), noon + 1'000);
}

TEST(IdGenerator, HowMuchTimeIsLeft) {
  IdGenerator generator = reserved_until(noon + 100);
  EXPECT_EQ(generator.left(noon + 10), 90);
  EXPECT_EQ(generator.left(noon - 10), 100);
  EXPECT_EQ(generator.left(noon + 110), -10);
}

// One number, many owners whose clocks are anything: no id comes twice, and those of one owner grow.
TEST(IdGenerator, NeverTwoEqualIds) {
  std::mt19937 random(20'241);
  std::set<std::int64_t> all;
  std::int64_t stored = 0;
  std::size_t count = 0;
  for (int owner = 0; owner < 300; ++owner) {
    IdGenerator generator(narrow_layout, 3, stored);
    std::int64_t clock = noon + static_cast<std::int64_t>(random() % 2'000);
    std::int64_t last = 0;
    for (int i = 0; i < 60; ++i) {
      if (random() % 8 == 0) {
        stored = std::max(std::max(clock, generator.last()) + 20, generator.reserved());
        generator.reserve(stored);
      }
      clock += static_cast<std::int64_t>(random() % 9) - 3;
      const auto id = generator.next(clock);
      if (!id) continue;
      ++count;
      ASSERT_GT(*id, last);
      ASSERT_LE(time_of(*id), stored);
      ASSERT_TRUE(all.insert(*id).second) << "owner " << owner;
      last = *id;
    }
    if (random() % 2 == 0) stored = std::min(stored, generator.last());  // Given back.
  }
  EXPECT_GT(count, 5'000u);
}

TEST(IdGenerator, TheEndOfTime) {
  const std::int64_t latest = latest_time(IdLayout{});
  IdGenerator generator(IdLayout{}, 1'023, latest - 1);
  generator.reserve(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(generator.reserved(), latest);
  std::int64_t id = 0;
  for (int i = 0; i < 4'096; ++i)
    id = generator.next(latest + 1'000).value();
  EXPECT_EQ(id, std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(generator.next(latest + 1'000));
}

TEST(IdGenerator, NoIdIsNegative) {
  IdGenerator generator(IdLayout{}, 0, 0);
  generator.reserve(noon);
  EXPECT_EQ(*generator.next(-5), 0) << "the clock is before the epoch";
}

TEST(IdLayout, Defects) {
  EXPECT_EQ(layout_defect({}), nullptr);
  EXPECT_EQ(layout_defect({.worker_bits = 1, .sequence_bits = 21}), nullptr);
  const int large = std::numeric_limits<int>::max();
  for (const IdLayout& layout :
       {IdLayout{.worker_bits = 0}, IdLayout{.sequence_bits = 0}, IdLayout{.worker_bits = 11},
        IdLayout{.worker_bits = -1}, IdLayout{.worker_bits = large}, IdLayout{.sequence_bits = large}})
    EXPECT_NE(layout_defect(layout), nullptr);
}

TEST(ReservedTime, InANode) {
  EXPECT_EQ(encode_time(noon), "1700000000000");
  EXPECT_EQ(decode_time("1700000000000", noon), noon);
  for (const std::string data : {"", "x", "1700000000000 ", "1700000000001", "99999999999999999999"})
    EXPECT_FALSE(decode_time(data, noon)) << data;
}

TEST(PickNumber, TheLowestFreeOne) {
  EXPECT_EQ(pick_number({}, 4, 0, 17), 0);
  EXPECT_EQ(pick_number({"1", "0", "3"}, 4, 0, 17), 2);
  EXPECT_EQ(pick_number({"_c_0f8fad5b-d9cb-469f-a165-70867728950e-0", "00", "-0", "x"}, 4, 0, 17), 0)
      << "only these names are numbers";
  EXPECT_EQ(pick_number({"0", "1", "2", "3", "7"}, 4, 0, 17), std::nullopt);
}

TEST(PickNumber, OneOfTheLowestAfterConflicts) {
  std::set<int> picked;
  for (std::uint64_t random = 0; random < 100; ++random)
    picked.insert(*pick_number({"0", "2"}, 16, 3, random));
  EXPECT_EQ(picked, (std::set<int>{1, 3, 4, 5}));
  EXPECT_EQ(pick_number({"0", "2"}, 4, 1'000, 7), 3);
}

TEST(BlockStock, TheNextBlockIsAskedForAtHalf) {
  BlockStock stock(4);
  EXPECT_FALSE(stock.take());
  EXPECT_TRUE(stock.wants_more());
  stock.add(1, 4);
  EXPECT_FALSE(stock.wants_more());
  EXPECT_EQ(stock.take(), 1);
  EXPECT_FALSE(stock.wants_more());
  EXPECT_EQ(stock.take(), 2);
  EXPECT_TRUE(stock.wants_more());
  stock.add(9, 12);
  EXPECT_FALSE(stock.wants_more());
  std::vector<std::int64_t> rest;
  while (const auto id = stock.take())
    rest.push_back(*id);
  EXPECT_EQ(rest, (std::vector<std::int64_t>{3, 4, 9, 10, 11, 12}));
}

TEST(BlockStock, BlocksOfOne) {
  BlockStock stock(1);
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t id : {std::int64_t{7}, greatest}) {
    EXPECT_TRUE(stock.wants_more());
    stock.add(id, id);
    EXPECT_FALSE(stock.wants_more());
    EXPECT_EQ(stock.take(), id);
  }
  EXPECT_FALSE(stock.take());
}

}  // namespace
}  // namespace zkrecipes::detail
