#include "tools/zkr/commands/inspection_parts.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"

namespace zkr {
namespace {

using zkrecipes::InspectedHost;
using zkrecipes::InspectedJob;
using zkrecipes::InspectedLatch;
using zkrecipes::InspectedMigrationSet;
using zkrecipes::InspectedPartition;
using zkrecipes::InspectedPlacement;
using zkrecipes::InspectedStep;
using zkrecipes::Inspection;
using zkrecipes::JobOutcome;
using zkrecipes::JobRun;

using Rows = std::vector<std::vector<std::string>>;
using NameList = std::vector<std::string>;

std::string joined(const NameList& names) {
  return names.empty() ? "-" : printable(fmt::format("{}", fmt::join(names, ",")));
}

json::array json_names(const NameList& names) { return json::array(names.begin(), names.end()); }

std::string hex_text(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// "a, b and 3 more"
std::string first_of(const NameList& names) {
  constexpr std::size_t most = 3;
  const std::size_t shown = std::min(most, names.size());
  std::string text =
      printable(fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", ")));
  return names.size() > shown ? text + fmt::format(" and {} more", names.size() - shown) : text;
}

// --- Latches ------------------------------------------------------------------------------------------------------

std::string latch_text(const InspectedLatch& latch) {
  if (latch.left == 0) return fmt::format("generation {} is open", latch.generation);
  return fmt::format("generation {}, {} of {} left", latch.generation, latch.left, latch.count);
}

json::object latch_json(const InspectedLatch& latch) {
  return {{"generation", latch.generation}, {"count", latch.count}, {"left", latch.left}};
}

// --- Periodic jobs ------------------------------------------------------------------------------------------------

// As utc_text(), for years that the system's clock does not have.
std::string job_time_text(zkrecipes::JobTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss of_day(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), of_day.hours().count(),
                     of_day.minutes().count(), of_day.seconds().count(), of_day.subseconds().count());
}

bool ended_badly(const JobRun& run) {
  return run.outcome == JobOutcome::failed || run.outcome == JobOutcome::interrupted;
}

std::string job_text(const InspectedJob& job, bool has_runner) {
  if (!job.status) return "its state is no job's";
  std::string text = job.abandoned                       ? "its runner is gone"
                     : has_runner && job.status->running ? "a run goes on"
                                                         : "no run goes on";
  if (!job.runs.empty() && ended_badly(job.runs.front()))
    text +=
        fmt::format(", the last one {}", job.runs.front().outcome == JobOutcome::failed ? "failed" : "was interrupted");
  return text + fmt::format(", settled up to {}", job_time_text(job.status->settled));
}

void add_run(Rows& rows, const JobRun& run, const char* outcome) {
  rows.push_back({job_time_text(run.firing), std::to_string(run.attempt), outcome, printable(run.runner),
                  job_time_text(run.started), run.duration ? to_text(*run.duration) : "-",
                  run.error.empty() ? "-" : printable(run.error)});
}

std::string job_tables(const InspectedJob& job) {
  Rows rows = {{"FIRING", "ATTEMPT", "OUTCOME", "RUNNER", "STARTED", "TOOK", "WHY"}};
  if (job.status && job.status->running)
    add_run(rows, *job.status->running, job.abandoned ? "abandoned" : to_string(JobOutcome::running));
  for (const JobRun& run : job.runs)
    add_run(rows, run, to_string(run.outcome));
  return rows.size() == 1 ? "" : table(rows);
}

json::object run_json(const JobRun& run) {
  json::object object;
  object["firing"] = job_time_text(run.firing);
  object["attempt"] = run.attempt;
  object["outcome"] = to_string(run.outcome);
  object["runner"] = run.runner;
  object["token"] = run.token.value;
  object["started"] = job_time_text(run.started);
  object["took_ms"] = run.duration ? json::value(static_cast<std::int64_t>(run.duration->count())) : json::value();
  object["error"] = run.error;
  object["missed_from"] = run.missed_from ? json::value(job_time_text(*run.missed_from)) : json::value();
  return object;
}

