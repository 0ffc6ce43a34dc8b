#include "recipes/replication/placement_decider.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace zkrecipes::detail {
namespace {

using std::chrono::milliseconds;
using Steps = std::vector<PlacementStep>;

PartitionFacts partition_facts(PlacementNode node, std::optional<HostIds> in_sync = {}, HostIds ready = {}) {
  return {"p", std::move(node), std::move(in_sync), std::move(ready)};
}

Steps steps_of(const PartitionFacts& facts, HostIds goal, std::size_t minimum = 1) {
  return decide_placement({facts}, {{"p", std::move(goal)}}, {.minimum = minimum, .max_moving = 1});
}

// --- Hosts ------------------------------------------------------------------------------------------------------------

std::optional<HostIds> ids_counting(const HostBook& book, const HostIds& assigned, milliseconds now) {
  const auto hosts = book.counting(assigned, now);
  if (!hosts) return std::nullopt;
  HostIds ids;
  for (const ReplicaHost& host : *hosts)
    ids.push_back(host.id);
  return ids;
}

TEST(HostBook, ANewHostCountsWhenItHasBeenThereForAWhile) {
  HostBook book(milliseconds(10));
  book.see({{"a"}}, milliseconds(100));
  EXPECT_EQ(ids_counting(book, {}, milliseconds(109)), HostIds());
  EXPECT_EQ(book.until_settled(milliseconds(109)), milliseconds(1));
  EXPECT_EQ(ids_counting(book, {}, milliseconds(110)), HostIds{"a"});
  EXPECT_EQ(book.until_settled(milliseconds(110)), std::nullopt);
  book.see({{"a"}, {"b"}}, milliseconds(200));
  EXPECT_EQ(ids_counting(book, {}, milliseconds(200)), HostIds{"a"});
  EXPECT_EQ(ids_counting(book, {"b"}, milliseconds(200)), (HostIds{"a", "b"})) << "it was here before";
}

TEST(HostBook, AHostThatGoesKeepsItsPlaceForAWhile) {
  HostBook book(milliseconds(10));
  book.see({{"a", "rack", 7}}, milliseconds(0));
  book.see({}, milliseconds(100));
  const auto counting = book.counting({"a"}, milliseconds(109));
  ASSERT_TRUE(counting && counting->size() == 1);
  EXPECT_EQ(counting->front(), (ReplicaHost{"a", "rack", 7}));
  EXPECT_EQ(ids_counting(book, {}, milliseconds(109)), HostIds()) << "it has no replica";
  EXPECT_EQ(ids_counting(book, {"a"}, milliseconds(110)), HostIds());
  book.see({{"a"}}, milliseconds(111));
  book.see({}, milliseconds(115));
  book.see({}, milliseconds(120));
  EXPECT_EQ(ids_counting(book, {"a"}, milliseconds(124)), HostIds{"a"});
  EXPECT_EQ(book.until_settled(milliseconds(124)), milliseconds(1));
}

TEST(HostBook, AHostThatWasNeverSeenIsWaitedFor) {
  HostBook book(milliseconds(10));
  book.see({{"a"}}, milliseconds(0));
  EXPECT_EQ(ids_counting(book, {"a", "x"}, milliseconds(9)), std::nullopt);
  EXPECT_EQ(ids_counting(book, {"a", "x"}, milliseconds(10)), HostIds{"a"});
}

// --- Steps ------------------------------------------------------------------------------------------------------------

TEST(PlacementDecider, APartitionBeginsWithItsGoal) {
  const Steps expected = {{"p", {{"a", "b"}, {"a", "b"}}}};
  EXPECT_EQ(steps_of({"p"}, {"a", "b"}), expected);
  EXPECT_EQ(steps_of({"p"}, {"a"}, 2), Steps()) << "too few hosts";
  EXPECT_EQ(steps_of({"p"}, {}), Steps());
}

TEST(PlacementDecider, AMoveAddsWaitsAndRemoves) {
  const PlacementNode resting{{"a", "b"}, {"a", "b"}};
  const PlacementNode moving{{"b", "c"}, {"a", "b", "c"}};
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a", "b"}, {"a", "b"}), {"b", "c"}), (Steps{{"p", moving}}));
  EXPECT_EQ(steps_of(partition_facts(moving, HostIds{"a", "b"}, {"a", "b"}), {"b", "c"}), Steps());
  EXPECT_EQ(steps_of(partition_facts(moving, HostIds{"a", "b", "c"}, {"a", "c"}), {"b", "c"}), Steps())
      << "one of those that would stay is away";
  EXPECT_EQ(steps_of(partition_facts(moving, std::nullopt, {}), {"b", "c"}), Steps());
  const Steps end = {{"p", {{"b", "c"}, {"b", "c"}}, true, {"b", "c"}}};
  EXPECT_EQ(steps_of(partition_facts(moving, HostIds{"a", "b", "c"}, {"a", "b", "c"}), {"b", "c"}), end);
  EXPECT_EQ(steps_of(partition_facts(moving, HostIds{"a", "b", "c"}, {"b", "c"}), {"b", "c"}), end);
}

TEST(PlacementDecider, AnotherGoalKeepsWhoMayHaveAcknowledgedWrites) {
  const PlacementNode moving{{"b", "c"}, {"a", "b", "c"}};
  EXPECT_EQ(steps_of(partition_facts(moving, HostIds{"a", "b"}, {"b"}), {"b", "d"}),
            (Steps{{"p", {{"b", "d"}, {"a", "b", "d"}}, true, {"b"}}}))
      << "c never had them";
  EXPECT_EQ(steps_of(partition_facts(moving), {"b", "d"}), (Steps{{"p", {{"b", "d"}, {"a", "b", "c", "d"}}}}))
      << "nobody knows who has them";
}

TEST(PlacementDecider, NothingIsTakenAwayWhileTooFewAreReady) {
  const PlacementNode resting{{"a", "b"}, {"a", "b"}};
  const Steps whole = {{"p", {{"a", "c"}, {"a", "b", "c"}}}};
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a"}), {"a", "c"}), whole)
      << "the one that is in sync has lost its disk: an operator may want what b has";
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a"}, {"a"}), {"a", "c"}, 2), whole);
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a", "x"}, {"a", "x"}), {"a", "c"}, 2), whole)
      << "x is not placed here, so it may go at any time";
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a"}, {"a"}), {"a", "c"}),
            (Steps{{"p", {{"a", "c"}, {"a", "c"}}, true, {"a"}}}));
}

