#include "recipes/kernel/next_look.hpp"

#include <gtest/gtest.h>

namespace zkrecipes::detail {
namespace {

using OwnNode = NextLook::OwnNode;
using Others = NextLook::Others;

// Every combination of what a waiter can know.
template <typename Visit>
void for_all_facts(Visit visit) {
  for (unsigned bits = 0; bits < 16; ++bits) {
    LookFacts facts;
    facts.last_obstacle = (bits & 1U) != 0;
    facts.session_is_proven = (bits & 2U) != 0;
    facts.list_is_young = (bits & 4U) != 0;
    facts.record_expected = (bits & 8U) != 0;
    SCOPED_TRACE(bits);
    visit(facts, decide_next_look(facts));
  }
}

TEST(NextLookTest, AnUnprovenSessionIsProvenOnTheWay) {
  for_all_facts([](const LookFacts& facts, const NextLook& look) {
    EXPECT_EQ(look.own_node == OwnNode::checked, !facts.session_is_proven);
  });
}

TEST(NextLookTest, NobodyElseIsAssumedOnlyBehindTheLastObstacle) {
  for_all_facts([](const LookFacts& facts, const NextLook& look) {
    EXPECT_TRUE(look.others != Others::none || facts.last_obstacle);
  });
}

TEST(NextLookTest, OurOwnNodeIsKnownByAListOnly) {
  for_all_facts([](const LookFacts& facts, const NextLook& look) {
    if (look.own_node != OwnNode::known) return;
    const bool young = look.others == Others::none && facts.list_is_young;
    EXPECT_TRUE(young || look.others == Others::list);
  });
}

TEST(NextLookTest, ARecordIsReadOnlyWhereOneIsExpected) {
  for_all_facts([](const LookFacts& facts, const NextLook& look) {
    EXPECT_TRUE(look.others != Others::record || facts.record_expected);
    EXPECT_TRUE(look.others != Others::list || !facts.record_expected);
  });
}

TEST(NextLookTest, ProvenAndYoungBehindTheLastObstacleNeedsNothing) {
  LookFacts facts;
  facts.last_obstacle = facts.session_is_proven = facts.list_is_young = true;
  EXPECT_EQ(decide_next_look(facts), (NextLook{OwnNode::known, Others::none}));
  facts.record_expected = true;
  EXPECT_EQ(decide_next_look(facts), (NextLook{OwnNode::known, Others::none}));
}

}  // namespace
}  // namespace zkrecipes::detail
