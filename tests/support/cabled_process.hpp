#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <zktesting/ensemble.hpp>
#include <zktesting/proxy.hpp>

extern char** environ;

namespace testkit {

/// A client's own way to each server of an ensemble: proxies.
class Cables {
 public:
  explicit Cables(const zktesting::Ensemble& ensemble) {
    for (std::size_t i = 0; i < ensemble.size(); ++i)
      cables_.push_back(std::make_unique<zktesting::Proxy>(ensemble.connect_string(i)));
  }

  /// Where the client finds the servers by them.
  std::string hosts() const {
    std::string hosts;
    for (const auto& cable : cables_)
      hosts += (hosts.empty() ? "" : ",") + cable->connect_string();
    return hosts;
  }
  /// What is sent in this direction is held, whatever cable it takes.
  void stall(zktesting::Direction direction) {
    for (const auto& cable : cables_)
      cable->stall(direction);
  }
  void unplug(std::optional<std::size_t> all_but = {}) {
    for (std::size_t i = 0; i < cables_.size(); ++i) {
      if (i == all_but) continue;
      cables_[i]->refuse(true);
      cables_[i]->cut();
    }
  }
  void mend() {
    for (const auto& cable : cables_) {
      cable->refuse(false);
      cable->unstall(zktesting::Direction::both);
    }
  }
  /// The only server that the client is connected to, if it is.
  std::optional<std::size_t> server() const {
    for (std::size_t i = 0; i < cables_.size(); ++i) {
      if (cables_[i]->connections() != 0) return i;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::unique_ptr<zktesting::Proxy>> cables_;
};

/// This program once more, as a client of an ensemble, with cables of its own. Its standard input is a pipe whose end
/// tells it to end, its standard output the file that the caller gives.
class CabledProcess : public Cables {
 public:
  CabledProcess(const zktesting::Ensemble& ensemble, int output) : Cables(ensemble), output_(output) {}
  ~CabledProcess() { kill(); }
  CabledProcess(const CabledProcess&) = delete;
  CabledProcess& operator=(const CabledProcess&) = delete;

  void start(std::vector<std::string> arguments) {
    std::array<int, 2> input{};
    if (::pipe2(input.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> argv;
    for (std::string& argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output_, STDOUT_FILENO);
    const int error = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    input_ = input[1];
    if (error != 0) throw std::runtime_error("the process does not start");
  }

  /// 0: it does not run.
  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  void pause() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  void resume() const {
    if (pid_ != 0) ::kill(pid_, SIGCONT);
  }
  /// Ends its input: it is to end by itself.
  void end_input() {
    if (input_ != -1) ::close(std::exchange(input_, -1));
  }
  /// Ends its input and waits; its exit code.
  int finish() {
    end_input();
    return wait();
  }

 private:
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    end_input();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const int output_;
  pid_t pid_ = 0;
  int input_ = -1;
};

}  // namespace testkit
