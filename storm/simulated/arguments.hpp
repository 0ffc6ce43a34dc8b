#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "storm/simulated/scenario.hpp"
#include "storm/simulated/seeds.hpp"

namespace storm {

/// What the caller has asked for makes no sense. what() is a sentence.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Arguments {
  std::vector<const Workload*> workloads;  ///< All, if none was named.
  SeedSet seeds;
  std::uint64_t fresh = 0;  ///< So many seeds more, which nobody has chosen.
  /// Its `seed` is that of `--replay` and `--shrink`.
  ScenarioOptions worlds;
  std::chrono::seconds processor_time{60};
  int jobs = 1;
  int courses = 20;  ///< Of a world that is to be made smaller.
  bool replay = false;
  bool shrink = false;
  bool twice = false;
  bool first_only = false;
  bool trace = false;
  bool report = false;
  bool only_report = false;
  bool help = false;
  std::string state;
  std::string failures;
  std::optional<std::chrono::seconds> time;
};

/// What `--help` prints.
const char* usage();

/// Throws UsageError.
Arguments parse_arguments(const std::vector<std::string>& words);

}  // namespace storm
