#include "recipes/queues/item_format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include <fmt/format.h>

namespace zkrecipes::detail {
namespace {

using Style = QueueLayout::Style;
constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t highest = std::numeric_limits<std::int32_t>::max();

// As the server appends it.
std::string numbered(const std::string& name, std::int32_t sequence) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%010d", sequence);
  return name + digits;
}

TEST(ItemFormat, NamesOfEachLayout) {
  EXPECT_EQ(ItemFormat(Style::standard, false).name(0), "item-");
  EXPECT_EQ(ItemFormat(Style::zookeeper, false).name(0), "qn-");
  EXPECT_EQ(ItemFormat(Style::curator, false).name(0), "queue-");
  EXPECT_EQ(ItemFormat(Style::curator, true).name(0), "queue-100000000");
  EXPECT_EQ(ItemFormat(Style::curator, true).name(-1), "queue-0FFFFFFFF");
  EXPECT_EQ(ItemFormat(Style::curator, true).name(0x7abc), "queue-100007ABC");
  EXPECT_EQ(ItemFormat(Style::standard, true).name(lowest), "item-080000000");
  EXPECT_EQ(ItemFormat(Style::kazoo, false).name(100), "entry-100-");
  EXPECT_EQ(ItemFormat(Style::kazoo_locking, true).name(7), "entry-007-");
}

TEST(ItemFormat, ParsesItsOwnNames) {
  for (const Style style : {Style::standard, Style::curator}) {
    const ItemFormat format(style, true);
    for (const std::int32_t priority : {lowest, -2, -1, 0, 1, 99, highest}) {
      for (const std::int32_t sequence : {0, 1, highest, lowest, -1, -1'000'000'000}) {
        const std::string name = numbered(format.name(priority), sequence);
        EXPECT_EQ(format.parse(name), (ItemKey{priority, sequence, name})) << name;
      }
    }
  }
  const ItemFormat kazoo(Style::kazoo, true);
  for (const std::int32_t priority : {0, 7, 100, 999}) {
    const std::string name = numbered(kazoo.name(priority), 12);
    EXPECT_EQ(kazoo.parse(name), (ItemKey{priority, 12, name})) << name;
  }
  for (const Style style : {Style::standard, Style::zookeeper, Style::curator}) {
    const std::string name = numbered(ItemFormat(style, false).name(0), -5);
    EXPECT_EQ(ItemFormat(style, false).parse(name), (ItemKey{0, -5, name})) << name;
  }
}

TEST(ItemFormat, IgnoresForeignNames) {
  for (const char* name : {"", "item", "item-", "item-12", "item-00000000012", "qn-0000000001", "xitem-0000000001"})
    EXPECT_FALSE(ItemFormat(Style::standard, false).parse(name)) << name;
  for (const char* name : {"", "queue-", "queue-0000000001", "queue-1", "queue-100000000", "queue-2000000000000000001",
                           "queue-0000000000000000001", "queue-1FFFFFFFF0000000001", "queue-1+00000010000000001"})
    EXPECT_FALSE(ItemFormat(Style::curator, true).parse(name)) << name;
  EXPECT_FALSE(ItemFormat(Style::curator, false).parse("queue-1000000050000000001")) << "of a priority queue";
  for (const char* name : {"entry-", "entry-10-0000000001", "entry-1000-0000000001", "entry--10-0000000001",
                           "entry-1x0-0000000001", "entry-100-1", "entry-1000000000001"})
    EXPECT_FALSE(ItemFormat(Style::kazoo, false).parse(name)) << name;
}

TEST(ItemFormat, KazooHasNoOtherPriorities) {
  EXPECT_NE(ItemFormat(Style::kazoo, true).defect(-1), nullptr);
  EXPECT_NE(ItemFormat(Style::kazoo_locking, true).defect(1000), nullptr);
  EXPECT_EQ(ItemFormat(Style::kazoo, true).defect(999), nullptr);
  EXPECT_EQ(ItemFormat(Style::curator, true).defect(lowest), nullptr);
}

TEST(ItemFormat, CuratorsData) {
  const ItemFormat format(Style::curator, false);
  EXPECT_EQ(format.encode({"ab"}), std::string("\0\1\0\1\1\0\0\0\2ab\2", 12));
  for (const std::vector<std::string>& items :
       {std::vector<std::string>{""}, {"one"}, {"one", "", std::string("\0\1\2", 3)}})
    EXPECT_EQ(format.decode(format.encode(items)), items);
  const std::string whole = format.encode({"one", "two"});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(format.decode(whole.substr(0, size))) << size;
  EXPECT_FALSE(format.decode(whole + "x"));
  EXPECT_FALSE(format.decode(std::string("\0\1\0\1\2", 5))) << "no items";
  EXPECT_FALSE(
      format.decode(std::string("\0\1\0\1\1\x7f\xff\xff\xff"
                                "ab\2",
                                12)));
  EXPECT_EQ(ItemFormat(Style::zookeeper, false).decode("raw"), std::vector<std::string>{"raw"});
  EXPECT_EQ(ItemFormat(Style::zookeeper, false).encode({"raw"}), "raw");
}

TEST(TakeOrder, LowerPriorityFirstThenFirstIn) {
  const ItemFormat format(Style::curator, true);
  const std::vector<std::pair<std::int32_t, std::int32_t>> order = {
      {lowest, 9}, {-1, 3}, {-1, 8}, {0, highest}, {0, lowest}, {5, -2}, {5, -1}, {5, 0}, {highest, 1}};
  std::vector<std::string> expected;
  for (const auto& [priority, sequence] : order)
    expected.push_back(numbered(format.name(priority), sequence));
  std::vector<std::string> names = expected;
  names.emplace_back("of somebody else");
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(names.begin(), names.end(), random);
    std::vector<std::string> found;
    for (const ItemKey& key : in_take_order(names, format))
      found.push_back(key.name);
    EXPECT_EQ(found, expected);
  }
  EXPECT_TRUE(in_take_order({}, format).empty());
}

}  // namespace
}  // namespace zkrecipes::detail
