#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <locale>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <zkclient/metrics.hpp>

/// What zkrecipes counts, for prometheus-cpp: register it with an Exposer beside the registry of the service.
///
///   const auto numbers = std::make_shared<ZkrecipesCollectable>(metrics);
///   exposer.RegisterCollectable(numbers);
///
/// Names, labels and helps are those that Metrics::to_openmetrics() has, so nothing here knows a single one of them.
///
/// Thread safety: all members, from any thread.
class ZkrecipesCollectable : public prometheus::Collectable {
 public:
  explicit ZkrecipesCollectable(std::shared_ptr<const zkclient::Metrics> metrics) : metrics_(std::move(metrics)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    std::istringstream text(metrics_->to_openmetrics());
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("# HELP ")) {
        const std::size_t space = line.find(' ', 7);
        families.push_back({.name = line.substr(7, space - 7), .help = line.substr(space + 1), .metric = {}});
      } else if (line.starts_with("# TYPE ")) {
        set_type(families.back(), line.substr(line.rfind(' ') + 1));
      } else if (!line.starts_with('#')) {
        add_sample(families.back(), line);
      }
    }
    return families;
  }

 private:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  static void set_type(prometheus::MetricFamily& family, const std::string& type) {
    if (type == "counter") {
      family.type = prometheus::MetricType::Counter;
      family.name += "_total";  // The older text, which prometheus-cpp writes, has it in the name of the family.
    } else if (type == "gauge") {
      family.type = prometheus::MetricType::Gauge;
    } else {
      family.type = prometheus::MetricType::Histogram;
    }
  }

  // NAME{LABEL="VALUE",...} NUMBER
  static void add_sample(prometheus::MetricFamily& family, const std::string& line) {
    const std::size_t end = line.find_first_of("{ ");
    const std::string name = line.substr(0, end);
    const double number = to_number(line.substr(line.rfind(' ') + 1));
    Labels labels;
    std::string bound;
    for (std::size_t at = end; line[at] != ' ' && line[at] != '}';) {
      const std::size_t equals = line.find('=', at);
      const std::size_t quote = line.find('"', equals + 2);  // No value has one inside.
      const std::string label = line.substr(at + 1, equals - at - 1);
      const std::string value = line.substr(equals + 2, quote - equals - 2);
      if (label == "le") {
        bound = value;
      } else {
        labels.push_back({label, value});
      }
      at = quote + 1;
    }
    prometheus::ClientMetric& metric = metric_of(family, std::move(labels));
    switch (family.type) {
      case prometheus::MetricType::Counter: metric.counter.value = number; break;
      case prometheus::MetricType::Gauge: metric.gauge.value = number; break;
      default: add_to(metric.histogram, name, bound, number);
    }
  }

  static void add_to(prometheus::ClientMetric::Histogram& histogram, const std::string& name, const std::string& bound,
                     double number) {
    if (name.ends_with("_bucket")) {
      histogram.bucket.push_back({static_cast<std::uint64_t>(number), to_number(bound)});
    } else if (name.ends_with("_count")) {
      histogram.sample_count = static_cast<std::uint64_t>(number);
    } else {
      histogram.sample_sum = number;
    }
  }

  // Samples with the same labels follow each other.
  static prometheus::ClientMetric& metric_of(prometheus::MetricFamily& family, Labels labels) {
    if (family.metric.empty() || family.metric.back().label != labels) {
      family.metric.emplace_back().label = std::move(labels);
    }
    return family.metric.back();
  }

  // Not std::stod: the decimal point does not depend on the locale.
  static double to_number(const std::string& text) {
    if (text == "+Inf") return std::numeric_limits<double>::infinity();
    std::istringstream in(text);
    in.imbue(std::locale::classic());
    double number = 0;
    in >> number;
    return number;
  }

  const std::shared_ptr<const zkclient::Metrics> metrics_;
};
