#include "recipes/kernel/wait_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>

#include "tests/support/sequences.hpp"

namespace zkrecipes::detail {
namespace {

using testkit::highest_sequence;
using testkit::lowest_sequence;
using testkit::printed;
constexpr int queue_length = 5;

using Kind = WaitStep::Kind;
using Names = std::vector<std::string>;

const ContenderNames kinds_of_contender = {{"lock-", "__lock__"}};
const Names foreign = {
    "ready", "nodash", "x-0000000000", "-", "lock-", "_c_y-latch-0000000000", "y__rlock__0000000000"};

// Nodes with successive numbers from `first` on, in the order of their creation: Curator's names, kazoo's names, or
// both by turns. Sorted as strings they would come in another order.
enum class Naming { curator, kazoo, mixed };

Names created_from(std::int32_t first, Naming naming) {
  Names names;
  for (std::uint32_t i = 0; i < queue_length; ++i) {
    const auto sequence = static_cast<std::int32_t>(static_cast<std::uint32_t>(first) + i);
    const std::string id(4, static_cast<char>('f' - i));
    const bool kazoo = naming == Naming::kazoo || (naming == Naming::mixed && i % 2 == 1);
    names.push_back((kazoo ? id + "__lock__" : "_c_" + id + "-lock-") + printed(sequence));
  }
  return names;
}

// What the documentation says, in the plainest words: `present[i]` tells whether the i-th node exists.
WaitStep expected_step(const Names& created, const std::vector<bool>& present, int self) {
  if (!present[static_cast<std::size_t>(self)]) return {Kind::vanished};
  std::optional<int> nearest;
  int before = 0;
  for (int i = 0; i < self; ++i) {
    if (!present[static_cast<std::size_t>(i)]) continue;
    nearest = i;
    ++before;
  }
  if (!nearest) return {Kind::acquired};
  return {Kind::watch, created[static_cast<std::size_t>(*nearest)], before == 1};
}

// Every subset of the queue, every order of the list, every contender, around every interesting number.
void try_everything(std::int32_t first, Naming naming) {
  const Names created = created_from(first, naming);
  for (unsigned subset = 0; subset < 1U << queue_length; ++subset) {
    std::vector<bool> present;
    Names listed;
    for (std::size_t i = 0; i < queue_length; ++i) {
      present.push_back((subset >> i & 1U) != 0);
      if (present.back()) listed.push_back(created[i]);
    }
    std::sort(listed.begin(), listed.end());
    std::size_t turn = 0;
    do {
      Names with_foreign = listed;
      const auto place = static_cast<std::ptrdiff_t>(turn % (listed.size() + 1));
      with_foreign.insert(with_foreign.begin() + place, foreign.begin(), foreign.end());
      ++turn;
      for (int self = 0; self < queue_length; ++self) {
        const std::string& name = created[static_cast<std::size_t>(self)];
        const WaitStep expected = expected_step(created, present, self);
        ASSERT_EQ(decide_wait(listed, name, kinds_of_contender), expected) << name << " of subset " << subset;
        ASSERT_EQ(decide_wait(with_foreign, name, kinds_of_contender), expected) << name << " of subset " << subset;
      }
    } while (std::next_permutation(listed.begin(), listed.end()));
  }
}

TEST(QueueDecider, EveryQueueOfCuratorsNames) { try_everything(0, Naming::curator); }
TEST(QueueDecider, EveryQueueOfKazoosNames) { try_everything(7, Naming::kazoo); }
TEST(QueueDecider, EveryQueueOfBoth) { try_everything(998, Naming::mixed); }

// The counter goes from 2147483647 to -2147483648, and much later from -1 to 0; and the names change their
// length on the way.
TEST(QueueDecider, EveryQueueAcrossTheWrap) {
  for (std::int32_t first = highest_sequence - queue_length; first < highest_sequence; ++first) {
    try_everything(first, Naming::mixed);
  }
  try_everything(highest_sequence, Naming::curator);
  try_everything(lowest_sequence, Naming::curator);
}
TEST(QueueDecider, EveryQueueAroundZero) {
  for (std::int32_t first = -queue_length; first <= 0; ++first) {
    try_everything(first, Naming::mixed);
  }
}
TEST(QueueDecider, EveryQueueWhereTheNamesGetShorter) {
  try_everything(-1'000'000'002, Naming::mixed);
  try_everything(999'999'998, Naming::mixed);
}

TEST(QueueDecider, NobodyButUs) {
  EXPECT_EQ(decide_wait({"_c_a-lock-0000000009"}, "_c_a-lock-0000000009", kinds_of_contender),
            WaitStep{Kind::acquired});
}

// "Own node absent" is an outcome, and not the index -1.
TEST(QueueDecider, OwnNodeAbsent) {
  const WaitStep vanished{Kind::vanished};
  EXPECT_EQ(decide_wait({}, "_c_a-lock-0000000009", kinds_of_contender), vanished);
  EXPECT_EQ(decide_wait({"_c_b-lock-0000000008"}, "_c_a-lock-0000000009", kinds_of_contender), vanished);
  EXPECT_EQ(decide_wait({"_c_b-lock-0000000010"}, "_c_a-lock-0000000009", kinds_of_contender), vanished);
  EXPECT_EQ(decide_wait({"_c_b-lock-0000000009"}, "_c_a-lock-0000000009", kinds_of_contender), vanished);
}

TEST(QueueDecider, OwnNameWithoutANumber) {
  for (const char* self : {"", "nodash", "lock-", "_c_a-latch-0000000001"}) {
    EXPECT_EQ(decide_wait({self, "_c_b-lock-0000000008"}, self, kinds_of_contender), WaitStep{Kind::vanished}) << self;
  }
}

TEST(QueueDecider, ForeignChildrenBlockNobody) {
  Names listed = foreign;
  listed.push_back("_c_a-lock-0000000009");
  EXPECT_EQ(decide_wait(listed, listed.back(), kinds_of_contender), WaitStep{Kind::acquired});
}

TEST(QueueDecider, OnlyTheNearestIsWatched) {
  const Names listed = {"_c_a-lock-0000000001", "_c_b-lock-0000000007", "_c_c-lock-0000000005", "_c_d-lock-0000000009"};
  EXPECT_EQ(decide_wait(listed, "_c_d-lock-0000000009", kinds_of_contender),
            (WaitStep{Kind::watch, "_c_b-lock-0000000007", false}));
  EXPECT_EQ(decide_wait(listed, "_c_c-lock-0000000005", kinds_of_contender),
            (WaitStep{Kind::watch, "_c_a-lock-0000000001", true}));
}

// --- Shared contenders --------------------------------------------------------------------------------------------

const ContenderNames shared_names = {{"__WRIT__", "__lock__"}, {"__READ__", "__rlock__"}};

// Every queue of up to six readers and writers, in both layouts: what ZooKeeper's recipe for shared locks says, in the
// plainest words.
TEST(QueueDecider, EveryQueueOfReadersAndWriters) {
  constexpr std::uint32_t length = 6;
  for (const bool kazoo : {false, true}) {
    for (unsigned writers = 0; writers < 1U << length; ++writers) {
      Names queue;
      for (std::uint32_t i = 0; i < length; ++i) {
        const bool writes = (writers >> i & 1U) != 0;
        const std::string id(4, static_cast<char>('f' - i));
        const std::string infix = kazoo ? (writes ? "__lock__" : "__rlock__") : (writes ? "-__WRIT__" : "-__READ__");
        queue.push_back(id + infix +
                        printed(static_cast<std::int32_t>(static_cast<std::uint32_t>(highest_sequence) - 2 + i)));
      }
      Names listed = queue;
      std::sort(listed.begin(), listed.end());
      for (std::uint32_t self = 0; self < length; ++self) {
        std::optional<std::uint32_t> nearest;
        int lower = 0;
        for (std::uint32_t i = 0; i < self; ++i) {
          if ((writers >> self & 1U) == 0 && (writers >> i & 1U) == 0) continue;
          nearest = i;
          ++lower;
        }
        WaitStep expected{Kind::acquired};
        if (nearest) {
          const bool may_be_downgraded = (writers >> self & 1U) != 0 && (writers >> *nearest & 1U) != 0;
          expected = {Kind::watch, queue[*nearest], lower == 1 && !may_be_downgraded};
        }
        ASSERT_EQ(decide_wait(listed, queue[self], shared_names), expected) << queue[self] << " of " << writers;
      }
    }
  }
}

// A writer that became a reader keeps its number, for a moment beside its former node.
TEST(QueueDecider, DowngradedWriter) {
  const Names listed = {"_c_a-__READ__0000000001", "_c_a-__WRIT__0000000001", "_c_b-__READ__0000000002",
                        "_c_c-__WRIT__0000000003"};
  EXPECT_EQ(decide_wait(listed, listed[0], shared_names).kind, Kind::acquired);
  EXPECT_EQ(decide_wait(listed, listed[1], shared_names).kind, Kind::acquired);
  EXPECT_EQ(decide_wait(listed, listed[2], shared_names), (WaitStep{Kind::watch, listed[1], true}));
  EXPECT_EQ(decide_wait(listed, listed[3], shared_names), (WaitStep{Kind::watch, listed[2], false}));
  const Names downgraded = {"_c_a-__READ__0000000001", "_c_c-__WRIT__0000000003"};
  EXPECT_EQ(decide_wait(downgraded, downgraded[1], shared_names), (WaitStep{Kind::watch, downgraded[0], true}));
}

// --- All who hold, at once ----------------------------------------------------------------------------------------

// What decide_wait() says of each.
Names one_by_one(const Names& children, const ContenderNames& names) {
  Names found;
  for (const std::string& child : children) {
    if (decide_wait(children, child, names).kind == Kind::acquired) found.push_back(child);
  }
  return found;
}

TEST(QueueHolders, ReadersInFrontOrOneWriter) {
  const Names listed = {"_c_d-__READ__0000000004", "_c_b-__READ__0000000002", "_c_c-__WRIT__0000000003", "ready",
                        "_c_a-__READ__0000000001"};
  EXPECT_EQ(holders(listed, shared_names), (Names{listed[1], listed[4]})) << "in the order of the list";
  EXPECT_EQ(holders({listed[0], listed[2]}, shared_names), Names{listed[2]});
  EXPECT_EQ(holders({}, shared_names), Names{});
  EXPECT_EQ(holders(foreign, kinds_of_contender), Names{});
}

// Lists of all kinds: of equal numbers, of queues on both sides of each turn of the counter, and of numbers so far
// apart that "precedes" goes round in a circle.
TEST(QueueHolders, AgreeWithTheDecisionOfEach) {
  const Names kinds = {"-__WRIT__", "-__READ__", "__lock__", "__rlock__", "-lock-", "-other-"};
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random()) % limit; };
  for (const std::uint32_t width : {1U, 3U, 20U, 0x80000002U, 0xffffffffU}) {
    for (const std::int32_t first : {0, -3, highest_sequence - 2, lowest_sequence, 1'000'000'000}) {
      for (int round = 0; round < 200; ++round) {
        Names listed;
        const std::uint32_t size = below(10);
        for (std::uint32_t i = 0; i < size; ++i) {
          const std::uint32_t sequence = static_cast<std::uint32_t>(first) + below(width);
          const std::string& kind = kinds[below(static_cast<std::uint32_t>(kinds.size()))];
          listed.push_back(std::to_string(i) + kind + printed(static_cast<std::int32_t>(sequence)));
        }
        ASSERT_EQ(holders(listed, shared_names), one_by_one(listed, shared_names)) << ::testing::PrintToString(listed);
        ASSERT_EQ(holders(listed, kinds_of_contender), one_by_one(listed, kinds_of_contender))
            << ::testing::PrintToString(listed);
      }
    }
  }
}

// Half the circle apart, each precedes the other one.
TEST(QueueHolders, AgreeAtTheEdges) {
  for (const std::uint32_t distance : {0U, 1U, 0x7fffffffU, 0x80000000U, 0x80000001U, 0xffffffffU}) {
    for (const std::int32_t first : {0, -1, 1, highest_sequence, lowest_sequence}) {
      const auto other = static_cast<std::int32_t>(static_cast<std::uint32_t>(first) + distance);
      const Names listed = {"a-lock-" + printed(first), "b-lock-" + printed(other)};
      EXPECT_EQ(holders(listed, kinds_of_contender), one_by_one(listed, kinds_of_contender))
          << first << " and " << other;
    }
  }
}

}  // namespace
}  // namespace zkrecipes::detail
