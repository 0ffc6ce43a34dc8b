#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/place_replicas.hpp>

#include "recipes/replication/fair_shares.hpp"
#include "tests/support/testkit.hpp"

namespace zkrecipes {
namespace {

using testkit::error_of;
using zkclient::Errc;
using Hosts = std::vector<ReplicaHost>;
using Names = std::vector<std::string>;
using Random = std::mt19937_64;

Names numbered_partitions(std::size_t count) {
  Names names;
  for (std::size_t i = 0; i < count; ++i)
    names.push_back("p" + std::to_string(i));
  return names;
}

/// `racks` 0: each host is a rack of its own.
Hosts numbered_hosts(std::size_t count, std::size_t racks = 0) {
  Hosts hosts;
  for (std::size_t i = 0; i < count; ++i)
    hosts.push_back({"h" + std::to_string(i), racks == 0 ? "" : "r" + std::to_string(i % racks)});
  return hosts;
}

std::string rack_of(const Hosts& hosts, const std::string& id) {
  const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const ReplicaHost& host) { return host.id == id; });
  if (found == hosts.end()) return "no such host";
  return found->rack.empty() ? "own " + id : found->rack;
}

std::map<std::string, std::size_t> loads(const Placement& placement) {
  std::map<std::string, std::size_t> loads;
  for (const auto& [partition, ids] : placement) {
    for (const std::string& id : ids)
      ++loads[id];
  }
  return loads;
}

/// How many replicas are where none was.
std::size_t new_replicas(const Placement& before, const Placement& after) {
  std::size_t count = 0;
  for (const auto& [partition, ids] : after) {
    const auto was = before.find(partition);
    for (const std::string& id : ids) {
      if (was == before.end() || std::count(was->second.begin(), was->second.end(), id) == 0) ++count;
    }
  }
  return count;
}

/// As few on one rack as there can be.
std::size_t unavoidable_on_a_rack(const Hosts& hosts, std::size_t replicas) {
  std::map<std::string, std::size_t> sizes;
  std::size_t usable = 0;
  for (const ReplicaHost& host : hosts) {
    if (host.weight == 0) continue;
    ++sizes[rack_of(hosts, host.id)];
    ++usable;
  }
  std::size_t most = 0;
  for (std::size_t room = 0; room < std::min(replicas, usable);) {
    ++most;
    room = 0;
    for (const auto& [rack, size] : sizes)
      room += std::min(size, most);
  }
  return most;
}

void expect_fair(const Placement& placement, const Hosts& hosts, std::size_t replicas) {
  std::map<std::string, std::size_t> racks;
  std::vector<detail::ShareTaker> takers;
  Names ids;
  for (const ReplicaHost& host : hosts) {
    if (host.weight == 0) continue;
    const std::size_t rack = racks.try_emplace(rack_of(hosts, host.id), racks.size()).first->second;
    takers.push_back({host.weight, rack});
    ids.push_back(host.id);
  }
  const detail::FairShares shares = detail::fair_shares(placement.size(), replicas, takers);
  auto all = loads(placement);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_GE(all[ids[i]], shares.of[i].low) << ids[i];
    EXPECT_LE(all[ids[i]], shares.of[i].high) << ids[i];
  }
}

/// What each placement promises, whatever was before.
void expect_sound(const Placement& placement, const Hosts& hosts, std::size_t replicas) {
  const auto usable = static_cast<std::size_t>(
      std::count_if(hosts.begin(), hosts.end(), [](const ReplicaHost& host) { return host.weight > 0; }));
  const std::size_t most_on_a_rack = unavoidable_on_a_rack(hosts, replicas);
  for (const auto& [partition, ids] : placement) {
    EXPECT_EQ(ids.size(), std::min(replicas, usable)) << partition;
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
    EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size()) << "a host has it twice";
    std::map<std::string, std::size_t> on_rack;
    for (const std::string& id : ids) {
      const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const ReplicaHost& one) { return one.id == id; });
      ASSERT_TRUE(host != hosts.end()) << id;
      EXPECT_GT(host->weight, 0U);
      EXPECT_LE(++on_rack[rack_of(hosts, id)], most_on_a_rack) << partition;
    }
  }
}

