#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// What several processes see of each other: barriers, caches, partitions, values that are read from memory.
namespace storm {

void run_double_barrier(Place& place);
void look_at_double_barrier(Place& place);
Faults check_double_barrier(const History& history);

void run_view(Place& place);
void look_at_view(Place& place);
Faults check_view(const History& history);

void run_coherent(Place& place);
void look_at_coherent(Place& place);
Faults check_coherent(const History& history);

void run_partitions(Place& place);
void look_at_partitions(Place& place);
Faults check_partitions(const History& history);

}  // namespace storm
