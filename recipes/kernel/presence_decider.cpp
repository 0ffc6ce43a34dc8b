#include "recipes/kernel/presence_decider.hpp"

namespace zkrecipes::detail {
namespace {

bool is_ours(const PresenceFacts& facts) noexcept {
  if (facts.node->owner != facts.session) return false;
  // Zero is also the czxid of nodes that came with the server.
  return (facts.known != 0 && facts.node->czxid == facts.known) || facts.node->czxid == facts.witness;
}

bool is_proven_former(const PresenceFacts& facts) noexcept {
  return facts.former_session && facts.node->czxid == facts.former_witness;
}

PresenceStep decide_to_stay(const PresenceFacts& facts) noexcept {
  if (!facts.node) return PresenceStep::create;
  if (is_ours(facts)) {
    if (facts.renew) return PresenceStep::renew;
    return facts.node->same_data ? PresenceStep::keep : PresenceStep::write;
  }
  if (is_proven_former(facts)) return PresenceStep::take_over;
  // Without a proof it could be another node by the time that it is removed. It goes with its session.
  if (facts.former_session) return PresenceStep::wait;
  return facts.replace_others ? PresenceStep::replace : PresenceStep::wait;
}

PresenceStep decide_to_leave(const PresenceFacts& facts) noexcept {
  if (facts.node && is_ours(facts)) return PresenceStep::remove;
  if (facts.witness) return PresenceStep::remove_witness;
  if (!facts.node || !facts.former_session) return PresenceStep::done;
  return is_proven_former(facts) ? PresenceStep::remove_former : PresenceStep::wait;
}

}  // namespace

PresenceStep decide_presence(const PresenceFacts& facts) noexcept {
  return facts.wanted ? decide_to_stay(facts) : decide_to_leave(facts);
}

}  // namespace zkrecipes::detail