TEST(PlaceReplicas, EachHostGetsItsShare) {
  const Hosts hosts = {{"a", "", 1}, {"b", "", 2}, {"c", "", 3}, {"d", "", 4}};
  const Placement placement = place_replicas(numbered_partitions(1'000), hosts, 2);
  expect_sound(placement, hosts, 2);
  const std::map<std::string, std::size_t> expected = {{"a", 200}, {"b", 400}, {"c", 600}, {"d", 800}};
  EXPECT_EQ(loads(placement), expected);
}

// A host has each partition once at most: what it cannot have is shared out among the others.
TEST(PlaceReplicas, AShareThatNobodyCanHave) {
  const Hosts hosts = {{"giant", "", 1'000}, {"b", "", 1}, {"c", "", 3}};
  const Placement placement = place_replicas(numbered_partitions(100), hosts, 2);
  const std::map<std::string, std::size_t> expected = {{"giant", 100}, {"b", 25}, {"c", 75}};
  EXPECT_EQ(loads(placement), expected);
}

// The lonely host of a rack has to take one of each partition.
TEST(PlaceReplicas, RacksOfUnequalSize) {
  const Hosts hosts = {{"a1", "a"}, {"a2", "a"}, {"a3", "a"}, {"a4", "a"}, {"b1", "b"}};
  const Placement placement = place_replicas(numbered_partitions(100), hosts, 2);
  expect_sound(placement, hosts, 2);
  const std::map<std::string, std::size_t> expected = {{"a1", 25}, {"a2", 25}, {"a3", 25}, {"a4", 25}, {"b1", 100}};
  EXPECT_EQ(loads(placement), expected);
}

TEST(PlaceReplicas, FewerRacksThanReplicas) {
  const Hosts hosts = numbered_hosts(6, 2);
  const Placement placement = place_replicas(numbered_partitions(60), hosts, 3);
  expect_sound(placement, hosts, 3);
  for (const auto& [partition, ids] : placement) {
    const auto of_first =
        std::count_if(ids.begin(), ids.end(), [&](const auto& id) { return rack_of(hosts, id) == "r0"; });
    EXPECT_TRUE(of_first == 1 || of_first == 2) << partition;
  }
}

TEST(PlaceReplicas, FewerHostsThanReplicas) {
  const Placement placement = place_replicas({"p"}, {{"b"}, {"a"}, {"drained", "", 0}}, 3);
  EXPECT_EQ(placement.at("p"), (Names{"a", "b"}));
  EXPECT_TRUE(place_replicas({"p"}, {}, 3).at("p").empty());
  EXPECT_TRUE(place_replicas({"p"}, {{"drained", "", 0}}, 3).at("p").empty());
  EXPECT_TRUE(place_replicas({}, {{"a"}}, 3).empty());
}

TEST(PlaceReplicas, NothingMovesWithoutNeed) {
  const Names partitions = numbered_partitions(200);
  const Hosts hosts = numbered_hosts(9, 3);
  const Placement placement = place_replicas(partitions, hosts, 3);
  EXPECT_EQ(place_replicas(partitions, hosts, 3, placement), placement);
}

TEST(PlaceReplicas, AHostThatJoinsGetsItsShareAndNothingElseMoves) {
  const Names partitions = numbered_partitions(1'024);
  const Placement before = place_replicas(partitions, numbered_hosts(10), 3);
  const Hosts hosts = numbered_hosts(11);
  const Placement after = place_replicas(partitions, hosts, 3, before);
  expect_sound(after, hosts, 3);
  EXPECT_EQ(new_replicas(before, after), loads(after).at("h10"));
  EXPECT_EQ(loads(after).at("h10"), 3U * 1'024U / 11U);
}

TEST(PlaceReplicas, AHostThatLeavesIsReplacedAndNothingElseMoves) {
  const Names partitions = numbered_partitions(1'024);
  const Placement before = place_replicas(partitions, numbered_hosts(11), 3);
  const Hosts hosts = numbered_hosts(10);
  const Placement after = place_replicas(partitions, hosts, 3, before);
  expect_sound(after, hosts, 3);
  EXPECT_EQ(new_replicas(before, after), loads(before).at("h10"));
}

TEST(PlaceReplicas, ADrainedHostIsAsOneThatHasLeft) {
  const Names partitions = numbered_partitions(100);
  Hosts hosts = numbered_hosts(5);
  const Placement before = place_replicas(partitions, hosts, 2);
  hosts[2].weight = 0;
  const Placement drained = place_replicas(partitions, hosts, 2, before);
  EXPECT_EQ(loads(drained).count("h2"), 0U);
  hosts.erase(hosts.begin() + 2);
  EXPECT_EQ(place_replicas(partitions, hosts, 2, before), drained);
}

TEST(PlaceReplicas, FewerReplicasAreTakenFromThoseWithMost) {
  const Names partitions = numbered_partitions(100);
  const Hosts hosts = numbered_hosts(5);
  const Placement before = place_replicas(partitions, hosts, 3);
  const Placement after = place_replicas(partitions, hosts, 2, before);
  expect_sound(after, hosts, 2);
  EXPECT_LE(new_replicas(before, after), 2U);
}

// Racks whose hosts come and go, weights that change: shares within a replica, racks, and few moves. At least what a host
// lacks of its share has to move to it.
TEST(PlaceReplicas, RandomHistories) {
  std::size_t needed = 0;
  std::size_t made = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto upto = [&](std::size_t most) { return static_cast<std::size_t>(random() % (most + 1)); };
    const Names partitions = numbered_partitions(1 + upto(60));
    const std::size_t replicas = 1 + upto(3);
    const std::size_t racks = upto(5);
    Hosts hosts = numbered_hosts(1 + upto(11), racks);
    std::size_t next = hosts.size();
    Placement before;
    for (int change = 0; change < 8; ++change) {
      const Placement after = place_replicas(partitions, hosts, replicas, before);
      expect_sound(after, hosts, replicas);
      expect_fair(after, hosts, replicas);
      EXPECT_EQ(place_replicas(partitions, hosts, replicas, after), after);
      Hosts shuffled = hosts;
      Names reordered = partitions;
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      std::shuffle(reordered.begin(), reordered.end(), random);
      EXPECT_EQ(place_replicas(reordered, shuffled, replicas, before), after) << "it depends on the order";
      auto had = loads(before);
      for (const auto& [id, load] : loads(after))
        needed += load > had[id] ? load - had[id] : 0;
      made += new_replicas(before, after);
      before = after;
      switch (upto(3)) {
        case 0:
          hosts.push_back({"h" + std::to_string(next++), racks == 0 ? "" : "r" + std::to_string(upto(racks))});
          break;
        case 1: hosts.erase(hosts.begin() + static_cast<std::ptrdiff_t>(upto(hosts.size() - 1))); break;
        default: hosts[upto(hosts.size() - 1)].weight = static_cast<std::uint32_t>(upto(4)); break;
      }
      if (hosts.empty()) break;
    }
  }
  EXPECT_LE(made, needed + needed / 20) << "of " << needed;
}

// Without racks, and with equal weights, every host has as many as every other one, or one more.
TEST(PlaceReplicas, EqualHostsDifferByOne) {
  for (std::size_t count = 1; count <= 12; ++count) {
    for (std::size_t replicas = 1; replicas <= 4; ++replicas) {
      const Placement placement = place_replicas(numbered_partitions(37), numbered_hosts(count), replicas);
      const auto all = loads(placement);
      ASSERT_EQ(all.size(), count);
      const auto [least, most] =
          std::minmax_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
      EXPECT_LE(most->second - least->second, 1U) << count << " hosts, " << replicas << " replicas";
    }
  }
}

// The replicas of one host are spread over all others, so that all of them take part in replacing it.
TEST(PlaceReplicas, PartitionsOfAHostHaveManyPartners) {
  const Placement placement = place_replicas(numbered_partitions(300), numbered_hosts(10), 3);
  std::set<std::string> partners;
  for (const auto& [partition, ids] : placement) {
    if (std::count(ids.begin(), ids.end(), "h0") == 1) partners.insert(ids.begin(), ids.end());
  }
  EXPECT_EQ(partners.size(), 10U);
}

// Every version and every machine has to say the same.
TEST(PlaceReplicas, AFixedResult) {
  const Placement expected = {{"p0", {"h0", "h1"}}, {"p1", {"h1", "h2"}}, {"p2", {"h0", "h2"}}};
  EXPECT_EQ(place_replicas(numbered_partitions(3), numbered_hosts(3), 2), expected);
}

TEST(PlaceReplicas, BadInputIsRefused) {
  EXPECT_EQ(error_of([] { place_replicas({"p"}, {{"a"}}, 0); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { place_replicas({"p"}, {{"a"}}, max_replicas + 1); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { place_replicas({"p", "q", "p"}, {{"a"}}, 1); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { place_replicas({"p"}, {{"a"}, {"b"}, {"a"}}, 1); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { place_replicas({"p"}, {{"a", "", max_weight + 1}}, 1); }), Errc::invalid_argument);
  EXPECT_EQ(place_replicas({"p"}, {{"a"}}, 1, {{"other", {"a"}}, {"p", {"gone", "a", "a"}}}).at("p"), Names{"a"});
}

}  // namespace
}  // namespace zkrecipes
