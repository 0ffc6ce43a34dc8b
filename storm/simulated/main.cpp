// Runs workloads in simulated worlds, one process for each, and prints the seeds that fail.
//   simulated_storm [--workload NAME] [--seeds FIRST-LAST] [--seconds N] [--replay SEED] [--twice] [--first]
// --replay tells the story of one seed; --twice runs each seed again, and compares; --first stops at the first failure.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "storm/simulated/scenario.hpp"

namespace {

using storm::Outcome;
using storm::ScenarioOptions;
using storm::Workload;

struct Arguments {
  std::string workload;
  std::uint64_t first = 1;
  std::uint64_t last = 10;
  int seconds = 40;
  bool replay = false;
  bool twice = false;
  bool first_only = false;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    if (words[i] == "--twice") {
      arguments.twice = true;
      continue;
    }
    if (words[i] == "--first") {
      arguments.first_only = true;
      continue;
    }
    ++i;
    if (words[i - 1] == "--workload") {
      arguments.workload = value;
    } else if (words[i - 1] == "--seconds") {
      arguments.seconds = std::stoi(value);
    } else if (words[i - 1] == "--replay") {
      arguments.first = arguments.last = std::stoull(value);
      arguments.replay = true;
    } else if (words[i - 1] == "--seeds") {
      arguments.first = std::stoull(value);
      arguments.last = std::stoull(value.substr(value.find('-') + 1));
    } else {
      throw std::invalid_argument("unknown: " + words[i - 1]);
    }
  }
  return arguments;
}

/// The turns go from thread to thread twice as fast when no other processor has to be woken.
void stay_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

/// In a process of its own: what a killed process of the world leaves behind goes with it.
std::string run_apart(const Workload& workload, const ScenarioOptions& options, bool story) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    stay_on_one_processor();
    const Outcome outcome = run_scenario(workload, options);
    std::string text;
    if (story) {
      text += outcome.world + "\n";
      for (const std::string& line : outcome.story)
        text += line + "\n";
    }
    for (const std::string& fault : outcome.faults)
      text += "FAULT " + fault + "\n";
    text += fmt::format("trace {:016x} turns {}\n", outcome.trace, outcome.turns);
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(ends[1], text.data() + done, text.size() - done);
      if (written <= 0) break;
      done += static_cast<std::size_t>(written);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(size));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) text += fmt::format("FAULT the process ended with status {:#x}\n", status);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  int failed = 0;
  std::uint64_t runs = 0;
  const auto began = std::chrono::steady_clock::now();
  const auto enough = [&] { return arguments.first_only && failed > 0; };
  for (std::uint64_t seed = arguments.first; seed <= arguments.last && !enough(); ++seed) {
    for (const Workload& workload : storm::workloads()) {
      if (!arguments.workload.empty() && workload.name != arguments.workload) continue;
      const ScenarioOptions options{.seed = seed, .seconds = arguments.seconds, .without = {}, .left_out = {}};
      const std::string text = run_apart(workload, options, arguments.replay);
      if (arguments.replay) std::cout << text;
      bool wrong = text.find("FAULT ") != std::string::npos;
      if (arguments.twice && run_apart(workload, options, arguments.replay) != text) {
        std::cout << "FAULT the same seed gave another world\n";
        wrong = true;
      }
      ++runs;
      if (!wrong) continue;
      ++failed;
      std::cout << fmt::format("--workload {} --replay {}:\n", workload.name, seed) << (arguments.replay ? "" : text)
                << std::flush;
    }
  }
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::cout << fmt::format("{} scenarios, {} failed, {:.3f} s each\n", runs, failed, took / static_cast<double>(runs));
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
