// Which instance is picked: rules without a server.

#include "recipes/discovery/provider_decider.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace zkrecipes::detail {
namespace {

using namespace std::chrono_literals;
using Instances = std::vector<ListedInstancePtr>;
using TimePoint = ProviderDecider::TimePoint;

const TimePoint start{1h};

ListedInstancePtr instance(const std::string& node, std::int64_t czxid = 1, bool enabled = true,
                           const std::string& payload = {}) {
  ListedInstance listed;
  listed.instance.id = node;
  listed.instance.payload = payload;
  listed.instance.enabled = enabled;
  listed.node = node;
  listed.incarnation.value = czxid;
  return std::make_shared<const ListedInstance>(listed);
}
std::string node(const ListedInstancePtr& picked) { return picked == nullptr ? "" : picked->node; }
const Instances abc = {instance("a"), instance("b"), instance("c")};

std::map<std::string, int> counted(ProviderDecider& decider, int picks, TimePoint now = start) {
  std::map<std::string, int> counts;
  for (int i = 0; i < picks; ++i)
    ++counts[node(decider.pick(now))];
  return counts;
}
void fail(ProviderDecider& decider, const ListedInstancePtr& instance, int errors, TimePoint now = start) {
  for (int i = 0; i < errors; ++i)
    decider.note_error(*instance, now);
}
using Counts = std::map<std::string, int>;

TEST(ProviderDecider, NothingToPick) {
  for (const PickStrategy strategy : {PickStrategy::round_robin, PickStrategy::random, PickStrategy::sticky}) {
    ProviderDecider decider({.strategy = strategy});
    EXPECT_EQ(decider.pick(start), nullptr);
    EXPECT_EQ(decider.pick("key", start), nullptr);
    decider.update({}, start);
    EXPECT_EQ(decider.pick(start), nullptr);
  }
}

TEST(ProviderDecider, RoundRobin) {
  ProviderDecider decider({});
  decider.update(abc, start);
  std::string picked;
  for (int i = 0; i < 7; ++i)
    picked += node(decider.pick(start));
  EXPECT_EQ(picked, "abcabca");
}

// V54: a signed counter would give a negative index after 2^31 picks.
TEST(ProviderDecider, RoundRobinGoesOnBeyondEachBound) {
  for (const std::uint64_t bound : {std::uint64_t{1} << 31U, std::uint64_t{1} << 32U, std::uint64_t{1} << 63U,
                                    std::numeric_limits<std::uint64_t>::max()}) {
    ProviderDecider decider({}, bound - 4);
    decider.update(abc, start);
    std::string last;
    std::set<std::string> all;
    for (int i = 0; i < 9; ++i) {
      const std::string picked = node(decider.pick(start));
      ASSERT_NE(picked, "");
      all.insert(picked);
    }
    EXPECT_EQ(all.size(), 3u);
  }
}

TEST(ProviderDecider, RandomIsEven) {
  ProviderDecider decider({.strategy = PickStrategy::random}, 4711);
  decider.update(abc, start);
  const Counts counts = counted(decider, 30'000);
  for (const auto& [name, count] : counts)
    EXPECT_NEAR(count, 10'000, 500) << name;
  int repeated = 0;
  std::string last;
  for (int i = 0; i < 3'000; ++i) {
    std::string picked = node(decider.pick(start));
    if (picked == last) ++repeated;
    last = std::move(picked);
  }
  EXPECT_NEAR(repeated, 1'000, 150) << "it does not go round";
}

// V56: an update of its data moves nobody; a new incarnation is another instance.
TEST(ProviderDecider, StickyKeepsAnInstanceThatIsUpdated) {
  ProviderDecider decider({.strategy = PickStrategy::sticky});
  decider.update(abc, start);
  const std::string stuck = node(decider.pick(start));
  EXPECT_EQ(counted(decider, 10), (Counts{{stuck, 10}}));
  decider.update({instance("a", 1, true, "2"), instance("b", 1, true, "2"), instance("c", 1, true, "2")}, start);
  EXPECT_EQ(counted(decider, 10), (Counts{{stuck, 10}}));
  EXPECT_EQ(decider.pick(start)->instance.payload, "2");
  decider.update({instance("0"), instance("a"), instance("b"), instance("c")}, start);
  EXPECT_EQ(node(decider.pick(start)), stuck) << "whatever its place in the list";
  Instances without = abc;
  std::erase_if(without, [&](const ListedInstancePtr& other) { return other->node == stuck; });
  decider.update(without, start);
  const std::string next = node(decider.pick(start));
  EXPECT_NE(next, stuck);
  decider.update(abc, start);
  EXPECT_EQ(node(decider.pick(start)), next) << "it does not go back";
}

TEST(ProviderDecider, StickyLeavesAnInstanceThatIsOut) {
  ProviderDecider decider({.strategy = PickStrategy::sticky});
  decider.update(abc, start);
  const ListedInstancePtr stuck = decider.pick(start);
  fail(decider, stuck, 2);
  const std::string next = node(decider.pick(start));
  EXPECT_NE(next, stuck->node);
  EXPECT_EQ(counted(decider, 10), (Counts{{next, 10}}));
  EXPECT_EQ(counted(decider, 10, start + 1h), (Counts{{next, 10}})) << "it does not go back";
}

// V56: two threads pick while the list changes.
TEST(ProviderDecider, NeverNothingWhileThereAreSome) {
  for (const PickStrategy strategy : {PickStrategy::round_robin, PickStrategy::random, PickStrategy::sticky}) {
    ProviderDecider decider({.strategy = strategy});
    decider.update(abc, start);
    std::atomic<bool> over{false};
    std::atomic<int> empty{0};
    std::atomic<int> picks{0};
    std::vector<std::jthread> pickers;
    for (int i = 0; i < 2; ++i) {
      pickers.emplace_back([&] {
        while (!over) {
          const ListedInstancePtr picked = decider.pick(start);
          if (picked == nullptr || decider.pick("key", start) == nullptr) ++empty;
          if (picked != nullptr) decider.note_error(*picked, start);
          if (picked != nullptr && picks++ % 3 == 0) decider.note_success(*picked);
        }
      });
    }
    for (std::int64_t i = 0; i < 2'000 || picks < 1'000; ++i)
      decider.update({instance("a", i), instance("b"), instance("c", 1, i % 2 == 0)}, start);
    over = true;
    pickers.clear();
    EXPECT_EQ(empty, 0);
  }
}

// Two threads find at once that the instance is out. Among many others, each of them takes long to find another one.
TEST(ProviderDecider, StickyIsTheSameForAllThreads) {
  constexpr int rounds = 300;
  ProviderDecider decider({.strategy = PickStrategy::sticky});
  Instances many;
  for (int i = 1000; i < 4000; ++i)
    many.push_back(instance(std::to_string(i)));
  decider.update(many, start);
  fail(decider, many[0], 2);
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  // Without giving the processor away at first, so that both begin within less time than a pick takes.
  const auto await = [](const std::atomic<int>& reached, int round) {
    for (int tries = 0; reached < round; ++tries) {
      if (tries > 20'000) std::this_thread::yield();
    }
  };
  ListedInstancePtr other;
  std::jthread picker([&] {
    for (int round = 1; round <= rounds; ++round) {
      await(begun, round);
      other = decider.pick(start);
      ended = round;
    }
  });
  int different = 0;
  for (int round = 1; round <= rounds; ++round) {
    begun = round;
    const ListedInstancePtr own = decider.pick(start);
    await(ended, round);
    const ListedInstancePtr later = decider.pick(start);
    if (own != later || other != later) ++different;
    fail(decider, later, 2);
  }
  EXPECT_EQ(different, 0);
}

TEST(ProviderDecider, AKeyMovesOnlyWithItsInstance) {
  ProviderDecider decider({});
  Instances many;
  for (int i = 10; i < 20; ++i)
    many.push_back(instance("node-" + std::to_string(i)));
  decider.update(many, start);
  std::map<int, std::string> before;
  Counts shares;
  for (int key = 0; key < 10'000; ++key) {
    before[key] = node(decider.pick("key-" + std::to_string(key), start));
    ++shares[before[key]];
  }
  EXPECT_EQ(shares.size(), 10u);
  for (const auto& [name, share] : shares)
    EXPECT_NEAR(share, 1'000, 150) << name;
  const auto expect_moved_from_or_to = [&](const std::string& changed, TimePoint now) {
    for (const auto& [key, was] : before) {
      const std::string is = node(decider.pick("key-" + std::to_string(key), now));
      EXPECT_TRUE(is == was || was == changed || is == changed) << key;
      EXPECT_FALSE(was == changed && is == changed) << key;
    }
  };
  Instances fewer = many;
  fewer.erase(fewer.begin() + 3);
  decider.update(fewer, start);
  expect_moved_from_or_to("node-13", start);
  decider.update(many, start);
  fail(decider, many[5], 2);
  expect_moved_from_or_to("node-15", start);
  for (const auto& [key, was] : before)
    EXPECT_EQ(node(decider.pick("key-" + std::to_string(key), start + 1h)), was) << "back after the pause";
}

// Restarted, it gets its keys again; sequential instances share an id, and have keys of their own.
TEST(ProviderDecider, AKeyBelongsToANodesName) {
  ProviderDecider decider({});
  decider.update(abc, start);
  const std::string picked = node(decider.pick("key", start));
  decider.update({instance("a", 7), instance("b", 8), instance("c", 9)}, start);
  EXPECT_EQ(node(decider.pick("key", start)), picked);
  ListedInstance one = *instance("id0000000001");
  ListedInstance two = *instance("id0000000002");
  one.instance.id = two.instance.id = "id";
  decider.update({std::make_shared<const ListedInstance>(one), std::make_shared<const ListedInstance>(two)}, start);
  std::set<std::string> nodes;
  for (int i = 0; i < 100; ++i)
    nodes.insert(node(decider.pick(std::to_string(i), start)));
  EXPECT_EQ(nodes.size(), 2u);
}

TEST(ProviderDecider, AFunctionChooses) {
  Instances seen;
  ProviderDecider decider({.choose = [&](const Instances& up) {
    seen = up;
    return up.back();
  }});
  decider.update({instance("a"), instance("b"), instance("c", 1, false)}, start);
  EXPECT_EQ(node(decider.pick(start)), "b");
  EXPECT_EQ(seen.size(), 2u);
  fail(decider, abc[1], 2);
  EXPECT_EQ(node(decider.pick(start)), "a");
  EXPECT_EQ(seen.size(), 1u);
  fail(decider, abc[0], 2);
  EXPECT_EQ(seen.size(), 1u) << "all are out: the least bad one";
  EXPECT_NE(decider.pick(start), nullptr);
}

// V58
TEST(ProviderDecider, DisabledOnesAreNeverPicked) {
  for (int bits = 0; bits < 8; ++bits) {
    ProviderDecider decider({});
    decider.update(
        {instance("a", 1, (bits & 1) != 0), instance("b", 1, (bits & 2) != 0), instance("c", 1, (bits & 4) != 0)},
        start);
    Counts counts;
    for (int i = 0; i < 30; ++i) {
      ++counts[node(decider.pick(start))];
      ++counts[node(decider.pick(std::to_string(i), start))];
    }
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(counts.contains(std::string(1, static_cast<char>('a' + i))), (bits & (1 << i)) != 0) << bits;
    EXPECT_EQ(counts.contains(""), bits == 0);
    decider.update({}, start);
    EXPECT_EQ(decider.pick(start) != nullptr, bits != 0) << "nor as a last resort";
  }
}

// --- Health ----------------------------------------------------------------------------------------------------------

TEST(ProviderDecider, ErrorsWithinAWindowPutOut) {
  ProviderDecider decider({.health = {.errors = 3, .window = 10s, .pause = 5s}});
  decider.update(abc, start);
  fail(decider, abc[0], 2);
  EXPECT_FALSE(decider.out(*abc[0], start));
  fail(decider, abc[0], 1, start + 10s + 1ms);
  EXPECT_FALSE(decider.out(*abc[0], start + 11s)) << "two of them are too old";
  fail(decider, abc[0], 2, start + 12s);
  EXPECT_TRUE(decider.out(*abc[0], start + 12s));
  EXPECT_EQ(counted(decider, 30, start + 12s), (Counts{{"b", 15}, {"c", 15}})) << "its share goes to all others";
  EXPECT_TRUE(decider.out(*abc[0], start + 17s - 1ns));
  EXPECT_FALSE(decider.out(*abc[0], start + 17s));
  EXPECT_EQ(counted(decider, 30, start + 17s), (Counts{{"a", 10}, {"b", 10}, {"c", 10}}));
}

TEST(ProviderDecider, PausesDoubleUntilASuccess) {
  const HealthOptions health{.errors = 1, .window = 10s, .pause = 1s, .max_pause = 5s};
  ProviderDecider decider({.health = health});
  decider.update(abc, start);
  TimePoint now = start;
  const auto pause = [&] {
    decider.note_error(*abc[0], now);
    auto length = 0s;
    for (; decider.out(*abc[0], now); now += 1s)
      length += 1s;
    return length;
  };
  for (const auto expected : {1s, 2s, 4s, 5s, 5s})
    EXPECT_EQ(pause(), expected);
  decider.note_success(*abc[0]);
  EXPECT_EQ(pause(), 1s);
  EXPECT_EQ(pause(), 2s);
  now += health.max_pause + 1s;
  EXPECT_EQ(pause(), 1s) << "after a quiet time it starts anew";
  decider.note_error(*abc[0], now);
  decider.note_success(*abc[0]);
  EXPECT_FALSE(decider.out(*abc[0], now)) << "a success ends a pause";
}

// A hundred calls may be on their way to an instance when it fails.
TEST(ProviderDecider, ErrorsOfOneThatIsOutDoNotProlongThat) {
  ProviderDecider decider({.health = {.errors = 2, .pause = 5s}});
  decider.update(abc, start);
  fail(decider, abc[0], 100);
  EXPECT_FALSE(decider.out(*abc[0], start + 5s));
  fail(decider, abc[0], 1, start + 5s);
  EXPECT_FALSE(decider.out(*abc[0], start + 5s)) << "it takes as many errors as before";
}

// V55: all are out. The least bad one is returned, and when it fails as well the next one.
TEST(ProviderDecider, AllAreOut) {
  for (const PickStrategy strategy : {PickStrategy::round_robin, PickStrategy::random, PickStrategy::sticky}) {
    ProviderDecider decider({.strategy = strategy});
    decider.update(abc, start);
    fail(decider, abc[0], 4);
    fail(decider, abc[1], 2);
    fail(decider, abc[2], 3);
    EXPECT_EQ(counted(decider, 10), (Counts{{"b", 10}}));
    EXPECT_EQ(node(decider.pick("any key", start)), "b");
    fail(decider, abc[1], 2);
    EXPECT_EQ(counted(decider, 10), (Counts{{"c", 10}}));
    decider.note_success(*abc[0]);
    EXPECT_EQ(counted(decider, 10), (Counts{{"a", 10}})) << "one that works is not out any more";
  }
}

// V55: it counts for this incarnation, whatever its data; for the next one it does not.
TEST(ProviderDecider, HealthBelongsToAnIncarnation) {
  ProviderDecider decider({});
  decider.update(abc, start);
  fail(decider, abc[0], 1);
  const ListedInstancePtr updated = instance("a", 1, true, "changed");
  decider.update({updated, abc[1]}, start);
  fail(decider, updated, 1);
  EXPECT_TRUE(decider.out(*updated, start));
  EXPECT_TRUE(decider.out(*abc[0], start)) << "an older handle tells of the same one";
  const ListedInstancePtr reborn = instance("a", 2);
  decider.update({reborn, abc[1]}, start);
  EXPECT_FALSE(decider.out(*reborn, start));
  fail(decider, abc[0], 5);
  EXPECT_FALSE(decider.out(*reborn, start)) << "late errors of the former one do not count";
}

// Disabled for a while, as for a new start of what is behind it: what was known of it stays known.
TEST(ProviderDecider, HealthOutlivesADisabledTime) {
  ProviderDecider decider({.health = {.pause = 5s}});
  decider.update(abc, start);
  fail(decider, abc[1], 2);
  decider.update({abc[0], instance("b", 1, false), abc[2]}, start);
  EXPECT_TRUE(decider.out(*abc[1], start));
  decider.update(abc, start);
  EXPECT_EQ(counted(decider, 10), (Counts{{"a", 5}, {"c", 5}}));
  EXPECT_EQ(counted(decider, 9, start + 5s), (Counts{{"a", 3}, {"b", 3}, {"c", 3}}));
}

// "For ever", as the caller may put it.
TEST(ProviderDecider, TheLongestTimesAreNoOverflow) {
  constexpr auto ever = std::chrono::milliseconds::max();
  ProviderDecider decider(
      {.health = {.errors = 2, .window = ever, .pause = ever, .max_pause = ever}, .last_resort = ever});
  decider.update(abc, start);
  fail(decider, abc[0], 1);
  fail(decider, abc[0], 1, start + 24h);
  EXPECT_TRUE(decider.out(*abc[0], start + 48h));
  fail(decider, abc[0], 2, start + 24h * 366 * 2);
  EXPECT_TRUE(decider.out(*abc[0], start + 24h * 366 * 2 + 48h)) << "the pause does not double beyond the bound";
  decider.update({}, start + 48h);
  EXPECT_NE(decider.pick(start + 96h), nullptr);
}

// --- The last resort -------------------------------------------------------------------------------------------------

// V52: all sessions end at once, so the list is empty, and all services are well.
TEST(ProviderDecider, AListThatIsEmptiedLeavesALastResort) {
  ProviderDecider decider({.last_resort = 30s});
  decider.update(abc, start);
  decider.update({}, start + 1s);
  EXPECT_EQ(counted(decider, 30, start + 30s), (Counts{{"a", 10}, {"b", 10}, {"c", 10}}));
  EXPECT_FALSE(decider.pick(start + 30s)->confirmed);
  EXPECT_FALSE(decider.pick("key", start + 30s)->confirmed);
  fail(decider, decider.pick("key", start + 2s), 2, start + 2s);
  EXPECT_EQ(counted(decider, 30, start + 2s).size(), 2u) << "their health is known";
  EXPECT_EQ(decider.pick(start + 31s), nullptr);
  EXPECT_EQ(decider.pick("key", start + 31s), nullptr);
  decider.update({abc[0]}, start + 5s);
  EXPECT_EQ(counted(decider, 9, start + 5s), (Counts{{"a", 9}})) << "one that is listed is enough";
  EXPECT_TRUE(decider.pick(start + 5s)->confirmed);
}

// One after another, within the time: each is kept for as long from when it vanished.
TEST(ProviderDecider, TheLastResortHoldsThoseThatVanishedOneByOne) {
  ProviderDecider decider({.last_resort = 30s});
  decider.update(abc, start);
  decider.update({abc[1], abc[2]}, start + 1s);
  EXPECT_EQ(counted(decider, 10, start + 1s), (Counts{{"b", 5}, {"c", 5}}));
  decider.update({abc[2]}, start + 11s);
  decider.update({}, start + 21s);
  EXPECT_EQ(counted(decider, 30, start + 30s).size(), 3u);
  EXPECT_EQ(counted(decider, 30, start + 31s), (Counts{{"b", 15}, {"c", 15}}));
  EXPECT_EQ(counted(decider, 30, start + 50s), (Counts{{"c", 30}}));
  EXPECT_EQ(counted(decider, 1, start + 51s), (Counts{{"", 1}}));
}

// Back, and gone again: what is offered is its last incarnation.
TEST(ProviderDecider, TheLastResortIsTheLastIncarnation) {
  ProviderDecider decider({});
  decider.update({instance("a", 1)}, start);
  decider.update({}, start + 1s);
  decider.update({instance("a", 2)}, start + 2s);
  decider.update({}, start + 3s);
  EXPECT_EQ(decider.pick(start + 3s)->incarnation.value, 2);
  EXPECT_EQ(counted(decider, 5, start + 32s), (Counts{{"a", 5}}));
  EXPECT_EQ(decider.pick(start + 33s), nullptr);
}

// The list stays empty, and something else in the directory changes: that prolongs nothing.
TEST(ProviderDecider, TheLastResortIsNotProlonged) {
  ProviderDecider decider({.last_resort = 30s});
  decider.update(abc, start);
  for (const auto age : {1s, 11s, 21s})
    decider.update({}, start + age);
  EXPECT_EQ(counted(decider, 30, start + 30s).size(), 3u);
  EXPECT_EQ(decider.pick(start + 31s), nullptr);
}

TEST(ProviderDecider, NoLastResortUnlessWanted) {
  ProviderDecider decider({.last_resort = 0ms});
  decider.update(abc, start);
  decider.update({}, start);
  EXPECT_EQ(decider.pick(start), nullptr);
}

// Those that are there but disabled were disabled on purpose.
TEST(ProviderDecider, DisabledOnesAloneAreNoEmptyList) {
  ProviderDecider decider({});
  decider.update(abc, start);
  decider.update({instance("a", 1, false)}, start);
  EXPECT_EQ(decider.pick(start), nullptr);
}

}  // namespace
}  // namespace zkrecipes::detail
