#include "plot.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace bench {
namespace {

constexpr double label_width = 430;
constexpr double plot_width = 480;
constexpr double row_height = 20;
constexpr double top = 56;
constexpr double least_ratio = 0.125;
constexpr double most_ratio = 32;

double x_of(double ratio) {
  const double bounded = std::clamp(ratio, least_ratio, most_ratio);
  return label_width + plot_width * std::log2(bounded / least_ratio) / std::log2(most_ratio / least_ratio);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string line(double x1, double y1, double x2, double y2, const char* color, double width) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}"/>)"
                     "\n",
                     x1, y1, x2, y2, color, width);
}

std::string row(const Ratio& ratio, double y) {
  const Summary& summary = ratio.summary;
  const double middle = y + row_height / 2;
  const double from = std::min(x_of(1), x_of(summary.median));
  const double to = std::max(x_of(1), x_of(summary.median));
  std::string out = fmt::format(R"(<text x="{:.0f}" y="{:.1f}" text-anchor="end">{}</text>)"
                                "\n",
                                label_width - 8, middle + 4, escaped(ratio.contender + " / " + ratio.reference));
  out +=
      fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)"
                  "\n",
                  from, y + 4, std::max(to - from, 1.0), row_height - 8, summary.median >= 1 ? "#4a7fb5" : "#b5714a");
  out += line(x_of(summary.lower_quartile), middle, x_of(summary.upper_quartile), middle, "#222", 1.5);
  if (ratio.target) out += line(x_of(*ratio.target), y + 1, x_of(*ratio.target), y + row_height - 1, "#c00", 2);
  out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}">{:.2f}</text>)"
                     "\n",
                     label_width + plot_width + 8, middle + 4, summary.median);
  return out;
}

}  // namespace

std::string svg_of(const Report& report) {
  const double bottom = top + row_height * static_cast<double>(report.ratios.size());
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{:.0f}" height="{:.0f}" font-family="sans-serif" font-size="12">)"
      "\n"
      R"(<rect width="100%" height="100%" fill="white"/>)"
      "\n"
      R"(<text x="8" y="18" font-weight="bold">{}: how often, compared</text>)"
      "\n"
      R"(<text x="8" y="36">{}; red: target</text>)"
      "\n",
      label_width + plot_width + 60, bottom + 24, escaped(report.benchmark), escaped(report.setting));
  for (double ratio = least_ratio; ratio <= most_ratio; ratio *= 2) {
    out += line(x_of(ratio), top, x_of(ratio), bottom, ratio == 1 ? "#888" : "#ddd", 1);
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{:g}</text>)"
                       "\n",
                       x_of(ratio), bottom + 16, ratio);
  }
  double y = top;
  for (const Ratio& ratio : report.ratios) {
    out += row(ratio, y);
    y += row_height;
  }
  return out + "</svg>\n";
}

}  // namespace bench
