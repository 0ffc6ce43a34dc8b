#include "tools/zkr/commands/changes.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/run/command.hpp"
#include "tools/zkr/run/end_signals.hpp"
#include "tools/zkr/run/error_lines.hpp"
#include "tools/zkr/run/process_tree.hpp"

extern char** environ;

namespace zkr {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void fail_system(const char* what, int error) {
  throw Failure(exit_system, fmt::format("{}: {}", what, std::strerror(error)));
}

/// A command that runs, as a child of the thread that made it: it is killed with that.
class Handler {
 public:
  Handler(const std::vector<std::string>& words, const Change& change, const Caller& caller) {
    const Descriptor input = file_with(json_text(change.object) + "\n");
    Environment environment(environ, change.environment, ::getpid());
    started_ = start({.words = words, .lost_descriptor = {}, .after_fork = {}}, caller, environment, -1, input.get(), 0,
                     Instant::max());
    if (started_.number < 0) fail_system("fork", errno);
    wait_for_any({started_.trouble.get()});
    int error = 0;
    if (::read(started_.trouble.get(), &error, sizeof error) != sizeof error) return;  // It is executed.
    ::waitpid(started_.number, nullptr, 0);
    throw Failure(error == ENOENT ? exit_no_command : exit_not_runnable,
                  fmt::format("{}: {}", words.front(), std::strerror(error)));
  }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  pid_t number() const { return started_.number; }
  bool in_our_group() const { return started_.in_our_group; }
  void signal(int number) const { ::syscall(SYS_pidfd_send_signal, started_.process.get(), number, nullptr, 0); }

 private:
  Started started_;
};

/// follow() at work. Orphans of its commands become children of this process, so it finds what a command has started.
class Follower {
 public:
  Follower(const Context& context, bool once, ChangeFeed& feed, const FollowedSignals& signals)
      : context_(context), once_(once), feed_(feed), signals_(signals) {
    if (runs_commands()) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!runs_commands()) signals_.let_writes_end_us();
  }

  int run() {
    for (;;) {
      // While the handler runs, changes wait: the newest one is for the next.
      wait_for_any({signals_.get(), handler_ ? -1 : feed_.get()});
      while (const auto signal = signals_.take())
        hear_signal(*signal);
      reap([this](const ChildNews& news) { hear_child(news); });
      if (told_by_ != 0 && !handler_) end();
      if (const auto code = step()) return *code;
    }
  }

 private:
  bool runs_commands() const { return !context_.words.command.empty(); }

  /// A handler gets each one. Without a handler, it does to us what it does by default.
  void hear_signal(const signalfd_siginfo& signal) {
    const int number = static_cast<int>(signal.ssi_signo);
    if (number == SIGCHLD || is_our_own(signal)) return;
    const bool has_it = handler_ && handler_->in_our_group() && is_for_the_group(signal);
    if (handler_ && !has_it) handler_->signal(number);
    if (stops(number)) return suffer(number);
    const bool ends_us = !handler_ || tells_to_end(number);
    if (ends_us && !signals_.caller().ignores(number) && !ignored_by_default(number)) told_by_ = number;
  }

  void hear_child(const ChildNews& news) {
    if (news.code == CLD_STOPPED || news.code == CLD_CONTINUED) return;
    tree_.forget(news.number);
    if (!handler_ || news.number != handler_->number()) return;
    code_ = news.code == CLD_EXITED ? news.status : 128 + news.status;
    handler_.reset();
  }

  std::optional<int> step() {
    if (handler_) return std::nullopt;
    if (const auto code = std::exchange(code_, std::nullopt)) {
      if (once_) return *code;
      if (*code != 0 && !context_.quiet)
        errors_.write(fmt::format("{} ended with {}", context_.words.command.front(), *code));
    }
    if (!runs_commands()) return tell_all();
    if (auto change = feed_.take_newest()) {
      for (const pid_t left : PinnedProcess(::getpid()).children())
        tree_.spare(left);  // By an earlier handler, which has ended by itself; or by our caller.
      handler_.emplace(context_.words.command, *change, signals_.caller());
    }
    return std::nullopt;
  }

