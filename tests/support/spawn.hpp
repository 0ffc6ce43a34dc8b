#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

extern char** environ;

namespace testkit {

/// A program that was started, and the end of the pipe from which its standard output is read.
struct Spawned {
  pid_t pid = 0;
  int output = -1;
};

/// Throws if it does not start.
inline Spawned spawn(std::string program, std::vector<std::string> arguments) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  Spawned spawned{.output = pipe[0]};
  const int error = ::posix_spawn(&spawned.pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  if (error != 0) {
    ::close(pipe[0]);
    throw std::runtime_error(program + " does not start");
  }
  return spawned;
}

}  // namespace testkit
