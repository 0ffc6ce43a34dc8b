#include "storm/simulated/arguments.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <sstream>

#include <fmt/format.h>

namespace storm {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream all(text);
  for (std::string part; std::getline(all, part, ',');)
    parts.push_back(part);
  return parts;
}

const Workload* workload_of(const std::string& name) {
  if (const Workload* found = find_workload(name)) return found;
  std::string names;
  for (const Workload& one : workloads())
    names += " " + one.name;
  throw UsageError(fmt::format("there is no workload \"{}\"; there are:{}", name, names));
}

int number_of(const std::string& text, int least, int most) {
  const std::uint64_t number = parse_number(text);
  if (number < static_cast<std::uint64_t>(least) || number > static_cast<std::uint64_t>(most))
    throw std::invalid_argument(fmt::format("{} is not between {} and {}", text, least, most));
  return static_cast<int>(number);
}

void leave_out(const std::string& what, ScenarioOptions& worlds) {
  for (int i = 0; i < troubles; ++i) {
    if (what == to_string(static_cast<Trouble>(i))) return worlds.without.push_back(static_cast<Trouble>(i));
  }
  worlds.left_out.push_back(number_of(what, 1, std::numeric_limits<int>::max()));
}

using Option = std::function<void(const std::string& value)>;

std::map<std::string, Option> options_with_values(Arguments& into) {
  constexpr int day = 24 * 3600;
  const auto seed = [&into](const std::string& value) { into.worlds.seed = parse_number(value); };
  return {
      {"--workload",
       [&into](const auto& value) {
         for (const std::string& name : split(value))
           into.workloads.push_back(workload_of(name));
       }},
      {"--seeds", [&into](const auto& value) { into.seeds = SeedSet::parse(value); }},
      {"--fresh",
       [&into](const auto& value) { into.fresh = static_cast<std::uint64_t>(number_of(value, 1, 1 << 30)); }},
      {"--replay", [&into, seed](const auto& value) { into.replay = true, seed(value); }},
      {"--shrink", [&into, seed](const auto& value) { into.shrink = true, seed(value); }},
      {"--without",
       [&into](const auto& value) {
         for (const std::string& what : split(value))
           leave_out(what, into.worlds);
       }},
      {"--processes", [&into](const auto& value) { into.worlds.processes = number_of(value, 1, 100); }},
      {"--seconds", [&into](const auto& value) { into.worlds.seconds = number_of(value, 1, day); }},
      {"--courses", [&into](const auto& value) { into.courses = number_of(value, 1, 1'000'000); }},
      {"--course", [&into](const auto& value) { into.worlds.course = parse_number(value); }},
      {"--processor-time",
       [&into](const auto& value) { into.processor_time = std::chrono::seconds(number_of(value, 1, day)); }},
      {"--jobs", [&into](const auto& value) { into.jobs = number_of(value, 1, 1000); }},
      {"--for", [&into](const auto& value) { into.time = std::chrono::seconds(number_of(value, 1, 1000 * day)); }},
      {"--state", [&into](const auto& value) { into.state = value; }},
      {"--failures", [&into](const auto& value) { into.failures = value; }},
  };
}

std::map<std::string, bool*> options_without_values(Arguments& into) {
  return {{"--twice", &into.twice},   {"--first", &into.first_only}, {"--trace", &into.trace},
          {"--report", &into.report}, {"--help", &into.help},        {"-h", &into.help}};
}

/// What was not said follows from the rest.
void complete(Arguments& arguments) {
  const bool one_world = arguments.replay || arguments.shrink;
  if (arguments.replay && arguments.shrink) throw UsageError("--replay and --shrink are two different things");
  if (one_world && (!arguments.seeds.empty() || arguments.fresh > 0))
    throw UsageError("--replay and --shrink name their seed themselves: leave --seeds and --fresh out");
  if (one_world && !arguments.state.empty()) throw UsageError("--state is for many worlds, not for one");
  const ScenarioOptions& worlds = arguments.worlds;
  if (!arguments.state.empty() &&
      (worlds.processes > 0 || worlds.course > 0 || !worlds.without.empty() || !worlds.left_out.empty()))
    throw UsageError("--state counts whole worlds: leave --without, --processes and --course out");
  if (arguments.shrink && arguments.workloads.size() != 1)
    throw UsageError("--shrink needs the one workload whose world it is to make smaller: --workload NAME");
  const bool chosen = one_world || !arguments.seeds.empty() || arguments.fresh > 0 || arguments.time.has_value();
  arguments.only_report = arguments.report && !chosen && !arguments.state.empty();
  if (one_world)
    arguments.seeds.add(arguments.worlds.seed);
  else if (arguments.seeds.empty() && arguments.fresh == 0)
    arguments.seeds.add(1, arguments.time ? std::numeric_limits<std::uint64_t>::max() - 1 : 10);
  if (arguments.failures.empty() && !arguments.state.empty()) arguments.failures = arguments.state + ".failures";
  if (!arguments.workloads.empty()) return;
  for (const Workload& one : workloads())
    arguments.workloads.push_back(&one);
}

}  // namespace

const char* usage() {
  return R"(Plays workloads in simulated worlds, each in a process of its own, and prints the seeds that fail.

  simulated_storm [OPTION...]

Which worlds:
  --workload NAME,...   these workloads instead of all
  --seeds 1-100,200     these seeds; 1-10 if nothing else is said
  --fresh N             N seeds more, which differ in each run; printed first
  --seconds N           trouble comes for so many virtual seconds (5 to 40, by the seed)
  --without WHAT,...    kinds of troubles, or numbers of single ones, that do not happen
  --processes N         only the first N processes of the workload
  --course N            the same troubles, and other chance: turns, latencies, what the workload draws

One world:
  --replay SEED         tells its story
  --shrink SEED         looks for the smallest world that fails in the same way, and tells its story
  --courses N           a smaller world counts as one that does not fail after so many courses (20)

Many worlds:
  --jobs N              so many at a time (1)
  --for SECONDS         begins no new world later; all seeds from 1 on, if none are named
  --state FILE          notes what is done, and goes on from there
  --failures FILE       adds each world that fails to that file (FILE.failures of --state)
  --report              prints a table at the end; with --state alone: of what was done before
  --first               ends at the first failure
  --twice               plays each world twice, and compares
  --trace               prints the hash of each world
  --processor-time N    a world that takes more seconds of processor time has failed (60)
)";
}

Arguments parse_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  const auto with_values = options_with_values(arguments);
  const auto flags = options_without_values(arguments);
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (const auto flag = flags.find(*word); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    const auto option = with_values.find(*word);
    if (option == with_values.end()) throw UsageError(fmt::format("unknown option {}: see --help", *word));
    const std::string& name = *word;
    if (++word == words.end() || word->empty()) throw UsageError(fmt::format("{} needs a value: see --help", name));
    try {
      option->second(*word);
    } catch (const std::invalid_argument& error) {
      throw UsageError(fmt::format("{}: {}", name, error.what()));
    }
  }
  complete(arguments);
  return arguments;
}

}  // namespace storm
