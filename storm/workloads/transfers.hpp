#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Numbers that must add up, and numbers that must not come twice.
namespace storm {

void run_transfers(Place& place);
void look_at_transfers(Place& place);
Faults check_transfers_workload(const History& history);

void run_ids(Place& place);
void look_at_ids(Place& place);
Faults check_ids_workload(const History& history);

}  // namespace storm
