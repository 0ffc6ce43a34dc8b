#pragma once

namespace zkrecipes::detail {

/// Who holds a slot that is not ours, as far as is known.
enum class SlotHolder { unknown, nobody, another };

/// What a member does next about a slot, a place that at most one member holds.
enum class SlotStep {
  forget,     ///< Not ours, and not wanted.
  look,       ///< Find out who holds it.
  take,       ///< Nobody does: try to get it.
  wait,       ///< For its holder to go.
  keep,       ///< It is ours.
  hand_over,  ///< It is ours, and another member shall have it: ask the user to give it back.
};

SlotStep decide_slot(bool wanted, bool holding, SlotHolder holder);

}  // namespace zkrecipes::detail
