#pragma once

#include <signal.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/two_phase_commit.hpp>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/spawned_command.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// Runs a command for each step of a participant: ZKR_PHASE is prepare, commit or abort, and the transaction's payload is
/// its standard input. One at a time, on the callback executor; the rest is for the thread that waits for signals.
class PhaseCommands {
 public:
  /// `environment`: what is the same for all steps. `inherited`: as in SpawnRequest.
  PhaseCommands(std::vector<std::string> words, std::vector<std::string> environment, const sigset_t& mask,
                int inherited);

  zkrecipes::CommitHandlers handlers();

  /// To the command that runs. From the first one on, none is started any more.
  void signal(int number, bool from_terminal);
  /// Readable when a command could not be started, which is in failure() then.
  int get() const { return news_.get(); }
  std::optional<Failure> failure() const;

 private:
  /// The exit code.
  int run(const char* phase, const zkrecipes::CommitTransaction& transaction);
  void start(const char* phase, const zkrecipes::CommitTransaction& transaction);
  zkrecipes::CommitVote prepare(const zkrecipes::CommitTransaction& transaction);
  void apply(const char* phase, const zkrecipes::CommitTransaction& transaction);
  std::string ended_with(int code) const;

  const std::vector<std::string> words_;
  const std::vector<std::string> environment_;
  const sigset_t mask_;
  const int inherited_;
  Descriptor news_;
  mutable std::mutex mutex_;
  std::optional<SpawnedCommand> command_;
  std::optional<Failure> failure_;
  bool told_to_end_ = false;
};

}  // namespace zkr
