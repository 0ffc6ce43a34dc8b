#include "zkclient/detail/lease_clock.hpp"

#include <algorithm>

namespace zkclient::detail {

std::chrono::nanoseconds LeaseClock::margin() const noexcept {
  return std::max<std::chrono::nanoseconds>(std::chrono::milliseconds(50), timeout_ / 40);
}

bool LeaseClock::acknowledged(BootClock::time_point sent, BootClock::time_point now) noexcept {
  if (sent < last_acknowledged_ || sent < not_before_) return false;
  const bool late = now - sent > timeout_ / 6;
  const std::chrono::nanoseconds gap = sent - last_sent_;
  const bool after_pause = gap > timeout_ / 3;
  if (after_pause && late) {
    not_before_ = now + timeout_ / 4;
    return false;
  }
  BootClock::time_point until = late ? BootClock::time_point{} : sent + timeout_ / 3;
  if (gap >= interval()) {
    if (!after_pause) until = std::max(until, last_sent_ + timeout_ - reach_);
    const bool young = after_pause || reach_ > timeout_ / 3;  // Not good for long: there is no time to lose.
    next_ = (young ? sent : now) + interval();
    reach_ = after_pause ? timeout_ * 2 / 3 : std::max<std::chrono::nanoseconds>(gap, timeout_ / 4);
    last_sent_ = sent;
    last_acknowledged_ = now;
  }
  until -= margin();
  if (until <= valid_until_ || now >= until) return false;
  valid_until_ = until;
  return true;
}

}  // namespace zkclient::detail
