#pragma once

#include <chrono>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The pauses before something that failed is tried again, for failures that may pass at once or last, and that no event
/// tells the end of. The first ones are short; each may be twice as long as the one before, up to a bound. Each is
/// shortened at random, by up to half: those who failed together do not all come back together. Needs no lock of its own.
class GrowingPause {
 public:
  using Duration = std::chrono::milliseconds;

  GrowingPause(Duration first, Duration bound) noexcept : first_(first), bound_(bound) {}

  /// Before the next attempt.
  Duration next();
  /// It has succeeded: the next failure begins anew.
  void reset() noexcept { failures_ = 0; }

 private:
  Duration first_;
  Duration bound_;
  int failures_ = 0;
};

}  // namespace zkrecipes::detail
