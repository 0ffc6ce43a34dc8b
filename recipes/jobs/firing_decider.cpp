#include "recipes/jobs/firing_decider.hpp"

#include <fmt/format.h>

#include <zkclient/error.hpp>

#include "recipes/jobs/job_format.hpp"

namespace zkrecipes::detail {

namespace {

using zkclient::Errc;
using zkclient::Error;
using Kind = FiringStep::Kind;

std::optional<JobTime> next_firing(const Schedule& schedule, JobTime after) {
  const std::optional<JobTime> next = schedule(after);
  if (!next) return std::nullopt;
  const auto refuse = [after](const char* why) {
    throw Error(Errc::invalid_argument, "schedule", "",
                fmt::format("{}, asked for what comes after {}", why, text_of(after)));
  };
  if (*next <= after) refuse("it returned no later time");
  if (*next > last_job_time) return std::nullopt;
  return next;
}

// There is one in (begin, end]. That there is one in (x, end] is true up to the last of them, and false from there on.
JobTime last_firing(const Schedule& schedule, JobTime begin, JobTime end) {
  JobTime yes = begin;
  JobTime no = end;
  while (no - yes > std::chrono::milliseconds(1)) {
    const JobTime middle = yes + (no - yes) / 2;
    const std::optional<JobTime> next = next_firing(schedule, middle);
    (next && *next <= end ? yes : no) = middle;
  }
  const std::optional<JobTime> last = next_firing(schedule, yes);
  if (!last || *last > end) {
    throw Error(Errc::invalid_argument, "schedule", "", "it gave two answers for what comes after " + text_of(yes));
  }
  return *last;
}

}  // namespace

FiringStep decide_firing(const Schedule& schedule, JobTime settled, const std::optional<BegunRun>& begun,
                         const JobClock& now, const FiringPolicy& policy) {
  if (begun) {
    if (policy.runner_died == RunnerDied::never_again) return {Kind::give_up, begun->firing, begun->attempt};
    return {Kind::run, begun->firing, begun->attempt + 1};
  }
  const std::optional<JobTime> first = next_firing(schedule, settled);
  if (!first) return {Kind::never};
  if (*first > now.early) return {Kind::wait, *first};
  // By a clock that is right, those after an early one are still to come: they are not missed.
  if (policy.missed == MissedFirings::all || *first > now.sure) return {Kind::run, *first};
  const JobTime last = last_firing(schedule, settled, now.sure);
  const std::optional<JobTime> missed_from = last == *first ? std::nullopt : first;
  const bool late = policy.missed == MissedFirings::skip && now.sure - last > policy.grace;
  return {late ? Kind::skip : Kind::run, last, 1, missed_from};
}

}  // namespace zkrecipes::detail
