#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "storm/simulated/apart.hpp"

namespace storm {

/// Plays a smaller world.
using Trial = std::function<WorldResult(const ScenarioOptions&)>;

struct Smallest {
  /// Of the world as it was; nothing is smaller if it has not failed.
  WorldResult first;
  ScenarioOptions options;
  WorldResult result;  ///< Of the world that is left.
  int trials = 0;
};

struct ShrinkOptions {
  /// A smaller world takes another course. It is played in so many courses before it counts as one that does not fail.
  int courses = 20;
  /// So many worlds are played at most.
  int most_trials = 3000;
};

/// Makes a failing world as small as it can be, while it fails with the same judgement: leaves out troubles (all, kinds,
/// halves, ..., single ones), then processes, then the end of the troubled time, and once more from the beginning as
/// long as that helps. `processes` is how many the workload has.
Smallest shrink(const ScenarioOptions& options, int processes, const Trial& trial, const ShrinkOptions& how = {});

/// The arguments that play this world.
std::string replay_arguments(const std::string& workload, const ScenarioOptions& options);

}  // namespace storm
