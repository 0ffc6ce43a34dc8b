#include <zkrecipes/hashing.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <zkclient/error.hpp>

#include "tests/support/testkit.hpp"

namespace zkrecipes {
namespace {

using testkit::error_of;
using zkclient::Errc;

std::vector<std::string> names_up_to(std::size_t count, const char* prefix = "partition-") {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i)
    names.push_back(prefix + std::to_string(i));
  return names;
}

std::vector<WeightedMember> members_up_to(std::size_t count) {
  std::vector<WeightedMember> members;
  for (const std::string& id : names_up_to(count, "member-"))
    members.push_back({id});
  return members;
}

using Assignment = std::map<std::string, std::string>;

Assignment assignment(const std::vector<std::string>& partitions, const std::vector<WeightedMember>& members,
                      double max_load = 1.0) {
  const auto assigned = assign(partitions, members, max_load);
  Assignment owners;
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    if (assigned[i]) owners[partitions[i]] = members[*assigned[i]].id;
  }
  return owners;
}

std::map<std::string, std::size_t> loads(const Assignment& owners) {
  std::map<std::string, std::size_t> loads;
  for (const auto& [partition, owner] : owners)
    ++loads[owner];
  return loads;
}

std::size_t moved(const Assignment& before, const Assignment& after) {
  return static_cast<std::size_t>(std::count_if(
      before.begin(), before.end(), [&](const auto& owned) { return after.at(owned.first) != owned.second; }));
}