json::object job_json(const InspectedJob& job) {
  json::array runs;
  for (const JobRun& run : job.runs)
    runs.push_back(run_json(run));
  const bool running = job.status && job.status->running;
  json::object object;
  object["settled"] = job.status ? json::value(job_time_text(job.status->settled)) : json::value();
  object["running"] = running ? json::value(run_json(*job.status->running)) : json::value();
  object["abandoned"] = job.abandoned;
  object["records"] = job.records;
  object["runs"] = std::move(runs);
  return object;
}

void judge_job(const std::string& path, const InspectedJob& job, std::vector<Finding>& findings) {
  if (!job.runs.empty() && ended_badly(job.runs.front())) {
    const JobRun& last = job.runs.front();
    findings.push_back({Gravity::warning, path,
                        fmt::format("the last run on record, of {}, {}: {}", job_time_text(last.firing),
                                    last.outcome == JobOutcome::failed ? "failed" : "was interrupted",
                                    last.error.empty() ? "no reason is on record" : printable(last.error))});
  }
  if (job.abandoned) {
    findings.push_back(
        {Gravity::failure, path,
         fmt::format("the run of {} has lost its runner {}, and no process has taken the job over: none "
                     "that runs it is up",
                     job_time_text(job.status->running->firing), printable(job.status->running->runner))});
  }
  if (!job.status) {
    findings.push_back({Gravity::failure, path,
                        "its node \"state\" holds no state of a job: nothing runs until it is removed or mended"});
  }
}

// --- Migrations ---------------------------------------------------------------------------------------------------

bool is_foreign(const InspectedStep& step) { return step.foreign; }

std::string migrations_text(const std::vector<InspectedMigrationSet>& sets) {
  std::size_t steps = 0;
  std::ptrdiff_t foreign = 0;
  for (const InspectedMigrationSet& set : sets) {
    steps += set.steps.size();
    foreign += std::count_if(set.steps.begin(), set.steps.end(), is_foreign);
  }
  std::string text = fmt::format("{} sets, {} steps applied", sets.size(), steps - static_cast<std::size_t>(foreign));
  return foreign == 0 ? text : text + fmt::format(", {} foreign records", foreign);
}

std::string migrations_tables(const std::vector<InspectedMigrationSet>& sets) {
  constexpr std::size_t shown_bytes = 6;
  Rows rows = {{"SET", "RECORD", "APPLIED", "DIGEST"}};
  for (const InspectedMigrationSet& set : sets) {
    for (const InspectedStep& step : set.steps) {
      const std::string digest = hex_text(std::string_view(step.digest).substr(0, shown_bytes));
      rows.push_back({printable(set.name), printable(step.node), utc_text(step.applied),
                      step.foreign ? "foreign: no record of a step" : digest});
    }
  }
  return rows.size() == 1 ? "" : table(rows);
}

json::array migrations_json(const std::vector<InspectedMigrationSet>& sets) {
  json::array all;
  for (const InspectedMigrationSet& set : sets) {
    json::array steps;
    for (const InspectedStep& step : set.steps) {
      steps.push_back(json::object{{"node", step.node},
                                   {"applied", utc_text(step.applied)},
                                   {"digest", step.foreign ? json::value() : json::value(hex_text(step.digest))},
                                   {"foreign", step.foreign}});
    }
    all.push_back(json::object{{"set", set.name}, {"steps", std::move(steps)}});
  }
  return all;
}

