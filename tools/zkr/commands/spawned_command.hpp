#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// How a command is started that runs without a lease: for a change, or for a step of a transaction.
struct SpawnRequest {
  std::vector<std::string> words;
  std::string input;                     // Its standard input.
  std::vector<std::string> environment;  // Changes: "NAME=value" sets, "NAME" removes.
  sigset_t mask;                         // Of its signals.
  int inherited = -1;                    // A descriptor that it keeps open; -1: none.
};

/// A command that runs. Thread safety: signal() while another thread waits.
class SpawnedCommand {
 public:
  /// Starts it. Errors: Failure (127, 126: it is not there, or cannot be run; 71).
  explicit SpawnedCommand(SpawnRequest request);
  SpawnedCommand(const SpawnedCommand&) = delete;
  SpawnedCommand& operator=(const SpawnedCommand&) = delete;

  /// Readable when it has ended.
  int get() const { return process_.get(); }
  void signal(int number) const;
  /// Waits for its end. Its exit code; 128 and the number of a signal; 71 if the system does not tell.
  int wait() const;

 private:
  pid_t number_ = -1;
  Descriptor process_;
};

}  // namespace zkr
