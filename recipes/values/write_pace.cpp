#include "recipes/values/write_pace.hpp"

#include <algorithm>
#include <utility>

namespace zkrecipes::detail {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t turn = 64;         // Changes.
constexpr std::uint32_t turn_alone = 256;  // A multiple of it.
constexpr unsigned forget_after = 256;     // Changes without a refusal: there are no others any more.
constexpr unsigned long_wait = 4;          // Turns; writers that have waited for longer go first.
constexpr unsigned most_doublings = 5;
constexpr nanoseconds memory = std::chrono::milliseconds(500);
constexpr unsigned most_answers = 3;   // That nobody else writes: then questions do not get rarer any more.
constexpr unsigned enough_looks = 24;  // Then it tries, whatever it sees: the others may be too fast for it.
constexpr nanoseconds longest_trip = std::chrono::milliseconds(100);
constexpr nanoseconds longest_turn_alone = std::chrono::milliseconds(100);
constexpr nanoseconds longest_pause = std::chrono::milliseconds(250);

}  // namespace

void WritePace::applied(Duration trip, Clock::time_point now) noexcept {
  end_attempt(trip, now);
  refusals_ = 0;
  turns_waited_ = 0;
  if (changes_since_refusal_ < forget_after) ++changes_since_refusal_;
}

void WritePace::refused(Duration trip, Clock::time_point now) noexcept {
  end_attempt(trip, now);
  ++refusals_;
  changes_since_refusal_ = 0;
}

void WritePace::end_attempt(Duration trip, Clock::time_point now) noexcept {
  trip = std::min<Duration>(trip, longest_trip);
  if (trip_ > Duration::zero()) trip = std::min<Duration>(trip, 4 * trip_);  // One that was held up tells little.
  trip_ = trip_ == Duration::zero() ? trip : (7 * trip_ + trip) / 8;
  attempted_ = now;
  looks_ = 0;
  may_end_turn_ = false;
}

void WritePace::changed(std::int32_t version) noexcept {
  // The first time all that came before counts: a newcomer does not make way soon.
  const std::uint32_t of_others = static_cast<std::uint32_t>(version) - own_version_ - 1;
  lead_ = std::min(lead_ + std::min(of_others, turn), turn);
  if (lead_ > 0) --lead_;
  own_version_ = static_cast<std::uint32_t>(version);
  may_end_turn_ = true;
}

bool WritePace::asks_who_writes(Clock::time_point now) const noexcept { return refusals_ >= 2 && now >= ask_at_; }

void WritePace::told_who_writes(bool foreign, Clock::time_point now) noexcept {
  foreign_ = foreign;
  const Duration unit = std::max<Duration>(memory, turn_alone * trip_);
  ask_at_ = now + unit * (foreign ? 4 : 1 << answers_);
  answers_ = foreign ? 0 : std::min(answers_ + 1, most_answers);
}

bool WritePace::is_alone() const noexcept { return changes_since_refusal_ >= forget_after; }

bool WritePace::turn_is_over() const noexcept {
  if (foreign_) return lead_ == 0;
  const bool seldom = is_alone() && turn_alone * trip_ <= longest_turn_alone;
  return own_version_ % (seldom ? turn_alone : turn) == 0;
}

WritePace::Duration WritePace::make_way(Clock::time_point now) noexcept {
  made_way_ = false;
  if (now - attempted_ > memory) {  // Writers that waited have had their chance.
    refusals_ = turns_waited_ = looks_ = 0;
    may_end_turn_ = false;
  }
  if (!std::exchange(may_end_turn_, false)) return Duration::zero();
  if (!turn_is_over()) return Duration::zero();
  const Duration left = (is_alone() ? 2 : 4) * trip_ - (now - attempted_);
  made_way_ = left > Duration::zero();
  return std::max(left, Duration::zero());  // The way has been open since the change.
}

WritePace::Duration WritePace::pause(std::int32_t seen, Clock::time_point now) noexcept {
  const auto version = static_cast<std::uint32_t>(seen);
  if (std::exchange(made_way_, false)) {
    const bool in_vain = version == own_version_;
    if (in_vain && std::exchange(foreign_, false)) ask_at_ = now;
    if (!in_vain && !foreign_) {  // Another writer has the turn now.
      refusals_ = 2;
      changes_since_refusal_ = 0;
    }
  }
  if (refusals_ < 2) return Duration::zero();
  if (refusals_ % 4 != 3) return foreign_ ? Duration::zero() : wait_for_turn(version, now);
  return looks_++ == 0 ? random_pause() : Duration::zero();
}

WritePace::Duration WritePace::wait_for_turn(std::uint32_t version, Clock::time_point now) noexcept {
  const bool first = looks_ == 0;
  const std::uint32_t changes = first ? 0 : version - seen_version_;
  const Duration time = now - seen_at_;
  const bool take_no_turns = !first && changes * trip_ * 5 / 4 < time;
  if (take_no_turns || looks_ == enough_looks) return Duration::zero();
  if (!first && version / turn != seen_version_ / turn) ++turns_waited_;
  const bool turn_is_over = version % turn == 0;
  if (turn_is_over && ((!first && changes == 0) || turns_waited_ >= long_wait)) return Duration::zero();
  ++looks_;
  seen_version_ = version;
  seen_at_ = now;
  if (turn_is_over) return nanoseconds(1);
  // The last changes are not slept through: the way is open for a few trips only.
  const std::uint32_t left = turn - version % turn;
  const Duration change = changes > 0 ? time / changes : trip_;
  Duration most = left > 2 ? change * (left - 2) * 3 / 4 : Duration::zero();
  if (first) most = std::min(most, random_pause());  // How fast the others are is not known yet.
  return std::clamp(most, trip_ / 4, longest_pause);
}

// Writers that were refused together come back apart. Xorshift: what it chooses among is a handful of round trips.
WritePace::Duration WritePace::random_pause() noexcept {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  const unsigned trips = 1u << std::min(refusals_, most_doublings);
  return std::min<Duration>(trip_ * trips / 1024 * (random_ >> 22), longest_pause);
}

}  // namespace zkrecipes::detail