void judge_migrations(const std::string& path, const std::vector<InspectedMigrationSet>& sets,
                      std::vector<Finding>& findings) {
  for (const InspectedMigrationSet& set : sets) {
    NameList foreign, others;
    for (const InspectedStep& step : set.steps) {
      if (step.foreign) (step.node.starts_with("meta-") ? foreign : others).push_back(step.node);
    }
    const auto tell = [&](Gravity gravity, const char* who, const NameList& nodes) {
      if (nodes.empty()) return;
      findings.push_back({gravity, path,
                          fmt::format("set {} has nodes that are no records, so that no {} migrates it: {}",
                                      printable(set.name), who, first_of(nodes))});
    };
    tell(Gravity::failure, "program", foreign);
    tell(Gravity::warning, "program of Curator's", others);
  }
}

// --- Placements ---------------------------------------------------------------------------------------------------

struct PlacementCounts {
  std::size_t moving = 0;
  std::size_t below = 0;
};

PlacementCounts count_partitions(const InspectedPlacement& placement) {
  PlacementCounts counts;
  for (const InspectedPartition& one : placement.partitions) {
    if (one.moving()) ++counts.moving;
    if (one.below_minimum()) ++counts.below;
  }
  return counts;
}

std::string placement_text(const InspectedPlacement& placement) {
  const PlacementCounts counts = count_partitions(placement);
  std::string text = fmt::format("{} hosts, {} partitions", placement.hosts.size(), placement.partitions.size());
  if (counts.moving != 0) text += fmt::format(", {} moving", counts.moving);
  if (counts.below != 0) text += fmt::format(", {} below minimum", counts.below);
  return text;
}

std::string state_of(const InspectedHost& host) {
  if (host.host.weight != 0) return "up";
  return host.replicas + host.leaving == 0 ? "drained" : "draining";
}

std::string state_of(const InspectedPartition& partition) {
  if (!partition.problem.empty()) return partition.problem;
  if (partition.minimum == 0) return "has no state yet";
  if (partition.below_minimum()) return "below minimum";
  return partition.moving() ? "moving" : "ok";
}

std::string placement_tables(const InspectedPlacement& placement) {
  Rows hosts = {{"HOST", "STATE", "WEIGHT", "RACK", "REPLICAS", "LEAVING", "SESSION"}};
  for (const InspectedHost& one : placement.hosts) {
    hosts.push_back({printable(one.host.id), state_of(one), std::to_string(one.host.weight),
                     one.host.rack.empty() ? "-" : printable(one.host.rack), std::to_string(one.replicas),
                     std::to_string(one.leaving), session_text(one.session_id)});
  }
  Rows partitions = {{"PARTITION", "IN SYNC", "MINIMUM", "PRIMARY", "WANTED", "LEAVING", "STATE"}};
  for (const InspectedPartition& one : placement.partitions) {
    partitions.push_back({printable(one.name), joined(one.in_sync), std::to_string(one.minimum),
                          one.primary ? printable(*one.primary) : "-", joined(one.wanted), joined(one.leaving),
                          state_of(one)});
  }
  return (hosts.size() == 1 ? "" : table(hosts)) + (partitions.size() == 1 ? "" : table(partitions));
}

json::object placement_json(const InspectedPlacement& placement) {
  json::array hosts;
  for (const InspectedHost& one : placement.hosts) {
    hosts.push_back(json::object{{"host", one.host.id},
                                 {"state", state_of(one)},
                                 {"weight", one.host.weight},
                                 {"rack", one.host.rack},
                                 {"replicas", one.replicas},
                                 {"leaving", one.leaving},
                                 {"since", utc_text(one.since)},
                                 {"session", session_text(one.session_id)}});
  }
  json::array partitions;
  for (const InspectedPartition& one : placement.partitions) {
    partitions.push_back(json::object{{"partition", one.name},
                                      {"wanted", json_names(one.wanted)},
                                      {"leaving", json_names(one.leaving)},
                                      {"in_sync", json_names(one.in_sync)},
                                      {"minimum", one.minimum},
                                      {"primary", one.primary ? json::value(*one.primary) : json::value()},
                                      {"moving", one.moving()},
                                      {"below_minimum", one.below_minimum()},
                                      {"problem", one.problem}});
  }
  return {{"hosts", std::move(hosts)},
          {"foreign_hosts", json_names(placement.foreign_hosts)},
          {"partitions", std::move(partitions)}};
}

