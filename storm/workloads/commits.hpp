#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// What several agree upon: commits, primaries, transfers, numbers.
namespace storm {

void run_commits(Place& place);
Faults check_commits_workload(const History& history);

/// Logs are lost, and an operator says what became of what they knew.
void run_resolved_commits(Place& place);
Faults check_resolved_commits(const History& history);

void run_primaries(Place& place);
Faults check_primaries(const History& history);

void look_at_agreements(Place& place);

}  // namespace storm
