#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <zkrecipes/worker_id.hpp>

namespace zkrecipes::detail {

/// The ids of one worker number: each one is greater than the one before it. All times are milliseconds since 1970. A
/// value: it knows no clock, no lock and no server.
///
/// No id is of a time at or before `floor`, or after the time that is reserved: so whoever starts above what was
/// reserved here makes none of these ids again, whatever its clock says.
class IdGenerator {
 public:
  IdGenerator(const IdLayout& layout, std::int64_t worker, std::int64_t floor);

  /// From now on ids up to this time may be made. Earlier than before: nothing changes.
  void reserve(std::int64_t until);
  /// The next id; nullopt if those of the reserved time are used up. Where the clock is behind the last id, or beyond
  /// the reserved time, ids go on from the last one.
  std::optional<std::int64_t> next(std::int64_t now);

  /// The time of the newest id, or the floor.
  std::int64_t last() const noexcept { return last_; }
  std::int64_t reserved() const noexcept { return reserved_; }
  /// How much of the reserved time is left to a clock that says `now`.
  std::int64_t left(std::int64_t now) const noexcept;

 private:
  const std::int64_t epoch_;
  const std::int64_t latest_;  // What fits into an id.
  const int worker_bits_;
  const int sequence_bits_;
  const std::int64_t worker_;
  std::int64_t last_;
  std::int64_t sequence_;  // Of the newest id.
  std::int64_t reserved_;
};

/// The last time that an id of this layout can have.
std::int64_t latest_time(const IdLayout& layout);
/// Why there is no such layout; nullptr if there is.
const char* layout_defect(const IdLayout& layout) noexcept;

/// The reserved time as it stands in a node: decimal milliseconds since 1970.
std::string encode_time(std::int64_t time);
/// nullopt: it is no time, or later than `latest`.
std::optional<std::int64_t> decode_time(std::string_view data, std::int64_t latest);

}  // namespace zkrecipes::detail
