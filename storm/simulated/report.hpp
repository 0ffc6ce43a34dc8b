#pragma once

#include <string>

#include "storm/simulated/apart.hpp"
#include "storm/simulated/state.hpp"

namespace storm {

/// A table of what was done: per workload, and per kind of trouble.
std::string table_of(const State& state);

/// All that is known of a world, line by line.
std::string story_of(const WorldResult& result);

/// Only what is wrong with it.
std::string faults_of(const WorldResult& result);

}  // namespace storm
