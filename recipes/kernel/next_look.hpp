#pragma once

namespace zkrecipes::detail {

/// The facts that a waiter knows when the node it waited for has gone.
struct LookFacts {
  bool last_obstacle = false;      ///< No other node was before us when the contenders were last read.
  bool session_is_proven = false;  ///< Lately enough for a lease to begin on it.
  bool list_is_young = false;      ///< Young enough to prove that our own node exists.
  bool record_expected = false;  ///< There are many contenders, or we waited for long: holders leave hand-over records.
};

/// The reads that come next, all in one flight.
struct NextLook {
  enum class OwnNode {
    known,    ///< By the list, the old one or the next.
    exists,   ///< A read tells.
    checked,  ///< A write tells, and proves the session as well.
  };
  enum class Others {
    none,    ///< No other contender is before us: there is nothing to read.
    record,  ///< The hand-over record: one node, where a list names every contender.
    list,
  };
  OwnNode own_node = OwnNode::checked;
  Others others = Others::list;

  friend bool operator==(const NextLook&, const NextLook&) = default;
};

/// The least that makes the next decision safe. A lease on an old proof would begin just before it ends, so a session
/// that is not proven is proven on the way.
NextLook decide_next_look(const LookFacts& facts) noexcept;

}  // namespace zkrecipes::detail