TEST(PlacementDecider, AMissingNodeBeginsWithAllWhoMayHaveAcknowledgedWrites) {
  PartitionFacts removed{"p", std::nullopt, HostIds{"a", "b"}, HostIds{"b"}, HostIds{"b", "c"}};
  EXPECT_EQ(steps_of(removed, {"b", "d"}), (Steps{{"p", {{"b", "d"}, {"a", "b", "c", "d"}}, true}}));
  removed.in_sync.reset();
  EXPECT_EQ(steps_of(removed, {"b", "d"}), (Steps{{"p", {{"b", "d"}, {"b", "c", "d"}}}}));
}

TEST(PlacementDecider, TooFewHostsChangeNothing) {
  const PlacementNode resting{{"a", "b"}, {"a", "b"}};
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a", "b"}, {"a"}), {"a"}, 2), Steps());
  const PlacementNode moving{{"b", "c"}, {"a", "b", "c"}};
  EXPECT_EQ(steps_of(partition_facts(moving, HostIds{"a", "b", "c"}, {"a", "b", "c"}), {"b"}, 2).size(), 1U)
      << "a move still ends";
  EXPECT_EQ(steps_of(partition_facts(moving, HostIds{"a", "b", "c"}, {"a", "b", "c"}), {"b"}, 3), Steps())
      << "unless it was begun by a placer with a lower minimum";
  const PlacementNode nobody{{}, {"a"}};
  EXPECT_EQ(steps_of(partition_facts(nobody, HostIds{"a"}, {"a"}), {}), Steps());
  EXPECT_EQ(steps_of(partition_facts(nobody, HostIds{"a"}, {"a"}), {"b"}), (Steps{{"p", {{"b"}, {"a", "b"}}}}));
}

