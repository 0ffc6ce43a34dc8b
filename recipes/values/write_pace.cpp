#include "recipes/values/write_pace.hpp"

#include <algorithm>
#include <utility>

namespace zkrecipes::detail {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t turn = 64;         // Changes.
constexpr std::uint32_t turn_alone = 256;  // A multiple of it.
constexpr unsigned forget_after = 256;     // Changes without a refusal: there are no others any more.
constexpr unsigned long_wait = 4;          // Turns; those who have waited for longer go first.
constexpr unsigned most_doublings = 6;
constexpr unsigned enough_looks = 24;  // Then it tries, whatever it sees: the others may be too fast for it.
constexpr nanoseconds longest_trip = std::chrono::milliseconds(100);
constexpr nanoseconds longest_turn_alone = std::chrono::milliseconds(100);
constexpr nanoseconds longest_pause = std::chrono::milliseconds(250);

}  // namespace

void WritePace::applied(Duration trip, std::int32_t version) noexcept {
  measure(trip);
  refusals_ = 0;
  looks_ = 0;
  turns_waited_ = 0;
  if (changes_since_refusal_ < forget_after) ++changes_since_refusal_;
  changed_ = static_cast<std::uint32_t>(version) != own_version_;
  own_version_ = static_cast<std::uint32_t>(version);
}

void WritePace::refused(Duration trip) noexcept {
  measure(trip);
  ++refusals_;
  looks_ = 0;
  changes_since_refusal_ = 0;
  changed_ = false;
}

WritePace::Duration WritePace::make_way() noexcept {
  if (!std::exchange(changed_, false)) return Duration::zero();
  const bool alone = changes_since_refusal_ >= forget_after && turn_alone * trip_ <= longest_turn_alone;
  made_way_ = own_version_ % (alone ? turn_alone : turn) == 0;
  return made_way_ ? 2 * trip_ : Duration::zero();
}

WritePace::Duration WritePace::pause(std::int32_t seen, Clock::time_point now) noexcept {
  const auto version = static_cast<std::uint32_t>(seen);
  if (std::exchange(made_way_, false) && version != own_version_) {  // Somebody else has the turn now.
    refusals_ = 2;
    changes_since_refusal_ = 0;
  }
  if (refusals_ < 2 || looks_ == enough_looks) return Duration::zero();
  if (looks_ > 0 && version / turn != seen_version_ / turn) ++turns_waited_;
  Duration change = trip_;  // What a change takes the others.
  if (looks_ > 0 && version != seen_version_) change = (now - seen_at_) / (version - seen_version_);
  const bool take_no_turns = looks_ > 0 && (version - seen_version_) * trip_ * 3 / 2 < now - seen_at_;
  const bool turn_is_over = version % turn == 0;
  const bool unchanged = looks_ > 0 && version == seen_version_;
  if (take_no_turns || (turn_is_over && (unchanged || turns_waited_ >= long_wait))) return Duration::zero();
  ++looks_;
  seen_version_ = version;
  seen_at_ = now;
  if (turn_is_over) return nanoseconds(1);
  // The last changes are not slept through: the way is open for two trips only.
  const std::uint32_t left = turn - version % turn;
  Duration most = left > 2 ? change * (left - 2) * 3 / 4 : Duration::zero();
  // In the first look only what an attempt takes is known. Besides, those who were refused together come back apart.
  if (looks_ == 1) {
    const auto range = static_cast<std::uint64_t>(trip_.count()) << std::min(refusals_, most_doublings);
    most = std::min(most, nanoseconds(static_cast<std::int64_t>(range * next_random() >> 32)));
  }
  return std::clamp(most, trip_ / 4, longest_pause);
}

void WritePace::measure(Duration trip) noexcept {
  trip = std::min<Duration>(trip, longest_trip);
  trip_ = trip_ == Duration::zero() ? trip : (7 * trip_ + trip) / 8;
}

// Xorshift: what it chooses among is a handful of round trips.
std::uint32_t WritePace::next_random() noexcept {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return random_;
}

}  // namespace zkrecipes::detail
