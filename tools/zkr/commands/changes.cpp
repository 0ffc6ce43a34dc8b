#include "tools/zkr/commands/changes.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/run/end_signals.hpp"
#include "tools/zkr/run/error_lines.hpp"

namespace zkr {
namespace {

[[noreturn]] void fail_system(const char* what, int error) {
  throw Failure(exit_system, fmt::format("{}: {}", what, std::strerror(error)));
}

/// follow() at work.
class Follower {
 public:
  Follower(const Context& context, bool once, ChangeFeed& feed, const FollowedSignals& signals)
      : context_(context), once_(once), feed_(feed), signals_(signals), commands_(signals) {
    if (!runs_commands()) signals_.let_writes_end_us();
  }

  int run() {
    for (;;) {
      // While the handler runs, changes wait: the newest one is for the next.
      wait_for_any({signals_.get(), commands_.runs() ? -1 : feed_.get()});
      commands_.hear();
      if (commands_.told_by() != 0 && !commands_.runs()) end();
      if (const auto code = step()) return *code;
    }
  }

 private:
  bool runs_commands() const { return !context_.words.command.empty(); }

  std::optional<int> step() {
    if (commands_.runs()) return std::nullopt;
    if (const auto code = commands_.take_code()) {
      if (once_) return *code;
      if (*code != 0 && !context_.quiet)
        errors_.write(fmt::format("{} ended with {}", context_.words.command.front(), *code));
    }
    if (!runs_commands()) return tell_all();
    if (const auto change = feed_.take_newest()) {
      commands_.start({.words = context_.words.command,
                       .input = json_text(change->object) + "\n",
                       .environment = change->environment});
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
    if (commands_.take_code()) commands_.end_leftovers();  // Of the handler that has ended of the signal.
    feed_.close();
    die_of(commands_.told_by());
  }

  const Context& context_;
  const bool once_;
  ChangeFeed& feed_;
  const FollowedSignals& signals_;
  ErrorLines errors_;
  CommandSeries commands_;
};

}  // namespace

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

EndingSignals::EndingSignals() {
  ::signal(SIGCHLD, SIG_DFL);  // Where the caller ignores it, nobody hears how a command has ended.
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

int follow(const Context& context, const FollowOptions& options, ChangeFeed& feed, const FollowedSignals& signals) {
  const int code = Follower(context, options.once, feed, signals).run();
  feed.close();
  return code;
}

}  // namespace zkr
