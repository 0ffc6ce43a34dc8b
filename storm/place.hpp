#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "storm/history.hpp"

namespace storm {

/// What all processes of one world have in common. It differs from world to world, so that there are worlds of one kind
/// only, which a mixture of all kinds would hide.
struct Habits {
  /// Pauses are so many quarters of their usual length: with 1 a workload is breathless, with 12 it is calm.
  std::uint64_t pause_quarters = 4;
  /// Clients ask for session timeouts between these.
  std::chrono::milliseconds least_session{2000};
  std::chrono::milliseconds most_session{10'000};
  /// Of so many holders one holds for longer than a session lasts without its server.
  std::uint64_t long_hold_one_in = 4;
  /// How often clients try a read, as in zkclient::RetryPolicy.
  int read_attempts = 10;
  /// Of so many uses of a client one is its last: the process closes it, and makes another one. 0: it is kept.
  std::uint64_t last_use_one_in = 0;
};

/// Where a process of a workload runs: in the simulated world, or on real machines. It knows nothing of faults.
class Place {
 public:
  virtual ~Place() = default;

  /// "p0", "p1", ...
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual int number() const = 0;
  /// For zkclient::Client.
  [[nodiscard]] virtual const std::string& servers() const = 0;
  /// The servers' tickTime, as their operator knows it.
  [[nodiscard]] virtual std::chrono::milliseconds tick() const = 0;
  /// The process is to come to its end.
  [[nodiscard]] virtual std::stop_token stop() const = 0;
  /// By the world's true clock, which no process of a workload may use for anything but its history.
  [[nodiscard]] virtual Nanos now() const = 0;
  virtual std::uint64_t below(std::uint64_t end) = 0;
  [[nodiscard]] virtual const Habits& habits() const = 0;
  virtual History& history() = 0;

  void note(std::string what, std::int64_t a = 0, std::int64_t b = 0, std::string text = {}) {
    note_at(now(), std::move(what), a, b, std::move(text));
  }
  virtual void note_at(Nanos at, std::string what, std::int64_t a = 0, std::int64_t b = 0, std::string text = {}) {
    history().add({at, name(), std::move(what), a, b, std::move(text)});
  }
  /// Part of the experiment: up to `most` milliseconds, or as the habits say.
  void pause(std::uint64_t most);
  [[nodiscard]] bool stopped() const { return stop().stop_requested(); }
};

}  // namespace storm
