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

// It is still a member, and in sync: if it got its replica back, another one would go for its sake, and then it would leave.
TEST(PlacementDecider, AHostGetsItsReplicaBackWhenItHasLeft) {
  const HostIds all{"a", "b", "c"};
  PartitionFacts facts = partition_facts({{"b", "c"}, {"b", "c"}}, all, all);
  facts.members = all;
  EXPECT_EQ(steps_of(facts, {"a", "b"}), Steps());
  facts.node = PlacementNode{{"b", "c"}, {"b", "c", "d"}};
  EXPECT_EQ(steps_of(facts, {"a", "b"}), (Steps{{"p", {{"b", "c"}, {"b", "c"}}, true, {"b", "c"}}}))
      << "a move that is under way ends";
  facts.ready = facts.members = {"b", "c"};
  EXPECT_EQ(steps_of(facts, {"a", "b"}), (Steps{{"p", {{"a", "b"}, {"a", "b", "c"}}, true, {"b", "c"}}}));
  facts.node = PlacementNode{{"b", "c"}, {"a", "b", "c"}};
  facts.ready = facts.members = all;
  EXPECT_EQ(steps_of(facts, {"a", "b"}), (Steps{{"p", {{"a", "b"}, {"a", "b", "c"}}}})) << "it was not told to close";
}

// The primary was told to close its replica, and takes the ones out that were to go on without it.
TEST(PlacementDecider, TheOnlyOnesInSyncAreCalledBack) {
  const PlacementNode resting{{"b"}, {"b"}};
  const Steps back = {{"p", {{"b"}, {"a", "b"}}}};
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a"}, {"a"}), {"b"}), back);
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a"}), {"b"}), back) << "it has left";
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a", "b"}), {"b"}), back) << "b is not there";
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"a", "b"}, {"b"}), {"b"}), Steps());
  EXPECT_EQ(steps_of(partition_facts(resting, HostIds{"b"}), {"b"}), Steps());
  EXPECT_EQ(steps_of(partition_facts({{"b"}, {"a", "b"}}, HostIds{"a"}, {"a"}), {"b"}), Steps()) << "it is back";
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

TEST(PlacementDecider, AMoveThatIsLateTakesNoPlace) {
  std::vector<PartitionFacts> all = {partition_facts({{"b", "c"}, {"a", "b", "c"}}, HostIds{"a", "b"}, {"a", "b"}),
                                     partition_facts({{"a", "b"}, {"a", "b"}}, HostIds{"a", "b"}, {"a", "b"})};
  all[0].members = {"a", "b"};
  all[1].name = "q";
  JoinBook book(milliseconds(10));
  const auto is_late = [&](milliseconds now) {
    book.see(all, now);
    return all[0].late;
  };
  const auto steps = [&] { return decide_placement(all, {{"p", {"b", "c"}}, {"q", {"b", "c"}}}, {.max_moving = 1}); };
  EXPECT_FALSE(is_late(milliseconds(100)));
  EXPECT_FALSE(is_late(milliseconds(109)));
  EXPECT_EQ(steps(), Steps());
  EXPECT_TRUE(is_late(milliseconds(110)));
  EXPECT_EQ(steps(), (Steps{{"q", {{"b", "c"}, {"a", "b", "c"}}}}));
  all[0].node = PlacementNode{{"b", "d"}, {"a", "b", "d"}};
  EXPECT_FALSE(is_late(milliseconds(111))) << "another host has its time";
  all[0].members = {"a", "b", "d"};
  EXPECT_FALSE(is_late(milliseconds(200))) << "it catches up";
}

