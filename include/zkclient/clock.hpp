#pragma once

#include <chrono>

#include <zkclient/export.hpp>

namespace zkclient {

/// The clock of leases: CLOCK_BOOTTIME. Like std::chrono::steady_clock it never jumps, but it also counts the
/// time during which the machine was suspended, in which a lease may well have run out.
struct ZKRECIPES_API BootClock {
  using duration = std::chrono::nanoseconds;                        ///< As std::chrono asks of a clock.
  using rep = duration::rep;                                        ///< The same.
  using period = duration::period;                                  ///< The same.
  using time_point = std::chrono::time_point<BootClock, duration>;  ///< A time since the machine started.
  static constexpr bool is_steady = true;                           ///< It never jumps.

  /// The time since the machine was started, with the time for which it was suspended.
  static time_point now() noexcept;
};

}  // namespace zkclient
