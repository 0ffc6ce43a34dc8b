#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace bench {
namespace {

// `sorted` is not empty; `share` is within [0, 1].
double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[above] - sorted[below]);
}

}  // namespace

Summary summarize(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  return {.min = values.front(),
          .lower_quartile = quantile(values, 0.25),
          .median = quantile(values, 0.5),
          .upper_quartile = quantile(values, 0.75),
          .max = values.back()};
}

}  // namespace bench
