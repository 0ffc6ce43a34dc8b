// Schedules: every(), daily_at(), and the time zones behind it, compared with those of libc.

#include <zkrecipes/schedule.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <zkclient/error.hpp>

#include "recipes/jobs/job_format.hpp"
#include "recipes/jobs/time_zone.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using detail::TimeZone;
using zkclient::Errc;
using zkclient::Error;

JobTime time_at(const std::string& text) { return detail::time_of(text + ".000Z").value(); }

/// Those after `after`, without their milliseconds.
std::vector<std::string> firings(const Schedule& schedule, const std::string& after, int count) {
  std::vector<std::string> all;
  JobTime time = time_at(after);
  for (int i = 0; i < count; ++i) {
    time = schedule(time).value();
    const std::string text = detail::text_of(time);
    EXPECT_EQ(text.substr(19), ".000Z");
    all.push_back(text.substr(0, 19));
  }
  return all;
}

using Texts = std::vector<std::string>;

template <typename Make>
std::string refusal(Make make) {
  try {
    (void)make();
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "it was taken";
  return {};
}

// --- every() ----------------------------------------------------------------------------------------------------------

TEST(ScheduleEvery, FiresAtMultiples) {
  EXPECT_EQ(firings(every(1h), "2026-11-29T15:30:00", 2), (Texts{"2026-11-29T16:00:00", "2026-11-29T17:00:00"}));
  EXPECT_EQ(firings(every(1h), "2026-11-29T16:00:00", 1), (Texts{"2026-11-29T17:00:00"})) << "later than `after`";
  EXPECT_EQ(firings(every(1h, 5min), "2026-11-29T16:00:00", 2), (Texts{"2026-11-29T16:05:00", "2026-11-29T17:05:00"}));
  EXPECT_EQ(every(1ms)(JobTime(7ms)), JobTime(8ms));
}

TEST(ScheduleEvery, IsLaterByAtMostAPeriod) {
  std::minstd_rand random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::chrono::milliseconds period(1 + random() % 100'000);
    const std::chrono::milliseconds offset(random() % static_cast<unsigned>(period.count()));
    const JobTime after(std::chrono::milliseconds(random() % 1'000'000) - 500s);  // Also before 1970.
    const JobTime firing = every(period, offset)(after).value();
    ASSERT_GT(firing, after);
    ASSERT_LE(firing, after + period);
    ASSERT_EQ((firing.time_since_epoch() - offset) % period, 0ms);
  }
}

TEST(ScheduleEvery, RefusesBadPeriods) {
  for (const auto& [period, offset] : {std::pair{0ms, 0ms}, {-1ms, 0ms}, {1000ms, 1000ms}, {1000ms, -1ms}})
    EXPECT_NE(refusal([&, period = period, offset = offset] { return every(period, offset); }).find("every"),
              std::string::npos);
  EXPECT_NE(refusal([] { return every(std::chrono::days(10'001)); }), "");
}

// --- daily_at() -------------------------------------------------------------------------------------------------------

TEST(ScheduleDailyAt, OnceADay) {
  EXPECT_EQ(firings(daily_at("02:30", "UTC"), "2026-02-28T02:30:00", 2),
            (Texts{"2026-03-01T02:30:00", "2026-03-02T02:30:00"}));
  EXPECT_EQ(firings(daily_at("00:00:01", "Asia/Kolkata"), "2026-02-28T12:00:00", 1), (Texts{"2026-02-28T18:30:01"}));
  EXPECT_EQ(firings(daily_at("23:59", "Pacific/Kiritimati"), "2026-01-01T00:00:00", 2),
            (Texts{"2026-01-01T09:59:00", "2026-01-02T09:59:00"}));
}

// 02:30 does not exist on 29 March 2026 in Berlin: at 01:00 UTC the clocks go from 02:00 to 03:00.
TEST(ScheduleDailyAt, TimeThatDoesNotExist) {
  EXPECT_EQ(firings(daily_at("02:30", "Europe/Berlin"), "2026-03-27T12:00:00", 4),
            (Texts{"2026-03-28T01:30:00", "2026-03-29T01:00:00", "2026-03-30T00:30:00", "2026-03-31T00:30:00"}));
  EXPECT_EQ(firings(daily_at("02:30", "America/New_York"), "2026-03-07T12:00:00", 2),
            (Texts{"2026-03-08T07:00:00", "2026-03-09T06:30:00"}));
  EXPECT_EQ(firings(daily_at("02:00", "Europe/Berlin"), "2026-03-28T12:00:00", 1), (Texts{"2026-03-29T01:00:00"}));
  EXPECT_EQ(firings(daily_at("03:00", "Europe/Berlin"), "2026-03-28T12:00:00", 1), (Texts{"2026-03-29T01:00:00"}));
}

// 02:30 exists twice on 25 October 2026 in Berlin, at 00:30 and 01:30 UTC.
TEST(ScheduleDailyAt, TimeThatExistsTwice) {
  EXPECT_EQ(firings(daily_at("02:30", "Europe/Berlin"), "2026-10-24T12:00:00", 2),
            (Texts{"2026-10-25T00:30:00", "2026-10-26T01:30:00"}));
  EXPECT_EQ(firings(daily_at("02:30", "Europe/Berlin"), "2026-10-25T00:30:00", 1), (Texts{"2026-10-26T01:30:00"}))
      << "asked between the two";
  EXPECT_EQ(firings(daily_at("01:30", "Australia/Lord_Howe"), "2026-04-04T10:00:00", 2),
            (Texts{"2026-04-04T14:30:00", "2026-04-05T15:00:00"}))
      << "half an hour comes twice there";
}

// The island had no 30 December 2011. What would have fired there does so at its end, when the 31st begins.
TEST(ScheduleDailyAt, DayThatDoesNotExist) {
  EXPECT_EQ(firings(daily_at("12:00", "Pacific/Apia"), "2011-12-29T00:00:00", 3),
            (Texts{"2011-12-29T22:00:00", "2011-12-30T10:00:00", "2011-12-30T22:00:00"}));
}

TEST(ScheduleDailyAt, FollowsTheRuleBeyondTheFile) {
  EXPECT_EQ(firings(daily_at("02:30", "Europe/Berlin"), "2099-03-28T12:00:00", 2),
            (Texts{"2099-03-29T01:00:00", "2099-03-30T00:30:00"}));
}

// For each day one firing: on no day of a century none, or two.
TEST(ScheduleDailyAt, OneFiringForEachDay) {
  for (const char* zone : {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"}) {
    const Schedule schedule = daily_at("02:30", zone);
    JobTime time = schedule(time_at("1990-01-01T12:00:00")).value();
    for (int day = 0; day < 20'000; ++day) {
      const JobTime next = schedule(time).value();
      ASSERT_GE(next - time, 22h) << zone << " " << detail::text_of(time);
      ASSERT_LE(next - time, 26h) << zone << " " << detail::text_of(time);
      ASSERT_EQ(schedule(next - 1ms), next) << "the answer does not depend on what was asked";
      time = next;
    }
  }
}

TEST(ScheduleDailyAt, RefusesBadTimesAndZones) {
  for (const char* time : {"", "2:30", "24:00", "02:60", "02:30:60", "02-30", "02:30:", "0230", "+2:30", " 2:30",
                           "-0:30", "02:-0", "02:30:-0"})
    EXPECT_NE(refusal([time] { return daily_at(time, "UTC"); }).find("daily_at"), std::string::npos) << time;
  for (const char* zone : {"", "/etc/passwd", "../zoneinfo/UTC", "Europe/", "Europe\nBerlin", "Europe", "No/Where"})
    EXPECT_NE(refusal([zone] { return daily_at("02:30", zone); }).find("daily_at"), std::string::npos) << zone;
  EXPECT_NE(refusal([] { return daily_at("02:30", "No/Where"); }).find("/No/Where"), std::string::npos);
  EXPECT_NE(refusal([] { return daily_at("02:30", "tzdata.zi"); }), "") << "no name";
  EXPECT_NE(refusal([] { return daily_at("02:30", "leapseconds"); }), "") << "a file of another kind";
}

// --- Time zones -------------------------------------------------------------------------------------------------------

/// libc's, while one lives. The process has no other thread.
class LibcZone {
 public:
  explicit LibcZone(const std::string& zone) {
    if (const char* before = std::getenv("TZ")) before_ = before;
    set(":" + zone);
  }
  ~LibcZone() { set(before_); }
  LibcZone(const LibcZone&) = delete;
  LibcZone& operator=(const LibcZone&) = delete;

  static std::chrono::seconds offset_at(TimeZone::Time time) {
    const std::time_t seconds = time.time_since_epoch().count();
    std::tm local{};
    ::localtime_r(&seconds, &local);
    return std::chrono::seconds(local.tm_gmtoff);
  }

 private:
  static void set(const std::optional<std::string>& zone) {
    if (zone) {
      ::setenv("TZ", zone->c_str(), 1);
    } else {
      ::unsetenv("TZ");
    }
    ::tzset();
  }
  std::optional<std::string> before_;
};

TEST(TimeZoneTest, AgreesWithLibc) {
  std::minstd_rand random(7);
  for (const char* name :
       {"UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "America/New_York",
        "America/St_Johns", "America/Santiago", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia",
        "Pacific/Chatham", "Asia/Kathmandu", "Asia/Gaza", "Africa/Casablanca", "Antarctica/Troll", "Asia/Tehran"}) {
    const detail::ReadZone read = detail::load_zone(detail::zone_file(name).value());
    ASSERT_TRUE(read.zone) << name << ": " << read.defect;
    const LibcZone libc(name);
    for (int i = 0; i < 2'000; ++i) {
      const TimeZone::Time time(std::chrono::seconds(random() * 2LL) - 1'000'000'000s);  // 1938 to 2074.
      ASSERT_EQ(read.zone->offset_at(time), LibcZone::offset_at(time))
          << name << " " << time.time_since_epoch().count();
      const auto change = read.zone->next_change(time);
      if (!change || *change > TimeZone::Time(4'000'000'000s)) continue;
      ASSERT_EQ(read.zone->offset_at(*change), LibcZone::offset_at(*change)) << name;
      ASSERT_EQ(read.zone->offset_at(*change - 1s), LibcZone::offset_at(*change - 1s)) << name;
    }
  }
}

TEST(TimeZoneTest, Rules) {
  const auto offset_at = [](std::string_view rule, const std::string& time) {
    const auto zone = detail::zone_of_rule(rule, 2020, 2030);
    EXPECT_TRUE(zone) << rule;
    return zone ? zone->offset_at(std::chrono::floor<std::chrono::seconds>(time_at(time))) : 99h;
  };
  EXPECT_EQ(offset_at("CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T00:59:59"), 1h);
  EXPECT_EQ(offset_at("CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:00:00"), 2h);
  EXPECT_EQ(offset_at("CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T00:59:59"), 2h);
  EXPECT_EQ(offset_at("CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T01:00:00"), 1h);
  EXPECT_EQ(offset_at("<+0330>-3:30", "2026-01-01T00:00:00"), 3h + 30min);
  EXPECT_EQ(offset_at("<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", "2026-07-01T00:00:00"), -2h) << "a time before midnight";
  EXPECT_EQ(offset_at("AAA0BBB,J60/0,J61/0", "2024-03-01T00:00:00"), 1h) << "1 March, in a leap year, too";
  EXPECT_EQ(offset_at("AAA0BBB,59/0,60/0", "2024-02-29T00:00:00"), 1h) << "29 February";
  EXPECT_EQ(offset_at("XXX3EDT4,0/0,J365/23", "2026-07-01T00:00:00"), -4h) << "summer for ever";
  EXPECT_EQ(offset_at("XXX3EDT4,0/0,J365/23", "2026-12-31T23:30:00"), -4h);
  for (const char* malformed : {"",
                                "CET",
                                "CE-1",
                                "CET-1CEST",
                                "CET-1CEST,M3.5.0",
                                "CET-1CEST,M3.6.0,M10.5.0",
                                "CET-1CEST,M13.5.0,M10.5.0",
                                "CET-1CEST,M3.5.7,M10.5.0",
                                "CET-1CEST,J0,J365",
                                "CET-1CEST,0,366",
                                "<+01-1",
                                "CET-1CEST,M3.5.0,M10.5.0x",
                                "CET-168",
                                "CET-1:60",
                                "CET-1CEST,M3.5.0/,M10.5.0",
                                "CET-1CEST,M3..0,M10.5.0",
                                "CET26",
                                "CET-100",
                                "CET-1CEST26,M3.5.0,M10.5.0",
                                "CET-25:30CEST,M3.5.0,M10.5.0"})
    EXPECT_FALSE(detail::zone_of_rule(malformed, 2020, 2030)) << malformed;
}

// No prefix of a file, and no file with one damaged byte, does more than be refused, or show other times.
TEST(TimeZoneTest, DamagedFiles) {
  std::ifstream stream(detail::zone_file("Europe/Berlin").value(), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(stream)), {});
  ASSERT_TRUE(detail::read_zone(good).zone);
  for (std::size_t size = 0; size + 1 < good.size(); ++size) {
    const detail::ReadZone read = detail::read_zone(good.substr(0, size));
    ASSERT_FALSE(read.zone) << size;
    ASSERT_NE(read.defect, "");
  }
  std::minstd_rand random(3);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = good;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    const detail::ReadZone read = detail::read_zone(damaged);
    if (read.zone) (void)read.zone->reaches(TimeZone::LocalTime(std::chrono::seconds(random())));
  }
  std::string first_version = good;
  first_version[4] = '\0';
  EXPECT_NE(detail::read_zone(first_version).defect.find("version 1"), std::string::npos);
}

}  // namespace
}  // namespace zkrecipes
