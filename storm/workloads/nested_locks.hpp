#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Locks in other shapes: several at once, counted, asked back, and the selector of leaders.
namespace storm {

void run_multi_lock(Place& place);
void look_at_multi_lock(Place& place);
Faults check_multi_lock(const History& history);

void run_recursive_mutex(Place& place);
Faults check_recursive_mutex(const History& history);

void run_leader_selector(Place& place);
Faults check_leader_selector(const History& history);

void run_revocation(Place& place);
Faults check_revocation(const History& history);

void look_at_nested_locks(Place& place);

}  // namespace storm
