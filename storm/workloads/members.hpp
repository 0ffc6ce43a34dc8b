#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// What everybody must know: who is there, what a name means, how things are configured, whether the gate is open.
namespace storm {

void run_group(Place& place);
Faults check_group(const History& history);

void run_nodes(Place& place);
Faults check_nodes(const History& history);

void run_naming(Place& place);
void look_at_names(Place& place);
Faults check_naming(const History& history);

void run_discovery(Place& place);
Faults check_discovery(const History& history);

void run_configuration(Place& place);
Faults check_configuration(const History& history);

void run_barrier(Place& place);
Faults check_barrier(const History& history);

void look_at_members(Place& place);

}  // namespace storm
