#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Replicas of some partitions, on hosts that come, go and are drained, as placers say of whom one leads.
namespace storm {

void run_placements(Place& place);
void look_at_placements(Place& place);
Faults check_placements_workload(const History& history);

}  // namespace storm
