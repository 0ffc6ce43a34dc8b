#include "recipes/configuration/configuration_reports.hpp"

#include <algorithm>
#include <utility>

#include "recipes/configuration/configuration_format.hpp"

namespace zkrecipes {

using namespace words;

bool ConfigurationRollOut::complete() const noexcept { return refused.empty() && behind.empty() && missing.empty(); }

namespace detail {

namespace {

constexpr const char* reporting = "configuration report";
constexpr const char* reports_directory = "-applied";
constexpr const char* witnesses_directory = "-presence";

}  // namespace

// What is not ephemeral tells of nobody who lives.
ConfigurationReports reports_of(const Snapshot& nodes) {
  ConfigurationReports reports;
  for (const CachedNodePtr& node : nodes.children()) {
    if (node->stat.ephemeral_owner == 0 || !node->has_data) continue;
    auto report = decode_report(node->name, node->data);
    if (report) reports.emplace(node->name, HeardReport{std::move(*report), epoch_of_report(node->data)});
  }
  return reports;
}

ConfigurationRollOut judge_roll_out(const ConfigurationReports& reports, std::int64_t revision,
                                    const std::vector<std::string>& ids, std::int64_t epoch) {
  ConfigurationRollOut out;
  for (const std::string& id : ids) {
    const auto found = reports.find(id);
    if (found == reports.end()) {
      out.missing.push_back(id);
      continue;
    }
    ConfigurationReport report = found->second.report;
    const std::int64_t about = found->second.epoch;
    if (epoch != 0 && about != 0 && about != epoch) report = ConfigurationReport{id};
    const bool applied = report.applied && *report.applied >= revision;
    const bool refused = report.refused && *report.refused >= revision;
    (applied ? out.applied : refused ? out.refused : out.behind).push_back(report);
  }
  return out;
}

bool is_decided(const ConfigurationRollOut& so_far) noexcept { return so_far.behind.empty() && so_far.missing.empty(); }

Path reports_path(const Path& configuration) { return configuration / reports_directory; }

const char* report_id_defect(std::string_view id) noexcept {
  if (id.empty()) return "the id of a follower is empty";
  return id.find('/') == std::string_view::npos ? nullptr : "the id of a follower has a slash";
}

KeptNodeSpec report_spec(const std::shared_ptr<zk::ClientCore>& client, const Path& configuration,
                         const ConfigurationOptions& options) {
  if (const char* defect = report_id_defect(options.id)) {
    throw Error(Errc::invalid_argument, reporting, configuration.str(), defect);
  }
  std::optional<Path> node;
  try {
    node = reports_path(configuration) / options.id;
  } catch (const Error& error) {
    throw Error(Errc::invalid_argument, reporting, configuration.str(), error.detail());
  }
  KeptNodeSpec spec;
  spec.client = client;
  spec.path = node->str();
  spec.node = client->full(*node);
  spec.witnesses = client->full(configuration / witnesses_directory);
  spec.parent_mode = CreateMode::persistent;  // The path is among what it makes.
  spec.acl = options.acl;
  // A process that was started again does not wait for the end of its former session.
  spec.conflict = Conflict::replace;
  spec.operation = reporting;
  return spec;
}

}  // namespace detail
}  // namespace zkrecipes
