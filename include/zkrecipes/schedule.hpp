#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>

#include <zkclient/export.hpp>

namespace zkrecipes {

/// A time of a periodic job: UTC, to the millisecond, from 1970 to 9999.
using JobTime = std::chrono::sys_time<std::chrono::milliseconds>;

/// When a periodic job fires: the first firing later than `after`; nullopt if there is none any more. It must be a pure
/// function: all hosts of a job ask it, each by itself, and the answer is the key by which they agree on a firing. It is
/// asked again and again, so it should be quick; it must be prepared to be asked by several threads. What it throws is
/// reported to PeriodicJobOptions::on_error.
using Schedule = std::function<std::optional<JobTime>(JobTime after)>;

/// At all times that are `offset` plus a multiple of `period` since 1970, UTC: every(1h, 5min) fires five minutes past
/// each hour. Errors: invalid_argument (`period` not from a millisecond to 10,000 days; `offset` not from zero to less
/// than `period`).
ZKRECIPES_API Schedule every(std::chrono::milliseconds period,
                             std::chrono::milliseconds offset = std::chrono::milliseconds(0));

/// Once a day, when the clocks of `zone` show `time`: "02:30" or "02:30:15". `zone` is a name of the time zone database
/// ("Europe/Berlin", "UTC"), which is read once, here, from $TZDIR or /usr/share/zoneinfo. TZ and the process's own
/// time zone do not matter.
///
/// On the day when the clocks are put forward over that time, it fires at the instant of the change: 02:30 does not
/// exist, so it fires when 02:00 becomes 03:00. On the day when they are put back over it, so that it comes twice, it
/// fires the first time only. So it fires once for each date of the calendar. A date that the zone has left out is no
/// exception: it fires for that when the next day begins, and on that day once more at its own time (Pacific/Apia,
/// 31 December 2011).
///
/// All hosts should have the same version of the database: two that disagree about a day may fire twice on it, at
/// different times.
/// Blocks to read a file of a few kilobytes. Errors: invalid_argument (no such time, no such zone, or its file is
/// malformed), which names the zone's file.
ZKRECIPES_API Schedule daily_at(std::string_view time, std::string_view zone);

}  // namespace zkrecipes
