#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/zkr/run/caller.hpp"
#include "tools/zkr/run/cgroup.hpp"
#include "tools/zkr/run/command.hpp"
#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/error_lines.hpp"
#include "tools/zkr/run/guardian_process.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {

/// Signals to this process are read from here on. Made while the process has one thread, or others that take no signals,
/// as those of clients.
class FollowedSignals {
 public:
  FollowedSignals();
  int get() const { return signals_.get(); }
  /// The next one that came. Nothing: there is none.
  std::optional<signalfd_siginfo> take() const;
  /// How the caller had them.
  const Caller& caller() const { return caller_; }
  /// As in other programs: writing to what nobody reads ends this one, if this thread does it.
  void let_writes_end_us() const;

 private:
  Caller caller_;
  Descriptor signals_;
};

/// What ends all that this process's commands have started, if it is killed: a guardian, which finds them by marks, and by
/// a control group, where there may be one. Made while the process has one thread.
class SeriesGuard {
 public:
  /// If this process is killed, `claim`, a descriptor, stays open until nothing of the commands runs any more. Errors:
  /// Failure (exit_system): there are no random numbers.
  explicit SeriesGuard(int claim);
  SeriesGuard(const SeriesGuard&) = delete;
  SeriesGuard& operator=(const SeriesGuard&) = delete;

  /// Nothing: it could not be forked.
  const std::optional<GuardianProcess>& guardian() const { return guardian_; }
  std::optional<Cgroup>& cgroup() { return cgroup_; }
  /// Of the commands.
  std::vector<std::string> environment() const;
  /// To be called when no command runs any more. Without it, the end of this process is that of all they have started.
  void close() const;

 private:
  const std::string mark_;
  std::optional<Cgroup> cgroup_;
  std::optional<GuardianProcess> guardian_;
};

/// A command that runs without a lease: for a change, or for a step of a transaction.
struct SeriesCommand {
  std::vector<std::string> words;
  std::string input;                     // Its standard input.
  std::vector<std::string> environment;  // Changes: "NAME=value" sets, "NAME" removes.
};

/// Runs commands, one after the other, on the process's first thread: one that runs is killed with that. Orphans of theirs
/// become children of this process, so it finds what they have started.
class CommandSeries {
 public:
  /// `guard` may be null: then what a command has started outlives this process, if that is killed.
  explicit CommandSeries(const FollowedSignals& signals, SeriesGuard* guard = nullptr)
      : signals_(signals), guard_(guard) {}
  CommandSeries(const CommandSeries&) = delete;
  CommandSeries& operator=(const CommandSeries&) = delete;

  bool runs() const { return started_.process.get() >= 0; }
  /// What is below this process already is left alone from now on. Errors: Failure (127, 126: it is not there, or cannot
  /// be run; 71).
  void start(const SeriesCommand& command);
  /// Does what signals ask for that have come, and reaps children. A command that runs gets each signal; without one, it
  /// does to this process what it does by default.
  void hear();
  /// The exit code of the command that has ended, once; 128 and the number of the signal that has ended it.
  std::optional<int> take_code();
  /// The signal that this process is to end of when no command runs any more. 0: none.
  int told_by() const { return told_by_; }
  /// What the command that has ended has left behind gets TERM and, 2 s later, KILL. Returns when nothing of it is there
  /// any more, or after 4 s: some may not be killed by us. False: something is left.
  bool end_leftovers();

 private:
  void hear_signals();
  void hear_signal(const signalfd_siginfo& signal);
  void hear_child(const ChildNews& news);
  void reap_children();
  bool await_empty_tree(const std::function<void()>& each_time);

  const FollowedSignals& signals_;
  SeriesGuard* const guard_;
  BootTimer timer_;
  ProcessTree tree_;
  Started started_;          // Of the command that runs.
  std::optional<int> code_;  // Of the one that has ended.
  int told_by_ = 0;
};

/// Ends the process as the signal does by default.
[[noreturn]] void die_of(int signal);

}  // namespace zkr
