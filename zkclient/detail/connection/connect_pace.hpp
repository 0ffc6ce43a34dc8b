#pragma once

#include <chrono>
#include <cstddef>
#include <random>

#include "zkclient/detail/random.hpp"

namespace zkclient::detail {

/// What a pause before the next round of attempts depends on.
struct PaceFacts {
  int failed_rounds;    ///< At least one.
  int idle_rounds = 0;  ///< Those of them that failed while nothing was to be kept.
  std::chrono::milliseconds timeout;
  std::chrono::nanoseconds
      left;  ///< Until the next lease, or the session, is certainly lost; zero: nothing is to be kept.
};

/// The longest pause that may be made before the next round.
std::chrono::nanoseconds longest_pause(const PaceFacts& facts) noexcept;

/// When a client without a connection tries its servers. A round asks each server once, without a pause: one of them may
/// well be there. Rounds that failed are followed by pauses at random, so that the clients of a fleet do not come all at
/// once, and up to a bound that doubles. While a lease or the session can still be kept the bound stays so short that a
/// server that comes back is found in time. Later no attempt is urgent; but a server that comes back soon after that is
/// found soon, so the bound goes on from there. Pure but for its random numbers.
class ConnectPace {
 public:
  using Clock = std::chrono::steady_clock;

  /// How many servers a round has.
  void set_servers(std::size_t count) noexcept { servers_ = count; }
  /// How long to wait before the next attempt. The rounds in `facts` are of no account.
  std::chrono::nanoseconds wait(Clock::time_point now, PaceFacts facts);
  /// An attempt begins.
  void attempt() noexcept { ++tried_; }
  /// A server has answered, or there are other servers: a round may begin at once.
  void restart() noexcept;
  /// A connection broke as soon as it had begun: a short pause, else it would go on like that without any.
  void broke_at_once() noexcept;

 private:
  std::size_t servers_ = 1;
  std::size_t tried_ = 0;  // In this round.
  int failed_rounds_ = 0;
  int idle_rounds_ = 0;
  Clock::time_point next_round_{};
  std::minstd_rand random_{static_cast<std::uint32_t>(random_seed())};
};

}  // namespace zkclient::detail
