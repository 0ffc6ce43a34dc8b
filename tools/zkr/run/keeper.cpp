#include "tools/zkr/run/keeper.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tools/zkr/run/end_signals.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr Duration telling_lateness = 500ms;  // With less, a host stands still for no reason to lose a lease.

int signal_pinned(const Descriptor& process, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0));
}

Ending ending_in(const ChildNews& news) {
  if (news.code == CLD_EXITED) return {.code = news.status, .signal = 0};
  return {.code = 0, .signal = news.status};
}

std::string seconds_text(Duration duration) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(duration).count());
  return text.data();
}

std::string loss_text(const Facts& facts, Duration late) {
  const std::string stall = late >= telling_lateness ? "; this host was late by " + seconds_text(late) : "";
  if (facts.lease.state != LeaseState::held) return "the lease is lost: the command is killed" + stall;
  const std::string silence = seconds_text(facts.now - facts.lease.proven_at);
  const bool expired = facts.now >= facts.lease.valid_until;
  return "no server has confirmed the lease for " + silence + (expired ? ": it is lost" : ": it is in doubt") +
         ", and the command is ended" + stall;
}

}  // namespace

Keeper::Keeper(const RunRequest& request, Surroundings& around, Duration pause)
    : request_(request),
      around_(around),
      children_(signal_descriptor({SIGCHLD})),
      holder_(request.make_holder({.pause = pause, .guardian = around.guardian ? &*around.guardian : nullptr})) {}

std::optional<Duration> Keeper::run() {
  while (true) {
    look();
    const Decision decision = act_until_wait();
    if (decision.act == Act::quit || next_run_) return next_run_;
    timer_.set(decision.look_at);
    const Instant due = decision.look_at.value_or(Instant::max());
    wait_for_any({around_.link.peer_gone() ? -1 : around_.link.get(), children_.get(), timer_.get(), holder_->news(),
                  started_.trouble.get()},
                 around_.link.is_behind() ? around_.link.get() : -1);
    const Instant now = BootClock::now();
    late_ = now > due ? now - due : Duration::zero();
  }
}

// ---- What has happened -------------------------------------------------------------------------------------------

void Keeper::look() {
  drain(timer_.get());
  around_.link.catch_up();
  hear_trouble();
  hear_children();
  lease_ = holder_->look();
  for (const std::string& text : holder_->take_messages())
    around_.link.say(text);
  if (lease_.state == LeaseState::held) around_.page.write(lease_);
  hear_front();
}

void Keeper::hear_front() {
  Descriptor none;
  while (const auto message = around_.link.receive(none)) {
    if (message->word == Word::signal) pass_on(message->number);
    if (message->word == Word::continued) front_continued();
    if (message->word == Word::end) told_to_end(message->number);
  }
}

/// To the command; where there is none, the signal is for us. Between two runs it ends us only if it is meant to.
void Keeper::pass_on(int signal) {
  const bool ends_us = !request_.run_again || tells_to_end(signal);
  if (child_ == Child::running) {
    signal_pinned(started_.process, signal);
  } else if (stop_signal_ == 0 && ends_us) {
    stop_signal_ = signal;
  }
}

/// A command that was told the same needs nothing from us. One that was not may end its work.
void Keeper::told_to_end(int signal) {
  told_to_end_ = true;
  if (!request_.options.drain || stop_signal_ != 0) return;
  stop_signal_ = signal;
  drained_at_ = BootClock::now() + *request_.options.drain;
}

void Keeper::hear_children() {
  drain(children_.get());
  tree_empty_ = !reap([this](const ChildNews& news) { hear_child(news); });
  if (tree_empty_) around_.page.write(LeasePage::State::idle);
}

void Keeper::hear_child(const ChildNews& news) {
  if (news.number != started_.number || child_ != Child::running) return;
  if (news.code == CLD_STOPPED) return command_stopped(news.status);
  if (news.code == CLD_CONTINUED) return command_resumed();
  child_ = Child::ended;
  child_ending_ = ending_in(news);
}

/// The shell knows the front alone: it stops as the command does, and goes on with it.
void Keeper::command_stopped(int signal) {
  if (past_.frozen) return;
  front_stopped_ = true;
  around_.link.send({.word = Word::stopped, .number = signal});
}

void Keeper::command_resumed() {
  if (!front_stopped_) return;
  front_stopped_ = false;
  around_.link.send({.word = Word::resumed});
  signal_pinned(around_.front, SIGCONT);
}

void Keeper::front_continued() {
  front_stopped_ = false;
  if (child_ != Child::running || past_.frozen) return;
  const auto status = PinnedProcess(started_.number).status();
  if (status && status->state == 'T') signal_pinned(started_.process, SIGCONT);
}

void Keeper::hear_trouble() {
  if (!started_.trouble) return;
  int error = 0;
  const ssize_t size = ::read(started_.trouble.get(), &error, sizeof error);
  if (size < 0) return;
  if (size == sizeof error) around_.link.say(request_.command.words[0] + ": " + std::strerror(error));
  started_.trouble.close();
}

// ---- What is done ------------------------------------------------------------------------------------------------

Facts Keeper::facts() const {
  return {.now = BootClock::now(),
          .lease = lease_,
          .child = child_,
          .child_ending = child_ending_,
          .tree_empty = tree_empty_,
          .front_gone = around_.link.peer_gone(),
          .told_to_end = told_to_end_,
          .stop_signal = stop_signal_,
          .drained_at = drained_at_};
}

