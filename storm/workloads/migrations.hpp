#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Programs of several releases, which change one tree as they come.
namespace storm {

void run_migrations(Place& place);
void look_at_migrations(Place& place);
Faults check_migrations_workload(const History& history);

}  // namespace storm
