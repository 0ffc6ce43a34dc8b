#include "recipes/kernel/next_look.hpp"

namespace zkrecipes::detail {

NextLook decide_next_look(const LookFacts& facts) noexcept {
  using OwnNode = NextLook::OwnNode;
  using Others = NextLook::Others;
  if (facts.session_is_proven && facts.last_obstacle && facts.list_is_young) return {OwnNode::known, Others::none};
  if (facts.session_is_proven && !facts.last_obstacle && !facts.record_expected) return {OwnNode::known, Others::list};
  NextLook look;
  look.own_node = facts.session_is_proven ? OwnNode::exists : OwnNode::checked;
  if (facts.last_obstacle) look.others = Others::none;
  if (facts.record_expected) look.others = Others::record;
  return look;
}

}  // namespace zkrecipes::detail
