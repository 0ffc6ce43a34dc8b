#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/error.hpp>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/json.hpp"
#include "tools/zkr/commands/command_series.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// One state of what is followed, in the forms in which it is told.
struct Change {
  std::string line;                      // For people.
  json::object object;                   // With --json, and on the handler's standard input.
  std::vector<std::string> environment;  // The handler's: "NAME=value" sets, "NAME" removes.
};

/// From the client's threads to the one that tells. Bounded: who feeds it waits while it is full.
class ChangeFeed {
 public:
  ChangeFeed();

  // --- Any thread ---
  void put(Change change);
  /// There will be no more, for this reason: take() throws it behind the last change.
  void fail(const zkclient::Error& error);
  /// Nobody takes any more: put() returns at once.
  void close();

  // --- The thread that tells ---
  /// Readable while there is a change.
  int get() const { return news_.get(); }
  std::optional<Change> take();
  /// Passes over those before it, but not over the last one before a failure.
  std::optional<Change> take_newest();

 private:
  static constexpr std::size_t limit = 1000;

  std::mutex mutex_;
  std::condition_variable room_;
  std::deque<Change> changes_;
  bool closed_ = false;
  std::optional<zkclient::Error> failure_;
  Descriptor news_;
};

struct FollowOptions {
  bool once = false;  // Ends after the first change.
  std::string metrics_file;
};

/// Signals that end the program are read from here on. Made while the process has one thread.
class EndingSignals {
 public:
  EndingSignals();
  int get() const { return signals_.get(); }
  struct Came {
    int number;
    bool from_terminal;  // All of the group in the foreground got it.
  };
  /// The one that came.
  Came take() const;

 private:
  Descriptor signals_;
};

/// Tells each change as a line; or, if the call has words behind "--", runs them for the newest one: never two at a
/// time, and always for the last state. Until a signal ends it, or after one change. A command that runs gets each signal;
/// of TERM, INT, HUP and QUIT this process dies when the command has ended, and when what that has started is ended. The
/// result is the exit code: that of the only handler, or 0. Errors: what failed the feed.
int follow(const Context& context, const FollowOptions& options, ChangeFeed& feed, const FollowedSignals& signals);

}  // namespace zkr
