#include "tools/zkr/run/instant.hpp"

#include <time.h>

namespace zkr {

Instant BootClock::now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return Instant(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace zkr
