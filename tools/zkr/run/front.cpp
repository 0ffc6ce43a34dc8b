#include "tools/zkr/run/front.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace zkr {

using namespace std::chrono_literals;

Front::Front(const RunOptions& options, Surroundings around, const std::vector<pid_t>& strangers)
    : options_(options), around_(std::move(around)), signals_(all_signals_descriptor()) {
  tree_.spare(around_.guardian);
  for (const pid_t stranger : strangers)
    tree_.spare(stranger);
}

Outcome Front::run() {
  while (!ending_ && !keeper_gone_) {
    timer_.set(deadline());
    wait_for_any({around_.link.peer_gone() ? -1 : around_.link.get(), signals_.get(), timer_.get()});
    look();
    kill_what_is_late();
  }
  if (ending_) await_keeper();
  const Ending ending = ending_ ? *ending_ : end_without_keeper();
  if (command_killed_) around_.caller.restore_terminal();
  if (around_.cgroup) around_.cgroup->remove();
  errors_.finish();
  Outcome outcome{.ending = ending, .cause = cause_, .token = around_.page.token(), .holder = holder_};
  outcome.keeper_failed = cause_ == Cause::none && keeper_code_.has_value();
  if (const auto granted_at = around_.page.granted_at()) outcome.waited = *granted_at - around_.page.asked_at();
  return outcome;
}

// ---- What has happened -------------------------------------------------------------------------------------------

void Front::look() {
  drain(timer_.get());
  hear_signals();
  reap_children();  // What a keeper that is gone had said is read after that it is gone was seen.
  hear_keeper();
}

void Front::hear_keeper() {
  Descriptor process;
  while (const auto message = around_.link.receive(process))
    hear(*message, process);
}

void Front::hear(const Message& message, Descriptor& process) {
  switch (message.word) {
    case Word::guard:
      starting_ = true;
      ending_without_keeper_.reset();
      command_.close();  // Of the run before.
      break;
    case Word::started: return command_started(std::move(process), message.number != 0);
    case Word::stopped: return stop_as(message.number);
    case Word::say: return errors_.write(message.text, message.number);
    case Word::giving_back: ending_without_keeper_ = message; break;
    case Word::ended:
      ending_ = message.ending;
      cause_ = message.cause;
      command_killed_ = message.command_killed;
      keeper_stays_ = message.number != 0;
      holder_ = message.text;
      break;
    default: break;  // `resumed`: SIGCONT has come, too.
  }
}

void Front::hear_signals() {
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal)
    hear_signal(signal);
}

void Front::hear_signal(const signalfd_siginfo& signal) {
  const int number = static_cast<int>(signal.ssi_signo);
  if (number == SIGCHLD || is_our_own(signal)) return;
  if (number == SIGCONT) return around_.link.send({.word = Word::continued});
  const bool may_be_counted = options_.drain && tells_to_end(number) && !around_.caller.ignores(number);
  if (may_be_counted && !end_signals_.count(signal, BootClock::now())) return;
  pass_on(number, is_for_the_group(signal));
}

/// With --drain the first signal to end is for the keeper; the next one, if we have not ended by then, for the command.
bool Front::lets_work_end(int signal) {
  if (!options_.drain || !tells_to_end(signal) || around_.caller.ignores(signal) || draining_) return false;
  draining_ = true;
  around_.link.send({.word = Word::end, .number = signal});
  return true;
}

/// A command that was there when the signal came was announced before. So no signal of the terminal reaches it twice.
void Front::pass_on(int signal, bool from_terminal) {
  const int stops_before = stops_;
  hear_keeper();
  if (lets_work_end(signal)) return;
  if (stops(signal) && stops_ != stops_before) return;  // It was obeyed with the command, and is over.
  if (command_) return tell_command(signal, from_terminal);
  if (!starting_) return without_command(signal);
  held_back_.emplace_back(signal, from_terminal);
}

void Front::command_started(Descriptor process, bool in_our_group) {
  command_ = std::move(process);
  command_in_our_group_ = in_our_group;
  for (const auto& [signal, from_terminal] : std::exchange(held_back_, {}))
    tell_command(signal, from_terminal);
}