// It would pass for one that has all writes, and erase them a moment later.
TEST(PlacementDecider, AHostGetsAReplicaBackWhenItHasLeft) {
  const HostIds all{"a", "b", "c"};
  PartitionFacts facts = partition_facts({{"b", "c"}, {"b", "c"}}, all, all);
  facts.members = all;
  EXPECT_EQ(steps_of(facts, {"a", "b"}), Steps()) << "a still closes what it had";
  facts.node = PlacementNode{{"c", "d"}, {"b", "c", "d"}};
  EXPECT_EQ(steps_of(facts, {"a", "b"}), Steps()) << "another move is under way";
  facts.in_sync = facts.ready = HostIds{"b", "c", "d"};
  EXPECT_EQ(steps_of(facts, {"a", "b"}), (Steps{{"p", {{"c", "d"}, {"c", "d"}}, true, {"c", "d"}}})) << "which can end";
  facts.node = PlacementNode{{"b", "c"}, {"b", "c"}};
  facts.members = {"b", "c"};
  EXPECT_EQ(steps_of(facts, {"a", "b"}), (Steps{{"p", {{"a", "b"}, {"a", "b", "c"}}}})) << "a has left";
}

TEST(PlacementDecider, ThoseWithTheFewestReadyReplicasGoFirst) {
  const PlacementNode resting{{"a", "b"}, {"a", "b"}};
  std::vector<PartitionFacts> all;
  for (const char* name : {"p", "q", "r"})
    all.push_back({name, resting, HostIds{"a", "b"}, HostIds{"a", "b"}});
  all[1].ready = {"b"};
  const Placement goal = {{"p", {"b", "c"}}, {"q", {"b", "c"}}, {"r", {"b", "c"}}};
  const Steps one = decide_placement(all, goal, {.minimum = 1, .max_moving = 1});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one.front().partition, "q");
  EXPECT_EQ(decide_placement(all, goal, {.minimum = 1, .max_moving = 2}).size(), 2U);
}

TEST(PlacementDecider, ARefusedStepTakesNoPlace) {
  const PlacementNode resting{{"a", "b"}, {"a", "b"}};
  std::vector<PartitionFacts> all;
  for (const char* name : {"p", "q", "r"})
    all.push_back({name, resting, HostIds{"a", "b"}, HostIds{"a", "b"}});
  all[0].refused = true;
  all[1].node = PlacementNode{{"b", "c"}, {"a", "b", "c"}};
  all[1].refused = true;
  const Steps steps =
      decide_placement(all, {{"p", {"b", "c"}}, {"q", {"b", "c"}}, {"r", {"b", "c"}}}, {.max_moving = 1});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps.front().partition, "r");
}

// --- Histories --------------------------------------------------------------------------------------------------------

/// Hosts that die, come back, lose their disks, are drained; groups whose primaries take members in and out; and a placer
/// whose view is older than the world when it writes.
class PlacedWorld {
 public:
  explicit PlacedWorld(std::uint64_t seed) : random_(seed) {
    rules_ = {.replicas = 1 + upto(2), .minimum = 1, .max_moving = 1 + upto(2)};
    rules_.minimum = 1 + upto(rules_.replicas - 1);
    const std::size_t count = rules_.replicas + upto(5);
    racks_ = upto(1) * (2 + upto(2));
    for (std::size_t i = 0; i < count; ++i)
      add_host();
    for (std::size_t i = 0; i <= upto(7); ++i)
      groups_["p" + std::to_string(i)];
  }

  void live() {
    for (int i = 0; i < 300; ++i)
      happen(upto(19));
  }

  /// No host comes or goes any more. Whoever is needed for what was acknowledged is back.
  void rest() {
    for (auto& [name, group] : groups_) {
      for (auto& [id, host] : hosts_)
        host.alive = host.alive || (ready(group).empty() && has_copy(group, id));
    }
    std::size_t alive = 0;
    for (auto& [id, host] : hosts_) {
      if (host.alive && host.weight == 0) host.weight = 1;
      alive += host.alive ? 1U : 0U;
    }
    for (; alive < rules_.minimum; ++alive)
      add_host();
    for (int i = 0; i < 400; ++i) {
      for (int j = 0; j < 5; ++j)
        work();
      decide(false);
    }
    const auto hosts = book_.counting(assigned(), now_);
    ASSERT_TRUE(hosts);
    for (const auto& [name, group] : groups_) {
      ASSERT_TRUE(group.node) << name;
      EXPECT_FALSE(group.node->moving()) << name;
      EXPECT_EQ(group.node->wanted.size(), std::min(rules_.replicas, alive)) << name;
      EXPECT_EQ(ready(group), group.node->wanted) << name;
      expect_racks_apart(*group.node, *hosts);
    }
    EXPECT_LE(new_commits_, 300U) << "it does not come to an end";
  }

