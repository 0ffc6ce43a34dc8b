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
  EXPECT_EQ(ItemFormat(Style::standard, QueueKind::plain).name(0), "item-");
  EXPECT_EQ(ItemFormat(Style::zookeeper, QueueKind::plain).name(0), "qn-");
  EXPECT_EQ(ItemFormat(Style::curator, QueueKind::plain).name(0), "queue-");
  EXPECT_EQ(ItemFormat(Style::curator, QueueKind::prioritized).name(0), "queue-100000000");
  EXPECT_EQ(ItemFormat(Style::curator, QueueKind::prioritized).name(-1), "queue-0FFFFFFFF");
  EXPECT_EQ(ItemFormat(Style::curator, QueueKind::prioritized).name(0x7abc), "queue-100007ABC");
  EXPECT_EQ(ItemFormat(Style::standard, QueueKind::prioritized).name(lowest), "item-080000000");
  EXPECT_EQ(ItemFormat(Style::kazoo, QueueKind::plain).name(100), "entry-100-");
  EXPECT_EQ(ItemFormat(Style::kazoo_locking, QueueKind::prioritized).name(7), "entry-007-");
}

TEST(ItemFormat, ParsesItsOwnNames) {
  for (const Style style : {Style::standard, Style::curator}) {
    const ItemFormat format(style, QueueKind::prioritized);
    for (const std::int32_t priority : {lowest, -2, -1, 0, 1, 99, highest}) {
      for (const std::int32_t sequence : {0, 1, highest, lowest, -1, -1'000'000'000}) {
        const std::string name = numbered(format.name(priority), sequence);
        EXPECT_EQ(format.parse(name), (ItemKey{priority, sequence, name})) << name;
      }
    }
  }
  const ItemFormat kazoo(Style::kazoo, QueueKind::prioritized);
  for (const std::int32_t priority : {0, 7, 100, 999}) {
    const std::string name = numbered(kazoo.name(priority), 12);
    EXPECT_EQ(kazoo.parse(name), (ItemKey{priority, 12, name})) << name;
  }
  for (const Style style : {Style::standard, Style::zookeeper, Style::curator}) {
    const std::string name = numbered(ItemFormat(style, QueueKind::plain).name(0), -5);
    EXPECT_EQ(ItemFormat(style, QueueKind::plain).parse(name), (ItemKey{0, -5, name})) << name;
  }
}

TEST(ItemFormat, TimesAndIds) {
  for (const Style style : {Style::standard, Style::curator}) {
    const ItemFormat delayed(style, QueueKind::delayed);
    for (const std::int64_t time : {std::int64_t{0}, std::int64_t{1}, std::numeric_limits<std::int64_t>::max()}) {
      const std::string name = numbered(delayed.name_due(time), -5);
      EXPECT_EQ(delayed.parse(name), (ItemKey{0, -5, name, time})) << name;
    }
    const ItemFormat identified(style, QueueKind::identified);
    for (const char* id : {"x", "-", "0000000001", "1000000050000000001", " a b "}) {
      const std::string name = numbered(identified.name_with_id(id), lowest);
      EXPECT_EQ(identified.parse(name), (ItemKey{0, lowest, name})) << name;
      EXPECT_EQ(identified.id_of(name), id);
      EXPECT_FALSE(ItemFormat(style, QueueKind::plain).parse(name)) << name;
      EXPECT_EQ(ItemFormat(style, QueueKind::plain).id_of(name), "");
    }
    for (const ItemFormat& format : {delayed, identified}) {
      const std::string name = numbered(format.name(0), 7);
      EXPECT_EQ(format.parse(name), (ItemKey{0, 7, name})) << "without either";
      EXPECT_EQ(format.id_of(name), "");
    }
  }
  const ItemFormat delayed(Style::curator, QueueKind::delayed);
  EXPECT_EQ(delayed.name_due(0x19A3C5F7E00), "queue-|19A3C5F7E00|");
  EXPECT_EQ(delayed.name_due(0xabc), "queue-|00000ABC|");
  EXPECT_EQ(delayed.parse("queue-|7|0000000001")->due_ms, 7) << "as Java reads it";
  EXPECT_EQ(delayed.parse("queue-|abc|0000000001")->due_ms, 0xabc);
  for (const char* name : {"queue-||0000000001", "queue-|x|0000000001", "queue-|-1|0000000001", "queue-|+1|0000000001",
                           "queue-|8000000000000000|0000000001", "queue-|00000000000000001|0000000001", "queue-|1|1",
                           "queue-|1|", "queue-|1", "queue-|"})
    EXPECT_FALSE(delayed.parse(name)) << name;
  for (const char* id : {"", "/", "a|b"})
    EXPECT_NE(id_defect(id), nullptr) << id;
  EXPECT_EQ(id_defect("order-17"), nullptr);
  EXPECT_EQ(delayed.parse("queue-|0000000000000001|0000000001")->due_ms, 1);
  const ItemFormat identified(Style::curator, QueueKind::identified);
  const std::string longest(1000, 'i');
  EXPECT_EQ(id_defect(longest), nullptr);
  EXPECT_TRUE(identified.parse(numbered(identified.name_with_id(longest), lowest)));
  EXPECT_NE(id_defect(longest + "i"), nullptr);
  EXPECT_FALSE(identified.parse(numbered(identified.name_with_id(std::string(std::size_t{1} << 16U, 'i')), 1)));
}

TEST(ItemFormat, NamesAgain) {
  const std::pair<ItemFormat, std::string> all[] = {
      {{Style::standard, QueueKind::plain}, "item-"},
      {{Style::curator, QueueKind::prioritized}, "queue-100000005"},
      {{Style::kazoo, QueueKind::plain}, "entry-007-"},
      {{Style::curator, QueueKind::delayed}, "queue-|19A3C5F7E00|"},
      {{Style::curator, QueueKind::identified}, "queue-|0000000001|"},
      {{Style::curator, QueueKind::identified}, "queue-"},
  };
  for (const auto& [format, name] : all) {
    for (const std::int32_t sequence : {0, 7, highest, lowest, -1, -1'000'000'000})
      EXPECT_EQ(format.name_again(*format.parse(numbered(name, sequence))), name) << sequence;
  }
  const ItemFormat plain(Style::zookeeper, QueueKind::plain);
  EXPECT_EQ(plain.name_again(*plain.parse("qn--0000000001")), "qn-") << "by hand: servers write nine digits";
}

TEST(ItemFormat, EarlierTimesComeFirst) {
  const ItemFormat format(Style::curator, QueueKind::delayed);
  const std::vector<std::string> expected{"queue-0000000009", "queue-|00000007|0000000004",
                                          "queue-|00000007|0000000005", "queue-|19A3C5F7E00|0000000001",
                                          "queue-|100000000000|0000000000"};
  std::vector<std::string> names(expected.rbegin(), expected.rend());
  std::vector<std::string> ordered;
  for (const ItemKey& key : in_take_order(names, format))
    ordered.push_back(key.name);
  EXPECT_EQ(ordered, expected);
}

TEST(ItemFormat, LayoutsHaveNotAllKinds) {
  for (const Style style : {Style::standard, Style::curator}) {
    for (const auto kind : {QueueKind::plain, QueueKind::prioritized, QueueKind::delayed, QueueKind::identified})
      EXPECT_EQ(ItemFormat(style, kind).defect(), nullptr);
  }
  for (const Style style : {Style::zookeeper, Style::kazoo, Style::kazoo_locking}) {
    EXPECT_NE(ItemFormat(style, QueueKind::delayed).defect(), nullptr);
    EXPECT_NE(ItemFormat(style, QueueKind::identified).defect(), nullptr);
  }
  EXPECT_NE(ItemFormat(Style::zookeeper, QueueKind::prioritized).defect(), nullptr);
}

TEST(ItemFormat, IgnoresForeignNames) {
  for (const char* name : {"", "item", "item-", "item-12", "item-00000000012", "qn-0000000001", "xitem-0000000001"})
    EXPECT_FALSE(ItemFormat(Style::standard, QueueKind::plain).parse(name)) << name;
  for (const char* name : {"", "queue-", "queue-0000000001", "queue-1", "queue-100000000", "queue-2000000000000000001",
                           "queue-0000000000000000001", "queue-1FFFFFFFF0000000001", "queue-1+00000010000000001"})
    EXPECT_FALSE(ItemFormat(Style::curator, QueueKind::prioritized).parse(name)) << name;
  EXPECT_FALSE(ItemFormat(Style::curator, QueueKind::plain).parse("queue-1000000050000000001"))
      << "of a priority queue";
  for (const char* name : {"entry-", "entry-10-0000000001", "entry-1000-0000000001", "entry--10-0000000001",
                           "entry-1x0-0000000001", "entry-100-1", "entry-1000000000001"})
    EXPECT_FALSE(ItemFormat(Style::kazoo, QueueKind::plain).parse(name)) << name;
}

TEST(ItemFormat, KazooHasNoOtherPriorities) {
  EXPECT_NE(ItemFormat(Style::kazoo, QueueKind::prioritized).defect(-1), nullptr);
  EXPECT_NE(ItemFormat(Style::kazoo_locking, QueueKind::prioritized).defect(1000), nullptr);
  EXPECT_EQ(ItemFormat(Style::kazoo, QueueKind::prioritized).defect(999), nullptr);
  EXPECT_EQ(ItemFormat(Style::curator, QueueKind::prioritized).defect(lowest), nullptr);
}

TEST(ItemFormat, CuratorsData) {
  const ItemFormat format(Style::curator, QueueKind::plain);
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
  EXPECT_EQ(ItemFormat(Style::zookeeper, QueueKind::plain).decode("raw"), std::vector<std::string>{"raw"});
  EXPECT_EQ(ItemFormat(Style::zookeeper, QueueKind::plain).encode({"raw"}), "raw");
}

TEST(TakeOrder, LowerPriorityFirstThenFirstIn) {
  const ItemFormat format(Style::curator, QueueKind::prioritized);
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
