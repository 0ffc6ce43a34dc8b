#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// One process takes away what another one has, or what a former life of its own has left.
namespace storm {

void run_broken_locks(Place& place);
void look_at_broken_locks(Place& place);
Faults check_broken_locks(const History& history);

void run_mortal_gate(Place& place);
void look_at_mortal_gate(Place& place);
Faults check_mortal_gate_workload(const History& history);

void run_replacements(Place& place);
void look_at_replacements(Place& place);
Faults check_replacements(const History& history);

}  // namespace storm
