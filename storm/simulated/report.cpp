#include "storm/simulated/report.hpp"

#include <map>

#include <fmt/format.h>

namespace storm {
namespace {

double share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

std::string row_of(const std::string& name, const Tally& tally, std::uint64_t worlds) {
  std::uint64_t times = 0;
  for (const auto& [kind, count] : tally.troubles)
    times += count.times;
  return fmt::format("{:<24} {:>9} {:>8} {:>12.3f} {:>14.1f}\n", name, worlds, tally.failed.size(),
                     share(tally.milliseconds, worlds) / 1000, share(times, worlds));
}

}  // namespace

std::string table_of(const State& state) {
  std::string text =
      fmt::format("{:<24} {:>9} {:>8} {:>12} {:>14}\n", "workload", "worlds", "failed", "s per world", "troubles each");
  std::uint64_t worlds = 0;
  std::map<std::string, TroubleCount> by_kind;
  for (const auto& [name, tally] : state.workloads) {
    worlds += tally.seeds.size();
    text += row_of(name, tally, tally.seeds.size());
    for (const auto& [kind, count] : tally.troubles) {
      by_kind[kind].worlds += count.worlds;
      by_kind[kind].times += count.times;
    }
  }
  text += fmt::format("\n{:<24} {:>9} {:>8} {:>12}\n", "trouble", "worlds", "of all", "times");
  for (const auto& [kind, count] : by_kind)
    text += fmt::format("{:<24} {:>9} {:>7.1f}% {:>12}\n", kind, count.worlds, 100 * share(count.worlds, worlds),
                        count.times);
  return text;
}

std::string faults_of(const WorldResult& result) {
  std::string text;
  for (const std::string& line : result.said)
    text += line + "\n";
  for (const std::string& fault : result.outcome.faults)
    text += "FAULT " + fault + "\n";
  return text;
}

std::string story_of(const WorldResult& result) {
  std::string text = result.outcome.world + "\n";
  for (const std::string& line : result.outcome.story)
    text += line + "\n";
  return text + faults_of(result) + fmt::format("trace {:016x} turns {}\n", result.outcome.trace, result.outcome.turns);
}

}  // namespace storm
