#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Locks and elections: each process contends, holds for a while, and notes how long its lease was valid.
namespace storm {

void run_mutex(Place& place);
void run_unfair_mutex(Place& place);
void run_semaphore(Place& place);
void run_shared_mutex(Place& place);
void run_leader_election(Place& place);
void run_unfair_leader_election(Place& place);

void look_at_locks(Place& place);
void look_at_semaphore(Place& place);

Faults check_mutex(const History& history);
Faults check_semaphore(const History& history);
Faults check_shared_mutex(const History& history);

}  // namespace storm
