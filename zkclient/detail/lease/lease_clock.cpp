#include "zkclient/detail/lease/lease_clock.hpp"

#include <algorithm>
#include <utility>

namespace zkclient::detail {

LeaseClock::Duration LeaseClock::margin() const noexcept {
  return std::max<Duration>(std::chrono::milliseconds(50), timeout_ / 40);
}

// The proof of one heartbeat of many, from when it was sent.
LeaseClock::Duration LeaseClock::reach(Duration spacing) const noexcept {
  return timeout_ - std::max(half_tick_, spacing) - interval() - margin();
}

// A heartbeat is sent T/6 after the one before, or as soon as that is answered, and must be answered while the proof of
// that one lasts: s + r < reach(s), where s = max(T/6, r).
LeaseClock::Duration LeaseClock::round_trip_limit() const noexcept {
  if (timeout_ < 2 * half_tick_) return Duration::zero();  // How servers behave then is not known.
  const Duration by_sixths = reach(interval()) - interval();
  if (by_sixths <= interval()) return by_sixths - allowance();
  const Duration while_ticks_are_longer = reach(half_tick_) / 2;
  const Duration one_by_one = (reach(half_tick_) + half_tick_) / 3;
  return std::max(interval(), std::min(while_ticks_are_longer, one_by_one)) - allowance();
}

std::chrono::milliseconds LeaseClock::least_timeout(Duration round_trip, std::optional<Duration> tick) noexcept {
  constexpr auto step = std::chrono::milliseconds(100);
  constexpr auto longest = std::chrono::hours(24);
  auto timeout = step;
  const auto is_enough = [&] {
    const Duration limit = LeaseClock(timeout, tick.value_or(assumed_tick(timeout))).round_trip_limit();
    return limit >= std::max<Duration>(round_trip, timeout / 20);
  };
  while (timeout < longest && !is_enough())
    timeout += step;
  return timeout;
}

void LeaseClock::connected(TimePoint begun, TimePoint now) noexcept {
  const bool was_silent = last_arrival_ != TimePoint{} && now - last_arrival_ > timeout_ / 2;
  if (now >= valid_until_ && (was_silent || now - begun > interval())) distrust_until(now + margin());
  connect_begun_ = leader_acted_ = begun;
  contact_since_ = contact_begun_ = now;
  last_arrival_ = begun;
  quickest_answer_ = Duration::max();
  slow_ = false;
  round_trips_seen_ = 0;  // Perhaps to another server.
}

// An answer takes as long as the quickest one at least, both ways together: less may lie between two arrivals.
void LeaseClock::heard(TimePoint sent, TimePoint now) noexcept {
  quickest_answer_ = std::min<Duration>(quickest_answer_, now - sent);
  if (now - quickest_answer_ - last_arrival_ > contact_silence()) contact_since_ = now;
  last_arrival_ = std::max(last_arrival_, sent);
}

void LeaseClock::distrust_until(TimePoint time) noexcept {
  trusted_from_ = time;
  writes_size_ = 0;
  last_sent_.reset();
}

// A stop that begins right after the leader has acted lets the session live for as long as a proof by contact lasts. So a
// shorter silence needs no distrust.
void LeaseClock::woken(TimePoint now) noexcept {
  if (now >= valid_until_ && now - leader_acted_ > contact_reach()) distrust_until(now + margin());
}

LeaseClock::Duration LeaseClock::quickest() const noexcept {
  const auto end = round_trips_.begin() + static_cast<std::ptrdiff_t>(std::min(round_trips_seen_, round_trips_kept));
  return *std::min_element(round_trips_.begin(), end);
}

std::pair<LeaseClock::Duration, LeaseClock::Duration> LeaseClock::last_round_trips() const noexcept {
  Duration least = round_trips_seen_ == 0 ? Duration::zero() : Duration::max();
  Duration most = Duration::zero();
  for (std::size_t i = 1; i <= std::min(round_trips_seen_, few_round_trips); ++i) {
    const Duration round_trip = round_trips_[(round_trips_seen_ - i) % round_trips_kept];
    least = std::min(least, round_trip);
    most = std::max(most, round_trip);
  }
  return {least, most};
}

LeaseClock::Duration LeaseClock::slowest() const noexcept { return last_round_trips().second; }

bool LeaseClock::quick_enough() const noexcept { return last_round_trips().first <= round_trip_limit(); }

std::optional<LeaseClock::Duration> LeaseClock::round_trip() const noexcept {
  if (round_trips_seen_ < few_round_trips) return std::nullopt;
  return last_round_trips().first;
}

// How late a write arrived at the follower is not known: at the earliest when it was sent, at the latest when its
// answer set off. What the quickest round trip took, all of them took; so times are as if that were nothing.
std::optional<LeaseClock::TimePoint> LeaseClock::heard_by_chain(TimePoint sent) const noexcept {
  if (writes_size_ == 0) return std::nullopt;
  const Duration usual = quickest();
  TimePoint heard = sent - half_tick_;
  std::size_t i = 0;
  for (; i < writes_size_ && writes_[i].sent <= sent; ++i) {
    const TimePoint arrived = writes_[i].acknowledged - usual;
    if (arrived < sent - half_tick_) continue;
    if (i == 0) return std::nullopt;  // The chain is too short: the last answer may be older than all of it.
    if (arrived - writes_[i - 1].sent > half_tick_) heard = std::min(heard, writes_[i - 1].sent);
  }
  if (i == 0) return std::nullopt;
  if (sent - writes_[i - 1].sent > half_tick_) heard = std::min(heard, writes_[i - 1].sent);
  return heard;
}

std::optional<LeaseClock::TimePoint> LeaseClock::heard_by_contact(TimePoint sent) const noexcept {
  const TimePoint heard = sent - half_tick_ - contact_silence();
  if (contact_since_ <= heard) return heard;
  if (contact_since_ != contact_begun_) return std::nullopt;
  // Without a pause since the connection was granted. The answer before that knew nothing newer than the connection.
  return contact_since_ < sent - half_tick_ ? heard : std::min(heard, connect_begun_);
}

void LeaseClock::remember(const Write& write) noexcept {
  if (writes_size_ > 0 && write.sent - writes_[writes_size_ - 1].sent < timeout_ / 24) return;
  if (writes_size_ == writes_kept) {
    std::move(writes_.begin() + 1, writes_.end(), writes_.begin());
    --writes_size_;
  }
  writes_[writes_size_++] = write;
}

bool LeaseClock::acknowledged(TimePoint sent, TimePoint now) noexcept {
  const Duration round_trip = now - sent;
  round_trips_[round_trips_seen_++ % round_trips_kept] = round_trip;
  leader_acted_ = std::max(leader_acted_, sent);
  if (sent < last_acknowledged_) return false;
  const bool was_slow = std::exchange(slow_, round_trip - quickest_answer() > interval());
  if (now >= valid_until_ && slow_ && !was_slow) distrust_until(now + margin());
  if (sent < trusted_from_) {
    last_acknowledged_ = now;
    next_ = std::max(trusted_from_, now);
    return false;
  }
  // Without others to compare it with, a slow one is taken for late.
  const Duration delay = round_trips_seen_ < few_round_trips ? round_trip : round_trip - quickest();
  const bool late = delay > interval();
  const bool ran_out = valid_until_ != TimePoint{} && now >= valid_until_;
  if (!last_sent_ || sent - *last_sent_ > timeout_ / 3 || (ran_out && late)) {
    writes_size_ = 0;
    last_sent_.reset();
  }
  const std::optional<TimePoint> former = last_sent_;
  remember(Write{sent, now});
  last_sent_ = sent;
  last_acknowledged_ = now;

  const std::optional<TimePoint> by_chain = heard_by_chain(sent);
  TimePoint heard = connect_begun_;
  if (!late) heard = std::max(heard, heard_by_contact(sent).value_or(TimePoint{}));
  if (!late && by_chain) heard = std::max(heard, *by_chain - interval());
  if (former) heard = std::max(heard, heard_by_chain(*former).value_or(TimePoint{}));

  // A chain that is still too short is completed as soon as a write can do that.
  next_ = sent + interval();
  if (!by_chain)
    next_ = std::min(next_, writes_.front().acknowledged - quickest() + half_tick_ + std::chrono::milliseconds(1));
  next_ = std::max(next_, now);

  const TimePoint until = heard == TimePoint{} ? TimePoint{} : heard + timeout_ - margin();
  if (until <= valid_until_ || now >= until) return false;
  valid_until_ = until;
  return true;
}

bool LeaseClock::will_last(TimePoint now, std::optional<TimePoint> on_its_way) const noexcept {
  const Duration answer = slowest() + allowance();
  const Duration spacing = std::max(interval(), slowest());
  const bool contact = last_sent_ && heard_by_contact(*last_sent_);
  TimePoint valid = valid_until_;
  TimePoint write = on_its_way.value_or(std::max(now, next_));
  for (std::size_t seen = round_trips_seen_ + 1; seen <= round_trips_seen_ + 8; ++seen) {
    if (now >= valid || write + answer > valid) return false;
    const bool late = slowest() > interval() && seen < few_round_trips;  // It will be taken for that: no new proof.
    if (!late && writes_size_ > 0 && writes_.front().acknowledged - quickest() < write - half_tick_) {
      return spacing + answer <= reach(spacing);
    }
    if (!late && contact) valid = std::max(valid, write + contact_reach());
    write += spacing;
  }
  return true;
}

}  // namespace zkclient::detail
