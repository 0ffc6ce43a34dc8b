#pragma once

#include <chrono>
#include <cstdint>

namespace zkrecipes::detail {

/// When a writer of a node that others write, too, sends its next attempt. An attempt is a transaction that expects the
/// node's version: of those that arrive within one round trip, one is applied. If all writers tried without a pause, each
/// change would cost as many transactions as there are writers.
///
/// So the writers take turns. The holder of the turn writes without a pause, and knows the node from its own last change.
/// The version tells all of them when the turn is over: at each multiple of 64 the holder makes way for two round trips
/// (of 256, while it has not seen others, and if that does not take long). A writer that was refused twice waits for that moment. It looks at the node,
/// sleeps for most of the changes that are left, and looks again. Writers that have waited for a few turns only let the
/// others go first. Clients that take no turns need two round trips for a change: if the node changes as slowly as that, a writer
/// tries again at once.
class WritePace {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = std::chrono::nanoseconds;

  /// `seed`: of the random times.
  explicit WritePace(std::uint32_t seed) noexcept : random_(seed) {}

  /// How an attempt ended that took `trip`; `version`: that it gave the node.
  void applied(Duration trip, std::int32_t version) noexcept;
  void refused(Duration trip) noexcept;

  /// The last attempt was refused: the next one will be as well, more likely than not.
  bool is_contended() const noexcept { return refusals_ > 0; }
  /// After a change: how long to make way for others. Zero, unless the turn is over.
  Duration make_way() noexcept;
  /// The node was seen at `version`, as was known at `now`. Zero: try. Otherwise look again after so long.
  Duration pause(std::int32_t version, Clock::time_point now) noexcept;

 private:
  void measure(Duration trip) noexcept;
  std::uint32_t next_random() noexcept;

  std::uint32_t random_;
  Duration trip_{0};                      // What an attempt takes, smoothed.
  unsigned refusals_ = 0;                 // In a row.
  unsigned changes_since_refusal_ = ~0u;  // Many: no others were seen.
  std::uint32_t own_version_ = 0;         // Of the last change.
  bool changed_ = false;                  // Since make_way() was asked.
  bool made_way_ = false;                 // Before the next look.
  unsigned turns_waited_ = 0;             // Since the last change.
  unsigned looks_ = 0;                    // Since the last attempt.
  std::uint32_t seen_version_ = 0;        // In the last look,
  Clock::time_point seen_at_;             // and when that was.
};

}  // namespace zkrecipes::detail
