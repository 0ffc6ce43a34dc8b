#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Mutexes, queues and counters in the other forms of call: with handlers, and with coroutines. Several objects of each
/// are used at the same time, and clients are closed while they are.
namespace storm {

void run_handlers(Place& place);
void run_coroutines(Place& place);
void look_at_calls(Place& place);
Faults check_calls(const History& history);

}  // namespace storm
