#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storm/simulated/apart.hpp"
#include "storm/simulated/state.hpp"

namespace storm {

/// Many worlds: which, and what is told of them.
struct CampaignOptions {
  std::vector<const Workload*> workloads;
  /// Seed by seed, each with every workload.
  SeedSet seeds;
  /// What is in `without` and so on holds for all worlds; the seed is set.
  ScenarioOptions worlds;
  Bounds bounds;
  int jobs = 1;
  bool twice = false;                        ///< Each world is played again, and must be the same.
  bool first_only = false;                   ///< Ends at the first failure.
  std::optional<std::chrono::seconds> time;  ///< No new world begins later.
  bool progress = false;                     ///< A line on stderr that changes.
};

struct CampaignResult {
  std::uint64_t worlds = 0;
  std::uint64_t failed = 0;
  double processor_seconds = 0;
  bool interrupted = false;
};

/// Plays worlds, several at a time, each in a process of its own.
class Campaign {
 public:
  /// What became of a world, before the state has it: who is killed in between plays the world again.
  using Told = std::function<void(const Workload&, const ScenarioOptions&, const WorldResult&)>;
  /// Called every few seconds, after a failure and at the end.
  using Save = std::function<void(const State&)>;

  /// `state` has what was done before, which is not done again.
  Campaign(CampaignOptions options, Play play, State& state, Told told, Save save);
  ~Campaign();
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  /// Ends when all is done, the time is over, or ask_to_end() was called, and the worlds that had begun are done.
  CampaignResult run();
  /// May be called in a handler of a signal. For all campaigns of the program.
  static void ask_to_end();

 private:
  struct World;

  bool next(const Workload*& workload, std::uint64_t& seed);
  void begin_worlds();
  void listen();
  void end(World& world);
  void finish(World& world, WorldResult result);
  [[nodiscard]] bool enough() const;
  void save_at_times();
  void show_progress() const;

  const CampaignOptions options_;
  const Play play_;
  State& state_;
  const Told told_;
  const Save save_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point saved_ = began_;
  std::vector<std::unique_ptr<World>> running_;  // By place; nullptr: nothing runs there.
  std::uint64_t seed_ = 0;
  std::size_t workload_ = 0;
  bool exhausted_ = false;
  CampaignResult result_;
};

}  // namespace storm