// Else each of its partitions would keep the others waiting, one after the other.
TEST(PlacementDecider, AHostThatHangsKeepsNoOthersWaiting) {
  const PlacementNode resting{{"a", "b"}, {"a", "b"}};
  const PlacementNode to_c{{"b", "c"}, {"a", "b", "c"}};
  std::vector<PartitionFacts> all;
  for (const char* name : {"p", "q", "r", "s"})
    all.push_back({name, resting, HostIds{"a", "b"}, HostIds{"a", "b"}, HostIds{"a", "b"}});
  all[0].node = to_c;
  JoinBook book(milliseconds(10));
  HostIds hanging;
  const auto begun = [&](milliseconds now) {
    hanging = book.see(all, now);
    HostIds names;
    const Placement goal = {{"p", {"b", "c"}}, {"q", {"b", "c"}}, {"r", {"b", "c"}}, {"s", {"b", "d"}}};
    for (const PlacementStep& step : decide_placement(all, goal, {.max_moving = 1}, hanging))
      names.push_back(step.partition);
    return names;
  };
  EXPECT_EQ(begun(milliseconds(100)), HostIds());
  EXPECT_EQ(book.until_late(milliseconds(104)), milliseconds(6));
  EXPECT_EQ(begun(milliseconds(110)), (HostIds{"q", "s"})) << "r would be a second one that waits for c";
  EXPECT_EQ(hanging, HostIds{"c"});
  EXPECT_EQ(book.until_late(milliseconds(110)), std::nullopt);
  all[1].node = to_c;
  EXPECT_EQ(begun(milliseconds(111)), HostIds{"s"});
  EXPECT_EQ(book.until_late(milliseconds(111)), milliseconds(10));
  EXPECT_EQ(begun(milliseconds(121)), (HostIds{"r", "s"})) << "q has waited for long, too";
  all[1].members = {"a", "b", "c"};
  EXPECT_EQ(begun(milliseconds(122)), HostIds()) << "c has joined q, which catches up";
  EXPECT_EQ(hanging, HostIds());
  EXPECT_EQ(book.until_late(milliseconds(122)), milliseconds(10)) << "then p has waited for long again";
  EXPECT_EQ(begun(milliseconds(132)), HostIds{"r"}) << "q still catches up";
}

// The only host in sync had all of p and q, and died for ever. The moves of r, which others serve, must go on.
TEST(PlacementDecider, AMoveThatNobodyServesTakesNoPlace) {
  const PlacementNode resting{{"a", "h"}, {"a", "h"}};
  std::vector<PartitionFacts> all;
  for (const char* name : {"p", "q", "r"})
    all.push_back({name, resting, HostIds{"h"}, {}, {"a"}});
  all[2].in_sync = all[2].ready = {"a"};
  const auto steps = [&] {
    return decide_placement(all, {{"p", {"a", "c"}}, {"q", {"a", "c"}}, {"r", {"a", "c"}}}, {.max_moving = 1});
  };
  const PlacementNode moving{{"a", "c"}, {"a", "c", "h"}};
  EXPECT_EQ(steps(), (Steps{{"r", {{"a", "c"}, {"a", "c"}}, true, {"a"}}})) << "the others cannot end";
  all[0].node = moving;
  all[0].members = {"a", "c"};
  JoinBook book(milliseconds(10));
  const auto is_late = [&](milliseconds now) {
    book.see(all, now);
    return all[0].late;
  };
  EXPECT_FALSE(is_late(milliseconds(100)));
  EXPECT_EQ(steps(), Steps());
  EXPECT_TRUE(is_late(milliseconds(110)));
  EXPECT_EQ(steps().size(), 1U);
  all[0].ready = {"h"};
  EXPECT_FALSE(is_late(milliseconds(111))) << "it is back";
}

// --- A host -----------------------------------------------------------------------------------------------------------

TEST(HostedDecider, AHostOpensWhileItsIdIsItsOwnAndClosesAtAnyTime) {
  EXPECT_EQ(decide_hosted(HostedStage::none, true, true), HostedStep::open);
  EXPECT_EQ(decide_hosted(HostedStage::closed, true, true), HostedStep::open);
  EXPECT_EQ(decide_hosted(HostedStage::closed, true, false), HostedStep::nothing);
  EXPECT_EQ(decide_hosted(HostedStage::open, true, true), HostedStep::nothing);
  EXPECT_EQ(decide_hosted(HostedStage::open, false, false), HostedStep::close);
  EXPECT_EQ(decide_hosted(HostedStage::open, std::nullopt, true), HostedStep::nothing);
  EXPECT_EQ(decide_hosted(HostedStage::closed, false, true), HostedStep::nothing);
}

