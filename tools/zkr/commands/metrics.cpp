// metrics: holders, waiters and items at paths, as Prometheus reads them.

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/inspection_text.hpp"

namespace zkr {
namespace {

struct MetricsOptions {
  std::vector<std::string> paths;
};

struct MeasuredPath {
  std::string path;
  zkrecipes::Inspection found;
  std::chrono::system_clock::time_point now;
};

// Clocks of servers and of this host differ: an age is never negative.
double age_seconds(const MeasuredPath& measured, bool holds) {
  const auto since = oldest_contender(measured.found, holds);
  return since ? std::max(0.0, std::chrono::duration<double>(measured.now - *since).count()) : 0.0;
}

std::string label_text(std::string_view value) {
  std::string text;
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter == '\n' ? "\\n" : std::string(1, letter);
  }
  return text;
}

std::string sample(const char* name, const std::string& labels, double value) {
  return fmt::format("zkrecipes_path_{}{{{}}} {}\n", name, labels, value);
}

/// One number of each path.
struct PathMetric {
  const char* name;
  const char* unit;  // "": it has none.
  const char* help;
  bool of_queues;  // Of queues only, or of all but queues.
  double (*value)(const MeasuredPath& measured);
};

constexpr PathMetric path_metrics[] = {
    {"holders", "", "Contenders that hold.", false,
     [](const MeasuredPath& m) { return static_cast<double>(count_contenders(m.found).holders); }},
    {"waiters", "", "Contenders that wait.", false,
     [](const MeasuredPath& m) { return static_cast<double>(count_contenders(m.found).waiters); }},
    {"foreign", "", "Nodes of other libraries, of which nobody says whether they hold.", false,
     [](const MeasuredPath& m) { return static_cast<double>(count_contenders(m.found).foreign); }},
    {"oldest_hold_seconds", "seconds", "How long ago the oldest holder has queued.", false,
     [](const MeasuredPath& m) { return age_seconds(m, true); }},
    {"oldest_wait_seconds", "seconds", "For how long the oldest waiter waits.", false,
     [](const MeasuredPath& m) { return age_seconds(m, false); }},
    {"items", "", "Items of a queue, claimed ones included.", true,
     [](const MeasuredPath& m) { return static_cast<double>(m.found.items); }},
    {"items_claimed", "", "Items that consumers work on.", true,
     [](const MeasuredPath& m) { return static_cast<double>(m.found.contenders.size()); }},
};

std::string metric_text(const PathMetric& metric, const std::vector<MeasuredPath>& all) {
  std::string samples;
  for (const MeasuredPath& measured : all) {
    if (is_queue(measured.found.kind) != metric.of_queues) continue;
    samples += sample(metric.name, fmt::format("path=\"{}\"", label_text(measured.path)), metric.value(measured));
  }
  if (samples.empty()) return samples;
  std::string heading = fmt::format("# TYPE zkrecipes_path_{} gauge\n", metric.name);
  if (*metric.unit != '\0') heading += fmt::format("# UNIT zkrecipes_path_{} {}\n", metric.name, metric.unit);
  return heading + fmt::format("# HELP zkrecipes_path_{} {}\n", metric.name, metric.help) + samples;
}

std::string kinds_text(const std::vector<MeasuredPath>& all) {
  std::string text = "# TYPE zkrecipes_path_kind gauge\n# HELP zkrecipes_path_kind The recipe at the path now.\n";
  for (const MeasuredPath& measured : all) {
    text += sample("kind",
                   fmt::format("path=\"{}\",kind=\"{}\",naming=\"{}\"", label_text(measured.path),
                               zkrecipes::to_string(measured.found.kind), zkrecipes::to_string(measured.found.naming)),
                   1);
  }
  return text;
}

int run_metrics(const Context& context, const MetricsOptions& options) {
  if (context.json) throw Failure(exit_usage, "metrics are OpenMetrics text; \"top --batch --json\" writes JSON");
  std::vector<zkclient::Path> paths;
  for (const std::string& text : options.paths) {
    const zkclient::Path path(text);
    // Samples that are there twice are refused by who reads them.
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  }
  const zkclient::Client client = connect(context);
  std::vector<MeasuredPath> all;
  for (const zkclient::Path& path : paths)
    all.push_back({path.str(), zkrecipes::inspect(client, path), std::chrono::system_clock::now()});
  std::string text = kinds_text(all);
  for (const PathMetric& metric : path_metrics)
    text += metric_text(metric, all);
  write_bytes(text + "# EOF\n");
  return exit_success;
}

}  // namespace

void add_metrics(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "metrics",
                                      "Holders, waiters, the oldest wait and items, as OpenMetrics text", run_metrics);
  command->add_option("PATH", command.options->paths, "The recipes' paths")->required();
}

}  // namespace zkr
