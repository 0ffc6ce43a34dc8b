#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <zkclient/clock.hpp>

namespace zkrecipes::detail {

/// A secondary's right to serve reads. It rests on transactions that check the version of a state in which the member
/// is in sync, and on nothing else: who takes it out changes the version first, and then waits for a term. A pure
/// function of when those were sent.
class ReadLease {
 public:
  using TimePoint = zkclient::BootClock::time_point;
  using Duration = std::chrono::nanoseconds;

  /// The newest state that was seen has the member in sync. What was granted under an older one runs on.
  void in_sync(std::int32_t version, Duration term) noexcept {
    version_ = version;
    term_ = term;
    granted_ = true;
  }
  /// It has not: at once, whatever was granted.
  void revoke() noexcept {
    granted_ = false;
    valid_until_ = TimePoint::min();
  }
  /// A transaction that was sent at `sent`, with a check of `version`, was acknowledged.
  void acknowledged(std::int32_t version, TimePoint sent) noexcept {
    if (granted_ && version == version_) valid_until_ = std::max(valid_until_, sent + term_);
  }

  bool wanted() const noexcept { return granted_; }
  std::int32_t version() const noexcept { return version_; }
  Duration term() const noexcept { return term_; }
  bool valid(TimePoint now) const noexcept { return now < valid_until_; }

 private:
  bool granted_ = false;
  std::int32_t version_ = 0;
  Duration term_{0};
  TimePoint valid_until_ = TimePoint::min();
};

/// How long a primary waits for a reader with a lease of `term`, from when the change was acknowledged. The clocks of
/// both run at rates that differ by a thousandth at most; the margin is for the primary's timer and its reading.
inline ReadLease::Duration patience_with_readers(ReadLease::Duration term) noexcept {
  return term + term / 1000 + std::chrono::milliseconds(10);
}

}  // namespace zkrecipes::detail
