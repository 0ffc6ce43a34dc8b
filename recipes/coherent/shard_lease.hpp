#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <zkclient/clock.hpp>

namespace zkrecipes::detail {

/// A reader's right to answer from its cache, for the items of one shard. It rests on transactions that check the gate's
/// version, the epoch, and on nothing else: not on the order of events, not on reconnections. A pure function of when
/// those were sent.
class ShardLease {
 public:
  using TimePoint = zkclient::BootClock::time_point;
  using Duration = std::chrono::nanoseconds;

  ShardLease() noexcept = default;
  /// Of a registration that was sent at `sent`, with a check of `epoch`, and is acknowledged.
  ShardLease(std::int32_t epoch, TimePoint sent, Duration term) noexcept
      : epoch_(epoch), term_(term), valid_until_(sent + term) {}

  std::int32_t epoch() const noexcept { return epoch_; }
  /// `session_until`: how long the session is certainly alive. A session that ends takes the registration with it, and
  /// a writer that sees none does not wait.
  TimePoint valid_until(TimePoint session_until) const noexcept { return std::min(valid_until_, session_until); }
  bool valid(TimePoint now, TimePoint session_until) const noexcept { return now < valid_until(session_until); }

  /// A transaction that was sent at `sent`, with a check of `epoch`, was acknowledged, now. A lease that has run out
  /// stays so: the answer came too late.
  void renew(std::int32_t epoch, TimePoint sent, TimePoint now) noexcept {
    if (epoch == epoch_ && now < valid_until_) valid_until_ = std::max(valid_until_, sent + term_);
  }
  /// The gate has changed, as an event or a refused check says, or nobody wants the lease any more.
  void revoke() noexcept { valid_until_ = TimePoint::min(); }

 private:
  std::int32_t epoch_ = -1;
  Duration term_{0};
  TimePoint valid_until_ = TimePoint::min();
};

/// The term of a reader whose session has the timeout `session_timeout`. The lease clock promises as much after an
/// acknowledged write, with half a tick to spare: see LeaseClock.
inline ShardLease::Duration default_term(ShardLease::Duration session_timeout) noexcept {
  return session_timeout * 7 / 12;
}

/// How long a writer waits for a reader with a lease of `term`, from when the closing of the gate was acknowledged. The
/// clocks of both run at rates that differ by a thousandth at most; the margin is for a writer's timer and its reading.
inline ShardLease::Duration patience_for(ShardLease::Duration term) noexcept {
  return term + term / 1000 + std::chrono::milliseconds(10);
}

}  // namespace zkrecipes::detail
