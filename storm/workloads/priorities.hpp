#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// A queue with priorities.
namespace storm {

void run_priority_queue(Place& place);
void drain_priority_queue(Place& place);
Faults check_priority_queue(const History& history);

}  // namespace storm