TEST(HostedDecider, ACopyIsErasedWhenItsHostHasLeftAndTheStateDoesNotNameIt) {
  const PlacementNode elsewhere{{"b", "c"}, {"b", "c"}};
  const HostIds both = {"b", "c"};
  EXPECT_TRUE(may_erase("a", {false, elsewhere, both, both}));
  EXPECT_TRUE(may_erase("a", {false, PlacementNode{both, {"b", "c", "d"}}, HostIds{"b", "c", "e"}, both}));
  EXPECT_FALSE(may_erase("a", {true, elsewhere, both, both})) << "it is a member";
  EXPECT_FALSE(may_erase("a", {false, PlacementNode{both, {"a", "b", "c"}}, both, both})) << "it has the replica back";
  EXPECT_FALSE(may_erase("a", {false, elsewhere, HostIds{"a", "b", "c"}, both}))
      << "b may be the one that is taken out";
  EXPECT_FALSE(may_erase("a", {false, elsewhere, HostIds{"c"}, {"c"}})) << "one disk alone has the last writes";
  EXPECT_FALSE(may_erase("a", {false, elsewhere, both, {"c"}})) << "b is away, or has an empty disk";
  EXPECT_FALSE(may_erase("a", {false, elsewhere, std::nullopt, both})) << "nobody knows";
  EXPECT_FALSE(may_erase("a", {false, std::nullopt, both, both})) << "its placement does not say";
  EXPECT_FALSE(may_erase("a", {false, PlacementNode{{}, {"b"}}, both, both})) << "nobody is wanted";
}

// --- Histories --------------------------------------------------------------------------------------------------------

/// Hosts that die, come back, lose their disks, are drained, hang, and take their time to close what they had; groups whose
/// primaries take members in and out, also those that are well; and a placer whose view is older than the world when it
/// writes.
class PlacedWorld {
 public:
  explicit PlacedWorld(std::uint64_t seed) : random_(seed) {
    rules_ = {.replicas = 1 + upto(2), .minimum = 1, .max_moving = 1 + upto(2)};
    rules_.minimum = 1 + upto(rules_.replicas - 1);
    const std::size_t count = rules_.replicas + upto(5);
    racks_ = upto(1) * (2 + upto(2));
    slowness_ = upto(6);
    laziness_ = upto(6);
    for (std::size_t i = 0; i < count; ++i)
      add_host();
    for (std::size_t i = 0; i <= upto(3); ++i)
      groups_["p" + std::to_string(i)];
  }

  void live() {
    for (int i = 0; i < 1000; ++i)
      happen(upto(23));
    calm_ = true;
  }

