#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "contender.hpp"
#include "statistics.hpp"

namespace bench {

/// One contender and what it did, one sample per round.
struct Series {
  std::string name;
  std::vector<Sample> samples;
};

/// How often one contender went round compared with another, per round.
struct Ratio {
  std::string contender;
  std::string reference;
  Summary summary;
  std::optional<double> target;  ///< The median should be at least this.

  std::size_t rounds = 0;

  /// "PASS" or "below target", as the median says, with a remark when the target lies between the
  /// quartiles; "too few rounds" if there are less than five; "" if there is no target.
  [[nodiscard]] std::string verdict() const;
};

/// Both must have the same number of samples.
[[nodiscard]] Ratio compare(const Series& contender, const Series& reference, std::optional<double> target);

/// A figure that is not a rate.
struct Figure {
  std::string name;
  double value = 0;
};

/// A run of a benchmark, as a person or a program reads it.
struct Report {
  std::string benchmark;
  std::string setting;  ///< Rounds, times, server.
  std::vector<Series> series;
  std::vector<Ratio> ratios;
  std::vector<Figure> figures = {};
  std::vector<std::string> notes;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
};

}  // namespace bench
