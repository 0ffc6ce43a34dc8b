#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/zkr/run/caller.hpp"
#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/instant.hpp"

namespace zkr {

struct Command {
  std::vector<std::string> words;
  /// Where the command finds the reading end of a pipe, which is at its end once the lease is lost.
  std::optional<int> lost_descriptor{};
  /// For tests: what the command's process does right after the fork.
  std::function<void()> after_fork;
};

/// The command's environment: ours, with `changes`: "NAME=value" replaces, "NAME" removes. LISTEN_PID and WATCHDOG_PID,
/// where they name `front`, get the command's number when it is forked.
class Environment {
 public:
  Environment(char** inherited, const std::vector<std::string>& changes, pid_t front);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// Async-signal-safe.
  char** for_process(pid_t command);

 private:
  std::vector<std::string> entries_;
  std::vector<std::size_t> numbers_;  // Which entries name the process: "LISTEN_PID=" and room for the digits.
  std::vector<char*> pointers_;
};

/// The files that execvp() would try for that word.
std::vector<std::string> candidates(const std::string& word, const char* search_path);
/// The error that an execution of the word would end with, as far as the files tell. 0: one of them can be executed.
int why_not_runnable(const std::string& word, const char* search_path);

struct Started {
  pid_t number = -1;   // Of the command; -1: it could not be forked.
  Descriptor process;  // The same, pinned.
  Descriptor trouble;  // At its end when the command runs; before, an errno says why it does not.
  Descriptor unlost;   // While it is open, Command::lost_descriptor is not at its end.
  bool in_our_group = true;
};

/// Forks on the caller's thread, which must be the keeper's main one: the command is killed when that thread ends.
/// `cgroup_door`: of the group that the command enters; -1 for none. `input`: its standard input; -1: as ours is. From `too_late` on it is not executed: this
/// process may have been stopped since it found that there is time.
/// `limit`: see GuardianProcess::limit(); 0: as ours is.
Started start(const Command& command, const Caller& caller, Environment& environment, int cgroup_door, int input,
              std::uint64_t limit, Instant too_late);

}  // namespace zkr