 private:
  struct Host {
    ReplicaHost host;
    std::uint32_t weight = 1;
    bool alive = true;
    int disk = 0;
  };
  struct Group {
    std::optional<PlacementNode> node;
    HostIds open = {};                                  // As the node has said last.
    bool removed = false;                               // By hand; until it does not move any more.
    std::optional<std::map<std::string, int>> in_sync;  // With the disks that the state names.
    int version = 0;
  };

  std::size_t upto(std::size_t most) { return static_cast<std::size_t>(random_() % (most + 1)); }
  template <typename Map>
  auto& any(Map& map) {
    return *std::next(map.begin(), static_cast<std::ptrdiff_t>(upto(map.size() - 1)));
  }
  void add_host() {
    const std::string id = "h" + std::to_string(hosts_.size());
    hosts_[id].host = {id, racks_ == 0 ? "" : "r" + std::to_string(upto(racks_ - 1))};
  }
  bool is_member(const Group& group, const std::string& id) const {
    const auto host = hosts_.find(id);
    return host != hosts_.end() && host->second.alive && std::binary_search(group.open.begin(), group.open.end(), id);
  }
  HostIds ready(const Group& group) const {
    HostIds ids;
    if (!group.in_sync) return ids;
    for (const auto& [id, disk] : *group.in_sync) {
      if (is_member(group, id) && hosts_.at(id).disk == disk) ids.push_back(id);
    }
    return ids;
  }
  /// Its disk has all that was acknowledged, and it may use that.
  bool has_copy(const Group& group, const std::string& id) const {
    if (!group.in_sync || !group.in_sync->contains(id)) return false;
    return std::binary_search(group.open.begin(), group.open.end(), id) && hosts_.at(id).disk == group.in_sync->at(id);
  }
  std::size_t copies(const Group& group) const {
    return static_cast<std::size_t>(
        std::count_if(hosts_.begin(), hosts_.end(), [&](const auto& entry) { return has_copy(group, entry.first); }));
  }
  HostIds assigned() const {
    std::set<std::string> all;
    for (const auto& [name, group] : groups_) {
      if (group.node) all.insert(group.node->assigned.begin(), group.node->assigned.end());
    }
    return {all.begin(), all.end()};
  }

  void happen(std::size_t what) {
    Host& host = any(hosts_).second;
    switch (what) {
      case 0: host.alive = false; break;
      case 1:
      case 2: host.alive = true; break;
      case 3: empty_disk(host); break;
      case 4: host.weight = static_cast<std::uint32_t>(upto(2)); break;
      case 5:
        if (hosts_.size() < 12) add_host();
        break;
      case 6:  // Another placer.
        book_ = HostBook(settle);
        goal_ = PlacementGoal();
        break;
      case 7: remove_node(any(groups_).second); break;
      case 8:
      case 9: decide(true); break;
      default: work(); break;
    }
    now_ += milliseconds(upto(5));
  }
  /// Of a host that is away, and never the last one that has what was acknowledged.
  void empty_disk(Host& host) {
    if (host.alive) return;
    for (const auto& [name, group] : groups_) {
      if (group.in_sync && group.in_sync->contains(host.host.id) && copies(group) < 2) return;
    }
    ++host.disk;
  }
  /// By hand, now and then.
  void remove_node(Group& group) {
    if (upto(3) != 0) return;
    group.node.reset();
    group.removed = true;
  }
  /// What a group does by itself.
  void work() {
    auto& [name, group] = any(groups_);
    if (group.open.empty()) return;
    const std::string id = group.open[upto(group.open.size() - 1)];
    if (!group.in_sync) {
      if (is_member(group, id)) group.in_sync.emplace().emplace(id, hosts_.at(id).disk);
      return;
    }
    if (ready(group).empty()) return;  // It has no primary.
    ++group.version;
    if (is_member(group, id)) (*group.in_sync)[id] = hosts_.at(id).disk;
    const HostIds able = ready(group);
    const std::string other = any(*group.in_sync).first;
    if (!std::binary_search(able.begin(), able.end(), other)) group.in_sync->erase(other);
  }

