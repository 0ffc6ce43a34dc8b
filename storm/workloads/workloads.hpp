#pragma once

#include <string>
#include <vector>

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

namespace storm {

/// Programs that use one recipe, and the judge of what they have seen. Written against the libraries' public headers
/// only, and what is pure of zkr, so that it does not matter where they run.
struct Workload {
  std::string name;
  int processes = 3;
  /// A process: uses the recipe until it is to stop, and again after errors.
  void (*run)(Place& place) = nullptr;
  /// When all processes have ended and all faults are over: in a process of its own, looks at what is left.
  void (*look_at_the_end)(Place& place) = nullptr;
  Faults (*check)(const History& history) = nullptr;
};

const std::vector<Workload>& workloads();
const Workload* find_workload(const std::string& name);

}  // namespace storm