  std::optional<int> tell_all() {
    while (auto change = feed_.take()) {
      if (context_.json) {
        write_line(std::move(change->object));
      } else {
        write_line(change->line);
      }
      if (once_) return exit_success;
    }
    return std::nullopt;
  }

  [[noreturn]] void end() {
    if (code_) end_leftovers();
    feed_.close();
    die_of(told_by_);
  }

  /// Of the handler that has ended of the signal: TERM, and KILL for those that are still there then.
  void end_leftovers() {
    tree_.signal(SIGTERM);
    await_empty_tree([] {});
    await_empty_tree([this] { tree_.kill(); });
  }

  /// For no longer than 2 s: some may not be killed by us.
  void await_empty_tree(const std::function<void()>& each_time) {
    constexpr Duration most = 2s;
    const Instant end = BootClock::now() + most;
    for (Duration pause = 5ms; BootClock::now() < end; pause = std::min<Duration>(pause * 2, 320ms)) {
      reap([this](const ChildNews& news) { hear_child(news); });
      if (tree_.empty()) return;
      each_time();
      timer_.set(std::min(end, BootClock::now() + pause));
      wait_for_any({signals_.get(), timer_.get()});
      drain(timer_.get());
      drain(signals_.get());
    }
  }

  const Context& context_;
  const bool once_;
  ChangeFeed& feed_;
  const FollowedSignals& signals_;
  ErrorLines errors_;
  BootTimer timer_;
  ProcessTree tree_;
  std::optional<Handler> handler_;
  std::optional<int> code_;  // Of the handler that has just ended.
  int told_by_ = 0;          // The signal that we end of.
};

}  // namespace

void die_of(int signal) {
  suffer(signal);
  ::_exit(128 + signal);
}

ChangeFeed::ChangeFeed() : news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!news_) fail_system("eventfd", errno);
}

void ChangeFeed::put(Change change) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return closed_ || changes_.size() < limit; });
  changes_.push_back(std::move(change));
  ::eventfd_write(news_.get(), 1);
}

void ChangeFeed::fail(const zkclient::Error& error) {
  const std::lock_guard lock(mutex_);
  failure_ = error;
  ::eventfd_write(news_.get(), 1);
}

void ChangeFeed::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  room_.notify_all();
}

std::optional<Change> ChangeFeed::take() {
  const std::lock_guard lock(mutex_);
  if (changes_.empty()) {
    if (failure_) throw *failure_;
    drain(news_.get());
    return std::nullopt;
  }
  Change change = std::move(changes_.front());
  changes_.pop_front();
  room_.notify_all();
  return change;
}

/// What has failed the feed is thrown by the next call: the last state is not passed over.
std::optional<Change> ChangeFeed::take_newest() {
  {
    const std::lock_guard lock(mutex_);
    if (changes_.size() > 1) changes_.erase(changes_.begin(), changes_.end() - 1);
    room_.notify_all();
  }
  return take();
}

EndingSignals::EndingSignals() : callers_mask_() {
  ::signal(SIGCHLD, SIG_DFL);  // Where the caller ignores it, nobody hears how a command has ended.
  ::pthread_sigmask(SIG_SETMASK, nullptr, &callers_mask_);
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM}) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&ending, signal);  // nohup: it is not to end us.
  }
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  signals_ = Descriptor(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) fail_system("signalfd", errno);
}

EndingSignals::Came EndingSignals::take() const {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return {SIGTERM, false};
  return {static_cast<int>(info.ssi_signo), is_for_the_group(info)};
}

FollowedSignals::FollowedSignals() : signals_(all_signals_descriptor()) {
  if (!signals_) fail_system("signalfd", errno);
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

int follow(const Context& context, const FollowOptions& options, ChangeFeed& feed, const FollowedSignals& signals) {
  const int code = Follower(context, options.once, feed, signals).run();
  feed.close();
  return code;
}

}  // namespace zkr
