#include <zkclient/metrics.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "zkclient/detail/meter.hpp"

namespace {

using namespace std::chrono_literals;
using zkclient::Histogram;
using zkclient::Metrics;
using Timing = Metrics::Timing;

TEST(HistogramTest, ADurationFallsIntoTheFirstBucketThatIsNotShorter) {
  const Metrics metrics;
  const std::pair<std::chrono::nanoseconds, std::size_t> durations[] = {{-1ns, 0},
                                                                        {0ns, 0},
                                                                        {1us, 0},
                                                                        {1001ns, 1},
                                                                        {2us, 1},
                                                                        {3us, 2},
                                                                        {4us, 2},
                                                                        {4001ns, 3},
                                                                        {1024us, 10},
                                                                        {1025us, 11},
                                                                        {1s, 20},
                                                                        {134217728us, Histogram::bounds - 1},
                                                                        {134217729us, Histogram::bounds},
                                                                        {24h, Histogram::bounds}};
  for (const auto& [duration, bucket] : durations) {
    const Histogram before = metrics.histogram(Timing::read);
    metrics.impl()->time(Timing::read, duration);
    const Histogram after = metrics.histogram(Timing::read);
    EXPECT_EQ(after.count(), before.count() + 1);
    EXPECT_EQ(after.buckets[bucket], before.buckets[bucket] + 1) << duration.count() << " ns";
    EXPECT_TRUE(bucket == Histogram::bounds || duration <= Histogram::bound(bucket));
    EXPECT_TRUE(bucket == 0 || duration > Histogram::bound(bucket - 1));
  }
  EXPECT_EQ(metrics.histogram(Timing::write).count(), 0u) << "only the one that was asked for";
}

TEST(HistogramTest, Quantiles) {
  const Metrics metrics;
  EXPECT_EQ(metrics.histogram(Timing::read).quantile(0.5), 0ns) << "nothing was counted";
  for (int i = 0; i < 90; ++i)
    metrics.impl()->time(Timing::read, 3us);
  for (int i = 0; i < 10; ++i)
    metrics.impl()->time(Timing::read, 1ms);
  const Histogram times = metrics.histogram(Timing::read);
  EXPECT_EQ(times.least(), 4us);
  EXPECT_EQ(times.quantile(0.5), 4us);
  EXPECT_EQ(times.quantile(0.9), 4us);
  EXPECT_EQ(times.quantile(0.91), 1024us);
  EXPECT_EQ(times.most(), 1024us);
  EXPECT_EQ(times.sum, 90 * 3us + 10 * 1ms);
  metrics.impl()->time(Timing::read, 1h);
  EXPECT_EQ(metrics.histogram(Timing::read).most(), std::chrono::nanoseconds::max());
}

// What a scraper makes of the text.
struct Scrape {
  explicit Scrape(const std::string& text) {
    std::istringstream lines(text);
    std::string family;
    for (std::string line; std::getline(lines, line);) {
      last = line;
      if (line.starts_with("# TYPE ")) {
        family = line.substr(7, line.find(' ', 7) - 7);
        EXPECT_TRUE(families.insert(family).second) << family << " begins twice";
      } else if (!line.starts_with("#")) {
        EXPECT_TRUE(line.starts_with(family)) << line << " is not of " << family;
        const auto end = line.rfind(' ');
        EXPECT_TRUE(samples.emplace(line.substr(0, end), std::stod(line.substr(end))).second) << line;
      }
    }
  }
  std::set<std::string> families;
  std::map<std::string, double> samples;
  std::string last;
};

TEST(OpenMetricsTest, EachNumberHasItsSample) {
  const Metrics metrics;
  // Each one gets a value of its own.
  std::set<double> expected;
  for (std::size_t i = 0; i < Metrics::counters; ++i) {
    for (std::size_t n = 0; n < 100 + i; ++n)
      metrics.impl()->count(static_cast<Metrics::Counter>(i));
    expected.insert(100.0 + static_cast<double>(i));
  }
  for (std::size_t i = 0; i < Metrics::gauges; ++i) {
    metrics.impl()->change(static_cast<Metrics::Gauge>(i), 200 + static_cast<int>(i));
    expected.insert(200.0 + static_cast<double>(i));
  }
  for (std::size_t i = 0; i < Metrics::timings; ++i) {
    for (std::size_t n = 0; n < 300 + i; ++n)
      metrics.impl()->time(static_cast<Timing>(i), 0ns);
    expected.insert(300.0 + static_cast<double>(i));
  }
  const Scrape scrape(metrics.to_openmetrics());
  EXPECT_EQ(scrape.last, "# EOF");
  std::set<double> found;
  for (const auto& [name, value] : scrape.samples)
    found.insert(value);
  for (const double value : expected)
    EXPECT_TRUE(found.contains(value)) << value;
  EXPECT_EQ(scrape.samples.at("zkrecipes_sessions_opened_total"), 100);
  EXPECT_EQ(scrape.samples.at("zkrecipes_leases_ended_total{end=\"lost\"}"), 116);
  EXPECT_EQ(scrape.samples.at("zkrecipes_calls_waiting"), 203);
  EXPECT_EQ(scrape.samples.at("zkrecipes_request_duration_seconds_count{kind=\"write\"}"), 301);
  EXPECT_EQ(scrape.samples.at("zkrecipes_lease_held_seconds_count"), 306);
}

TEST(OpenMetricsTest, BucketsAddUpAndTimesAreInSeconds) {
  const Metrics metrics;
  for (const auto time : {500us, 3000us, 3500us, 200'000'000us})
    metrics.impl()->time(Timing::call_wait, time);
  const auto samples = Scrape(metrics.to_openmetrics()).samples;
  const auto bucket = [&](const std::string& bound) {
    return samples.at("zkrecipes_call_wait_seconds_bucket{le=\"" + bound + "\"}");
  };
  EXPECT_EQ(bucket("0.000256"), 0);
  EXPECT_EQ(bucket("0.000512"), 1);
  EXPECT_EQ(bucket("0.002048"), 1);
  EXPECT_EQ(bucket("0.004096"), 3);
  EXPECT_EQ(bucket("134.217728"), 3);
  EXPECT_EQ(bucket("+Inf"), 4);
  EXPECT_EQ(samples.at("zkrecipes_call_wait_seconds_count"), 4);
  EXPECT_DOUBLE_EQ(samples.at("zkrecipes_call_wait_seconds_sum"), 200.007);
}

// A family that appears only with its first event breaks rate(): it starts at zero.
TEST(OpenMetricsTest, EverythingIsThereFromTheStart) {
  const Metrics metrics;
  const Scrape scrape(metrics.to_openmetrics());
  EXPECT_EQ(scrape.families.size(), 13u + 4u + 6u);
  for (const auto& [name, value] : scrape.samples)
    EXPECT_EQ(value, 0) << name;
}

}  // namespace
