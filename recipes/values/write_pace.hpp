#pragma once

#include <chrono>
#include <cstdint>

namespace zkrecipes::detail {

/// When a writer of a node that others write, too, sends its next attempt. An attempt is a transaction that expects the
/// node's version: of those that arrive within one round trip, one is applied. If all writers tried without a pause,
/// each change would cost as many transactions as there are writers.
///
/// So the writers take turns. The holder of the turn writes without a pause, and knows the node from its own last
/// change. The version tells all of them when the turn is over: at each multiple of 64 the holder makes way for four
/// round trips. (While it has not seen others: for two, and at each multiple of 256 if that does not take long.) A
/// writer that was refused twice waits for that moment. It looks at the node, sleeps for most of the changes that are
/// left, and looks again. Writers that have waited for a few turns only let the others go first.
///
/// Other libraries take no turns. While one of them writes, a writer does not wait either: it tries again at once from
/// what it has just read. When it has made as many changes as the others, it makes way. Besides, if the node changes as
/// slowly as two round trips allow, nobody waits for a turn, and each fourth attempt comes at a random time.
class WritePace {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = std::chrono::nanoseconds;

  /// `seed`: of the random times.
  explicit WritePace(std::uint32_t seed) noexcept : random_(seed) {}

  /// An attempt that took `trip` was applied at `now`, or refused for what others had written.
  void applied(Duration trip, Clock::time_point now) noexcept;
  void refused(Duration trip, Clock::time_point now) noexcept;
  /// What was applied gave the node another version.
  void changed(std::int32_t version) noexcept;

  /// The last attempt was refused: the next one will be as well, more likely than not.
  bool is_contended() const noexcept { return refusals_ > 0; }
  /// It is about to wait for a turn, and does not know whether the others take turns. If another library made the last
  /// change of the node, they do not: told_who_writes(). To find out is worth two round trips. Look again afterwards.
  bool asks_who_writes(Clock::time_point now) const noexcept;
  void told_who_writes(bool foreign, Clock::time_point now) noexcept;
  /// A refused attempt is followed by the next one at once.
  bool takes_no_turns() const noexcept { return foreign_; }
  /// Before the next change: how long to make way for others. Zero, unless the turn is over.
  Duration make_way(Clock::time_point now) noexcept;
  /// The node was seen at `version`, as was known at `now`. Zero: try. Otherwise look again after so long.
  Duration pause(std::int32_t version, Clock::time_point now) noexcept;

 private:
  void end_attempt(Duration trip, Clock::time_point now) noexcept;
  Duration wait_for_turn(std::uint32_t version, Clock::time_point now) noexcept;
  Duration random_pause() noexcept;
  bool is_alone() const noexcept;
  bool turn_is_over() const noexcept;

  std::uint32_t random_;
  Duration trip_{0};                      // What an attempt takes, smoothed.
  Clock::time_point attempted_;           // When the last one ended.
  unsigned changes_since_refusal_ = ~0u;  // Many: no others were seen.

  // Of a contention. All of it is forgotten when there was no attempt for a while.
  unsigned refusals_ = 0;           // In a row.
  unsigned turns_waited_ = 0;       // Since the last change.
  unsigned looks_ = 0;              // Since the last attempt.
  std::uint32_t seen_version_ = 0;  // In the last look,
  Clock::time_point seen_at_;       // and when that was.
  std::uint32_t own_version_ = 0;   // Of the last change.
  bool may_end_turn_ = false;       // That change.
  bool made_way_ = false;           // Before the next look.

  // Of writers that take no turns.
  bool foreign_ = false;      // There are some.
  Clock::time_point ask_at_;  // Whether there are any, or still are.
  unsigned answers_ = 0;      // In a row, that there are none.
  std::uint32_t lead_ = 0;    // So many more changes than this writer the others have made.
};

}  // namespace zkrecipes::detail
