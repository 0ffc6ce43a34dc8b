#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// A log that is replicated by the rules of zkrecipes::ReplicaGroup.
namespace storm {

void run_replicas(Place& place);
void look_at_replicas(Place& place);
Faults check_replicas_workload(const History& history);

/// Disks are emptied, and reads are served by all that may.
void run_emptied_replicas(Place& place);
Faults check_emptied_replicas(const History& history);

}  // namespace storm
