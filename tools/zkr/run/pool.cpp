#include "tools/zkr/run/pool.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <set>

#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/end_signals.hpp"
#include "tools/zkr/run/front.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

constexpr int exit_no_process = 71;
/// What stops processes, and lets them go on, does so to this one as well. What a fault of this process raises ends it,
/// blocked or not.
bool is_passed_on(int signal) {
  constexpr std::array not_passed_on{SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT};
  return std::find(not_passed_on.begin(), not_passed_on.end(), signal) == not_passed_on.end();
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// The parent of the processes that work.
class Pool {
 public:
  Pool() : parent_(::getpid()), children_ignored_(is_ignored(SIGCHLD)) {
    ::signal(SIGCHLD, SIG_DFL);  // If it is ignored, nobody hears how a child has ended.
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    for (int signal = 1; signal < NSIG; ++signal) {
      if (is_passed_on(signal) && !is_ignored(signal)) sigaddset(&blocked, signal);
    }
    ::sigprocmask(SIG_BLOCK, &blocked, &mask_);
    signals_ = Descriptor(::signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void start(int processes, const std::function<void()>& work) {
    for (int i = 0; i < processes && !failure_; ++i) {
      const pid_t child = ::fork();
      if (child == 0) be_child(work);
      if (child > 0) children_.insert(child);
      if (child < 0) fail({.code = exit_no_process, .signal = 0});
    }
  }

  Ending await() {
    while (!children_.empty()) {
      wait_for_any({signals_.get()});
      hear_signals();
      reap([this](const ChildNews& news) { hear(news); });
    }
    if (told_by_) return {.code = 0, .signal = *told_by_};
    return failure_.value_or(Ending{});
  }

 private:
  [[noreturn]] void be_child(const std::function<void()>& work) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent_) ::_exit(exit_no_process);
    signals_.close();
    if (children_ignored_) ::signal(SIGCHLD, SIG_IGN);  // The command is to find it as we did.
    ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
    work();
    ::_exit(0);
  }

  void hear_signals() {
    signalfd_siginfo signal{};
    while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
      const int number = static_cast<int>(signal.ssi_signo);
      if (number == SIGCHLD) continue;
      if (tells_to_end(number)) told_to_end(signal);
      if (!tells_to_end(number) && !is_for_the_group(signal)) tell(number);
    }
  }

  void told_to_end(const signalfd_siginfo& signal) {
    const int number = static_cast<int>(signal.ssi_signo);
    if (!told_by_) told_by_ = number;
    if (!end_signals_.count(signal, BootClock::now()) || is_for_the_group(signal)) return;
    for (const pid_t child : children_)
      end_signals_.pass_on(child, number);
  }

  void hear(const ChildNews& news) {
    if (news.code == CLD_STOPPED || news.code == CLD_CONTINUED || children_.erase(news.number) == 0) return;
    if (news.code == CLD_EXITED && news.status == 0) return;
    fail(news.code == CLD_EXITED ? Ending{.code = news.status} : Ending{.code = 0, .signal = news.status});
  }

  /// The first one says how all end.
  void fail(const Ending& ending) {
    if (failure_ || told_by_) return;
    failure_ = ending;
    end_signals_.count_own();  // Else they would take the first one that comes from outside for this one.
    for (const pid_t child : children_)
      end_signals_.pass_on(child, SIGTERM);
  }

  void tell(int signal) const {
    for (const pid_t child : children_)
      ::kill(child, signal);
  }

  const pid_t parent_;
  const bool children_ignored_;  // SIGCHLD, by our caller.
  sigset_t mask_{};
  Descriptor signals_;
  std::set<pid_t> children_;  // Not reaped.
  EndSignals end_signals_;
  std::optional<int> told_by_;
  std::optional<Ending> failure_;
};

}  // namespace

void run_pool(int processes, const std::function<void()>& work) {
  Pool pool;
  pool.start(processes, work);
  end_as(pool.await());
}

}  // namespace zkr
