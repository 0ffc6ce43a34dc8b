#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "storm/simulated/scenario.hpp"

namespace storm {

/// Plays a world: run_scenario(), or what a test makes.
using Play = std::function<Outcome(const Workload&, const ScenarioOptions&)>;

enum class Verdict {
  well,
  judged,       ///< The world came to its end, and the judge found something.
  crashed,      ///< Its process ended before.
  out_of_time,  ///< The same, since it took more processor time than it may, or stood still.
};
const char* to_string(Verdict verdict);

/// What became of a world that had a process of its own.
struct WorldResult {
  Verdict verdict = Verdict::well;
  Outcome outcome;                ///< Its faults tell of a process that ended, too.
  std::vector<std::string> said;  ///< On stderr: its first and its last lines.
  double processor_seconds = 0;

  [[nodiscard]] bool failed() const { return verdict != Verdict::well; }
  /// The same world?
  [[nodiscard]] bool same_as(const WorldResult& other) const;
};

/// What kind of fault it is: its first words, without names and numbers.
std::string judgement(const std::string& fault);

struct Bounds {
  std::chrono::seconds processor_time{60};
  /// A process that waits for what never comes uses no processor: for so long at most. One on a busy machine uses some.
  std::chrono::seconds standstill{300};
};

/// A world that is being played, in a process of its own: what a killed process of the world leaves behind goes with it.
class Apart {
 public:
  /// Starts it, on the processor of that number among those that this process may use; less than 0: on the present one.
  Apart(const Play& play, const Workload& workload, const ScenarioOptions& options, const Bounds& bounds,
        int processor = -1);
  ~Apart();
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;

  /// Becomes readable when it has something to tell, or has ended.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Takes what it tells. Does not block if the descriptor is readable. False: it has ended.
  bool listen();
  /// Ends it if it stands still. It is asked to say first where its driver stands. To be called again and again.
  void look_at_the_clock();
  /// After listen() was false.
  WorldResult result();

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] std::chrono::nanoseconds processor_time() const;

  const Bounds bounds_;
  std::chrono::nanoseconds used_{0};          // When it had gone on for the last time.
  Clock::time_point went_on_ = Clock::now();  // Then.
  std::optional<Clock::time_point> asked_;
  pid_t child_ = -1;
  int descriptor_ = -1;
  std::string told_;
};

/// Waits for its end.
WorldResult play_apart(const Play& play, const Workload& workload, const ScenarioOptions& options,
                       const Bounds& bounds);

}  // namespace storm
