// Plays workloads in simulated worlds: see usage() in arguments.cpp.

#include <sys/random.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "storm/simulated/arguments.hpp"
#include "storm/simulated/campaign.hpp"
#include "storm/simulated/report.hpp"
#include "storm/simulated/shrink.hpp"

namespace {

using storm::Arguments;
using storm::ScenarioOptions;
using storm::Workload;
using storm::WorldResult;

constexpr int interrupted = 130;

/// Seeds that nobody has chosen: told first, so that whatever comes can be repeated.
void add_fresh_seeds(Arguments& arguments) {
  if (arguments.fresh == 0) return;
  constexpr std::uint64_t end = 1'000'000'000'000;  // Short enough to be typed.
  std::uint64_t first = 0;
  if (::getrandom(&first, sizeof first, 0) != sizeof first) throw std::runtime_error("getrandom: no random numbers");
  first = 1'000'000 + first % end;
  std::cout << fmt::format("seeds from {}\n", first) << std::flush;
  arguments.seeds.add(first, first + arguments.fresh - 1);
}

/// The first one asks the worlds to come to their ends; a second one ends the program.
void end_at_signal(int signal) {
  storm::Campaign::ask_to_end();
  std::signal(signal, SIG_DFL);
}

void note_failure(const std::string& file, const std::string& program, const std::string& replay,
                  const WorldResult& result) {
  std::ofstream to(file, std::ios::app);
  to << fmt::format("program {}, {}: {}\n", program, to_string(result.verdict), replay) << faults_of(result) << "\n"
     << std::flush;
  if (!to) throw storm::StateError(fmt::format("{} cannot be written", file));
}

void tell(const Arguments& arguments, const Workload& workload, const ScenarioOptions& options,
          const WorldResult& result) {
  const std::string replay = replay_arguments(workload.name, options);
  if (arguments.trace)
    std::cout << fmt::format("{} {} {:016x} {}\n", workload.name, options.seed, result.outcome.trace,
                             result.outcome.turns);
  if (arguments.replay) std::cout << story_of(result);
  if (result.failed()) std::cout << replay << ":\n" << (arguments.replay ? "" : faults_of(result));
  std::cout << std::flush;
}

int shrink_one(const Arguments& arguments) {
  const Workload& workload = *arguments.workloads.front();
  ScenarioOptions worlds = arguments.worlds;
  if (worlds.seconds == 0) worlds.seconds = storm::drawn_seconds(worlds.seed);
  const storm::Trial trial = [&](const ScenarioOptions& options) {
    const WorldResult result =
        play_apart(storm::run_scenario, workload, options, {.processor_time = arguments.processor_time});
    std::cerr << fmt::format("{} troubles, {} processes, {} s: {}\n", result.outcome.made.size(), options.processes,
                             options.seconds, result.failed() ? result.outcome.faults.front() : "well");
    return result;
  };
  const storm::Smallest smallest = shrink(worlds, workload.processes, trial, {.courses = arguments.courses});
  if (!smallest.first.failed()) {
    std::cout << "this world does not fail\n";
    return EXIT_SUCCESS;
  }
  ScenarioOptions with_servers = smallest.options;
  with_servers.with_servers = true;
  std::cout << story_of(trial(with_servers))
            << fmt::format("after {} worlds: {} troubles of {} are left\nsimulated_storm {}\n", smallest.trials,
                           smallest.result.outcome.made.size(), smallest.first.outcome.made.size(),
                           replay_arguments(workload.name, smallest.options));
  return EXIT_FAILURE;
}

int run_many(const Arguments& arguments) {
  const bool keeps = !arguments.state.empty() || !arguments.failures.empty();
  const std::string program = keeps ? storm::identity_of_this_program() : "";
  std::unique_ptr<storm::StateFile> file;
  storm::State state;
  if (!arguments.state.empty()) {
    file = std::make_unique<storm::StateFile>(arguments.state);
    state = file->load_for(program, arguments.worlds.seconds);
  }
  ScenarioOptions worlds = arguments.worlds;
  worlds.with_servers = arguments.replay;
  storm::Campaign campaign(
      {.workloads = arguments.workloads,
       .seeds = arguments.seeds,
       .worlds = worlds,
       .bounds = {.processor_time = arguments.processor_time},
       .jobs = arguments.jobs,
       .twice = arguments.twice,
       .first_only = arguments.first_only,
       .time = arguments.time,
       .progress = ::isatty(STDERR_FILENO) != 0 && !arguments.replay && !arguments.trace},
      storm::run_scenario, state,
      [&](const Workload& workload, const ScenarioOptions& options, const WorldResult& result) {
        tell(arguments, workload, options, result);
        if (result.failed() && !arguments.failures.empty())
          note_failure(arguments.failures, program, replay_arguments(workload.name, options), result);
      },
      [&](const storm::State& now) {
        if (file) file->save(now);
      });
  std::signal(SIGINT, end_at_signal);
  std::signal(SIGTERM, end_at_signal);
  const storm::CampaignResult result = campaign.run();
  if (arguments.report) std::cout << table_of(state) << "\n";
  std::cout << fmt::format("{} scenarios, {} failed, {:.3f} s each\n", result.worlds, result.failed,
                           result.worlds == 0 ? 0 : result.processor_seconds / static_cast<double>(result.worlds));
  if (result.interrupted) {
    std::cout << "interrupted\n";
    return interrupted;
  }
  return result.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int report_only(const Arguments& arguments) {
  const auto state = storm::load_state(arguments.state);
  if (!state) throw storm::StateError(fmt::format("there is no file {}", arguments.state));
  std::cout << table_of(*state);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Arguments arguments = storm::parse_arguments({argv + 1, argv + argc});
    if (arguments.help) {
      std::cout << storm::usage();
      return EXIT_SUCCESS;
    }
    if (arguments.only_report) return report_only(arguments);
    if (arguments.shrink) return shrink_one(arguments);
    add_fresh_seeds(arguments);
    return run_many(arguments);
  } catch (const std::exception& error) {
    std::cerr << "simulated_storm: " << error.what() << "\n";
    return 2;
  }
}
