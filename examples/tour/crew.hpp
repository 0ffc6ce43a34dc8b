#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "process.hpp"
#include "protocol.hpp"
#include "unique_fd.hpp"

namespace tour {

/// The user wants the tour to end: Ctrl-C, SIGTERM, or the terminal is gone.
struct Interrupted {
  int signal = 0;
};

/// Turns the signals that ask for an end into an event, so that the end is an orderly one. To be
/// made before the first thread. Signals that are ignored (nohup) stay ignored.
class SignalWatch {
 public:
  SignalWatch();
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Throws Interrupted if there was a signal.
  void check() const;
  /// Waits for so long, or throws Interrupted.
  void pause(std::chrono::milliseconds time) const;

 private:
  UniqueFd fd_;
};

/// What a worker said; or that it ended (then `event` only has a time).
struct Report {
  std::size_t worker = 0;
  bool ended = false;
  Event event = {};
};

/// The worker processes. None of them outlives this object.
class Crew {
 public:
  explicit Crew(const SignalWatch& signals) : signals_(signals) {}

  void hire(const std::vector<std::string>& arguments);
  void tell(std::size_t worker, Command command) const;
  [[nodiscard]] const Process& process(std::size_t worker) const { return members_[worker].process; }

  /// Waits for reports until `deadline`, and returns those that there are, in the order in which they
  /// happened: the cause before its effect, also between processes. Throws Interrupted.
  std::vector<Report> listen(Clock::time_point deadline);
  /// The exit code of a worker that has ended, or minus the signal.
  int dismiss(std::size_t worker) { return members_[worker].process.wait(); }

 private:
  struct Member {
    Process process;
    LineBuffer lines = {};
    bool ended = false;
  };
  bool poll_once(int timeout_ms, std::vector<Report>& reports);
  static void read_from(Member& member, std::size_t worker, std::vector<Report>& reports);

  const SignalWatch& signals_;
  std::vector<Member> members_;
};

}  // namespace tour
