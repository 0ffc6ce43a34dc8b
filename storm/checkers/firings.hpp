#pragma once

#include "storm/checkers/checkers.hpp"

/// Judges of work that is done at set times, which are numbered one by one.
namespace storm {

/// Runs "begin" (a: the firing, b: the attempt) and have "ended" (a) if they came to their end. At the end of the world all
/// up to one are "settled" (a), and some have a record of "success" (a). No attempt begins twice; success has an end before
/// it, and comes once for each firing. `at_most_once`: no firing begins twice. Otherwise each one has ended, from the first
/// that has up to the one that is settled.
Faults check_firings(const History& history, bool at_most_once);

}  // namespace storm
