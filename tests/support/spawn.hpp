#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

extern char** environ;

namespace testkit {

/// A program that was started, and the ends of the pipes from which its standard output is read, and to which its
/// standard input is written.
struct Spawned {
  pid_t pid = 0;
  int output = -1;
  int input = -1;  // Only if it was asked for: else it reads what this process would.
};

inline std::array<int, 2> make_pipe() {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  return pipe;
}

/// Throws if it does not start. Signals that the tests ignore, because a shell has started them in the background, or a
/// program that ignores SIGPIPE, are not ignored by it.
inline Spawned spawn(std::string program, std::vector<std::string> arguments, bool with_input = false) {
  const std::array<int, 2> pipe = make_pipe();
  const std::array<int, 2> input = with_input ? make_pipe() : std::array<int, 2>{-1, -1};
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  if (with_input) ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t heard;
  ::sigemptyset(&heard);
  for (const int number : {SIGINT, SIGQUIT, SIGPIPE})
    ::sigaddset(&heard, number);
  ::posix_spawnattr_setsigdefault(&attributes, &heard);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  Spawned spawned{.output = pipe[0], .input = input[1]};
  const int error = ::posix_spawn(&spawned.pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  if (with_input) ::close(input[0]);
  if (error != 0) {
    ::close(pipe[0]);
    if (with_input) ::close(input[1]);
    throw std::runtime_error(program + " does not start");
  }
  return spawned;
}

}  // namespace testkit
