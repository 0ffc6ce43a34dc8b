#include "recipes/kernel/sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/sequences.hpp"

namespace zkrecipes::detail {
namespace {

using testkit::highest_sequence;
using testkit::lowest_sequence;
using testkit::printed;

const std::vector<std::string_view> infixes = {"lock-", "__lock__"};

std::int32_t plus(std::int32_t sequence, std::uint32_t steps) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(sequence) + steps);
}

TEST(SequenceOf, ReadsWhatTheServerPrints) {
  for (const std::int32_t sequence :
       {0, 1, 7, 999'999'999, 1'000'000'005, highest_sequence - 1, highest_sequence, lowest_sequence,
        lowest_sequence + 1, -1'000'000'005, -1'000'000'000, -999'999'999, -5, -1}) {
    EXPECT_EQ(sequence_of("_c_0e2f-lock-" + printed(sequence), infixes), sequence);
    EXPECT_EQ(sequence_of("0e2f__lock__" + printed(sequence), infixes), sequence);
  }
}

// A counter that has wrapped is negative; a recipe that does not see those has two holders.
TEST(SequenceOf, ReadsNegativeNumbersOfBothLengths) {
  EXPECT_EQ(sequence_of("_c_x-lock--000000005", infixes), -5);
  EXPECT_EQ(sequence_of("_c_x-lock--2147483648", infixes), lowest_sequence);
  EXPECT_EQ(sequence_of("x__lock__-000000005", infixes), -5);
}

