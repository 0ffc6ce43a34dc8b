#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zkrecipes::detail {

/// No place was ever further from UTC. No zone has such an offset.
inline constexpr std::chrono::hours widest_offset(26);

/// What the clocks of a place show: its offsets from UTC, and when they change. Read from a file of the time zone database
/// (RFC 8536, TZif), because the functions of libc know but one zone for the whole process. Immutable.
class TimeZone {
 public:
  using Time = std::chrono::sys_seconds;
  using LocalTime = std::chrono::local_seconds;
  using Seconds = std::chrono::seconds;

  /// From `time` on the clocks are ahead of UTC by `offset`.
  struct Change {
    Time time = {};
    Seconds offset = {};
    bool operator==(const Change&) const = default;
  };
  /// `changes`: in their order. `first`: the offset before them.
  TimeZone(Seconds first, std::vector<Change> changes) : first_(first), changes_(std::move(changes)) {}

  Seconds offset_at(Time time) const;
  /// The first change after `time`.
  std::optional<Time> next_change(Time time) const;
  std::optional<Time> last_change() const;
  /// The first instant at which the clocks show `local`, or have passed over it.
  Time reaches(LocalTime local) const;
  /// This one up to its last change, then the other one.
  TimeZone followed_by(const TimeZone& future) const;

 private:
  std::vector<Change>::const_iterator after(Time time) const;

  Seconds first_;
  std::vector<Change> changes_;
};

/// The zone, or what is wrong with the file.
struct ReadZone {
  std::optional<TimeZone> zone = {};
  std::string defect = {};
};

/// Of the bytes of a file.
ReadZone read_zone(std::string_view bytes);
/// Where the zone of that name is; nullopt if it cannot be a name.
std::optional<std::string> zone_file(std::string_view name);
ReadZone load_zone(const std::string& file);

/// The changes that a rule like "CET-1CEST,M3.5.0,M10.5.0/3" makes from the year `first` to the year `last`, and the
/// offset before them (POSIX, with the extension of RFC 8536); nullopt if it is malformed.
std::optional<TimeZone> zone_of_rule(std::string_view rule, int first, int last);

}  // namespace zkrecipes::detail
