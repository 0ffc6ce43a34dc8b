#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Queues, and counters that count exactly once.
namespace storm {

void run_queue(Place& place);
void drain_queue(Place& place);
void run_delay_queue(Place& place);
void drain_delay_queue(Place& place);
/// Items are popped, or removed by their ids.
void run_id_queue(Place& place);
void drain_id_queue(Place& place);
Faults check_queue_workload(const History& history);

void run_claims(Place& place);
void drain_claims(Place& place);
Faults check_claims(const History& history);

void run_counter(Place& place);
void read_counter(Place& place);
void run_shared_value(Place& place);
void read_shared_value(Place& place);
Faults check_counter_workload(const History& history);

}  // namespace storm