TEST(SequenceOf, DependsOnWhatStandsBeforeTheNumber) {
  EXPECT_EQ(sequence_of("lock-1000000005", {"lock-"}), 1'000'000'005);
  EXPECT_EQ(sequence_of("lock-1000000005", {"lock"}), -1'000'000'005);
}

TEST(SequenceOf, TakesTheLastInfix) {
  EXPECT_EQ(sequence_of("lock-0000000001-lock-0000000002", infixes), 2);
  EXPECT_EQ(sequence_of("__lock__lock-0000000003", infixes), 3);
  EXPECT_EQ(sequence_of("lock-__lock__0000000004", infixes), 4);
}

// Names of all kinds, none of which may be taken for a contender or crash anything.
TEST(SequenceOf, RefusesEverythingElse) {
  const char* const foreign[] = {"",
                                 "-",
                                 "lock",
                                 "lock-",
                                 "__lock__",
                                 "ready",
                                 "nodash",
                                 "0000000001",
                                 "x-0000000001",
                                 "n_0000000001",
                                 "_c_x-latch-0000000001",
                                 "_c_x-lease-0000000001",
                                 "_c_x-__READ__0000000001",
                                 "x__rlock__0000000001",
                                 "lock-000000001",
                                 "lock-00000000001",
                                 "lock-+000000001",
                                 "lock- 000000001",
                                 "lock-000000001 ",
                                 "lock-00000000a1",
                                 "lock-0x00000001",
                                 "lock-2147483648",
                                 "lock-9999999999",
                                 "lock--2147483649",
                                 "lock--9999999999",
                                 "lock---00000001",
                                 "lock-0000000001-",
                                 "lock-0000000001x",
                                 "lock-0000000001-revoked",
                                 "LOCK-0000000001",
                                 "lock-\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"};
  for (const char* name : foreign) {
    EXPECT_EQ(sequence_of(name, infixes), std::nullopt) << name;
  }
  EXPECT_EQ(sequence_of(std::string("lock-00000") + '\0' + "0001", infixes), std::nullopt);
  EXPECT_EQ(sequence_of("lock-0000000001", {}), std::nullopt);
}

TEST(Precedes, IsTheOrderOfCreationAlsoAcrossTheWrap) {
  static_assert(precedes(1, 2) && !precedes(2, 1) && !precedes(1, 1));
  static_assert(precedes(-1, 0) && !precedes(0, -1));
  static_assert(precedes(highest_sequence, lowest_sequence) && !precedes(lowest_sequence, highest_sequence));
  const std::uint32_t distances[] = {1, 2, 3, 1000, 1'000'000, static_cast<std::uint32_t>(highest_sequence)};
  for (const std::int32_t first : {0, 1, -1, highest_sequence, highest_sequence - 1, lowest_sequence,
                                   lowest_sequence + 1, 123'456'789, -123'456'789}) {
    EXPECT_FALSE(precedes(first, first));
    for (const std::uint32_t distance : distances) {
      EXPECT_TRUE(precedes(first, plus(first, distance))) << first << " + " << distance;
      EXPECT_FALSE(precedes(plus(first, distance), first)) << first << " + " << distance;
    }
  }
}

// After 2^31 creates, the newest contender must not come first.
TEST(InOrder, IsTheOrderOfCreationAcrossTheWrap) {
  std::vector<std::string> created;
  for (std::uint32_t i = 0; i < 8; ++i) {
    // The unique id comes first in a name, so it must not decide.
    created.push_back("_c_" + std::string(1, static_cast<char>('z' - i)) + "-lock-" +
                      printed(plus(highest_sequence - 3, i)));
  }
  std::vector<std::string> listed = created;
  std::sort(listed.begin(), listed.end());
  int permutations = 0;
  do {
    ASSERT_EQ(in_order(listed, infixes), created);
  } while (std::next_permutation(listed.begin(), listed.end()) && ++permutations < 40'320);
}

TEST(InOrder, LeavesForeignNamesOut) {
  EXPECT_EQ(in_order({"ready", "b__lock__0000000002", "x-0000000000", "_c_a-lock-0000000003", "lock-", "nodash",
                      "_c_c-lock--000000001"},
                     infixes),
            (std::vector<std::string>{"_c_c-lock--000000001", "b__lock__0000000002", "_c_a-lock-0000000003"}));
  EXPECT_TRUE(in_order({}, infixes).empty());
  EXPECT_TRUE(in_order({"ready"}, infixes).empty());
}

// Names that an operator made by hand may lie so far apart that "created before" goes round in a circle. Which order
// they get does not matter, but all of them must come out.
TEST(InOrder, SurvivesNumbersThatNoServerCouldHaveGivenOut) {
  std::minstd_rand random(1);
  std::vector<std::string> names;
  for (int i = 0; i < 600; ++i) {
    const auto anything = static_cast<std::int32_t>((random() << 8) ^ random());
    names.push_back("_c_" + std::to_string(i) + "-lock-" + printed(anything));
  }
  for (const std::int32_t sequence : {0, 1'431'655'765, -1'431'655'766}) {
    for (int i = 0; i < 100; ++i) {
      names.push_back("_c_" + std::to_string(i) + "-lock-" + printed(sequence));
    }
  }
  for (int round = 0; round < 20; ++round) {
    std::shuffle(names.begin(), names.end(), random);
    std::vector<std::string> ordered = in_order(names, infixes);
    std::sort(ordered.begin(), ordered.end());
    std::vector<std::string> expected = names;
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(ordered, expected);
  }
}

// For operators, who want to see all that queue at a path.
TEST(ForeignContenders, OfEveryLibrary) {
  const std::vector<std::string> names = {"x-1234567890abcdef-0000000003",
                                          "x-72057594037927936--1000000004",
                                          "n_0000000005",
                                          "guid-n_0000000006",
                                          "guid-read-0000000007",
                                          "guid-write-0000000008",
                                          "0123456789abcdef0123456789abcdef__rlock__0000000009",
                                          "_c_0123456789abcdef0123456789abcdef-lock-0000000002",
                                          "_c_0123-latch-0000000001",
                                          "ready",
                                          "x-0000000001",
                                          "x--0000000001"};
  const std::vector<std::string> found = foreign_contenders(names, {"lock-", "__lock__"});
  const std::vector<std::string> expected = {"x-72057594037927936--1000000004",
                                             "_c_0123-latch-0000000001",
                                             "x-1234567890abcdef-0000000003",
                                             "n_0000000005",
                                             "guid-n_0000000006",
                                             "guid-read-0000000007",
                                             "guid-write-0000000008",
                                             "0123456789abcdef0123456789abcdef__rlock__0000000009"};
  EXPECT_EQ(found, expected) << "in order, without those that are accounted for";
}

}  // namespace
}  // namespace zkrecipes::detail
