#include "zkclient/detail/connection/connect_pace.hpp"

#include <algorithm>

namespace zkclient::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds first_bound = milliseconds(50);
constexpr nanoseconds bound_of_the_idle = milliseconds(5000);  // Nothing is lost by waiting.
constexpr int most_doublings = 20;
constexpr nanoseconds longest = std::chrono::hours(1);  // To be doubled.
constexpr int rounds_of_a_broken_one = 2;               // Others may be well; 200 ms at most.

bool is_urgent(const PaceFacts& facts) noexcept { return facts.left > nanoseconds::zero(); }

nanoseconds doubled(nanoseconds first, int rounds) noexcept {
  return std::min(first, longest) * (1 << std::clamp(rounds - 1, 0, most_doublings));
}

}  // namespace

// A quarter of what is left: several rounds more, whatever the random numbers are.
nanoseconds longest_pause(const PaceFacts& facts) noexcept {
  const nanoseconds share = facts.timeout / 8;
  const nanoseconds idle = doubled(std::max(share, first_bound), facts.idle_rounds);
  const nanoseconds bound =
      is_urgent(facts) ? std::min(share, facts.left / 4) : std::min(idle, std::max(share, bound_of_the_idle));
  return std::min(doubled(first_bound, facts.failed_rounds), std::max(bound, first_bound));
}

nanoseconds ConnectPace::wait(Clock::time_point now, PaceFacts facts) {
  if (tried_ >= servers_) {
    tried_ = 0;
    facts.failed_rounds = ++failed_rounds_;
    facts.idle_rounds = idle_rounds_ = is_urgent(facts) ? 0 : idle_rounds_ + 1;
    const double share = std::uniform_real_distribution<double>(0, 1)(random_);
    const std::chrono::duration<double, std::nano> pause = longest_pause(facts) * share;
    next_round_ = now + std::chrono::duration_cast<nanoseconds>(pause);
  }
  return std::max(next_round_ - now, nanoseconds::zero());
}

void ConnectPace::restart() noexcept {
  tried_ = 0;
  failed_rounds_ = 0;
  idle_rounds_ = 0;
  next_round_ = {};
}

void ConnectPace::broke_at_once() noexcept {
  tried_ = servers_;
  failed_rounds_ = std::min(failed_rounds_, rounds_of_a_broken_one);
}

}  // namespace zkclient::detail
