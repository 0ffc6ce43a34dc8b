#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/two_phase_commit.hpp>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/command_series.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// Runs a command for each step of a participant: ZKR_PHASE is prepare, commit or abort, and the transaction's payload is
/// its standard input. The handlers ask for it on the callback executor, one at a time; the process's first thread runs
/// it, since a command is killed with the thread that has started it.
class PhaseCommands {
 public:
  /// `environment`: what is the same for all steps.
  PhaseCommands(std::vector<std::string> words, std::vector<std::string> environment, CommandSeries& series);

  zkrecipes::CommitHandlers handlers();

  // --- The first thread ---
  /// Readable when a handler asks for a command.
  int get() const { return news_.get(); }
  /// Starts what is asked for. Of a command that has ended, what it has left behind is ended, and its handler goes on.
  void work();
  /// From now on no command is started.
  void close();
  /// The same, and no handler waits for one that runs.
  void give_up();
  /// Why a command could not be started.
  const std::optional<Failure>& failure() const { return failure_; }

 private:
  /// The exit code.
  int run(const char* phase, const zkrecipes::CommitTransaction& transaction);
  zkrecipes::CommitVote prepare(const zkrecipes::CommitTransaction& transaction);
  void apply(const char* phase, const zkrecipes::CommitTransaction& transaction);
  std::string ended_with(int code) const;
  void start_wanted();
  void answer(std::optional<int> code, std::exception_ptr refused = {});

  const std::vector<std::string> words_;
  const std::vector<std::string> environment_;
  CommandSeries& series_;
  Descriptor news_;
  std::optional<Failure> failure_;

  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<SeriesCommand> wanted_;
  std::optional<int> code_;     // Of the command that was asked for.
  std::exception_ptr refused_;  // Why there is none.
  bool closed_ = false;
};

}  // namespace zkr
