#pragma once

#include "storm/checkers/checkers.hpp"

namespace storm {

/// Commands that run while a lease is held. "acquired" (a: token, b: for how many microseconds the lease was certain) is
/// the first line that a command has written, "valid" each other one. No line of an older token comes after the first one
/// of a newer token, none when the lease is not certain any more, and none after "releasing" (a: token).
///
/// Two processes end a command in time, and one is enough. "late keeper", "late front" (a: token, b: by how many
/// nanoseconds): it has acted that much too late, because it stood still. "no front" (a: token): there is none from then
/// on. Lines that were written while both were late are not judged: no clock helps a machine that stands still.
///
/// "ended early" (a: token): the servers have ended the session of a lease that was certain for longer, and told so; the
/// keeper, which hangs, does not hear it. A leader that goes on after a pause does that to a lease that it grants in the
/// same moment: it has made its list of sessions to be ended before. Lines behind that may be older than others.
Faults check_commands(const History& history);

}  // namespace storm
