#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// A latch, of which one generation begins after the other.
namespace storm {

void run_latches(Place& place);
void look_at_latches(Place& place);
Faults check_latches_workload(const History& history);

}  // namespace storm
