#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "tests/zkr/harness.hpp"

namespace zkr {

/// As ps shows it.
std::string short_name_of(pid_t process);

/// The program itself, with pipes to the test. What it was still to do when the test is over is killed.
class ZkrProcess {
 public:
  /// `before_exec` is called in the new process; nothing that allocates.
  explicit ZkrProcess(
      const Words& words, const std::function<void()>& before_exec = [] {});
  ZkrProcess(const ZkrProcess&) = delete;
  ZkrProcess& operator=(const ZkrProcess&) = delete;
  ~ZkrProcess();

  pid_t front() const { return process_; }
  /// Of that name; waits until there is one.
  pid_t child(const std::string& name) const;
  /// The same, without waiting.
  std::optional<pid_t> child_now(const std::string& name) const;
  pid_t keeper() const { return child("zkr-keeper"); }
  /// Of the command, mostly. At its end when nobody can write there any more.
  Lines& lines() { return lines_; }
  Lines& errors() { return errors_; }
  void type(const std::string& text) const;
  void close_input() { input_.close(); }
  void signal(int signal) const;
  /// Waits until it has ended: "exit 3", "signal 15".
  std::string end();
  /// Whether it has ended, without waiting.
  bool ended_now();

 private:
  pid_t process_ = -1;
  std::optional<int> status_;
  Descriptor input_;
  Lines lines_{Descriptor()};
  Lines errors_{Descriptor()};
};

}  // namespace zkr
