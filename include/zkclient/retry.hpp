#pragma once

#include <chrono>
#include <optional>

#include <zkclient/export.hpp>

namespace zkclient {

/// How reads are repeated after a lost connection. (Writes are never repeated blindly; see ErrorKind::in_doubt.)
/// One budget covers the whole call: its deadline, and `max_attempts`.
struct ZKRECIPES_API RetryPolicy {
  std::chrono::milliseconds initial{50};  ///< Pause before the second attempt.
  std::chrono::milliseconds max{2000};    ///< No pause is longer.
  double multiplier = 2.0;                ///< Each pause is so many times the one before.
  double jitter = 0.5;                    ///< Each pause is scaled by 1 - jitter * random, random in [0, 1).
  int max_attempts = 10;                  ///< The first one included.

  /// The pause before attempt `attempt + 1` (attempts count from 1), or nullopt when the budget is spent.
  /// A pure function: `random` is in [0, 1), `remaining` is the time to the deadline.
  std::optional<std::chrono::milliseconds> pause(int attempt, std::chrono::milliseconds remaining,
                                                 double random) const noexcept;
};

}  // namespace zkclient
