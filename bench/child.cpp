#include "child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace bench {
namespace {

constexpr std::chrono::milliseconds start_patience{300'000};
constexpr std::chrono::milliseconds reply_patience{20'000};

// Close-on-exec, so that no other program keeps a child's input open.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  return ends;
}

}  // namespace

Child::Child(std::vector<std::string> command) : command_(std::move(command)) {
  spawn();
  try {
    if (const std::string line = receive(start_patience); line != "ready") {
      throw std::runtime_error(command_.front() + ": " + line);
    }
  } catch (...) {
    shut_down();
    throw;
  }
}

Child::~Child() { shut_down(); }

void Child::spawn() {
  const auto input = make_pipe();
  const auto output = make_pipe();
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (std::string& argument : command_) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  const int error = ::posix_spawnp(&pid_, command_.front().c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  to_child_ = input[1];
  from_child_ = output[0];
  if (error != 0) {
    pid_ = -1;
    shut_down();
    throw std::system_error(error, std::generic_category(), command_.front());
  }
}

void Child::shut_down() {
  ::close(to_child_);
  if (pid_ > 0) {
    // It closes its session and ends; one that hangs is ended.
    pollfd hangup{.fd = from_child_, .events = POLLIN, .revents = 0};
    if (::poll(&hangup, 1, 3'000) == 0) {
      ::kill(pid_, SIGKILL);
    }
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(from_child_);
}

void Child::send(const std::string& line) {
  if (::write(to_child_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error(command_.front() + " has ended");
  }
}

std::string Child::receive(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (const auto end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd readable{.fd = from_child_, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      throw std::runtime_error(command_.front() + " does not answer");
    }
    std::array<char, 256> buffer{};
    const ssize_t count = ::read(from_child_, buffer.data(), buffer.size());
    if (count > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      throw std::runtime_error(command_.front() + " has ended");
    }
  }
}

std::string Child::ask(const std::string& line, std::chrono::milliseconds patience) {
  send(line + "\n");
  return receive(patience);
}

Sample Child::run(std::chrono::milliseconds duration) {
  const std::string line = ask("run " + std::to_string(duration.count()), duration + reply_patience);
  std::istringstream in(line);
  std::string word;
  std::int64_t cycles = 0;
  std::int64_t wall_us = 0;
  std::int64_t cpu_us = 0;
  if (!(in >> word >> cycles >> wall_us >> cpu_us) || word != "done") {
    throw std::runtime_error(command_.front() + ": " + line);
  }
  return {cycles, std::chrono::microseconds(wall_us), std::chrono::microseconds(cpu_us)};
}

}  // namespace bench
