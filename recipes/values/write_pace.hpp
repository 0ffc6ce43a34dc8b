#pragma once

#include <chrono>
#include <cstdint>

namespace zkrecipes::detail {

/// How long a writer waits before its next attempt at a node that others write, too. An attempt is a transaction that
/// expects the node's version: of those that arrive within one round trip, one is applied. If all writers tried without
/// a pause, each change would cost as many transactions as there are writers.
///
/// So a writer that was refused twice waits for a random time, in units of what a transaction takes, up to twice as long
/// after each refusal. One writer goes on without a pause meanwhile, and knows the number from its own last change.
/// For others to get their turn, it waits after some changes, and after more of them if it has not seen others lately.
class WritePace {
 public:
  using Duration = std::chrono::nanoseconds;

  /// `seed`: of the random times.
  explicit WritePace(std::uint32_t seed) noexcept : random_(seed) {}

  /// How an attempt ended that took `trip`.
  void applied(Duration trip) noexcept;
  void refused(Duration trip) noexcept;

  /// The last attempt was refused: the next one will be as well, more likely than not.
  bool is_contended() const noexcept { return refusals_ > 0; }
  /// Before the next attempt.
  Duration pause() noexcept;

 private:
  void measure(Duration trip) noexcept;
  std::uint32_t next_random() noexcept;

  std::uint32_t random_;
  Duration trip_{0};                      // What an attempt takes, smoothed.
  unsigned refusals_ = 0;                 // In a row.
  unsigned changes_ = 0;                  // In a row.
  unsigned changes_since_refusal_ = ~0u;  // Many: no others were seen.
};

}  // namespace zkrecipes::detail
