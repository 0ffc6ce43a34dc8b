#pragma once

#include <string>

#include "report.hpp"

namespace bench {

/// The ratios of a report as a picture (SVG): a bar for each median, a line for the quartiles, a mark for the target.
/// The scale is logarithmic, so that twice as often and half as often look alike.
[[nodiscard]] std::string svg_of(const Report& report);

}  // namespace bench
