#include "tools/zkr/run/end_signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr Duration close_behind = 500ms;
constexpr int most_that_are_counted = 0xffff;
constexpr int passed_on_mark = 0x7a6b'0000;  // With it, the number of signals that the parent has counted.

std::optional<int> counted_by_parent(const signalfd_siginfo& signal) {
  if (signal.ssi_code != SI_QUEUE || static_cast<pid_t>(signal.ssi_pid) != ::getppid()) return std::nullopt;
  if ((signal.ssi_int & ~most_that_are_counted) != passed_on_mark) return std::nullopt;
  return signal.ssi_int & most_that_are_counted;
}

}  // namespace

bool tells_to_end(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT; }

bool stops(int signal) { return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }

bool ignored_by_default(int signal) {
  return signal == SIGCHLD || signal == SIGURG || signal == SIGWINCH || signal == SIGCONT;
}

bool is_our_own(const signalfd_siginfo& signal) {
  return signal.ssi_code == SI_USER && static_cast<pid_t>(signal.ssi_pid) == ::getpid();
}

void suffer(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t it;
  sigemptyset(&it);
  sigaddset(&it, signal);
  ::raise(signal);
  ::pthread_sigmask(SIG_UNBLOCK, &it, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &it, nullptr);
}

bool is_for_the_group(const signalfd_siginfo& signal) {
  const bool hung_up = signal.ssi_signo == SIGHUP && ::getsid(0) == ::getpid();
  return signal.ssi_code == SI_KERNEL && !hung_up;
}

bool EndSignals::count(const signalfd_siginfo& signal, Instant now) {
  const auto by_parent = counted_by_parent(signal);
  if (by_parent ? *by_parent <= counted_ : is_repeated(signal, now)) return false;
  counted_ = std::min(by_parent.value_or(counted_ + 1), most_that_are_counted);
  last_ = static_cast<int>(signal.ssi_signo);
  last_at_ = now;
  return true;
}

void EndSignals::count_own() { counted_ = std::min(counted_ + 1, most_that_are_counted); }

/// Who presses a key twice means it.
bool EndSignals::is_repeated(const signalfd_siginfo& signal, Instant now) const {
  const bool same = counted_ > 0 && static_cast<int>(signal.ssi_signo) == last_;
  return same && signal.ssi_code != SI_KERNEL && now - last_at_ < close_behind;
}

void EndSignals::pass_on(pid_t child, int signal) const {
  const sigval count{.sival_int = passed_on_mark | counted_};
  if (::sigqueue(child, signal, count) != 0) ::kill(child, signal);  // Too many are pending.
}

}  // namespace zkr
