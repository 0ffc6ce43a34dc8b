#include "report.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace bench {
namespace {

constexpr std::size_t min_rounds = 5;

template <typename Measure>
std::vector<double> values_of(const Series& series, Measure measure) {
  std::vector<double> values;
  for (const Sample& sample : series.samples) {
    values.push_back(measure(sample));
  }
  return values;
}

std::vector<double> rates(const Series& series) {
  return values_of(series, [](const Sample& sample) { return sample.cycles_per_second(); });
}

std::vector<double> costs(const Series& series) {
  return values_of(series, [](const Sample& sample) { return sample.cpu_us_per_cycle(); });
}

std::string ratio_table(const std::vector<Ratio>& ratios, std::size_t width) {
  std::string out = fmt::format("{:<{}}  {:>6}   {:<13}  {:<13}  {:>8}\n", "ratio of cycles/s", width, "median",
                                "quartiles", "range", "at least");
  for (const Ratio& ratio : ratios) {
    const Summary& summary = ratio.summary;
    std::string line = fmt::format("{:<{}}  {:>6.2f}   {:>5.2f} - {:<5.2f}  {:>5.2f} - {:<5.2f}",
                                   ratio.contender + " / " + ratio.reference, width, summary.median,
                                   summary.lower_quartile, summary.upper_quartile, summary.min, summary.max);
    if (ratio.target) {
      line += fmt::format("  {:>8.2f}  {}", *ratio.target, ratio.verdict());
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string rate_table(const std::vector<Series>& all, std::size_t width) {
  std::string out = fmt::format("{:<{}}  {:>6}   {:<13}  {:<13}  {:>8}\n", "for information, this machine only", width,
                                "median", "quartiles", "range", "CPU us per cycle");
  for (const Series& series : all) {
    const Summary rate = summarize(rates(series));
    const Summary cost = summarize(costs(series));
    out += fmt::format("{:<{}}  {:>6.0f}   {:>5.0f} - {:<5.0f}  {:>5.0f} - {:<5.0f}  {:>8.0f}\n",
                       series.name + ", cycles/s", width, rate.median, rate.lower_quartile, rate.upper_quartile,
                       rate.min, rate.max, cost.median);
  }
  return out;
}

// The texts are our own, but the setting may name a server as the user wrote it.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    const bool control = static_cast<unsigned char>(c) < 0x20;
    out += control ? ' ' : c;
  }
  return out + "\"";
}

std::string json_of(const Series& series) {
  return fmt::format(R"({{"name": {}, "cycles_per_second": [{:.1f}], "cpu_us_per_cycle": [{:.2f}]}})",
                     quoted(series.name), fmt::join(rates(series), ", "), fmt::join(costs(series), ", "));
}

std::string json_of(const Ratio& ratio) {
  const Summary& summary = ratio.summary;
  return fmt::format(R"({{"contender": {}, "reference": {}, "median": {:.4f}, "lower_quartile": {:.4f}, )"
                     R"("upper_quartile": {:.4f}, "min": {:.4f}, "max": {:.4f}, "target": {}, "verdict": {}}})",
                     quoted(ratio.contender), quoted(ratio.reference), summary.median, summary.lower_quartile,
                     summary.upper_quartile, summary.min, summary.max,
                     ratio.target ? fmt::format("{:.2f}", *ratio.target) : "null", quoted(ratio.verdict()));
}

std::string json_of(const Figure& figure) {
  return fmt::format(R"({{"name": {}, "value": {:.3f}}})", quoted(figure.name), figure.value);
}

template <typename T, typename Format>
std::string json_list(const std::vector<T>& items, Format format) {
  std::vector<std::string> texts;
  for (const T& item : items) {
    texts.push_back("    " + format(item));
  }
  return texts.empty() ? "[]" : fmt::format("[\n{}\n  ]", fmt::join(texts, ",\n"));
}

}  // namespace

std::string Ratio::verdict() const {
  if (!target) {
    return "";
  }
  if (rounds < min_rounds) {
    return "too few rounds";
  }
  const bool unsure = summary.lower_quartile < *target && *target <= summary.upper_quartile;
  return fmt::format("{}{}", summary.median >= *target ? "PASS" : "below target",
                     unsure ? ", but within the spread" : "");
}

Ratio compare(const Series& contender, const Series& reference, std::optional<double> target) {
  const std::vector<double> ours = rates(contender);
  const std::vector<double> theirs = rates(reference);
  std::vector<double> ratios;
  for (std::size_t round = 0; round < std::min(ours.size(), theirs.size()); ++round) {
    ratios.push_back(theirs[round] > 0 ? ours[round] / theirs[round] : 0.0);
  }
  const std::size_t rounds = ratios.size();
  return {contender.name, reference.name, summarize(std::move(ratios)), target, rounds};
}

std::string Report::text() const {
  std::size_t width = 40;
  for (const Ratio& ratio : ratios) {
    width = std::max(width, ratio.contender.size() + ratio.reference.size() + 3);
  }
  std::string out =
      fmt::format("{}: {}\n\n{}\n{}", benchmark, setting, ratio_table(ratios, width), rate_table(series, width));
  if (!figures.empty()) out += "\n";
  for (const Figure& figure : figures)
    out += fmt::format("{:<{}}  {:>10.1f}\n", figure.name, width, figure.value);
  for (const std::string& note : notes) {
    out += "\n" + note + "\n";
  }
  return out;
}

std::string Report::json() const {
  const auto format = [](const auto& item) { return json_of(item); };
  return fmt::format(
      "{{\n  \"benchmark\": {},\n  \"setting\": {},\n  \"ratios\": {},\n  \"contenders\": {},\n"
      "  \"figures\": {},\n  \"notes\": {}\n}}\n",
      quoted(benchmark), quoted(setting), json_list(ratios, format), json_list(series, format),
      json_list(figures, format), json_list(notes, quoted));
}

}  // namespace bench
