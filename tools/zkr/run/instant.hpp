#pragma once

#include <chrono>

/// `zkr`, the command line.
namespace zkr {

using Duration = std::chrono::nanoseconds;

/// CLOCK_BOOTTIME: it counts the time during which the machine was suspended, in which a lease may have run out.
struct BootClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept;
};
using Instant = BootClock::time_point;

}  // namespace zkr
