#include <algorithm>
#include <array>

#include "recipes/jobs/time_zone.hpp"

namespace zkrecipes::detail {

namespace {

using std::chrono::days;
using std::chrono::sys_days;

/// A day of each year.
struct RuleDay {
  enum class Kind { month_week_weekday, without_leap_day, day_of_year };
  Kind kind = Kind::month_week_weekday;
  int month = 0, week = 0, weekday = 0;               ///< The fifth week is the last one that has the day.
  int day = 0;                                        ///< From 1 without a leap day, else from 0.
  std::chrono::seconds time = std::chrono::hours(2);  ///< By the clocks before the change.

  std::chrono::seconds since_midnight_of_epoch(int year) const {
    return date(std::chrono::year(year)).time_since_epoch() + time;
  }

 private:
  sys_days date(std::chrono::year year) const {
    const sys_days first(year / std::chrono::January / 1);
    if (kind == Kind::day_of_year) return first + days(day);
    if (kind == Kind::without_leap_day) return first + days(day - 1 + (year.is_leap() && day >= 60 ? 1 : 0));
    const auto of_month = year / std::chrono::month(static_cast<unsigned>(month));
    const std::chrono::weekday wanted(static_cast<unsigned>(weekday));
    if (week == 5) return sys_days(of_month / wanted[std::chrono::last]);
    return sys_days(of_month / wanted[static_cast<unsigned>(week)]);
  }
};

/// A rule, read from front to end: each function takes what it is named after.
class RuleText {
 public:
  explicit RuleText(std::string_view rule) : rest_(rule) {}

  bool at_end() const { return rest_.empty(); }
  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// Letters, or anything in angle brackets.
  bool name() {
    const bool quoted = take('<');
    const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
    const std::size_t end =
        quoted ? rest_.find('>')
               : static_cast<std::size_t>(std::find_if_not(rest_.begin(), rest_.end(), is_letter) - rest_.begin());
    if (end == std::string_view::npos || end < 3) return false;
    rest_.remove_prefix(end);
    return !quoted || take('>');
  }

  std::optional<int> number(int least, int most) {
    int value = 0;
    std::size_t digits = 0;
    while (digits < rest_.size() && digits < 4 && rest_[digits] >= '0' && rest_[digits] <= '9')
      value = value * 10 + (rest_[digits++] - '0');
    if (digits == 0 || value < least || value > most) return std::nullopt;
    rest_.remove_prefix(digits);
    return value;
  }

  /// "3", "-1:30", "26:00:01"
  std::optional<std::chrono::seconds> time() {
    const bool negative = take('-');
    if (!negative) take('+');
    constexpr int most_hours = 167;
    const std::optional<int> hours = number(0, most_hours);
    const std::optional<int> minutes = hours && take(':') ? number(0, 59) : std::optional(0);
    const std::optional<int> seconds = minutes && take(':') ? number(0, 59) : std::optional(0);
    if (!hours || !minutes || !seconds) return std::nullopt;
    const std::chrono::seconds all(*hours * 3600 + *minutes * 60 + *seconds);
    return negative ? -all : all;
  }

  /// "M3.5.0/3", "J60", "59"
  std::optional<RuleDay> day() {
    std::optional<RuleDay> day = date();
    if (!day || !take('/')) return day;
    const std::optional<std::chrono::seconds> when = time();
    if (!when) return std::nullopt;
    day->time = *when;
    return day;
  }

 private:
  std::optional<RuleDay> date() {
    RuleDay day;
    if (take('M')) {
      const std::optional<int> month = number(1, 12);
      const std::optional<int> week = month && take('.') ? number(1, 5) : std::nullopt;
      const std::optional<int> weekday = week && take('.') ? number(0, 6) : std::nullopt;
      if (!weekday) return std::nullopt;
      day.month = *month;
      day.week = *week;
      day.weekday = *weekday;
      return day;
    }
    const bool without_leap_day = take('J');
    const std::optional<int> number_of_day = without_leap_day ? number(1, 365) : number(0, 365);
    if (!number_of_day) return std::nullopt;
    day.kind = without_leap_day ? RuleDay::Kind::without_leap_day : RuleDay::Kind::day_of_year;
    day.day = *number_of_day;
    return day;
  }

  std::string_view rest_;
};

}  // namespace

// The signs of POSIX are the other way round: what is to be added to get UTC.
std::optional<TimeZone> zone_of_rule(std::string_view rule, int first, int last) {
  RuleText text(rule);
  if (!text.name()) return std::nullopt;
  const std::optional<std::chrono::seconds> west = text.time();
  if (!west || std::chrono::abs(*west) >= widest_offset) return std::nullopt;
  const std::chrono::seconds standard = -*west;
  if (text.at_end()) return TimeZone(standard, {});
  if (!text.name()) return std::nullopt;
  std::chrono::seconds summer = standard + std::chrono::hours(1);
  if (!text.take(',')) {
    const std::optional<std::chrono::seconds> summer_west = text.time();
    if (!summer_west || !text.take(',')) return std::nullopt;
    summer = -*summer_west;
  }
  if (std::chrono::abs(summer) >= widest_offset) return std::nullopt;
  const std::optional<RuleDay> begin = text.day();
  const std::optional<RuleDay> end = begin && text.take(',') ? text.day() : std::nullopt;
  if (!end || !text.at_end()) return std::nullopt;
  std::vector<TimeZone::Change> changes;
  for (int year = first; year <= last; ++year) {
    changes.push_back({TimeZone::Time(begin->since_midnight_of_epoch(year) - standard), summer});
    changes.push_back({TimeZone::Time(end->since_midnight_of_epoch(year) - summer), standard});
  }
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  return TimeZone(standard, std::move(changes));
}

}  // namespace zkrecipes::detail
