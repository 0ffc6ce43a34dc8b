#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
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

  /// `with_input`: it reads what say() is given.
  ChildProcess(
      std::string program, std::vector<std::string> arguments, Listener listener = [](auto&&) {},
      bool with_input = false) {
    const Spawned spawned = spawn(std::move(program), std::move(arguments), with_input);
    pid_ = spawned.pid;
    input_ = spawned.input;
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
    if (pid_ != 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    reader_.join();
    if (input_ != -1) ::close(input_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Returns when it has stopped.
  void pause() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void resume() const { ::kill(pid_, SIGCONT); }
  void say(const std::string& text) const {
    if (::write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("full");
  }
  /// Asks it to end by itself: see exit_code().
  void terminate() const { ::kill(pid_, SIGTERM); }
  /// nullopt: it has not ended. -1: by a signal. Once only.
  std::optional<int> exit_code() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
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
