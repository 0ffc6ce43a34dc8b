#include "recipes/queues/dispatch_decider.hpp"

#include <gtest/gtest.h>

namespace zkrecipes::detail {
namespace {

// Every combination of facts that can be: without a list it is stale, tries are asked about only for an empty list, and
// with priorities only a full window keeps an item from being tried.
template <typename Visit>
void for_all_facts(Visit visit) {
  for (unsigned bits = 0; bits < 1U << 12U; ++bits) {
    const auto bit = [&](unsigned index) { return (bits >> index & 1U) != 0; };
    DispatchFacts facts;
    facts.prioritized = bit(0);
    facts.waits = bit(1);
    facts.was_looked_for = bit(2) && facts.waits;
    facts.claim_is_ready = bit(3) && facts.waits;
    facts.listed = bit(4);
    facts.stale = bit(5) || !facts.listed;
    facts.changed = bit(6);
    facts.has_candidates = bit(7);
    facts.window_full = bit(8);
    facts.may_try = !facts.window_full && (facts.prioritized || bit(9));
    const bool tries = facts.listed && !facts.has_candidates && facts.waits;
    facts.try_is_answered = bit(10) && tries;
    facts.try_is_open = bit(11) && tries;
    SCOPED_TRACE(bits);
    visit(facts, decide_dispatch(facts));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(DispatchDecider, AClaimThatIsReadyIsHandedOutFirst) {
  for_all_facts([](const DispatchFacts& facts, DispatchStep step) {
    EXPECT_EQ(step == DispatchStep::hand_out, facts.claim_is_ready);
  });
}

TEST(DispatchDecider, AnItemIsTriedOnlyForACallAndFromAListThatIsTrusted) {
  for_all_facts([](const DispatchFacts& facts, DispatchStep step) {
    if (step != DispatchStep::try_item) return;
    EXPECT_TRUE(facts.waits && facts.has_candidates && facts.may_try && !facts.stale);
  });
}

TEST(DispatchDecider, WithPrioritiesNoItemIsTriedForACallThatCameAfterTheLook) {
  for_all_facts([](const DispatchFacts& facts, DispatchStep step) {
    EXPECT_TRUE(step != DispatchStep::try_item || !facts.prioritized || facts.was_looked_for);
  });
}

TEST(DispatchDecider, NothingIsSaidToBeThereOnlyAfterALookThatFoundNothing) {
  for_all_facts([](const DispatchFacts& facts, DispatchStep step) {
    if (step != DispatchStep::answer_tries) return;
    EXPECT_TRUE(facts.listed && !facts.has_candidates && facts.try_is_answered);
  });
}

TEST(DispatchDecider, ListsAreReadOnlyForACallAndWithRoomForWhatTheyMayShow) {
  for_all_facts([](const DispatchFacts& facts, DispatchStep step) {
    EXPECT_TRUE(step != DispatchStep::look || (facts.waits && !facts.window_full));
  });
}

TEST(DispatchDecider, AnItemThatMayBeTriedIsTried) {
  for_all_facts([](const DispatchFacts& facts, DispatchStep step) {
    const bool may_be_tried = facts.waits && facts.has_candidates && facts.may_try && !facts.stale &&
                              (!facts.prioritized || facts.was_looked_for) && !facts.claim_is_ready;
    EXPECT_TRUE(!may_be_tried || step == DispatchStep::try_item);
  });
}

// A look costs round trips, and the dispatcher goes on at once after it: a needless one would be repeated for ever.
TEST(DispatchDecider, ListsAreReadOnlyIfTheyMayShowSomethingNew) {
  for_all_facts([](const DispatchFacts& facts, DispatchStep step) {
    if (step != DispatchStep::look) return;
    const bool later_call = facts.has_candidates && facts.prioritized && !facts.was_looked_for;
    const bool later_items = !facts.has_candidates && (facts.changed || facts.try_is_open);
    EXPECT_TRUE(facts.stale || later_call || later_items);
  });
}

// Each wait ends: something is in flight, or a watch or a call wakes the dispatcher.
TEST(DispatchDecider, NoCallWaitsForNothing) {
  for_all_facts([](const DispatchFacts& facts, DispatchStep step) {
    if (step != DispatchStep::wait || !facts.waits) return;
    const bool items_in_flight = facts.window_full || (facts.has_candidates && !facts.may_try && !facts.prioritized);
    const bool watched = facts.listed && !facts.stale && !facts.changed && !facts.has_candidates;
    EXPECT_TRUE(items_in_flight || watched);
    EXPECT_FALSE(watched && !facts.window_full && (facts.try_is_open || facts.try_is_answered))
        << "a call that does not wait would wait";
  });
}

}  // namespace
}  // namespace zkrecipes::detail
