#include "recipes/queues/candidate_items.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace zkrecipes::detail {
namespace {

std::vector<ItemKey> keys(const std::vector<std::pair<std::int32_t, std::int32_t>>& all) {
  std::vector<ItemKey> made;
  for (const auto& [priority, sequence] : all)
    made.push_back({priority, sequence, std::to_string(priority) + "/" + std::to_string(sequence)});
  return made;
}

TEST(CandidateItems, InOrderWhileNobodyIsFaster) {
  CandidateItems backlog;
  const std::vector<ItemKey> all = keys({{0, 1}, {0, 2}, {0, 3}, {1, 0}});
  backlog.replace(all, {});
  for (const ItemKey& key : all) {
    EXPECT_EQ(backlog.next(12345), key);
    backlog.won();
  }
  EXPECT_FALSE(backlog.next(0));
  EXPECT_TRUE(backlog.empty());
}

TEST(CandidateItems, LeavesOutWhatIsClaimedOrHeld) {
  CandidateItems backlog;
  backlog.hold("0/2");
  backlog.replace(keys({{0, 1}, {0, 2}, {0, 3}, {0, 4}}), {"0/1", "of somebody else"});
  EXPECT_EQ(backlog.next(0)->name, "0/3");
  backlog.let_go("0/2");
  backlog.replace(keys({{0, 1}, {0, 2}}), {});
  EXPECT_EQ(backlog.size(), 2u);
}

TEST(CandidateItems, WhatCannotBeTakenComesLast) {
  CandidateItems backlog;
  const std::vector<ItemKey> all = keys({{0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}});
  const auto in_turn = [&](std::size_t count) {
    std::string names;
    for (std::size_t i = 0; i < count; ++i)
      names += backlog.next(12345)->name + " ";
    return names;
  };
  backlog.put_last("0/1");
  backlog.put_last("1/0");
  for (int i = 0; i < 3; ++i)
    backlog.replace(all, {});
  EXPECT_EQ(backlog.size(), 5U);
  EXPECT_EQ(in_turn(5), "0/2 0/3 1/1 0/1 1/0 ");
  EXPECT_TRUE(backlog.empty());
  for (const ItemKey& key : all)
    backlog.insert(key);
  backlog.insert(all.front());
  backlog.lost_race();  // Nor does it choose one of them before the others.
  EXPECT_EQ(backlog.reach(), 2U);
  EXPECT_EQ(in_turn(5), "0/3 0/2 1/1 0/1 1/0 ");
  backlog.replace(all, {});
  backlog.put_in_order("0/1");
  backlog.replace(all, {});
  backlog.won();
  EXPECT_EQ(in_turn(4), "0/1 0/2 0/3 1/1 ");
  backlog.replace(keys({{2, 0}}), {});  // It is gone; another one may have its name.
  backlog.replace(all, {});
  EXPECT_EQ(in_turn(5), "0/1 0/2 0/3 1/0 1/1 ");
}

std::vector<ItemKey> many(int count) {
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (int i = 0; i < count; ++i)
    pairs.emplace_back(0, i);
  return keys(pairs);
}

constexpr auto widest = static_cast<std::int32_t>(CandidateItems::widest);

TEST(CandidateItems, SpreadsAfterLostRacesAndComesBack) {
  CandidateItems backlog;
  backlog.replace(many(1000), {});
  for (int i = 0; i < 20; ++i)
    backlog.lost_race();
  EXPECT_EQ(backlog.next(widest - 1)->sequence, widest - 1);
  EXPECT_EQ(backlog.next(widest)->sequence, 0) << "never further than the widest spread";
  for (int i = 0; i < 60; ++i)
    backlog.won();
  EXPECT_EQ(backlog.reach(), 1u);
  EXPECT_EQ(backlog.next(widest - 1)->sequence, 1) << "what was passed over comes first";
}

TEST(CandidateItems, SpreadsFurtherInALongList) {
  CandidateItems backlog;
  backlog.replace(many(32'000), {});
  for (int i = 0; i < 20; ++i)
    backlog.lost_race();
  EXPECT_EQ(backlog.next(1999)->sequence, 1999);
  backlog.replace(many(100), {});
  EXPECT_EQ(backlog.reach(), 100u);
}

TEST(CandidateItems, AConsumerThatOftenLosesRacesTriesFewerAtATime) {
  CandidateItems backlog;
  EXPECT_EQ(backlog.at_once(1000), 1000u);
  for (int i = 0; i < 1000; ++i)
    i % 4 == 0 ? backlog.won() : backlog.lost_race();
  EXPECT_GT(backlog.at_once(1000), 30u);
  EXPECT_LT(backlog.at_once(1000), 100u);
  for (int i = 0; i < 1000; ++i)
    backlog.lost_race();
  EXPECT_EQ(backlog.at_once(1000), 1u) << "it never stops";
  EXPECT_EQ(backlog.at_once(0), 1u);
  for (int i = 0; i < 400; ++i)
    backlog.won();
  EXPECT_EQ(backlog.at_once(1000), 1000u);
}

TEST(CandidateItems, AConsumerThatLosesRacesNeedsNewerLists) {
  CandidateItems backlog;
  EXPECT_EQ(backlog.takes_until_old(10), 256u);
  EXPECT_EQ(backlog.takes_until_old(8000), 1000u);
  backlog.lost_race();
  EXPECT_EQ(backlog.takes_until_old(8000), 125u) << "to read such a list costs something";
  for (int i = 0; i < 20; ++i)
    backlog.lost_race();
  EXPECT_EQ(backlog.takes_until_old(8000), 128u);
  EXPECT_EQ(backlog.takes_until_old(10), 32u);
}

TEST(CandidateItems, CalmAgainItTakesAllInOrder) {
  CandidateItems backlog;
  for (int i = 0; i < 100; ++i)
    backlog.lost_race();
  backlog.replace(many(1000), {});
  backlog.calm();
  EXPECT_EQ(backlog.next(12345)->sequence, 0);
  EXPECT_EQ(backlog.at_once(1000), 1000u);
}

// Those who compete for a few urgent items must not all meet at the last one of them.
TEST(CandidateItems, SpreadsEvenlyOverItsPriority) {
  std::map<std::int32_t, int> chosen;
  for (std::uint32_t random = 0; random < 1000; ++random) {
    CandidateItems backlog;
    backlog.replace(keys({{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 4}, {1, 5}, {2, 6}, {2, 7}}), {});
    for (int i = 0; i < 20; ++i)
      backlog.lost_race();
    EXPECT_EQ(backlog.reach(), 4u);
    ++chosen[backlog.next(random)->sequence];
  }
  EXPECT_EQ(chosen, (std::map<std::int32_t, int>{{0, 250}, {1, 250}, {2, 250}, {3, 250}}));
}

TEST(CandidateItems, NeverPassesOverAPriority) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    CandidateItems backlog;
    backlog.replace(keys({{-1, 5}, {0, 1}, {0, 2}, {0, 3}, {7, 0}, {7, 1}}), {});
    for (int i = 0; i < 10; ++i)
      backlog.lost_race();
    std::int32_t last = -1;
    while (const auto key = backlog.next(static_cast<std::uint32_t>(random()))) {
      EXPECT_GE(key->priority, last);
      last = key->priority;
    }
  }
}

TEST(CandidateItems, ReturnedItemGetsItsPlace) {
  CandidateItems backlog;
  backlog.replace(keys({{0, 2}, {0, 4}, {3, 1}}), {});
  for (const ItemKey& key : keys({{0, 3}, {3, 0}, {-5, 9}, {9, 9}, {0, 3}}))
    backlog.insert(key);
  std::vector<ItemKey> order;
  while (auto key = backlog.next(0))
    order.push_back(*key);
  EXPECT_EQ(order, keys({{-5, 9}, {0, 2}, {0, 3}, {0, 4}, {3, 0}, {3, 1}, {9, 9}}));
  // The counter has wrapped.
  backlog.replace(keys({{0, 2147483647}, {0, -2147483647}}), {});
  backlog.insert(keys({{0, -2147483647 - 1}}).front());
  EXPECT_EQ(backlog.items()[1].sequence, -2147483647 - 1);
}

TEST(CandidateItems, WhatIsNotDueIsNoCandidate) {
  CandidateItems backlog;
  EXPECT_FALSE(backlog.next_due());
  const std::vector<ItemKey> all = {{0, 9, "9"}, {0, 4, "4", 10}, {0, 5, "5", 20}, {0, 1, "1", 20}, {0, 2, "2", 30}};
  backlog.replace(all, {"5"}, 10);
  EXPECT_EQ(backlog.size(), 2U);
  EXPECT_EQ(backlog.next_due(), 20);
  backlog.become_due(19);
  EXPECT_EQ(backlog.size(), 2U);
  EXPECT_EQ(backlog.next(0)->name, "9");
  backlog.become_due(20);
  EXPECT_EQ(backlog.size(), 2U);
  EXPECT_EQ(backlog.next_due(), 30);
  backlog.insert(all.front());  // It has come back.
  std::vector<std::string> order;
  while (auto key = backlog.next(0))
    order.push_back(key->name);
  EXPECT_EQ(order, (std::vector<std::string>{"9", "4", "1"}));
  backlog.clear();
  backlog.become_due(100);
  EXPECT_TRUE(backlog.empty());
}

// Consumers that race for items of different times spread all the same.
TEST(CandidateItems, SpreadsOverTimes) {
  CandidateItems backlog;
  std::vector<ItemKey> all;
  for (int i = 0; i < 100; ++i)
    all.push_back({0, i, std::to_string(i), i});
  backlog.replace(all, {}, 99);
  for (int i = 0; i < 5; ++i)
    backlog.lost_race();
  EXPECT_GT(backlog.reach(), 1U);
}

TEST(FolderChanges, TellsAdditionsFromRemovals) {
  const FolderChanges before = folder_changes(10, 4);  // 7 made, 3 deleted.
  EXPECT_EQ(folder_changes(12, 2).created, before.created) << "two more deleted";
  EXPECT_NE(folder_changes(12, 2).deleted, before.deleted);
  EXPECT_EQ(folder_changes(11, 5).deleted, before.deleted) << "one more made";
  EXPECT_NE(folder_changes(12, 4).created, before.created) << "one more made, one more deleted";
  constexpr std::int32_t most = 2147483647;
  EXPECT_EQ(folder_changes(most, 10).created, folder_changes(-most - 1, 9).created) << "it wraps";
}

}  // namespace
}  // namespace zkrecipes::detail
