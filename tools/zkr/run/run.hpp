#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/zkr/run/command.hpp"
#include "tools/zkr/run/decider.hpp"
#include "tools/zkr/run/guardian_process.hpp"
#include "tools/zkr/run/holder.hpp"

namespace zkr {

/// How a run has ended.
struct Outcome {
  Ending ending;
  Cause cause = Cause::none;         // Cause::none: the keeper was killed, or failed, while nothing ran.
  bool keeper_failed = false;        // Of Cause::none.
  std::optional<Duration> waited{};  // For the last lease; nothing: it was never held.
  std::uint64_t token = 0;           // Of the last lease.
  std::string holder{};              // Of Cause::not_acquired: Holder::holder_in_the_way().
};

/// What a holder is made with.
struct HolderStart {
  Duration pause{};                           // Before it begins to contend.
  const GuardianProcess* guardian = nullptr;  // To be told of the session.
};

struct RunRequest {
  Command command{};
  RunOptions options{};
  std::string max_hold_option = "--max-hold";  // What set RunOptions::max_hold.
  bool use_cgroup = true;                      // Where it is possible.
  /// Called in the keeper; with RunRequest::run_again, several times. The keeper has no threads but those that it has
  /// made.
  std::function<std::unique_ptr<Holder>(const HolderStart& start)> make_holder{};
  /// "NAME=word" of the environment of all that is run. The word is added to ZKR_IDS as well, which holds those of runs
  /// that this one is part of: what carries it is killed by the guardian. Empty: there is no guardian.
  std::string mark{};
  /// Called in the keeper when a lease has been given back, unless we were told to end: how long to wait before a
  /// holder is made again, and the command started again. Nothing: this is the end. It may be empty.
  std::function<std::optional<Duration>(const Ending& ending, Cause cause, Duration ran)> run_again{};
  /// Called in the keeper before a holder is made. It may be empty.
  std::function<void()> before_first_holder{};
  /// Called in the keeper when there is no holder any more, and none will be made. It may be empty.
  std::function<void()> after_last_holder{};
  /// Called in the front, last, with what `report_descriptor` names, or -1. The result is for the user, if it is not
  /// empty. It may be empty.
  std::function<std::string(const Outcome& outcome, int descriptor)> report{};
  /// Of our caller's: stays open in the front until the report is written.
  std::optional<int> report_descriptor{};
};

/// Runs the command while the lease is held, and ends this process as the command has ended. This process must have one
/// thread; children that it has already are left alone. Nothing that the command started runs at the end of the lease, and
/// the lease is released when nothing of it runs any more:
///
///   front   this process: signals, the terminal, the exit status
///   keeper  its child: the lease
///   command the keeper's child, killed with it
///   guardian the front's other child: ends what is left if both are killed
///
/// Both see the end of the lease on a page of memory, and each kills what runs at it. So one of them may be killed, or
/// stopped.
[[noreturn]] void run_under_lease(const RunRequest& request);

}  // namespace zkr
