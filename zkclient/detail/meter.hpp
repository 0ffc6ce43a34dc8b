#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include <zkclient/export.hpp>
#include <zkclient/metrics.hpp>

namespace zkclient::detail {

/// The numbers behind Metrics. Any thread; no lock.
class ZKRECIPES_INTERNAL_API Meter {
 private:
  template <typename Array, typename Name>
  static auto& at(Array& array, Name name) noexcept {
    return array[static_cast<std::size_t>(name)];
  }

 public:
  void count(Metrics::Counter counter) noexcept { at(counters_, counter).fetch_add(1, relaxed); }
  void change(Metrics::Gauge gauge, std::int64_t by) noexcept { at(gauges_, gauge).fetch_add(by, relaxed); }
  void time(Metrics::Timing timing, std::chrono::nanoseconds duration) noexcept;

  std::uint64_t value(Metrics::Counter counter) const noexcept { return at(counters_, counter).load(relaxed); }
  std::int64_t value(Metrics::Gauge gauge) const noexcept { return at(gauges_, gauge).load(relaxed); }
  Histogram histogram(Metrics::Timing timing) const noexcept;

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;

  struct Durations {
    std::array<std::atomic<std::uint64_t>, Histogram::bounds + 1> buckets{};
    std::atomic<std::int64_t> sum{0};  // In microseconds: nanoseconds of many waits would overflow in weeks.
  };

  std::array<std::atomic<std::uint64_t>, Metrics::counters> counters_{};
  std::array<std::atomic<std::int64_t>, Metrics::gauges> gauges_{};
  std::array<Durations, Metrics::timings> timings_{};
};

}  // namespace zkclient::detail
