// What prometheus-cpp writes of our numbers is what we write of them.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>

#include <prometheus/text_serializer.h>
#include <zkclient/metrics.hpp>

#include "examples/prometheus/zkrecipes_collectable.hpp"
#include "zkclient/detail/meter.hpp"

namespace {

using namespace std::chrono_literals;
using zkclient::Metrics;

// The value of each sample, by its name and labels. Bounds of buckets are numbers, and may be written in several ways.
std::map<std::string, double> values_of(const std::string& text) {
  const std::regex bound("le=\"([^\"]+)\"");
  std::map<std::string, double> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t space = line.rfind(' ');
    std::string key = line.substr(0, space);
    std::smatch found;
    if (std::regex_search(key, found, bound)) {
      const std::string number = std::to_string(std::stod(found[1]) * 1e6);
      key = found.prefix().str() + "le=" + number + found.suffix().str();
    }
    EXPECT_TRUE(values.emplace(key, std::stod(line.substr(space + 1))).second) << key << " is there twice";
  }
  return values;
}

std::map<std::string, std::string> types_in(const std::string& text) {
  std::map<std::string, std::string> types;
  std::istringstream lines(text);
  for (std::string word, name, type; lines >> word;)
    if (word == "TYPE" && lines >> name >> type) types[name] = type;
  return types;
}

TEST(PrometheusCollectable, HasEachNumber) {
  const auto metrics = std::make_shared<Metrics>();
  zkclient::detail::Meter& meter = *metrics->impl();
  for (std::size_t i = 0; i < Metrics::counters; ++i)
    for (std::size_t times = 0; times <= i; ++times)
      meter.count(static_cast<Metrics::Counter>(i));
  for (std::size_t i = 0; i < Metrics::gauges; ++i)
    meter.change(static_cast<Metrics::Gauge>(i), static_cast<std::int64_t>(i) - 2);
  for (std::size_t i = 0; i < Metrics::timings; ++i)
    for (const auto duration : {1us, 100us, 3'000'000us, 1'000'000'000us})
      meter.time(static_cast<Metrics::Timing>(i), duration * (i + 1));

  const std::string theirs = prometheus::TextSerializer().Serialize(ZkrecipesCollectable(metrics).Collect());
  const auto values = values_of(theirs);
  EXPECT_EQ(values, values_of(metrics->to_openmetrics()));
  EXPECT_GT(values.size(), Metrics::counters + Metrics::gauges + Metrics::timings * Metrics::timings);
  const auto types = types_in(theirs);
  EXPECT_EQ(types.at("zkrecipes_sessions_lost_total"), "counter");
  EXPECT_EQ(types.at("zkrecipes_leases_held"), "gauge");
  EXPECT_EQ(types.at("zkrecipes_lease_held_seconds"), "histogram");
}

}  // namespace
