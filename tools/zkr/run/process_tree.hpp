#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace zkr {

/// A process as /proc shows it, pinned: it cannot be taken for a later one with the same number.
class PinnedProcess {
 public:
  struct Status {
    char state = 'X';  // 'Z' only if no thread runs any more: a process may outlive its first one.
    pid_t parent = 0;
    std::uint64_t started = 0;
  };

  explicit PinnedProcess(pid_t number);
  PinnedProcess(const PinnedProcess&) = delete;
  PinnedProcess& operator=(const PinnedProcess&) = delete;
  ~PinnedProcess();

  pid_t number() const { return number_; }
  /// Nothing: it is gone.
  std::optional<Status> status() const;
  /// It has not ended.
  bool lives() const;
  std::vector<pid_t> children() const;
  /// The result of the system call: 0, or the error's number.
  int signal(int signal) const;

 private:
  std::string read(const std::string& name) const;
  /// Of each thread.
  std::vector<std::string> tasks() const;
  char state_of_other_threads() const;

  pid_t number_;
  int directory_;  // Of /proc/<number>.
};

/// All that descends from this process, which must be a subreaper: orphans become its children. So the tree is empty
/// when this process has no child. Nothing is signalled by a number that may belong to a stranger by now.
class ProcessTree {
 public:
  /// Whether /proc shows this process, and who has started whom. If not, nothing here finds anything.
  static bool can_be_seen();
  /// This child of ours is none of the tree: nothing is done to it.
  void spare(pid_t child) { spared_.insert(child); }
  /// It was reaped: its number may be that of another child from now on.
  void forget(pid_t child) { spared_.erase(child); }
  /// Nothing is left, apart from those.
  bool empty() const;
  /// TERM, say, once to each. Those that are stopped are let go on, so that they can obey.
  void signal(int signal);
  /// KILL to each, and to those that are forked meanwhile, as far as they can be seen. Returns who refuses it.
  std::vector<pid_t> kill();
  /// Stops each that is not stopped.
  void freeze();
  /// Lets those go on that freeze() has stopped.
  void thaw();

 private:
  std::set<pid_t> spared_;
  std::map<pid_t, std::uint64_t> frozen_;  // By number and start.
};

/// News of this process's children, as waitid() tells them.
struct ChildNews {
  pid_t number = 0;
  int code = 0;  // CLD_EXITED, CLD_STOPPED, ...
  int status = 0;
};
/// Reaps all that can be reaped. Returns false when there is no child any more.
bool reap(const std::function<void(const ChildNews&)>& tell);

}  // namespace zkr
