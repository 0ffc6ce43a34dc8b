#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Registers whose operations must have one order: plain nodes, items of a coherent cache, shared values.
namespace storm {

void run_registers(Place& place);
void look_at_registers(Place& place);
Faults check_registers(const History& history);

void run_coherent_items(Place& place);
void look_at_coherent_items(Place& place);

void run_shared_registers(Place& place);
void look_at_shared_registers(Place& place);

}  // namespace storm
