#pragma once

#include <vector>

namespace bench {

/// A handful of measurements in five numbers. Quartiles are interpolated.
struct Summary {
  double min = 0;
  double lower_quartile = 0;
  double median = 0;
  double upper_quartile = 0;
  double max = 0;
};

/// All zeros if there are no values.
[[nodiscard]] Summary summarize(std::vector<double> values);

}  // namespace bench