  void decide(bool late) {
    std::vector<ReplicaHost> present;
    for (const auto& [id, host] : hosts_) {
      if (!host.alive) continue;
      present.push_back(host.host);
      present.back().weight = host.weight;
    }
    now_ += milliseconds(upto(3));
    book_.see(present, now_);
    const auto counting = book_.counting(assigned(), now_);
    if (!counting) return;
    std::vector<PartitionFacts> facts;
    std::map<std::string, int> versions;
    for (const auto& [name, group] : groups_) {
      PartitionFacts partition{name, group.node, {}, ready(group)};
      std::copy_if(group.open.begin(), group.open.end(), std::back_inserter(partition.members),
                   [&](const std::string& id) { return hosts_.at(id).alive; });
      if (group.in_sync) {
        partition.in_sync.emplace();
        for (const auto& [id, disk] : *group.in_sync)
          partition.in_sync->push_back(id);
      }
      facts.push_back(std::move(partition));
      versions[name] = group.version;
    }
    const Placement goal = goal_.reach(*counting, facts, rules_.replicas);
    const auto steps = decide_placement(facts, goal, rules_);
    for (std::size_t i = 0; late && i < upto(3); ++i)
      happen(upto(5) == 5 ? 19 : upto(3));
    for (const PlacementStep& step : steps)
      commit(step, versions[step.partition], *counting);
    if (late) new_commits_ = 0;
    std::size_t moving = 0;
    for (auto& [name, group] : groups_) {
      group.removed = group.removed && (!group.node || group.node->moving());
      moving += group.node && group.node->moving() && !group.removed ? 1U : 0U;
    }
    EXPECT_LE(moving, rules_.max_moving);
  }
  void commit(const PlacementStep& step, int version, const std::vector<ReplicaHost>& hosts) {
    Group& group = groups_.at(step.partition);
    if (step.rests_on_state && version != group.version) return;
    const HostIds able = ready(group);
    if (!std::includes(able.begin(), able.end(), step.rests_on_ready.begin(), step.rests_on_ready.end())) return;
    const std::size_t before = able.size();
    group.node = step.next;
    group.open = step.next.assigned;
    ++new_commits_;
    const HostIds& next = group.node->assigned;
    EXPECT_TRUE(std::includes(next.begin(), next.end(), step.next.wanted.begin(), step.next.wanted.end()));
    EXPECT_GE(step.next.wanted.size(), rules_.minimum);
    expect_racks_apart(step.next, hosts);
    if (!group.in_sync) return;
    EXPECT_GE(copies(group), 1U) << "what was acknowledged is lost";
    EXPECT_GE(ready(group).size(), std::min(before, step.next.wanted.size())) << "a replica went too early";
  }
  void expect_racks_apart(const PlacementNode& node, const std::vector<ReplicaHost>& hosts) const {
    std::set<std::string> all;
    for (const ReplicaHost& host : hosts) {
      if (host.weight > 0) all.insert(host.rack.empty() ? host.id : host.rack);
    }
    std::set<std::string> used;
    for (const std::string& id : node.wanted) {
      const std::string& rack = hosts_.at(id).host.rack;
      used.insert(rack.empty() ? id : rack);
    }
    if (all.size() < rules_.replicas) return;
    EXPECT_EQ(used.size(), node.wanted.size()) << "two replicas on a rack";
  }

  static constexpr milliseconds settle{20};
  std::mt19937_64 random_;
  PlacementRules rules_;
  std::size_t racks_ = 0;
  std::map<std::string, Host> hosts_;
  std::map<std::string, Group> groups_;
  milliseconds now_{0};
  HostBook book_{settle};
  PlacementGoal goal_;
  std::size_t new_commits_ = 0;  // Since the last decision of the busy time.
};

TEST(PlacementDecider, RandomHistories) {
  for (std::uint64_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PlacedWorld world(seed);
    world.live();
    world.rest();
  }
}

}  // namespace
}  // namespace zkrecipes::detail
