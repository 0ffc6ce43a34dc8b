#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// A function on a schedule: each firing once in the whole fleet, or at least once, whoever dies.
namespace storm {

void run_repeated_jobs(Place& place);
void run_single_jobs(Place& place);
void look_at_jobs(Place& place);
Faults check_repeated_jobs(const History& history);
Faults check_single_jobs(const History& history);

}  // namespace storm
