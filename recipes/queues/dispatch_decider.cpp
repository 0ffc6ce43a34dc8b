#include "recipes/queues/dispatch_decider.hpp"

namespace zkrecipes::detail {

DispatchStep decide_dispatch(const DispatchFacts& facts) noexcept {
  if (facts.claim_is_ready) return DispatchStep::hand_out;
  const bool in_order = !facts.prioritized || facts.was_looked_for;
  if (facts.waits && facts.has_candidates && !facts.stale && facts.may_try && in_order) return DispatchStep::try_item;
  if (facts.listed && !facts.has_candidates && facts.try_is_answered) return DispatchStep::answer_tries;
  if (!facts.waits || facts.window_full) return DispatchStep::wait;
  if (facts.stale) return DispatchStep::look;
  // With priorities, the calls that wait came after the last look. Without, those in flight are waited for.
  if (facts.has_candidates) return facts.prioritized ? DispatchStep::look : DispatchStep::wait;
  return facts.changed || facts.try_is_open ? DispatchStep::look : DispatchStep::wait;
}

}  // namespace zkrecipes::detail
