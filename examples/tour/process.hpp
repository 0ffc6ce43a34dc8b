#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unique_fd.hpp"

namespace tour {

/// Another process that runs this program, with pipes to its standard input and from its standard
/// output. It does not outlive this object. All failures are std::system_error.
class Process {
 public:
  /// Starts this program with these arguments. (posix_spawn, since a fork of a process that has
  /// threads may only call exec anyway.) It gets a process group of its own, so that a Ctrl-C at the
  /// terminal reaches us alone, and default signal settings.
  explicit Process(const std::vector<std::string>& arguments);
  /// Kills it if need be, by its id, and waits until it is gone.
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  /// What it says: to be polled; at its end when the process has ended.
  [[nodiscard]] int output() const { return output_.get(); }
  /// Writes to its standard input. Ignored if it does not read any more: its end is told otherwise.
  void send(std::string_view text) const;

  /// SIGSTOP; returns when it has stopped, or ended.
  void pause() const;
  void resume() const;
  void kill() const;
  /// Waits for its end; returns its exit code, or minus the signal that killed it.
  int wait();

 private:
  void signal(int number) const;

  int pid_ = 0;
  UniqueFd input_;
  UniqueFd output_;
};

}  // namespace tour
