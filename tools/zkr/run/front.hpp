#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/zkr/run/caller.hpp"
#include "tools/zkr/run/cgroup.hpp"
#include "tools/zkr/run/decider.hpp"
#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/end_signals.hpp"
#include "tools/zkr/run/error_lines.hpp"
#include "tools/zkr/run/lease_page.hpp"
#include "tools/zkr/run/link.hpp"
#include "tools/zkr/run/process_tree.hpp"
#include "tools/zkr/run/run.hpp"

namespace zkr {

/// The process that our caller knows. It passes signals on, stops and ends as the command does, and kills everything
/// below it when the keeper is gone, or has missed the end of the lease.
class Front {
 public:
  struct Surroundings {
    Caller& caller;
    LeasePage& page;
    std::optional<Cgroup>& cgroup;
    Link link;
    pid_t keeper;
    pid_t guardian;  // -1: there is none.
  };

  /// `strangers`: children of this process that it was called with.
  Front(const RunOptions& options, Surroundings around, const std::vector<pid_t>& strangers);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  /// Until this process has to end.
  Outcome run();

 private:
  void look();
  void hear_keeper();
  void hear(const Message& message, Descriptor& process);
  void hear_signals();
  void hear_signal(const signalfd_siginfo& signal);
  void pass_on(int signal, bool from_terminal);
  bool lets_work_end(int signal);
  /// It has not started yet, or has ended: the signal is for us.
  void without_command(int signal);
  void tell_command(int signal, bool from_terminal);
  void command_started(Descriptor process, bool in_our_group);
  void reap_children();
  void hear_child(const ChildNews& news);
  void stop_as(int signal);

  std::optional<Instant> deadline() const;
  void kill_what_is_late();
  void await_keeper();
  void sweep();
  Ending end_without_keeper();

  const RunOptions& options_;
  Surroundings around_;
  Descriptor signals_;
  BootTimer timer_;
  ErrorLines errors_;
  ProcessTree tree_;

  Descriptor command_;  // Its process, pinned.
  bool command_in_our_group_ = true;
  bool starting_ = false;                        // The keeper has begun to start the command.
  std::vector<std::pair<int, bool>> held_back_;  // Signals that came meanwhile, and whether from the terminal.
  EndSignals end_signals_;                       // With --drain.
  bool draining_ = false;                        // The keeper was told to end, and the command was not.
  int stops_ = 0;                                // How often this process has stopped itself.
  bool keeper_gone_ = false;
  std::optional<int> keeper_code_;  // With which it has ended by itself, without an ending of ours.
  bool keeper_stays_ = false;
  bool killed_late_ = false;  // The keeper may have ended the tree in the same moment.
  bool was_guarded_ = false;  // The lease was needed when the keeper went.
  bool command_killed_ = false;
  std::optional<Ending> ending_;
  std::optional<Message> ending_without_keeper_;  // While it gives the lease back: how we end if it is killed at it.
  Cause cause_ = Cause::none;
  std::string holder_;  // Who holds what was not acquired.
};

/// Ends this process like that: of the same signal, without a core. As the first of its namespace, which no signal of
/// its own kills, with 128 and the signal.
[[noreturn]] void end_as(const Ending& ending);

}  // namespace zkr
