#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// What is the same for all contenders of `lock_cycle`, in whichever program they run.
inline constexpr std::chrono::milliseconds session_timeout{30'000};
/// The name of a contender's node before its sequence number: as long as ours.
inline constexpr std::string_view node_name = "_c_00000000-0000-4000-8000-000000000000-lock-";
/// The data of a raw contender's node: about what ours says about its holder.
inline constexpr std::string_view node_data =
    R"({"id":"","host":"a-host-name","pid":1234567,"since":"2024-01-01T00:00:00Z"})";

/// What a contender did in one slice of time.
struct Sample {
  std::int64_t cycles = 0;
  std::chrono::microseconds wall{};
  std::chrono::microseconds cpu{};  ///< User and system time of the contender's process.

  [[nodiscard]] double cycles_per_second() const {
    return wall.count() > 0 ? 1e6 * static_cast<double>(cycles) / static_cast<double>(wall.count()) : 0.0;
  }
  [[nodiscard]] double cpu_us_per_cycle() const {
    return cycles > 0 ? static_cast<double>(cpu.count()) / static_cast<double>(cycles) : 0.0;
  }
};

/// One way to take and give back a lock, over and over, below a parent node of its own.
class Contender {
 public:
  virtual ~Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  /// Makes as many whole cycles as begin within `duration`. Throws whatever went wrong.
  virtual Sample run(std::chrono::milliseconds duration) = 0;

  /// Called several times per second between the slices, by the code that drives a contender that has no
  /// thread of its own to keep its session alive.
  virtual void keep_alive() {}

 protected:
  Contender() = default;
};

/// The order in which so many contenders run in a round: another random one in each round, the same in each run of a
/// program. In a fixed order, or one that begins elsewhere each time, each contender always pays for the same
/// neighbour's rubbish.
[[nodiscard]] std::vector<std::size_t> order_of_round(int round, std::size_t contenders);

/// Measures one slice: made when it begins, asked when it ends.
class Stopwatch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Stopwatch(std::chrono::milliseconds duration);
  [[nodiscard]] bool running() const { return Clock::now() < end_; }
  [[nodiscard]] Sample stop(std::int64_t cycles) const;

 private:
  Clock::time_point begin_;
  Clock::time_point end_;
  std::chrono::microseconds cpu_begin_;
};

}  // namespace bench