  /// No host comes or goes any more. Whoever is needed for what was acknowledged is back.
  void rest() {
    for (auto& [name, group] : groups_) {
      for (auto& [id, host] : hosts_)
        host.alive = host.alive || has_copy(group, id);
    }
    std::size_t alive = 0;
    for (auto& [id, host] : hosts_) {
      if (host.alive && host.weight == 0) host.weight = 1;
      host.hangs = false;
      alive += host.alive ? 1U : 0U;
    }
    for (; alive < rules_.minimum; ++alive)
      add_host();
    for (int i = 0; i < 400; ++i) {
      for (int j = 0; j < 8; ++j) {
        work();
        serve();
      }
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
    bool hangs = false;  // In a handler.
  };
  /// What is on a host's disk.
  struct Copy {
    int storage = 0;
    HostedStage stage = HostedStage::none;  // After its process began anew, it knows nothing of a copy to be closed.
    bool member = false;                    // For as long as it is alive. Closing takes time, and leaving, too.
    bool erasable = false;                  // So it was found, some time ago.
    int writes = 0;                         // All that were acknowledged up to this one.
  };
  struct Group {
    std::optional<PlacementNode> node;
    std::map<std::string, Copy> copies = {};            // By host.
    bool unasked = false;                               // It moves because its node was removed, or hosts called back.
    std::optional<std::map<std::string, int>> in_sync;  // With the storages that the state names.
    int version = 0;
    int writes = 0;  // Acknowledged.
    // Disks with all of these: as they were emptied, not erased, after the last write or permission to erase.
    std::size_t lost = 0;
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
    const auto copy = group.copies.find(id);
    return copy != group.copies.end() && copy->second.member && hosts_.at(id).alive;
  }
  HostIds members(const Group& group) const {
    HostIds ids;
    for (const auto& [id, copy] : group.copies) {
      if (is_member(group, id)) ids.push_back(id);
    }
    return ids;
  }
  HostIds ready(const Group& group) const {
    HostIds ids = members(group);
    std::erase_if(ids, [&](const std::string& id) { return !has_copy(group, id); });
    return ids;
  }
  /// Of those that are ready: who is placed there, and does not close. Who closes is not known if the node was removed, nor
  /// of those that were called back.
  static std::size_t staying(const Group& group, const HostIds& ready, const PlacementNode& node) {
    return static_cast<std::size_t>(std::count_if(ready.begin(), ready.end(), [&](const std::string& id) {
      return (group.unasked || group.copies.at(id).stage == HostedStage::open) &&
             std::binary_search(node.assigned.begin(), node.assigned.end(), id);
    }));
  }
  static std::optional<HostIds> in_sync(const Group& group) {
    if (!group.in_sync) return std::nullopt;
    HostIds ids;
    for (const auto& [id, storage] : *group.in_sync)
      ids.push_back(id);
    return ids;
  }
  /// Its disk has all that was acknowledged.
  static bool has_copy(const Group& group, const std::string& id) {
    const auto copy = group.copies.find(id);
    return group.in_sync && copy != group.copies.end() && group.in_sync->contains(id) &&
           copy->second.storage == group.in_sync->at(id);
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
      case 0:
        host.alive = false;
        stop_closing(host.host.id);
        if (upto(1) == 0) end_process(host.host.id);
        break;
      case 1: host.alive = true; break;
      case 2:
        host.alive = true;
        host.hangs = upto(5) == 0;
        break;
      case 3: empty_disk(host); break;
      case 4: host.weight = static_cast<std::uint32_t>(upto(2)); break;
      case 5:
        if (hosts_.size() < 12) add_host();
        break;
      case 6:  // Another placer.
        book_ = HostBook(settle);
        joins_.emplace(patience);
        goal_ = PlacementGoal();
        break;
      case 7: remove_node(any(groups_).second); break;
      case 8:
      case 9:
        if (upto(laziness_) == 0) decide(true);
        break;
      case 10:
      case 11:
      case 12:
      case 13: serve(); break;
      default: work(); break;
    }
    now_ += milliseconds(upto(5));
  }
  /// Of a host that is away, and never the last one that has what was acknowledged.
  void empty_disk(Host& host) {
    if (host.alive) return;
    for (const auto& [name, group] : groups_) {
      if (has_copy(group, host.host.id) && copies(group) < 2) return;
    }
    end_process(host.host.id);
    for (auto& [name, group] : groups_) {
      const auto copy = group.copies.find(host.host.id);
      if (copy == group.copies.end()) continue;
      group.lost += copy->second.writes == group.writes ? 1U : 0U;
      group.copies.erase(copy);
    }
  }
  void end_process(const std::string& id) {
    for (auto& [name, group] : groups_) {
      const auto copy = group.copies.find(id);
      if (copy != group.copies.end()) copy->second = {.storage = copy->second.storage, .writes = copy->second.writes};
    }
  }
  /// A session that ends while close() runs is not promised anything: the host would be taken for one that has left.
  void stop_closing(const std::string& id) {
    for (auto& [name, group] : groups_) {
      const auto copy = group.copies.find(id);
      if (copy != group.copies.end() && copy->second.stage == HostedStage::closed) copy->second.member = false;
    }
  }
  /// By hand, now and then.
  void remove_node(Group& group) {
    if (upto(3) != 0) return;
    group.node.reset();
    group.unasked = true;
  }
  /// What a group does by itself: its primary takes somebody in, or out.
  void work() {
    auto& [name, group] = any(groups_);
    const HostIds there = members(group);
    if (there.empty()) return;
    const std::string& member = there[upto(there.size() - 1)];
    if (!group.in_sync) {
      group.in_sync.emplace().emplace(member, group.copies.at(member).storage);
      return;
    }
    const HostIds able = ready(group);
    if (able.empty()) return;  // It has no primary.
    ++group.version;
    const std::string& primary = able[upto(able.size() - 1)];
    write(group, able);
    if (calm_ || upto(1) == 0) take_in(group, member, primary);
    const std::string other = any(*group.in_sync).first;
    const bool well = std::binary_search(able.begin(), able.end(), other);
    if (other != primary && (!well || (!calm_ && upto(1) == 0))) group.in_sync->erase(other);
    expect_a_copy(group);
  }
  /// It is acknowledged when all that are in sync have it, `minimum` at least.
  void write(Group& group, const HostIds& able) const {
    if (able.size() != group.in_sync->size() || able.size() < rules_.minimum) return;
    ++group.writes;
    group.lost = 0;
    for (const std::string& id : able)
      group.copies.at(id).writes = group.writes;
  }
  static void take_in(Group& group, const std::string& member, const std::string& primary) {
    group.copies.at(member).writes = group.copies.at(primary).writes;
    (*group.in_sync)[member] = group.copies.at(member).storage;
  }
  /// What hosts do about a partition.
  void serve() {
    Group& group = any(groups_).second;
    for (const auto& [id, host] : hosts_) {
      if (!host.hangs && upto(1) == 0) serve(group, id, host);
    }
  }
  void serve(Group& group, const std::string& id, const Host& host) {
    const auto found = group.copies.find(id);
    const bool none = found == group.copies.end();
    const auto placed = [&]() -> std::optional<bool> {
      if (!group.node) return std::nullopt;
      return std::binary_search(group.node->assigned.begin(), group.node->assigned.end(), id);
    }();
    const HostedStep step = decide_hosted(none ? HostedStage::none : found->second.stage, placed, host.alive);
    if (step == HostedStep::open && !none && found->second.stage == HostedStage::closed && found->second.member) {
      if (upto(slowness_) == 0) found->second.member = false;  // close() has to end before.
      return;
    }
    if (step == HostedStep::open) {
      const int storage = none ? ++storages_ : found->second.storage;
      const int writes = none ? 0 : found->second.writes;
      group.copies.insert_or_assign(
          id, Copy{.storage = storage, .stage = HostedStage::open, .member = true, .writes = writes});
    }
    if (none || step == HostedStep::open) return;
    Copy& copy = found->second;
    if (step == HostedStep::close) copy.stage = HostedStage::closed;
    if (copy.stage != HostedStage::closed) return;
    if (copy.erasable && upto(slowness_) == 0) {
      group.copies.erase(found);
      expect_a_copy(group);
      return;
    }
    if (upto(slowness_) == 0) copy.member = false;
    if (!host.alive || upto(slowness_) != 0) return;
    if (!may_erase(id, {is_member(group, id), group.node, in_sync(group), ready(group)})) return;
    copy.erasable = true;
    expect_copies_to_stay(group);
  }
  /// Without those that may be erased. Only a disk that is emptied after that can be missed.
  void expect_copies_to_stay(Group& group) const {
    if (group.writes == 0) return;
    group.lost = 0;
    EXPECT_GE(static_cast<std::size_t>(std::count_if(
                  group.copies.begin(), group.copies.end(),
                  [&](const auto& copy) { return !copy.second.erasable && copy.second.writes == group.writes; })),
              rules_.minimum)
        << "it may be erased, and too few other disks have what it has";
  }
  void expect_a_copy(const Group& group) const {
    if (!group.in_sync) return;
    EXPECT_GE(copies(group), 1U) << "what was acknowledged is lost";
    if (group.writes == 0) return;
    const auto with_all = std::count_if(group.copies.begin(), group.copies.end(),
                                        [&](const auto& copy) { return copy.second.writes == group.writes; });
    EXPECT_GE(static_cast<std::size_t>(with_all) + group.lost, rules_.minimum) << "too few disks have it";
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
      PartitionFacts partition{name, group.node, in_sync(group), ready(group), members(group)};
      facts.push_back(std::move(partition));
      versions[name] = group.version;
    }
    const HostIds hanging = joins_->see(facts, now_);
    const Placement goal = goal_.reach(*counting, facts, rules_.replicas);
    const auto steps = decide_placement(facts, goal, rules_, hanging);
    expect_few_begun(facts, steps, hanging);
    for (std::size_t i = 0; late && i < upto(3); ++i)
      happen(upto(2) == 0 ? 14 + upto(9) : upto(1) == 0 ? 10 : upto(3));
    for (const PlacementStep& step : steps)
      commit(step, versions[step.partition], *counting);
    if (late) new_commits_ = 0;
    for (auto& [name, group] : groups_)
      group.unasked = group.unasked && (!group.node || group.node->moving());
  }
  /// None while there are as many as there may be: of those that wait for hosts that hang, and of the others.
  void expect_few_begun(const std::vector<PartitionFacts>& facts, const Steps& steps, const HostIds& hanging) const {
    std::map<bool, std::size_t> moving;
    std::map<bool, std::size_t> begun;
    const auto waits = [&](const PartitionFacts& partition, const HostIds& wanted) {
      HostIds missing;
      std::set_difference(wanted.begin(), wanted.end(), partition.members.begin(), partition.members.end(),
                          std::back_inserter(missing));
      return !missing.empty() && std::includes(hanging.begin(), hanging.end(), missing.begin(), missing.end());
    };
    for (const PartitionFacts& partition : facts) {
      if (!partition.node) continue;
      const auto step = std::find_if(steps.begin(), steps.end(),
                                     [&](const PlacementStep& one) { return one.partition == partition.name; });
      if (partition.node->moving()) {
        moving[waits(partition, partition.node->wanted)] += partition.late ? 0U : 1U;
      } else if (step != steps.end() && step->next.wanted != partition.node->wanted) {
        ++begun[waits(partition, step->next.wanted)];
      }
    }
    for (const auto& [waiting, number] : begun)
      EXPECT_LE(moving[waiting] + number, rules_.max_moving);
  }
  void commit(const PlacementStep& step, int version, const std::vector<ReplicaHost>& hosts) {
    Group& group = groups_.at(step.partition);
    if (step.rests_on_state && version != group.version) return;
    const HostIds able = ready(group);
    if (!std::includes(able.begin(), able.end(), step.rests_on_ready.begin(), step.rests_on_ready.end())) return;
    const std::size_t before = staying(group, able, group.node.value_or(PlacementNode{able, able}));
    const bool calls_back =
        group.node && group.node->wanted == step.next.wanted && group.node->assigned.size() < step.next.assigned.size();
    group.unasked = group.unasked || calls_back;
    const bool wants_others = !group.node || group.node->wanted != step.next.wanted;
    group.node = step.next;
    ++new_commits_;
    const HostIds& next = group.node->assigned;
    EXPECT_TRUE(std::includes(next.begin(), next.end(), step.next.wanted.begin(), step.next.wanted.end()));
    EXPECT_GE(step.next.wanted.size(), rules_.minimum);
    if (wants_others) expect_racks_apart(step.next, hosts);
    EXPECT_GE(staying(group, able, step.next), std::min(before, step.next.wanted.size())) << "a replica went too early";
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
  static constexpr milliseconds patience{10};
  std::mt19937_64 random_;
  PlacementRules rules_;
  std::size_t racks_ = 0;
  std::map<std::string, Host> hosts_;
  std::map<std::string, Group> groups_;
  milliseconds now_{0};
  HostBook book_{settle};
  std::optional<JoinBook> joins_{patience};
  PlacementGoal goal_;
  int storages_ = 0;
  std::size_t slowness_ = 0;     // Of hosts that close and erase.
  std::size_t laziness_ = 0;     // Of placers.
  bool calm_ = false;            // Primaries take only those out that are gone.
  std::size_t new_commits_ = 0;  // Since the last decision of the busy time.
};

TEST(PlacementDecider, RandomHistories) {
  for (std::uint64_t seed = 1; seed <= 150 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PlacedWorld world(seed);
    world.live();
    world.rest();
  }
}

}  // namespace
}  // namespace zkrecipes::detail
