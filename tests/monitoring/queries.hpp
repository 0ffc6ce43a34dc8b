#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

/// What the tests of the files in monitoring/ share. MONITORING is that folder.
namespace monitoring {

inline std::string text_of(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("there is no " + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<nlohmann::json> panels() {
  return nlohmann::json::parse(text_of(MONITORING "/dashboard.json")).at("panels");
}

/// A query of the dashboard, with what Grafana puts in place of its variables when all are wanted.
inline std::string filled_in(std::string query) {
  query = std::regex_replace(query, std::regex(R"(\$__rate_interval)"), "1m");
  return std::regex_replace(query, std::regex(R"(\$(job|instance)\b)"), ".*");
}

inline std::vector<std::string> dashboard_queries() {
  std::vector<std::string> queries;
  for (const nlohmann::json& panel : panels()) {
    if (panel.at("type") == "row") continue;
    for (const nlohmann::json& target : panel.at("targets"))
      queries.push_back(filled_in(target.at("expr")));
  }
  if (queries.empty()) throw std::runtime_error("the dashboard has no queries");
  return queries;
}

/// The program of that name in $PATH, or where scripts/setup.sh has unpacked it; "" if there is none.
inline std::string program_file(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders((path != nullptr ? path : "") + std::string(":" UNPACKED_PROGRAMS));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder.append("/").append(name);
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

inline constexpr const char* no_prometheus =
    "there is no Prometheus (Debian package prometheus; scripts/setup.sh --tests)";

}  // namespace monitoring
