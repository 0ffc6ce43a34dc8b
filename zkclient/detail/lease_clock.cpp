#include "zkclient/detail/lease_clock.hpp"

#include <algorithm>

namespace zkclient::detail {

std::chrono::nanoseconds LeaseClock::margin() const noexcept {
  return std::max<std::chrono::nanoseconds>(std::chrono::milliseconds(50), timeout_ / 40);
}

bool LeaseClock::acknowledged(BootClock::time_point sent, BootClock::time_point now) noexcept {
  if (sent < last_acknowledged_) return false;
  const std::chrono::nanoseconds gap = sent - last_sent_;
  last_sent_ = sent;
  last_acknowledged_ = now;
  const bool after_pause = gap > timeout_ / 3;
  if (after_pause && now - sent > margin()) return false;
  const auto spacing = std::clamp<std::chrono::nanoseconds>(gap, interval(), timeout_ / 3);
  const auto until = sent + timeout_ - spacing - std::max(spacing, timeout_ / 4) - margin();
  if (until <= valid_until_ || now >= until) return false;
  valid_until_ = until;
  return true;
}

}  // namespace zkclient::detail
