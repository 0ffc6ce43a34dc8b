#pragma once

#include <string>
#include <vector>

#include "storm/history.hpp"

/// Judges of histories. They know nothing of the code that made them. Each returns what is wrong, one line each.
namespace storm {

using Faults = std::vector<std::string>;

/// At most `most` leases are valid at any time. A lease is the entries of one process with one token: "acquired" (a:
/// token), "valid" (a: token), which was written with a time from before it was asked for. If `most` is 1, tokens
/// grow, too, in the order of acquisition.
Faults check_leases(const History& history, int most);

/// Readers ("acquired" with b = 1) may share, writers (b = 0) not.
Faults check_shared_leases(const History& history);

/// Every item that was "pushed" (a: its number) is "popped" once; at most once if it is in doubt whether it was pushed or
/// popped ("push in doubt", "pop in doubt" without a number). `in_order`: items that one process has pushed one after the
/// other come out in that order.
Faults check_queue(const History& history, bool in_order);

/// Additions that were "added" (a: before, b: after) are all different steps of one count, in the order of real time; its
/// end is "total" (a), and differs from the sum by what is "add in doubt" (a: delta) at most.
Faults check_counter(const History& history);

/// A process has "acquired", "popped", ... `what` after the entry "calm", which the director writes when all faults are over.
/// The process that looks at the end does not count.
Faults check_progress(const History& history, const std::string& what);

}  // namespace storm
