#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/spawn.hpp"
#include "tests/support/testkit.hpp"

namespace testkit {

/// A program whose lines the test reads. The destructor kills it.
class Program {
 public:
  explicit Program(std::string file, std::vector<std::string> arguments = {}) {
    const Spawned spawned = spawn(std::move(file), std::move(arguments));
    pid_ = spawned.pid;
    reader_ = std::thread([this, descriptor = spawned.output] {
      FILE* input = ::fdopen(descriptor, "r");
      char* line = nullptr;
      std::size_t room = 0;
      while (::getline(&line, &room, input) >= 0)
        lines_.put(std::string(line, std::string_view(line).find('\n')));
      std::free(line);
      std::fclose(input);
    });
  }
  ~Program() {
    if (!status_) signal(SIGKILL);
    (void)status();
    reader_.join();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Drops lines up to one that begins like this, and returns it.
  std::string says(const std::string& beginning) {
    return says_one_that([&](const std::string& line) { return line.starts_with(beginning); });
  }
  std::string says_one_that(const std::function<bool(const std::string& line)>& is_wanted) {
    return lines_.take_until(is_wanted);
  }
  std::string next_line() { return lines_.take(); }
  bool has_said_nothing() const { return lines_.empty(); }
  void signal(int number) const { ::kill(pid_, number); }
  void pause() const {
    signal(SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  /// The exit code, or 128 and the signal that has ended it.
  int status() {
    int raw = 0;
    const auto over = [&] { return status_ || ::waitpid(pid_, &raw, WNOHANG) == pid_; };
    if (!eventually(over)) {
      ADD_FAILURE() << "it does not end";
      signal(SIGKILL);
      ::waitpid(pid_, &raw, 0);
    }
    if (!status_) status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    return *status_;
  }

 private:
  pid_t pid_ = 0;
  std::optional<int> status_;
  Box<std::string> lines_;
  std::thread reader_;
};

}  // namespace testkit
