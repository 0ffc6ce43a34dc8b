#pragma once

#include "storm/checkers/checkers.hpp"

/// Judges of what happens when one process takes away what another one has.
namespace storm {

/// Leases ("acquired", "valid": a is the token) of which some are "breaking" (a), and then "broken" (a), perhaps.
/// A broken one may be valid at its holder's until that knows of it, though another is granted meanwhile; but not for
/// longer than `most` after it was broken. All others are exclusive. Tokens grow.
Faults check_broken_leases(const History& history, Nanos most);

/// Each process that "counts" (a: how many; text: what) comes to the number of those that "stay" (text: the same).
Faults check_counts(const History& history);

/// A gate that falls with the session of the process that raised it: no process has "passed" (a: its session, which
/// was answered since) after it has put it "up" in the same session, unless another was "lowering" it since.
/// When all have gone, it is not "still up".
Faults check_mortal_gate(const History& history);

/// Where an operator has "resolved" (text: the name) a transaction, it is not "in doubt" (text: the name first) later.
Faults check_nothing_in_doubt(const History& history);

/// Reads of replicas that may serve them ("served", text: numbers with commas) have each write that was "acknowledged"
/// (a) before they began. What is "given up" by an operator counts no more.
Faults check_served(const History& history);

}  // namespace storm
