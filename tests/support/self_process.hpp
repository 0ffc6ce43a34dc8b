#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace testkit {

/// A program, until it is killed, by the destructor. `listener` gets each line that it prints, as words, on a thread of
/// its own.
class ChildProcess {
 public:
  using Listener = std::function<void(const std::vector<std::string>& words)>;

  ChildProcess(
      std::string program, std::vector<std::string> arguments, Listener listener = [](auto&&) {}) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    std::vector<char*> argv{program.data()};
    for (std::string& argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    if (error != 0) {
      ::close(pipe[0]);
      throw std::runtime_error(program + " does not start");
    }
    reader_ = std::thread([listener = std::move(listener), descriptor = pipe[0]] {
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