// FNV-1a 64 and the finaliser of splitmix64, as published; what these values are must never change.
TEST(Hashing, TestVectors) {
  EXPECT_EQ(hash_of(""), 0xf52a15e9a9b5e89bU);
  EXPECT_EQ(hash_of("a"), 0x02c0bdbf481420f8U);
  EXPECT_EQ(hash_of("foobar"), 0x404da9e3b74078c2U);
  EXPECT_EQ(hash_of("partition-0"), 0xcf6628e1ba96ea97U);
  EXPECT_EQ(partition_of("foobar", 1'000), 0x404da9e3b74078c2U % 1'000);
  EXPECT_EQ(partition_of("foobar", 1), 0U);
}

// Processes of other versions work it out, too.
TEST(Hashing, AssignmentsNeverChange) {
  std::string owners;
  for (const auto& member : assign(names_up_to(24), members_up_to(5), 1.25))
    owners += std::to_string(*member);
  EXPECT_EQ(owners, "041022130301114434120332");
  std::string weighted;
  for (const auto& member : assign(names_up_to(24), {{"a", 1}, {"b", 2}, {"c", 5}}))
    weighted += std::to_string(*member);
  EXPECT_EQ(weighted, "221212212212212202220021");
  std::string ring;
  const HashRing circle({{"a", 1}, {"b", 2}});
  for (const std::string& key : names_up_to(24, "key-"))
    ring += circle.owner(key)->id;
  EXPECT_EQ(ring, "aabbbbaaabaababbbbabbabb");
}

TEST(Hashing, PartitionsOfKeysAreEvenlyFilled) {
  std::vector<int> filled(64);
  for (const std::string& key : names_up_to(64'000, "user-"))
    ++filled[partition_of(key, filled.size())];
  for (const int keys : filled) {
    EXPECT_GT(keys, 850);
    EXPECT_LT(keys, 1'150);
  }
}

TEST(Hashing, NobodyHasMoreThanItsRoom) {
  for (const std::size_t partitions : {0U, 1U, 7U, 100U, 1'024U}) {
    for (const std::size_t members : {1U, 2U, 3U, 11U}) {
      for (const double max_load : {1.0, 1.25, 2.0}) {
        const Assignment owners = assignment(names_up_to(partitions), members_up_to(members), max_load);
        EXPECT_EQ(owners.size(), partitions) << "each has an owner";
        const auto room = static_cast<std::size_t>(
            std::ceil(max_load * static_cast<double>(partitions) / static_cast<double>(members)));
        for (const auto& [member, load] : loads(owners))
          EXPECT_LE(load, room) << partitions << " " << members << " " << max_load;
      }
    }
  }
}

// Row V97. Ideal: 1,024 / 11 = 93. (Striping, as others do it, moves nine tenths.)
TEST(Hashing, AMemberThatJoinsMovesAnEleventh) {
  const auto partitions = names_up_to(1'024);
  const auto ten = members_up_to(10);
  const auto eleven = members_up_to(11);
  const Assignment tight = assignment(partitions, ten);
  EXPECT_LE(moved(tight, assignment(partitions, eleven)), 123U) << "12 %, at perfect balance";
  const Assignment loose = assignment(partitions, ten, 1.25);
  const Assignment joined = assignment(partitions, eleven, 1.25);
  EXPECT_LE(moved(loose, joined), 103U) << "10 %";
  EXPECT_GE(loads(joined)["member-10"], 70U);
}

// Without limits of load: to the one that joins, from the one that leaves, and nothing else.
TEST(Hashing, OnlyWhatMustMoveMoves) {
  const auto partitions = names_up_to(1'024);
  const auto before = assignment(partitions, members_up_to(10), 1'000);
  const auto after = assignment(partitions, members_up_to(11), 1'000);
  for (const std::string& partition : partitions) {
    if (after.at(partition) != before.at(partition)) {
      EXPECT_EQ(after.at(partition), "member-10");
    }
  }
}

// With room for all that are left, what a leaver had moves, and nothing else.
TEST(Hashing, OnlyThePartitionsOfAMemberThatLeavesMove) {
  const auto partitions = names_up_to(1'024);
  const auto before = assignment(partitions, members_up_to(11), 2.0);
  for (std::size_t gone = 0; gone < 11; ++gone) {
    auto others = members_up_to(11);
    const std::string leaver = others[gone].id;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(gone));
    const auto after = assignment(partitions, others, 2.0);
    for (const std::string& partition : partitions) {
      if (before.at(partition) != leaver) {
        EXPECT_EQ(after.at(partition), before.at(partition));
      }
    }
  }
  const auto tight = assignment(partitions, members_up_to(11));
  EXPECT_LE(moved(tight, assignment(partitions, members_up_to(10))), 123U) << "12 %, at perfect balance";
}

TEST(Hashing, AnyOrderOfInput) {
  std::mt19937 random(20'240'601);
  auto partitions = names_up_to(200);
  std::vector<WeightedMember> members = {{"a", 1}, {"b", 3}, {"c", 2}, {"d", 1}, {"e", 0}, {"f", 7}};
  for (const double max_load : {1.0, 1.1}) {
    const Assignment expected = assignment(partitions, members, max_load);
    for (int i = 0; i < 50; ++i) {
      std::shuffle(partitions.begin(), partitions.end(), random);
      std::shuffle(members.begin(), members.end(), random);
      EXPECT_EQ(assignment(partitions, members, max_load), expected);
    }
  }
}

TEST(Hashing, SharesFollowTheWeights) {
  const std::vector<WeightedMember> members = {{"a", 1}, {"b", 2}, {"c", 5}, {"none", 0}};
  auto exact = loads(assignment(names_up_to(1'024), members));
  EXPECT_EQ(exact["a"], 128U);
  EXPECT_EQ(exact["b"], 256U);
  EXPECT_EQ(exact["c"], 640U);
  EXPECT_EQ(exact.count("none"), 0U);
  auto free = loads(assignment(names_up_to(8'000), members, 1'000));
  EXPECT_NEAR(static_cast<double>(free["a"]), 1'000, 120);
  EXPECT_NEAR(static_cast<double>(free["b"]), 2'000, 160);
  EXPECT_NEAR(static_cast<double>(free["c"]), 5'000, 180);
}

// Weights are shares: all of them times ten change nothing but what rounding does.
TEST(Hashing, AWeightThatGrowsMovesOnlyToItsMember) {
  const auto partitions = names_up_to(1'024);
  const auto before = assignment(partitions, {{"a", 4}, {"b", 4}, {"c", 4}}, 1'000);
  const auto after = assignment(partitions, {{"a", 4}, {"b", 5}, {"c", 4}}, 1'000);
  EXPECT_GT(moved(before, after), 0U);
  for (const std::string& partition : partitions) {
    if (after.at(partition) != before.at(partition)) {
      EXPECT_EQ(after.at(partition), "b");
    }
  }
}

TEST(Hashing, NobodyToAssignTo) {
  EXPECT_EQ(assign(names_up_to(2), {}), std::vector<std::optional<std::size_t>>(2));
  EXPECT_EQ(assign(names_up_to(2), {{"a", 0}}), std::vector<std::optional<std::size_t>>(2));
  EXPECT_TRUE(assign({}, members_up_to(3)).empty());
}

TEST(Hashing, RefusedArguments) {
  const auto refused = [](auto action) { return error_of(action) == Errc::invalid_argument; };
  EXPECT_TRUE(refused([] { (void)assign({"p"}, {{"a"}}, 0.99); }));
  EXPECT_TRUE(refused([] { (void)assign({"p"}, {{"a"}}, 1'001); }));
  EXPECT_TRUE(refused([] { (void)assign({"p"}, {{"a"}}, std::numeric_limits<double>::quiet_NaN()); }));
  EXPECT_TRUE(refused([] { (void)assign({"p", "p"}, {{"a"}}); }));
  EXPECT_TRUE(refused([] { (void)assign({"p"}, {{"a"}, {"a"}}); }));
  EXPECT_TRUE(refused([] { (void)assign({"p"}, {{"a", max_weight + 1}}); }));
  EXPECT_TRUE(refused([] { HashRing ring({{"a"}, {"a"}}); }));
  EXPECT_TRUE(refused([] { HashRing ring({{"a"}}, 0); }));
  EXPECT_TRUE(refused([] { HashRing ring({{"a", 100'000}}); }));
}

TEST(Hashing, ARingMovesOnlyToTheOneThatJoins) {
  const HashRing ten(members_up_to(10));
  const HashRing eleven(members_up_to(11));
  std::map<std::string, int> shares;
  int moved = 0;
  constexpr int keys = 20'000;
  for (const std::string& key : names_up_to(keys, "key-")) {
    ++shares[ten.owner(key)->id];
    if (ten.owner(key)->id == eleven.owner(key)->id) continue;
    EXPECT_EQ(eleven.owner(key)->id, "member-10");
    ++moved;
  }
  EXPECT_NEAR(moved, keys / 11, keys / 40);
  for (const auto& [member, share] : shares)
    EXPECT_NEAR(share, keys / 10, keys / 25) << member;
}

TEST(Hashing, ReplicasOfARingAreDifferentMembers) {
  const HashRing ring({{"a", 1}, {"b", 2}, {"c", 1}, {"none", 0}}, 16);
  for (const std::string& key : names_up_to(100, "key-")) {
    const auto owners = ring.owners(key, 2);
    ASSERT_EQ(owners.size(), 2U);
    EXPECT_EQ(owners[0], ring.owner(key));
    EXPECT_NE(owners[0]->id, owners[1]->id);
    EXPECT_EQ(ring.owners(key, 9).size(), 3U);
  }
  EXPECT_EQ(HashRing({}).owner("key"), nullptr);
  EXPECT_TRUE(HashRing({{"none", 0}}).owners("key", 3).empty());
}

}  // namespace
}  // namespace zkrecipes
