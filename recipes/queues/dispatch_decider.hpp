#pragma once

namespace zkrecipes::detail {

/// What a consumer knows when it decides what to do for the calls that are to get items.
struct DispatchFacts {
  bool prioritized = false;     ///< No item may be taken before a later call's look could find a more urgent one.
  bool waits = false;           ///< A call waits for its turn.
  bool was_looked_for = false;  ///< The first such call was there when the lists were read last.
  bool claim_is_ready = false;  ///< A call waits for a claim, and one was made ahead.
  bool listed = false;          ///< There is a list of this session.
  bool stale = false;           ///< There is none, or it is too old to try items of it.
  bool changed = false;         ///< The folders may have changed since it was read.
  bool has_candidates = false;  ///< It has items that were not tried.
  bool may_try = false;         ///< Another item may be tried at a time.
  bool window_full = false;     ///< As many are in flight as may be, whatever the list says.
  bool try_is_answered =
      false;                 ///< A call that does not wait came before the last look; asked only without candidates.
  bool try_is_open = false;  ///< Such a call came after it; likewise.
};

enum class DispatchStep {
  hand_out,      ///< Gives the claim that was made ahead to the call.
  try_item,      ///< Takes the next candidate for the first call.
  answer_tries,  ///< Tells the calls that do not wait that there is nothing.
  look,          ///< Reads the lists.
  wait,          ///< For a call, a change, or the end of what is in flight.
};

DispatchStep decide_dispatch(const DispatchFacts& facts) noexcept;

}  // namespace zkrecipes::detail
