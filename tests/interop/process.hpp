#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

extern char** environ;

namespace testkit {

/// A process, and what it says, line by line. It ends when its input does, or is killed.
class Process {
 public:
  Process(std::vector<std::string> command, std::function<void(const std::string&)> on_line)
      : on_line_(std::move(on_line)) {
    ::signal(SIGPIPE, SIG_IGN);  // A process that has ended is told by what it does not say.
    std::array<int, 2> input{};
    std::array<int, 2> output{};
    if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) throw std::bad_alloc();
    std::vector<char*> argv;
    for (std::string& argument : command)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    EXPECT_EQ(::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    output_ = output[0];
    reader_ = std::thread([this] { read(); });
  }
  ~Process() {
    ::close(input_);
    ::waitpid(pid_, nullptr, 0);
    reader_.join();
    ::close(output_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  void tell(std::string line) const {
    line += '\n';
    EXPECT_EQ(::write(input_, line.data(), line.size()), static_cast<ssize_t>(line.size())) << line;
  }

 private:
  void read() {
    std::string line;
    char byte = 0;
    while (::read(output_, &byte, 1) == 1) {
      if (byte != '\n') {
        line += byte;
        continue;
      }
      on_line_(line);
      line.clear();
    }
  }

  const std::function<void(const std::string&)> on_line_;
  pid_t pid_ = 0;
  int input_ = -1;
  int output_ = -1;
  std::thread reader_;
};

}  // namespace testkit
