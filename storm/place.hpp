#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "storm/history.hpp"

namespace storm {

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
  virtual History& history() = 0;

  void note(std::string what, std::int64_t a = 0, std::int64_t b = 0, std::string text = {}) {
    note_at(now(), std::move(what), a, b, std::move(text));
  }
  void note_at(Nanos at, std::string what, std::int64_t a = 0, std::int64_t b = 0, std::string text = {}) {
    history().add({at, name(), std::move(what), a, b, std::move(text)});
  }
  /// Part of the experiment: up to `most` milliseconds.
  void pause(std::uint64_t most);
  [[nodiscard]] bool stopped() const { return stop().stop_requested(); }
};

}  // namespace storm