Decision Keeper::act_until_wait() {
  while (true) {
    const Facts now = facts();
    const Decision decision = decide(now, past_, request_.options);
    if (past_.started && decision.cause != past_.cause) tell(decision.cause);
    past_ = after(past_, now, decision);
    perform(decision);
    if (decision.act == Act::wait || decision.act == Act::quit || decision.look_at || next_run_) return decision;
  }
}

/// Why the command is ended, before it is.
void Keeper::tell(Cause cause) {
  switch (cause) {
    case Cause::lost: return around_.link.say(loss_text(facts(), late_));
    case Cause::revoked: return around_.link.say("another client asks for the lease: the command is ended");
    case Cause::held_too_long:
      return around_.link.say("the lease was held for " + request_.max_hold_option + ": the command is ended");
    case Cause::stopped: return around_.link.say("told to end, and --drain is over: the command is ended");
    case Cause::hung: return around_.link.say("the command has not said for --watchdog that it is alive: it is ended");
    default: return;
  }
}

void Keeper::perform(const Decision& decision) {
  switch (decision.act) {
    case Act::run: return start_command();
    case Act::term: return send_soft_signal(decision.signal);
    case Act::kill: return kill_tree();
    case Act::freeze: return freeze();
    case Act::thaw: return thaw();
    case Act::release: return release(decision.ending);
    case Act::exit: return end_run(decision.ending);
    case Act::wait:
    case Act::quit: return;
  }
}

void Keeper::start_command() {
  std::vector<std::string> changes = holder_->environment();
  if (!request_.command.lost_descriptor) changes.emplace_back("ZKR_LOST_FD");  // It was a caller's.
  if (!request_.mark.empty()) changes.push_back(mark_entry(request_.mark));
  Environment environment(::environ, changes, around_.front_number);
  if (around_.cgroup) around_.cgroup->thaw();  // A run that was killed while it was frozen has left it so.
  around_.page.write(LeasePage::State::running);
  around_.link.send({.word = Word::guard});
  command_started_ = BootClock::now();
  const std::optional<std::string> bytes = holder_->input();
  const Descriptor input = bytes ? file_with(*bytes) : Descriptor();
  started_ =
      start(request_.command, around_.caller, environment, around_.cgroup ? around_.cgroup->door() : -1, input.get(),
            around_.guardian ? around_.guardian->limit() : 0, deadlines(lease_, request_.options).kill_at);
  if (started_.number < 0) {
    child_ = Child::ended;
    child_ending_ = {.code = 71, .signal = 0};
    return;
  }
  child_ = Child::running;
  tree_empty_ = false;
  around_.link.send({.word = Word::started, .number = started_.in_our_group ? 1 : 0}, started_.process.get());
  holder_->command_started();
  if (!keeps_descriptors()) around_.caller.let_go_descriptors(false);
}

void Keeper::send_soft_signal(int signal) {
  if (past_.cause != Cause::command_ended) started_.unlost.close();
  if (signal == SIGTERM) return tree_.signal(signal);
  if (child_ == Child::running) signal_pinned(started_.process, signal);
}

void Keeper::kill_tree() {
  started_.unlost.close();
  if (around_.cgroup) around_.cgroup->kill();
  if (child_ == Child::running) signal_pinned(started_.process, SIGKILL);  // However little of the tree is seen.
  std::string refused;
  for (const pid_t number : tree_.kill())
    refused += " " + std::to_string(number);
  if (!refused.empty() && refused != refused_) around_.link.say("may not be killed by us:" + refused);
  refused_ = refused;
}

void Keeper::freeze() {
  if (!around_.cgroup || !around_.cgroup->freeze()) tree_.freeze();
}

void Keeper::thaw() {
  if (around_.cgroup) around_.cgroup->thaw();
  tree_.thaw();
}

void Keeper::release(const Ending& ending) {
  if (!tree_empty_) around_.link.say("the command has ended, and what it left behind runs on without the lease");
  around_.page.write(LeasePage::State::idle);
  if (!keeps_descriptors()) around_.caller.let_go_descriptors(false);  // Nobody is to wait for us.
  const bool is_all = past_.started && tree_empty_ && request_.options.ends_with_command;
  if (is_all) around_.link.send(told_ending(Word::giving_back, ending));
  const bool by_itself = past_.cause == Cause::command_ended && child_ == Child::ended;
  holder_->release(by_itself ? std::optional(child_ending_) : std::nullopt);
}

void Keeper::end_run(const Ending& ending) {
  const bool may_run_again = request_.run_again && !told_to_end_ && stop_signal_ == 0 && !around_.link.peer_gone();
  if (may_run_again) {
    const Duration ran = past_.started ? BootClock::now() - command_started_ : Duration::zero();
    next_run_ = request_.run_again(ending, past_.cause, ran);
  }
  if (!next_run_) let_front_exit(ending);
}

Message Keeper::told_ending(Word word, const Ending& ending) const {
  Message message{.word = word, .cause = past_.cause, .command_killed = child_ending_.signal != 0};
  // However a command has ended that was waited for: we were told to end.
  message.ending = drained_at_ ? Ending{.signal = stop_signal_} : ending;
  return message;
}

void Keeper::let_front_exit(const Ending& ending) {
  around_.caller.let_go_descriptors(false);
  const bool done = lease_.state == LeaseState::gone || lease_.state == LeaseState::failed;
  Message message = told_ending(Word::ended, ending);
  message.number = done ? 0 : 1;
  const std::string holder = holder_->holder_in_the_way();
  if (holder.size() < sizeof message.text) holder.copy(message.text, holder.size());
  around_.link.send_surely(message);
}

}  // namespace zkr
