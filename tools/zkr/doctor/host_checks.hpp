#pragma once

#include <chrono>
#include <vector>

#include "tools/zkr/doctor/server_state.hpp"

namespace zkr {

/// How leases of `zkr lock` fare with a session timeout: docs/zkr.md has the figures.
struct LeaseTimes {
  explicit LeaseTimes(std::chrono::nanoseconds timeout);

  std::chrono::nanoseconds proof_interval;  // Between two heartbeats.
  std::chrono::nanoseconds kill_margin;     // From KILL to the end of the lease.
  std::chrono::nanoseconds term;            // From the last proof to TERM.
};

/// What the round trips of quorum writes, all of them, mean for leases.
std::vector<Finding> judge_round_trips(std::vector<std::chrono::nanoseconds> taken, std::chrono::nanoseconds timeout);
/// What the worst delay of a timer on this host means for them.
Finding judge_lateness(std::chrono::nanoseconds worst, std::chrono::nanoseconds timeout);

/// Whether a command can be ended with all that it has started, as `zkr lock` asks for before it starts one.
Finding judge_processes(bool control_group, bool tree_is_seen);

/// By how much a server's clock is ahead of this host's, which read `before` and `after` as their connection was made.
/// Nothing here goes by it: it is for whoever compares times in logs and nodes.
Finding judge_clock(std::chrono::system_clock::time_point server, std::chrono::system_clock::time_point before,
                    std::chrono::system_clock::time_point after);

/// Sets timers for so long, and tells how late the worst one was.
std::chrono::nanoseconds measure_lateness(std::chrono::nanoseconds time);

/// Whether what ends commands is there.
std::vector<Finding> look_at_host();

}  // namespace zkr
