// The files of monitoring/ are right, and name what there is.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/metrics.hpp>

#include "tests/monitoring/queries.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using monitoring::dashboard_queries;
using monitoring::text_of;

const std::regex metric_name("zkrecipes_[a-z_]+");

std::set<std::string> metrics_in(const std::string& text) {
  return {std::sregex_token_iterator(text.begin(), text.end(), metric_name), {}};
}

/// The lines of what a Metrics object gives that hold numbers.
std::vector<std::string> samples() {
  std::istringstream text(zkclient::Metrics().to_openmetrics());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.starts_with('#')) lines.push_back(line);
  return lines;
}

std::set<std::string> sample_names() {
  std::set<std::string> names;
  for (const std::string& line : samples())
    names.insert(line.substr(0, line.find_first_of("{ ")));
  return names;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += line + "\n";
  return text;
}

std::string alert_rules() { return text_of(MONITORING "/alerts.yml"); }

/// Does it end well? Says why if it does not.
bool promtool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"-c", "\"$0\" \"$@\" 2>&1; echo \"exit status $?\"", monitoring::program_file("promtool")});
  testkit::Program program("/bin/sh", std::move(arguments));
  std::string said;
  for (;;) {
    const std::string line = program.next_line();
    if (line == "exit status 0") return true;
    said += line + "\n";
    if (line.starts_with("exit status ")) break;
  }
  ADD_FAILURE() << said;
  return false;
}

TEST(MonitoringFiles, NameMetricsThatThereAre) {
  const std::set<std::string> there = sample_names();
  for (const std::string& text : {joined(dashboard_queries()), alert_rules()})
    for (const std::string& name : metrics_in(text))
      EXPECT_TRUE(there.contains(name)) << name;
}

TEST(MonitoringFiles, NameLabelsThatThereAre) {
  // In braces, of the library's own labels: those of scrapes (job, instance) are compared as expressions.
  const std::regex selector(R"((zkrecipes_[a-z_]+)\{[^}]*\b([a-z]+="[a-z_]+")\})");
  const std::vector<std::string> lines = samples();
  const std::string rules = alert_rules();
  std::size_t found = 0;
  for (std::sregex_iterator match(rules.begin(), rules.end(), selector), end; match != end; ++match, ++found) {
    const auto is_meant = [&](const std::string& line) {
      return line.starts_with((*match)[1].str() + "{") && line.find((*match)[2]) != std::string::npos;
    };
    EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), is_meant)) << match->str();
  }
  EXPECT_GE(found, 2U);
}

TEST(MonitoringFiles, TheDashboardLeavesNoMetricOut) {
  const std::set<std::string> shown = metrics_in(joined(dashboard_queries()));
  for (const std::string& name : sample_names()) {
    if (name.ends_with("_sum") || name.ends_with("_count")) continue;  // The buckets say more.
    EXPECT_TRUE(shown.contains(name)) << name;
  }
}

TEST(MonitoringFiles, TheGuideLeavesNoMetricOut) {
  const std::set<std::string> told = metrics_in(text_of(MONITORING "/../docs/metrics.md"));
  for (const std::string& name : sample_names()) {
    const std::regex ending("_(bucket|sum|count)$");
    const std::string family = std::regex_replace(name, ending, "");
    EXPECT_TRUE(told.contains(family)) << family;
  }
}

TEST(MonitoringFiles, TheGuideLeavesNoAlertOut) {
  const std::string guide = text_of(MONITORING "/../docs/metrics.md");
  const std::string rules = alert_rules();
  const std::regex alert("- alert: (\\w+)");
  for (std::sregex_iterator match(rules.begin(), rules.end(), alert), end; match != end; ++match)
    EXPECT_NE(guide.find("`" + (*match)[1].str() + "`"), std::string::npos) << (*match)[1];
}

TEST(MonitoringFiles, PanelsHaveTheirOwnIdsAndPlaces) {
  std::set<int> ids;
  std::set<std::pair<int, int>> places;
  for (const nlohmann::json& panel : monitoring::panels()) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second) << panel.at("title");
    const auto& place = panel.at("gridPos");
    EXPECT_TRUE(places.insert({place.at("x").get<int>(), place.at("y").get<int>()}).second) << panel.at("title");
    EXPECT_LE(place.at("x").get<int>() + place.at("w").get<int>(), 24) << panel.at("title");
  }
}

class Promtool : public ::testing::Test {
 protected:
  void SetUp() override {
    if (monitoring::program_file("promtool").empty()) GTEST_SKIP() << monitoring::no_prometheus;
  }
};

TEST_F(Promtool, TheConfigurationAndTheRulesAreRight) {
  EXPECT_TRUE(promtool({"check", "config", MONITORING "/prometheus.yml"}));
}

TEST_F(Promtool, AlertsFireWhenTheyShould) { EXPECT_TRUE(promtool({"test", "rules", MONITORING "/alerts_test.yml"})); }

TEST_F(Promtool, QueriesOfTheDashboardAreRight) {
  // It reads queries from rules only, and JSON is YAML.
  nlohmann::json rules = nlohmann::json::array();
  for (const std::string& query : dashboard_queries())
    rules.push_back({{"record", "query" + std::to_string(rules.size())}, {"expr", query}});
  const nlohmann::json group{{"name", "dashboard"}, {"rules", rules}};
  const testkit::TemporaryFolder folder;
  const std::string file = folder / "queries.yml";
  std::ofstream(file) << nlohmann::json{{"groups", nlohmann::json::array({group})}};
  EXPECT_TRUE(promtool({"check", "rules", file}));
}

}  // namespace
