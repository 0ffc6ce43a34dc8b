#pragma once

#include <algorithm>
#include <optional>

#include <zkrecipes/periodic_job.hpp>

namespace zkrecipes::detail {

/// Of the job's options, what decides about firings.
struct FiringPolicy {
  MissedFirings missed = MissedFirings::last;
  RunnerDied runner_died = RunnerDied::run_again;
  std::chrono::milliseconds grace{0};
};

/// A run that has begun, and whose end is not recorded.
struct BegunRun {
  JobTime firing = {};
  int attempt = 1;
};

struct FiringStep {
  enum class Kind {
    wait,     ///< Nothing is due before `firing`.
    run,      ///< `firing` is to be run, for the `attempt`-th time.
    give_up,  ///< `firing` is not to be run again.
    skip,     ///< `firing`, and those before it, are too late to be run.
    never,    ///< There are no more firings.
  };
  Kind kind = Kind::never;
  JobTime firing = {};
  int attempt = 1;
  std::optional<JobTime> missed_from = {};  ///< The first of several firings that this step settles.

  bool operator==(const FiringStep&) const = default;
};

/// What is the time, by two clocks that may differ.
struct JobClock {
  JobTime sure;   ///< By the one that is behind: only firings up to then can have been missed.
  JobTime early;  ///< Not before `sure`: firings up to then may be run.
};

/// A host's clock may be ahead of the server's by no more than `max_early`.
inline JobClock job_clock(JobTime host, JobTime server, std::chrono::milliseconds max_early) {
  return {std::min(host, server), std::min(host, server + max_early)};
}

/// What is to be done now, when all firings up to `settled` are settled and nobody runs one; `begun`: the run that has
/// ended without a word. Asks the schedule about as often as the time since `settled` has bits. Throws what the
/// schedule throws, and Error (invalid_argument) if that returns what it must not.
FiringStep decide_firing(const Schedule& schedule, JobTime settled, const std::optional<BegunRun>& begun,
                         const JobClock& now, const FiringPolicy& policy);

}  // namespace zkrecipes::detail
