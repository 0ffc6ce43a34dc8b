#include "recipes/kernel/slot_decider.hpp"

namespace zkrecipes::detail {

SlotStep decide_slot(bool wanted, bool holding, SlotHolder holder) {
  if (holding) return wanted ? SlotStep::keep : SlotStep::hand_over;
  if (!wanted) return SlotStep::forget;
  switch (holder) {
    case SlotHolder::unknown: break;
    case SlotHolder::nobody: return SlotStep::take;
    case SlotHolder::another: return SlotStep::wait;
  }
  return SlotStep::look;
}

}  // namespace zkrecipes::detail
