#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// What `zkr lock` and `zkr lead` do: each process is one call of it after the other. The decider of zkr is the real one,
/// and so is the library below; front, keeper and command are modelled. The command writes a line each millisecond.
namespace storm {

void run_locked_commands(Place& place);
void run_leading_commands(Place& place);

void look_at_commands(Place& place);

Faults check_commands_workload(const History& history);

}  // namespace storm
