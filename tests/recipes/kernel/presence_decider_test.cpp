#include "recipes/kernel/presence_decider.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace zkrecipes::detail {
namespace {

constexpr std::int64_t us = 7;
constexpr std::int64_t former = 6;
constexpr std::int64_t stranger = 8;

using Step = PresenceStep;

PresenceFacts facts_of(std::optional<FoundNode> node) {
  PresenceFacts facts;
  facts.node = node;
  facts.session = us;
  facts.former_session = node && node->owner == former;
  return facts;
}

/// All combinations of what a look can find.
void for_all(const std::function<void(const PresenceFacts& facts)>& visit) {
  const std::vector<std::optional<std::int64_t>> witnesses = {std::nullopt, 100, 101};
  std::vector<std::optional<FoundNode>> nodes = {std::nullopt};
  for (const std::int64_t owner : {us, former, stranger, std::int64_t{0}}) {
    for (const bool same : {true, false})
      nodes.push_back(FoundNode{100, owner, same});
  }
  for (const auto& node : nodes) {
    for (const auto& witness : witnesses) {
      for (const auto& former_witness : witnesses) {
        for (const std::int64_t known : {0, 100, 101}) {
          for (int flags = 0; flags < 8; ++flags) {
            PresenceFacts facts = facts_of(node);
            facts.witness = witness;
            facts.former_witness = former_witness;
            facts.known = known;
            facts.wanted = (flags & 1) != 0;
            facts.renew = (flags & 2) != 0;
            facts.replace_others = (flags & 4) != 0;
            visit(facts);
          }
        }
      }
    }
  }
}

bool removes_node(Step step) {
  return step == Step::renew || step == Step::take_over || step == Step::replace || step == Step::remove ||
         step == Step::remove_former;
}

bool is_proven(const PresenceFacts& facts) {
  if (!facts.node) return false;
  if (facts.node->owner == us) return facts.witness == facts.node->czxid || facts.known == facts.node->czxid;
  return facts.former_session && facts.former_witness == facts.node->czxid;
}

// Neither to come back nor to go: a node that is not proven to be ours is removed only if its owner is to make way.
TEST(PresenceDecider, NobodyElsesNodeIsRemovedUnasked) {
  for_all([](const PresenceFacts& facts) {
    const Step step = decide_presence(facts);
    if (!removes_node(step) || is_proven(facts)) return;
    EXPECT_EQ(step, Step::replace);
    EXPECT_TRUE(facts.wanted && facts.replace_others && !facts.former_session);
  });
}

TEST(PresenceDecider, NobodyElsesNodeIsTakenForOurs) {
  for_all([](const PresenceFacts& facts) {
    const Step step = decide_presence(facts);
    if (step != Step::keep && step != Step::write) return;
    EXPECT_TRUE(facts.wanted && is_proven(facts));
    EXPECT_EQ(facts.node->owner, us);
    EXPECT_EQ(step == Step::keep, facts.node->same_data);
    EXPECT_FALSE(facts.renew);
  });
}

TEST(PresenceDecider, NothingOfOursStays) {
  for_all([](const PresenceFacts& facts) {
    if (facts.wanted) return;
    const Step step = decide_presence(facts);
    EXPECT_EQ(step == Step::done, !is_proven(facts) && !facts.witness && !facts.former_session);
    EXPECT_NE(step, Step::create);
  });
}

TEST(PresenceDecider, OurNodeComesBack) {
  for_all([](const PresenceFacts& facts) {
    if (!facts.wanted || facts.node) return;
    EXPECT_EQ(decide_presence(facts), Step::create);
  });
}

TEST(PresenceDecider, TheNodeOfAnEarlierSessionMakesWayOnlyWithItsWitness) {
  PresenceFacts facts = facts_of(FoundNode{100, former, true});
  EXPECT_EQ(decide_presence(facts), Step::wait);
  facts.replace_others = true;
  EXPECT_EQ(decide_presence(facts), Step::wait);
  facts.former_witness = 99;
  EXPECT_EQ(decide_presence(facts), Step::wait);
  facts.former_witness = 100;
  EXPECT_EQ(decide_presence(facts), Step::take_over);
  facts.wanted = false;
  EXPECT_EQ(decide_presence(facts), Step::remove_former);
}

// What a server has from the beginning has the czxid zero.
TEST(PresenceDecider, ANodeOfTheServerIsNotOurs) {
  PresenceFacts facts = facts_of(FoundNode{0, 0, false});
  facts.session = 0;
  EXPECT_EQ(decide_presence(facts), Step::wait);
  facts.wanted = false;
  EXPECT_EQ(decide_presence(facts), Step::done);
}

// It has no session, nor a witness.
TEST(PresenceDecider, ALastingNodeIsKnownByItsCzxid) {
  PresenceFacts facts = facts_of(FoundNode{100, 0, true});
  facts.session = 0;
  EXPECT_EQ(decide_presence(facts), Step::wait);
  facts.known = 99;
  EXPECT_EQ(decide_presence(facts), Step::wait);
  facts.known = 100;
  EXPECT_EQ(decide_presence(facts), Step::keep);
  facts.node->same_data = false;
  EXPECT_EQ(decide_presence(facts), Step::write);
  facts.wanted = false;
  EXPECT_EQ(decide_presence(facts), Step::remove);
  facts.node->owner = stranger;
  EXPECT_EQ(decide_presence(facts), Step::done);
  facts.wanted = true;
  EXPECT_EQ(decide_presence(facts), Step::wait);
  facts.replace_others = true;
  EXPECT_EQ(decide_presence(facts), Step::replace);
}

}  // namespace
}  // namespace zkrecipes::detail
