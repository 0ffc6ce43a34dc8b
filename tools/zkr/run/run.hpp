#pragma once

#include <functional>
#include <memory>

#include "tools/zkr/run/command.hpp"
#include "tools/zkr/run/decider.hpp"
#include "tools/zkr/run/holder.hpp"

namespace zkr {

struct RunRequest {
  Command command;
  RunOptions options;
  bool use_cgroup = true;  // Where it is possible.
  /// Called once, in the keeper, which has no other thread then.
  std::function<std::unique_ptr<Holder>()> make_holder;
};

/// Runs the command while the lease is held, and ends this process as the command has ended. This process must have one
/// thread and no child. Nothing that the command started runs at the end of the lease, and the lease is released when
/// nothing of it runs any more:
///
///   front   this process: signals, the terminal, the exit status
///   keeper  its child: the lease
///   command the keeper's child, killed with it
///
/// Both see the end of the lease on a page of memory, and each kills what runs at it. So one of them may be killed, or
/// stopped.
[[noreturn]] void run_under_lease(const RunRequest& request);

}  // namespace zkr
