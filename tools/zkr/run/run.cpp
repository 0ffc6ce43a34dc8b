#include "tools/zkr/run/run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/zkr/run/caller.hpp"
#include "tools/zkr/run/cgroup.hpp"
#include "tools/zkr/run/error_lines.hpp"
#include "tools/zkr/run/front.hpp"
#include "tools/zkr/run/keeper.hpp"
#include "tools/zkr/run/lease_page.hpp"
#include "tools/zkr/run/link.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

constexpr int exit_bug = 70;
constexpr int exit_system = 71;

/// A service manager signals all processes at once, a terminal a whole group. The keeper ends when its work is done.
void ignore_group_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP})
    ::signal(signal, SIG_IGN);
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

[[noreturn]] void be_keeper(const RunRequest& request, Keeper::Surroundings around) {
  ignore_group_signals();
  adopt_orphans();
  ::prctl(PR_SET_NAME, "zkr-keeper");
  const std::optional<Cgroup>& cgroup = around.cgroup;
  if (around.guardian) around.guardian->tell("keeper " + std::to_string(::getpid()));
  try {
    if (request.before_first_holder) request.before_first_holder();
    for (std::optional<Duration> pause = Duration::zero(); pause;) {
      around.page.begin(BootClock::now() + *pause);
      pause = Keeper(request, around, *pause).run();
    }
    if (request.after_last_holder) request.after_last_holder();
    if (around.guardian) around.guardian->tell("farewell");
    if (cgroup) cgroup->remove();
  } catch (const std::exception& error) {
    around.link.say(error.what());
    ::_exit(exit_bug);  // The front ends what runs.
  }
  ::_exit(0);
}

[[noreturn]] void be_front(const RunRequest& request) {
  Caller caller;
  const std::vector<pid_t> strangers = PinnedProcess(::getpid()).children();  // Of whoever executed us.
  adopt_orphans();
  LeasePage page;
  auto [front_end, keeper_end] = Link::pair();
  const pid_t front = ::getpid();
  std::optional<Cgroup> cgroup;
  if (request.use_cgroup) cgroup = Cgroup::make("zkr-" + std::to_string(front));
  if (!cgroup && !ProcessTree::can_be_seen())
    throw std::runtime_error("/proc does not show who has started what: the command could not be ended in time");
  std::optional<GuardianProcess> guardian;
  if (!request.mark.empty()) guardian = GuardianProcess::start(request.mark, cgroup);
  if (guardian) guardian->tell("front " + std::to_string(front));
  Descriptor front_process(static_cast<int>(::syscall(SYS_pidfd_open, front, 0)));

  Descriptor report_to(
      request.report_descriptor ? ::fcntl(*request.report_descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1);

  const pid_t keeper = ::fork();
  if (keeper < 0) end_as({.code = exit_system, .signal = 0});
  if (keeper == 0) {
    front_end.close();
    report_to.close();  // Nobody is to wait for the keeper because of it.
    be_keeper(request, {caller, page, cgroup, std::move(keeper_end), std::move(front_process), front, guardian});
  }
  keeper_end.close();
  caller.let_go_descriptors(true);
  const Outcome outcome =
      Front(request.options, {caller, page, cgroup, std::move(front_end), keeper, guardian ? guardian->number() : -1},
            strangers)
          .run();
  const std::string trouble = request.report ? request.report(outcome, report_to.get()) : "";
  if (!trouble.empty()) ErrorLines().write(trouble);
  end_as(outcome.ending);
}

}  // namespace

void run_under_lease(const RunRequest& request) {
  try {
    be_front(request);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zkr: %s\n", error.what());
    end_as({.code = exit_system, .signal = 0});
  }
}

}  // namespace zkr
