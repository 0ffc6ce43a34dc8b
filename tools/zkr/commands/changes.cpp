#include "tools/zkr/commands/changes.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/commands/spawned_command.hpp"

namespace zkr {
namespace {

[[noreturn]] void fail_system(const char* what, int error) {
  throw Failure(exit_system, fmt::format("{}: {}", what, std::strerror(error)));
}

/// follow() at work.
class Follower {
 public:
  Follower(const Context& context, bool once, ChangeFeed& feed, const EndingSignals& signals)
      : context_(context), once_(once), feed_(feed), signals_(signals) {}

  int run() {
    for (;;) {
      // While the handler runs, changes wait: the newest one is for the next.
      wait_for_any({signals_.get(), handler_ ? handler_->get() : feed_.get()});
      if (readable_now(signals_.get())) end(signals_.take());
      if (const auto code = step()) return *code;
    }
  }

 private:
  std::optional<int> step() {
    if (handler_) return handler_ended();
    if (context_.words.command.empty()) return tell_all();
    if (auto change = feed_.take_newest()) {
      handler_.emplace(SpawnRequest{.words = context_.words.command,
                                    .input = json_text(change->object) + "\n",
                                    .environment = std::move(change->environment),
                                    .mask = signals_.callers_mask()});
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

  std::optional<int> handler_ended() {
    if (!readable_now(handler_->get())) return std::nullopt;
    const int code = handler_->wait();
    handler_.reset();
    if (once_) return code;
    if (code != 0 && !context_.quiet) say(fmt::format("{} ended with {}", context_.words.command.front(), code));
    return std::nullopt;
  }

  // The handler first. If it does not end of the first signal, it may of another one.
  [[noreturn]] void end(EndingSignals::Came signal) {
    while (handler_) {
      if (!signal.from_terminal) handler_->signal(signal.number);
      wait_for_any({signals_.get(), handler_->get()});
      if (readable_now(handler_->get())) {
        handler_->wait();
        handler_.reset();
      } else {
        signal = signals_.take();
      }
    }
    feed_.close();
    die_of(signal.number);
  }

  const Context& context_;
  const bool once_;
  ChangeFeed& feed_;
  const EndingSignals& signals_;
  std::optional<SpawnedCommand> handler_;
};

}  // namespace

void die_of(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t it;
  sigemptyset(&it);
  sigaddset(&it, signal);
  ::raise(signal);
  ::pthread_sigmask(SIG_UNBLOCK, &it, nullptr);
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

std::optional<Change> ChangeFeed::take_newest() {
  std::optional<Change> newest;
  while (auto change = take())
    newest = std::move(change);
  return newest;
}

EndingSignals::EndingSignals() : callers_mask_() {
  ::signal(SIGCHLD, SIG_DFL);  // Where the caller ignores it, nobody hears how a command has ended.
  ::pthread_sigmask(SIG_SETMASK, nullptr, &callers_mask_);
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
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
  return {static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

int follow(const Context& context, const FollowOptions& options, ChangeFeed& feed, const EndingSignals& signals) {
  const int code = Follower(context, options.once, feed, signals).run();
  feed.close();
  return code;
}

}  // namespace zkr