/// The command alone, and not of what the terminal has sent to the whole group.
void Front::tell_command(int signal, bool from_terminal) {
  if (tells_to_end(signal) && !around_.caller.ignores(signal)) around_.link.send({.word = Word::end});
  // A process that has ended but is not reaped takes signals, and does nothing with them.
  const bool ended = readable_now(command_.get());
  if (!ended && from_terminal && command_in_our_group_) return;
  const bool gone =
      ended || (::syscall(SYS_pidfd_send_signal, command_.get(), signal, nullptr, 0) != 0 && errno == ESRCH);
  if (gone) without_command(signal);
}

void Front::without_command(int signal) {
  if (around_.caller.ignores(signal) || ignored_by_default(signal)) return;
  if (stops(signal)) return stop_as(signal);
  around_.link.send({.word = Word::signal, .number = signal});
}

void Front::reap_children() {
  reap([this](const ChildNews& news) { hear_child(news); });
}

void Front::hear_child(const ChildNews& news) {
  if (news.code == CLD_STOPPED || news.code == CLD_CONTINUED) return;
  tree_.forget(news.number);
  if (news.number != around_.keeper || keeper_gone_) return;
  keeper_gone_ = true;
  if (news.code == CLD_EXITED) keeper_code_ = news.status;
  was_guarded_ = killed_late_ || around_.page.state() == LeasePage::State::running;
}

/// Returns when this process goes on. `SIGCONT` is in signals_ then.
void Front::stop_as(int signal) {
  ++stops_;
  if (signal == SIGSTOP) {
    ::raise(signal);
  } else {
    suffer(signal);
  }
}

// ---- What is done ------------------------------------------------------------------------------------------------

std::optional<Instant> Front::deadline() const {
  if (around_.page.state() != LeasePage::State::running) return std::nullopt;
  return front_kills_at(around_.page.valid_until(), around_.page.timeout(), options_);
}

/// The keeper is late, so it is killed as well: whatever hinders it, it could not release the lease in order.
void Front::kill_what_is_late() {
  const auto due = deadline();
  if (!due || BootClock::now() < *due) return;
  killed_late_ = true;
  if (around_.cgroup) around_.cgroup->kill();
  tree_.kill();
}

/// It has nothing left to do, and nothing of ours should be left when we are gone.
void Front::await_keeper() {
  const Instant patience = BootClock::now() + 1s;
  while (!keeper_stays_ && !keeper_gone_ && BootClock::now() < patience) {
    timer_.set(patience);
    wait_for_any({signals_.get(), timer_.get()});
    drain(timer_.get());
    hear_signals();
    reap_children();
  }
}

/// All below us: the orphans of a keeper are our children.
void Front::sweep() {
  if (around_.cgroup) around_.cgroup->kill();  // Also where /proc does not show who is below us.
  Duration pause = 5ms;
  while (reap([this](const ChildNews& news) { hear_child(news); }) && !tree_.empty()) {
    if (around_.cgroup) around_.cgroup->kill();
    tree_.kill();
    timer_.set(BootClock::now() + pause);
    wait_for_any({signals_.get(), timer_.get()});
    drain(timer_.get());
    drain(signals_.get());
    pause = std::min<Duration>(pause * 2, 320ms);
  }
}

Ending Front::end_without_keeper() {
  sweep();
  if (ending_without_keeper_ && !was_guarded_) {
    errors_.write(std::string("the keeper ") + (keeper_code_ ? "failed" : "was killed") +
                  " while it gave the lease back");
    command_killed_ = ending_without_keeper_->command_killed;
    cause_ = ending_without_keeper_->cause;
    return ending_without_keeper_->ending;
  }
  command_killed_ = true;
  cause_ = was_guarded_ ? Cause::lost : Cause::none;
  if (keeper_code_ && !was_guarded_) return {.code = *keeper_code_, .signal = 0};  // It has said what went wrong.
  errors_.write(was_guarded_ ? "the lease is lost with the keeper" : "the keeper was killed");
  return {.code = was_guarded_ ? options_.lost_exit_code : options_.dead_keeper_code, .signal = 0};
}

void end_as(const Ending& ending) {
  if (ending.signal == 0) ::_exit(ending.code);
  if (::getpid() == 1) ::_exit(128 + ending.signal);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0);  // A core that goes to a program is not bound by the limit.
  if (ending.signal == SIGKILL) ::raise(SIGKILL);
  suffer(ending.signal);
  ::_exit(128 + ending.signal);
}

}  // namespace zkr
