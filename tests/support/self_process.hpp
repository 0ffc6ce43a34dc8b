#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/spawn.hpp"

namespace testkit {

/// A program, until it is killed, by the destructor. `listener` gets each line that it prints, as words, on a thread of
/// its own.
class ChildProcess {
 public:
  using Listener = std::function<void(const std::vector<std::string>& words)>;

  ChildProcess(
      std::string program, std::vector<std::string> arguments, Listener listener = [](auto&&) {}) {
    const Spawned spawned = spawn(std::move(program), std::move(arguments));
    pid_ = spawned.pid;
    reader_ = std::thread([listener = std::move(listener), descriptor = spawned.output] {
      FILE* input = ::fdopen(descriptor, "r");
      std::array<char, 8192> line{};
      while (std::fgets(line.data(), line.size(), input) != nullptr) {
        std::istringstream words(line.data());
        listener({std::istream_iterator<std::string>(words), {}});
      }
      std::fclose(input);
    });
  }
  ~ChildProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    reader_.join();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Returns when it has stopped.
  void pause() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void resume() const { ::kill(pid_, SIGCONT); }

 private:
  pid_t pid_ = 0;
  std::thread reader_;
};

/// This program once more, with other arguments.
class SelfProcess : public ChildProcess {
 public:
  explicit SelfProcess(
      std::vector<std::string> arguments, Listener listener = [](auto&&) {})
      : ChildProcess("/proc/self/exe", std::move(arguments), std::move(listener)) {}
};

}  // namespace testkit