/// The names of the partitions for which `is_so`.
template <typename Predicate>
NameList partitions_that(const InspectedPlacement& placement, const Predicate& is_so) {
  NameList names;
  for (const InspectedPartition& one : placement.partitions) {
    if (is_so(one)) names.push_back(one.name);
  }
  return names;
}

void judge_placement(const std::string& path, const Inspection& found, std::vector<Finding>& findings) {
  const InspectedPlacement& placement = *found.placement;
  const auto tell = [&](Gravity gravity, const char* text, const NameList& names) {
    if (!names.empty()) findings.push_back({gravity, path, text + first_of(names)});
  };
  const auto is_there = [&](const std::string& id) {
    return std::any_of(placement.hosts.begin(), placement.hosts.end(),
                       [&](const InspectedHost& one) { return one.host.id == id; });
  };
  const auto lacks_a_host = [&](const InspectedPartition& one) {
    return !std::all_of(one.wanted.begin(), one.wanted.end(), is_there);
  };
  tell(Gravity::note, "partitions whose replicas are on their way: ",
       partitions_that(placement, [](const InspectedPartition& one) { return one.moving(); }));
  const bool decided = std::any_of(found.contenders.begin(), found.contenders.end(),
                                   [](const zkrecipes::Contender& one) { return one.holds; });
  if (!decided) findings.push_back({Gravity::warning, path, "no placer leads: what a host leaves is not replaced"});
  tell(Gravity::warning, "nodes among the hosts that are none: ", placement.foreign_hosts);
  tell(Gravity::warning,
       "partitions with replicas on hosts that are not there: ", partitions_that(placement, lacks_a_host));
  tell(Gravity::failure, "partitions whose nodes are none of this library's, or missing: ",
       partitions_that(placement, [](const InspectedPartition& one) { return !one.problem.empty(); }));
  tell(Gravity::failure, "partitions below their minimum, where nothing can be written: ",
       partitions_that(placement, [](const InspectedPartition& one) { return one.below_minimum(); }));
}

}  // namespace

std::string parts_text(const Inspection& found) {
  if (found.latch) return latch_text(*found.latch);
  if (found.job) return job_text(*found.job, !found.contenders.empty());
  if (!found.migrations.empty()) return migrations_text(found.migrations);
  if (found.placement) return placement_text(*found.placement);
  if (found.touched) return fmt::format("last touched {}", utc_text(*found.touched));
  return "";
}

std::string parts_tables(const Inspection& found) {
  if (found.job) return job_tables(*found.job);
  if (found.placement) return placement_tables(*found.placement);
  return migrations_tables(found.migrations);
}

void add_parts(json::object& object, const Inspection& found) {
  if (found.latch) object["latch"] = latch_json(*found.latch);
  if (found.job) object["job"] = job_json(*found.job);
  if (!found.migrations.empty()) object["migrations"] = migrations_json(found.migrations);
  if (found.placement) object["placement"] = placement_json(*found.placement);
  if (found.touched) object["touched"] = utc_text(*found.touched);
}

std::vector<Finding> judge_parts(const std::string& path, const Inspection& found) {
  std::vector<Finding> findings;
  if (found.job) judge_job(path, *found.job, findings);
  judge_migrations(path, found.migrations, findings);
  if (found.placement) judge_placement(path, found, findings);
  return findings;
}

std::size_t count_nodes(const Inspection& found) {
  std::size_t count = std::max(found.items, found.contenders.size());
  for (const InspectedMigrationSet& set : found.migrations)
    count += set.steps.size();
  if (!found.placement) return count;
  count += found.placement->hosts.size();
  for (const InspectedPartition& one : found.placement->partitions)
    count += 4 + one.wanted.size() + one.leaving.size();
  return count;
}

}  // namespace zkr
