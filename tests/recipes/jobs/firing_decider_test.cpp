// decide_firing() against a model that looks at each firing, and what it refuses.

#include "recipes/jobs/firing_decider.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include <zkclient/error.hpp>

namespace zkrecipes::detail {
namespace {

using Kind = FiringStep::Kind;

JobTime at(std::int64_t ms) { return JobTime(std::chrono::milliseconds(ms)); }
std::chrono::milliseconds ms(std::int64_t count) { return std::chrono::milliseconds(count); }

Schedule schedule_of(const std::set<JobTime>& firings) {
  return [firings](JobTime after) -> std::optional<JobTime> {
    const auto next = firings.upper_bound(after);
    if (next == firings.end()) return std::nullopt;
    return *next;
  };
}

JobClock right(std::int64_t ms) { return {at(ms), at(ms)}; }

/// Looks at each firing by itself.
FiringStep model(const std::set<JobTime>& firings, JobTime settled, const JobClock& now, const FiringPolicy& policy) {
  std::vector<JobTime> due;
  std::optional<JobTime> early;
  std::optional<JobTime> future;
  for (const JobTime firing : firings) {
    if (firing <= settled) continue;
    if (firing <= now.sure) {
      due.push_back(firing);
    } else if (firing <= now.early) {
      if (!early) early = firing;
    } else if (!future) {
      future = firing;
    }
  }
  if (due.empty() && early) return {Kind::run, *early};
  if (due.empty()) return future ? FiringStep{Kind::wait, *future} : FiringStep{};
  if (policy.missed == MissedFirings::all) return {Kind::run, due.front()};
  FiringStep step{Kind::run, due.back()};
  if (due.size() > 1) step.missed_from = due.front();
  if (policy.missed == MissedFirings::skip && now.sure - due.back() > policy.grace) step.kind = Kind::skip;
  return step;
}

// All sets of firings in a small time, all policies, all clocks.
TEST(FiringDecider, Exhaustive) {
  constexpr int length = 7;
  for (unsigned bits = 0; bits < 1U << length; ++bits) {
    std::set<JobTime> firings;
    for (int i = 0; i < length; ++i) {
      if ((bits >> i & 1U) != 0) firings.insert(at(i + 1));
    }
    const Schedule schedule = schedule_of(firings);
    for (int settled = 0; settled <= length; ++settled) {
      for (int sure = 0; sure <= length + 2; ++sure) {
        for (const int ahead : {0, 1, 3}) {
          const JobClock now{at(sure), at(sure + ahead)};
          for (const MissedFirings missed : {MissedFirings::skip, MissedFirings::last, MissedFirings::all}) {
            for (const int grace : {0, 1, 3}) {
              const FiringPolicy policy{missed, RunnerDied::run_again, ms(grace)};
              ASSERT_EQ(decide_firing(schedule, at(settled), std::nullopt, now, policy),
                        model(firings, at(settled), now, policy))
                  << bits << " " << settled << " " << sure << " " << ahead << " " << static_cast<int>(missed) << " "
                  << grace;
            }
          }
        }
      }
    }
  }
}

TEST(FiringDecider, AtRandom) {
  std::minstd_rand random(5);
  for (int i = 0; i < 5'000; ++i) {
    std::set<JobTime> firings;
    for (auto n = random() % 40; n > 0; --n)
      firings.insert(at(random() % 100'000));
    const FiringPolicy policy{static_cast<MissedFirings>(random() % 3), RunnerDied::run_again, ms(random() % 20'000)};
    const JobTime settled = at(random() % 100'000);
    const JobTime sure = at(random() % 110'000);
    const JobClock now{sure, sure + ms(random() % 3 * 10'000)};
    ASSERT_EQ(decide_firing(schedule_of(firings), settled, std::nullopt, now, policy),
              model(firings, settled, now, policy));
  }
}

// A fleet that wakes, runs what it is told, and dies at random: each firing is settled once, in order; by its policy.
TEST(FiringDecider, HistoriesAtRandom) {
  std::minstd_rand random(11);
  for (int round = 0; round < 500; ++round) {
    const auto missed = static_cast<MissedFirings>(random() % 3);
    const bool again = random() % 2 == 0;
    const FiringPolicy policy{missed, again ? RunnerDied::run_again : RunnerDied::never_again, ms(50)};
    const Schedule schedule = every(ms(100));
    JobTime settled = at(0);
    std::optional<BegunRun> begun;
    std::set<JobTime> ended;
    std::set<JobTime> started;
    for (std::int64_t now = 0; now < 5'000; now += random() % 300) {
      const FiringStep step = decide_firing(schedule, settled, begun, right(now), policy);
      if (step.kind == Kind::wait) {
        ASSERT_GT(step.firing, at(now));
        continue;
      }
      ASSERT_GT(step.firing, settled);
      ASSERT_LE(step.firing, at(now));
      if (step.kind == Kind::run) {
        if (!again) {
          ASSERT_TRUE(started.insert(step.firing).second) << "at most once";
        }
        begun = BegunRun{step.firing, step.attempt};
        if (random() % 3 == 0) continue;  // The runner dies.
        ASSERT_TRUE(ended.insert(step.firing).second);
      }
      begun.reset();
      settled = step.firing;
    }
    if (missed != MissedFirings::all || !again) continue;
    for (JobTime firing = at(100); firing <= settled; firing += ms(100))
      ASSERT_TRUE(ended.contains(firing)) << "at least once";
  }
}

TEST(FiringDecider, BegunRuns) {
  const Schedule schedule = every(ms(100));
  const BegunRun begun{at(300), 2};
  for (const int now : {0, 250, 10'000}) {
    EXPECT_EQ(decide_firing(schedule, at(200), begun, right(now), {.runner_died = RunnerDied::run_again}),
              (FiringStep{Kind::run, at(300), 3}));
    EXPECT_EQ(decide_firing(schedule, at(200), begun, right(now), {.runner_died = RunnerDied::never_again}),
              (FiringStep{Kind::give_up, at(300), 2}));
  }
}

// A second's schedule that nobody has looked at for a century is decided at once.
TEST(FiringDecider, AsksSeldom) {
  int asked = 0;
  const Schedule schedule = [&asked](JobTime after) {
    ++asked;
    return every(ms(1000))(after);
  };
  const JobClock now = right(3'155'760'000'000);
  const FiringStep step = decide_firing(schedule, at(0), std::nullopt, now, {.missed = MissedFirings::last});
  EXPECT_EQ(step, (FiringStep{Kind::run, now.sure, 1, at(1000)}));
  EXPECT_LT(asked, 60);
}

TEST(FiringDecider, SchedulesThatAreWrong) {
  for (const int step : {0, -5}) {
    const Schedule schedule = [step](JobTime after) { return after + ms(step); };
    try {
      decide_firing(schedule, at(100), std::nullopt, right(200), {});
      ADD_FAILURE() << "it was taken";
    } catch (const zkclient::Error& error) {
      EXPECT_EQ(error.errc(), zkclient::Errc::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("1970-01-01T00:00:00.100Z"), std::string::npos) << error.what();
    }
  }
  int times = 0;
  for (const bool later : {false, true}) {
    times = 0;
    const Schedule moody = [&times, later](JobTime after) -> std::optional<JobTime> {
      if (++times == 1) return after + ms(1);
      return later ? std::optional(after + ms(1'000)) : std::nullopt;
    };
    EXPECT_THROW(decide_firing(moody, at(100), std::nullopt, right(200), {}), zkclient::Error) << later;
  }
  const Schedule beyond = [](JobTime) { return JobTime::max(); };
  EXPECT_EQ(decide_firing(beyond, at(100), std::nullopt, right(200), {}).kind, Kind::never);
}

// With a host ahead of the server's clock by more than the bound each firing runs, though it is early; and what was
// missed before that counts as missed.
TEST(FiringDecider, ClockThatIsAhead) {
  const Schedule schedule = every(ms(1'000));
  for (const MissedFirings missed : {MissedFirings::skip, MissedFirings::last, MissedFirings::all}) {
    const FiringPolicy policy{missed, RunnerDied::run_again, ms(1)};
    const JobClock now = job_clock(at(3'600'000), at(7'200), ms(5'000));
    JobTime settled = at(7'000);
    for (int firing = 8'000; firing <= 12'000; firing += 1'000) {
      EXPECT_EQ(decide_firing(schedule, settled, std::nullopt, now, policy), (FiringStep{Kind::run, at(firing)}));
      settled = at(firing);
    }
    EXPECT_EQ(decide_firing(schedule, settled, std::nullopt, now, policy), (FiringStep{Kind::wait, at(13'000)}));
  }
  EXPECT_EQ(decide_firing(schedule, at(2'000), std::nullopt, job_clock(at(3'600'000), at(7'200), ms(5'000)), {}),
            (FiringStep{Kind::run, at(7'000), 1, at(3'000)}));
}

TEST(FiringDecider, TwoClocks) {
  const auto expect_clock = [](const JobClock& clock, JobTime sure, JobTime early, const char* what) {
    EXPECT_EQ(clock.sure, sure) << what;
    EXPECT_EQ(clock.early, early) << what;
  };
  expect_clock(job_clock(at(100), at(100), ms(5)), at(100), at(100), "equal");
  expect_clock(job_clock(at(103), at(100), ms(5)), at(100), at(103), "within the bound");
  expect_clock(job_clock(at(3'600'100), at(100), ms(5)), at(100), at(105), "ahead by an hour");
  expect_clock(job_clock(at(50), at(100), ms(5)), at(50), at(50), "behind: late by itself");
}

}  // namespace
}  // namespace zkrecipes::detail
