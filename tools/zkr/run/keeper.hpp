#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "tools/zkr/run/caller.hpp"
#include "tools/zkr/run/cgroup.hpp"
#include "tools/zkr/run/command.hpp"
#include "tools/zkr/run/decider.hpp"
#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/lease_page.hpp"
#include "tools/zkr/run/link.hpp"
#include "tools/zkr/run/process_tree.hpp"
#include "tools/zkr/run/run.hpp"

namespace zkr {

/// The process between front and command: it holds the lease, starts the command under it, and ends its tree in time.
/// It does what decide() says, and knows nothing better. One object is one run of the command.
class Keeper {
 public:
  struct Surroundings {
    Caller& caller;
    LeasePage& page;
    std::optional<Cgroup>& cgroup;
    Link link;
    Descriptor front;  // Its process, pinned.
    pid_t front_number;
    const std::optional<GuardianProcess>& guardian;
  };

  /// The holder begins to contend after the pause.
  Keeper(const RunRequest& request, Surroundings& around, Duration pause);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Until there is nothing left to do. How long to pause before the next run; nothing: there is none.
  std::optional<Duration> run();

 private:
  void look();
  void hear_front();
  void hear_children();
  void hear_child(const ChildNews& news);
  void hear_trouble();
  void pass_on(int signal);
  void told_to_end(int signal);
  void command_stopped(int signal);
  void command_resumed();
  void front_continued();

  Facts facts() const;
  Decision act_until_wait();
  void tell(Cause cause);
  void perform(const Decision& decision);
  void start_command();
  void send_soft_signal(int signal);
  void kill_tree();
  void freeze();
  void thaw();
  void release(const Ending& ending);
  void end_run(const Ending& ending);
  Message told_ending(Word word, const Ending& ending) const;
  void let_front_exit(const Ending& ending);
  bool keeps_descriptors() const { return request_.run_again != nullptr; }

  const RunRequest& request_;
  Surroundings& around_;
  Descriptor children_;  // SIGCHLD.
  BootTimer timer_;
  std::unique_ptr<Holder> holder_;

  ProcessTree tree_;
  Started started_;
  Past past_;
  Lease lease_;
  Child child_ = Child::none;
  Ending child_ending_;
  bool tree_empty_ = true;
  bool front_stopped_ = false;
  int stop_signal_ = 0;
  std::optional<Instant> drained_at_;
  bool told_to_end_ = false;
  Instant command_started_{};
  Duration late_{};  // By how much the last wait has ended after the instant that it was to end at.
  std::optional<Duration> next_run_;
  std::string refused_;  // Who could not be killed, as it was said.
};

}  // namespace zkr
