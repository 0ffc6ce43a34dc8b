#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "zktesting/detail/posix.hpp"

namespace zktesting::detail {

/// A shell that owns a folder and runs one program in it, for exactly as long as we live.
///
/// The shell is in a session of its own and reads our commands from a socket. When the socket is
/// closed, by the destructor or because this process is no more, it kills the program, removes the
/// folder and ends. It is the program's parent and does not reap it before it is told to: so the
/// process id that we signal is always that of our program, if only as a zombie.
///
/// Not thread-safe.
class Guard {
 public:
  /// `directory` is removed in the end; output of the program is appended to `directory`/log.
  Guard(std::filesystem::path directory, const std::vector<std::string>& command);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Starts the program. Must not be running.
  void launch();
  /// Sends a signal, unless the program has ended.
  void signal(int number);
  /// Waits until the program is no more; false if it still is at `deadline`.
  bool wait_for_exit(Deadline deadline);
  [[nodiscard]] bool running() { return !wait_for_exit(Clock::now()); }
  /// 0 if it is not running.
  [[nodiscard]] pid_t pid() { return running() ? child_ : 0; }
  /// How the program ended last, as the shell reports it: 128 + n for signal n.
  [[nodiscard]] int exit_status() const { return exit_status_; }

 private:
  void spawn(const std::vector<std::string>& command, int stdio);
  int ask(const char* command);

  std::filesystem::path directory_;
  pid_t owner_;
  pid_t shell_ = -1;
  pid_t child_ = 0;
  int exit_status_ = 0;
  UniqueFd socket_;
  UniqueFd alive_;  ///< Reading end of a FIFO whose writing end only the program holds.
};

}  // namespace zktesting::detail
