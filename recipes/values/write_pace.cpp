#include "recipes/values/write_pace.hpp"

#include <algorithm>

namespace zkrecipes::detail {
namespace {

using std::chrono::nanoseconds;

constexpr unsigned most_doublings = 5;
constexpr unsigned turn = 32;           // Changes, after which others may go on.
constexpr unsigned turn_alone = 64;     // The same, if no others were seen: they may be those who are refused.
constexpr unsigned forget_after = 256;  // Changes without a refusal: there are no others any more.
constexpr nanoseconds longest_trip = std::chrono::milliseconds(10);

}  // namespace

void WritePace::applied(Duration trip) noexcept {
  measure(trip);
  refusals_ = 0;
  ++changes_;
  if (changes_since_refusal_ < forget_after) ++changes_since_refusal_;
}

void WritePace::refused(Duration trip) noexcept {
  measure(trip);
  ++refusals_;
  changes_ = 0;
  changes_since_refusal_ = 0;
}

WritePace::Duration WritePace::pause() noexcept {
  if (refusals_ >= 2) {
    const auto most = static_cast<std::uint64_t>(trip_.count()) << std::min(refusals_, most_doublings);
    return nanoseconds(static_cast<std::int64_t>(most * next_random() >> 32));
  }
  const unsigned mine = changes_since_refusal_ < forget_after ? turn : turn_alone;
  return changes_ > 0 && changes_ % mine == 0 ? 2 * trip_ : Duration::zero();
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
