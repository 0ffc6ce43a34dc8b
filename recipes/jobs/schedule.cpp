#include <zkrecipes/schedule.hpp>

#include <charconv>
#include <memory>
#include <string>

#include <zkclient/error.hpp>

#include "recipes/jobs/time_zone.hpp"

namespace zkrecipes {

using zkclient::Errc;
using zkclient::Error;

namespace {

using detail::TimeZone;

constexpr const char* making_period = "schedule every";
constexpr const char* making_daily = "schedule daily_at";
constexpr std::chrono::milliseconds longest_period = std::chrono::days(10'000);

/// Two digits, below `limit`.
std::optional<int> two_digits(std::string_view text, int limit) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = text.size() == 2 && text[0] != '-' && error == std::errc() && end == text.data() + 2;
  if (!all || value >= limit) return std::nullopt;
  return value;
}

/// Of "02:30" or "02:30:15".
std::optional<std::chrono::seconds> time_of_day(std::string_view text) {
  const bool with_seconds = text.size() == 8;
  if ((text.size() != 5 && !with_seconds) || text[2] != ':' || (with_seconds && text[5] != ':')) return std::nullopt;
  const std::optional<int> hours = two_digits(text.substr(0, 2), 24);
  const std::optional<int> minutes = two_digits(text.substr(3, 2), 60);
  const std::optional<int> seconds = with_seconds ? two_digits(text.substr(6, 2), 60) : 0;
  if (!hours || !minutes || !seconds) return std::nullopt;
  return std::chrono::hours(*hours) + std::chrono::minutes(*minutes) + std::chrono::seconds(*seconds);
}

// A change of the clocks moves a firing by hours, and where a zone has left out a whole day, by that: so the day before
// is looked at, too.
std::optional<JobTime> first_after(const TimeZone& zone, std::chrono::seconds time, JobTime after) {
  const auto second = std::chrono::floor<std::chrono::seconds>(after);
  const std::chrono::local_seconds here(second.time_since_epoch() + zone.offset_at(second));
  auto day = std::chrono::floor<std::chrono::days>(here) - std::chrono::days(2);
  for (;; day += std::chrono::days(1)) {
    const JobTime firing = zone.reaches(day + time);
    if (firing > after) return firing;
  }
}

}  // namespace

Schedule every(std::chrono::milliseconds period, std::chrono::milliseconds offset) {
  const auto refuse = [](const char* why) { throw Error(Errc::invalid_argument, making_period, "", why); };
  if (period < std::chrono::milliseconds(1) || period > longest_period) {
    refuse("the period must be from a millisecond to 10,000 days");
  }
  if (offset < std::chrono::milliseconds(0) || offset >= period) {
    refuse("the offset must be from zero to less than the period");
  }
  return [period, offset](JobTime after) -> std::optional<JobTime> {
    const std::chrono::milliseconds passed = after.time_since_epoch() - offset;
    std::int64_t times = passed / period;
    if (passed % period < std::chrono::milliseconds(0)) --times;
    return JobTime((times + 1) * period + offset);
  };
}

Schedule daily_at(std::string_view time, std::string_view zone) {
  const auto refuse = [](std::string_view path, std::string_view why) {
    throw Error(Errc::invalid_argument, making_daily, path, why);
  };
  const std::optional<std::chrono::seconds> of_day = time_of_day(time);
  if (!of_day) refuse("", "the time must be like 02:30 or 02:30:15, and of one day");
  const std::optional<std::string> file = detail::zone_file(zone);
  if (!file) refuse(zone, "that is no name of a time zone");
  detail::ReadZone read = detail::load_zone(*file);
  if (!read.zone) refuse(*file, read.defect);
  const auto shared = std::make_shared<const TimeZone>(*std::move(read.zone));
  return [shared, of_day = *of_day](JobTime after) { return first_after(*shared, of_day, after); };
}

}  // namespace zkrecipes
