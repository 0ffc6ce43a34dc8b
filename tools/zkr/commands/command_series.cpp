#include "tools/zkr/commands/command_series.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/command_options.hpp"
#include "tools/zkr/run/end_signals.hpp"

extern char** environ;

namespace zkr {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void fail_in_system(const char* what, int error) {
  throw Failure(exit_system, fmt::format("{}: {}", what, std::strerror(error)));
}

Descriptor input_with(const std::string& bytes) {
  try {
    return file_with(bytes);
  } catch (const std::system_error& error) {
    throw Failure(exit_system, error.what());
  }
}

}  // namespace

// ---- Signals -----------------------------------------------------------------------------------------------------

void die_of(int signal) {
  suffer(signal);
  ::_exit(128 + signal);
}

FollowedSignals::FollowedSignals() : signals_(all_signals_descriptor()) {
  if (!signals_) fail_in_system("signalfd", errno);
}

std::optional<signalfd_siginfo> FollowedSignals::take() const {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return info;
}

void FollowedSignals::let_writes_end_us() const {
  sigset_t of_writes;
  sigemptyset(&of_writes);
  for (const int signal : {SIGPIPE, SIGXFSZ})
    sigaddset(&of_writes, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &of_writes, nullptr);
}

// ---- If this process is killed -----------------------------------------------------------------------------------

SeriesGuard::SeriesGuard(int claim)
    : mark_("ZKR_ID=" + random_id()),
      cgroup_(Cgroup::make("zkr-" + std::to_string(::getpid()))),
      guardian_(GuardianProcess::start(mark_, cgroup_, claim)) {}

std::vector<std::string> SeriesGuard::environment() const { return {mark_, mark_entry(mark_)}; }

void SeriesGuard::close() const {
  if (guardian_) guardian_->end();
  if (cgroup_) cgroup_->remove();
}

// ---- The commands ------------------------------------------------------------------------------------------------

void CommandSeries::start(const SeriesCommand& command) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const pid_t left : PinnedProcess(::getpid()).children())
    tree_.spare(left);  // By an earlier command, which has ended by itself; or by our caller.
  const Descriptor input = input_with(command.input);
  const Command how{.words = command.words, .lost_descriptor = {}, .after_fork = {}};
  Environment environment(environ, command.environment, ::getpid());
  const bool in_cgroup = guard_ != nullptr && guard_->cgroup();
  const bool guarded = guard_ != nullptr && guard_->guardian();
  Started started = zkr::start(how, signals_.caller(), environment, in_cgroup ? guard_->cgroup()->door() : -1,
                               input.get(), guarded ? guard_->guardian()->limit() : 0, Instant::max());
  if (started.number < 0) fail_in_system("fork", errno);
  wait_for_any({started.trouble.get()});
  int error = 0;
  if (::read(started.trouble.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(started.number, nullptr, 0);
    throw Failure(error == ENOENT ? exit_no_command : exit_not_runnable,
                  fmt::format("{}: {}", command.words.front(), std::strerror(error)));
  }
  started_ = std::move(started);
}

void CommandSeries::hear() {
  hear_signals();
  reap_children();
}

void CommandSeries::hear_signals() {
  while (const auto signal = signals_.take())
    hear_signal(*signal);
}

void CommandSeries::hear_signal(const signalfd_siginfo& signal) {
  const int number = static_cast<int>(signal.ssi_signo);
  if (number == SIGCHLD || is_our_own(signal)) return;
  const bool has_it = runs() && started_.in_our_group && is_for_the_group(signal);
  if (runs() && !has_it) ::syscall(SYS_pidfd_send_signal, started_.process.get(), number, nullptr, 0);
  if (stops(number)) return suffer(number);
  const bool ends_us = !runs() || tells_to_end(number);
  if (ends_us && !signals_.caller().ignores(number) && !ignored_by_default(number)) told_by_ = number;
}

void CommandSeries::reap_children() {
  reap([this](const ChildNews& news) { hear_child(news); });
}

void CommandSeries::hear_child(const ChildNews& news) {
  if (news.code == CLD_STOPPED || news.code == CLD_CONTINUED) return;
  tree_.forget(news.number);
  if (!runs() || news.number != started_.number) return;
  code_ = news.code == CLD_EXITED ? news.status : 128 + news.status;
  started_ = Started();
}

std::optional<int> CommandSeries::take_code() { return std::exchange(code_, std::nullopt); }

bool CommandSeries::end_leftovers() {
  reap_children();
  if (tree_.empty()) return true;
  tree_.signal(SIGTERM);
  if (await_empty_tree([] {})) return true;
  return await_empty_tree([this] {
    if (guard_ != nullptr && guard_->cgroup()) guard_->cgroup()->kill();
    tree_.kill();
  });
}

/// For no longer than 2 s.
bool CommandSeries::await_empty_tree(const std::function<void()>& each_time) {
  constexpr Duration most = 2s;
  const Instant end = BootClock::now() + most;
  for (Duration pause = 5ms; BootClock::now() < end; pause = std::min<Duration>(pause * 2, 320ms)) {
    reap_children();
    if (tree_.empty()) return true;
    each_time();
    timer_.set(std::min(end, BootClock::now() + pause));
    wait_for_any({signals_.get(), timer_.get()});
    drain(timer_.get());
    const int told_by = told_by_;
    hear_signals();
    if (told_by != 0) told_by_ = told_by;  // The first one has been obeyed.
  }
  return false;
}

}  // namespace zkr
