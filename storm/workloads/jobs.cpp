#include "storm/workloads/jobs.hpp"

#include <stdexcept>

#include <zkrecipes/periodic_job.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/firings.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* job_path = "/job";
constexpr auto job_period = 2s;

std::int64_t firing_number(zkrecipes::JobTime time) { return time.time_since_epoch() / job_period; }

void do_job(Place& place, const std::stop_token& stop, const zkrecipes::JobFiring& firing) {
  const std::int64_t token = firing.lease().token().value;
  place.note("begins", firing_number(firing.time()), firing.attempt());
  const Nanos begun = place.now();
  if (firing.lease().valid()) place.note_at(begun, "acquired", token);
  for (std::uint64_t looks = 1 + place.below(4); looks > 0; --looks) {
    const Nanos before = place.now();
    if (firing.lease().valid()) place.note_at(before, "valid", token);
    if (stop.stop_requested() && place.below(2) == 0) throw std::runtime_error("not finished");
    place.pause(300);
  }
  place.note("ended", firing_number(firing.time()));
}

void run_jobs(Place& place, zkrecipes::RunnerDied died) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::PeriodicJobOptions options;
    options.missed = zkrecipes::MissedFirings::all;
    options.runner_died = died;
    options.history = 10'000;
    options.id = place.name();
    zkrecipes::PeriodicJob job(
        client, job_path, zkrecipes::every(job_period),
        [&](const std::stop_token& stop, const zkrecipes::JobFiring& firing) { do_job(place, stop, firing); }, options);
    job.start();
    for (std::uint64_t steps = 5 + place.below(30); steps > 0 && !place.stopped(); --steps)
      place.pause(1000);
    if (place.below(2) == 0) job.close(within(20s));
  });
}

}  // namespace

void run_repeated_jobs(Place& place) { run_jobs(place, zkrecipes::RunnerDied::run_again); }
void run_single_jobs(Place& place) { run_jobs(place, zkrecipes::RunnerDied::never_again); }

void look_at_jobs(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  const zkrecipes::PeriodicJob job(client, job_path, zkrecipes::every(job_period),
                                   [](const std::stop_token&, const zkrecipes::JobFiring&) {});
  client.sync(job_path, within(60s));
  for (const zkrecipes::JobRun& run : job.history(within(60s))) {
    if (run.outcome == zkrecipes::JobOutcome::succeeded) place.note("success", firing_number(run.firing));
  }
  if (const auto status = job.status(within(60s))) place.note("settled", firing_number(status->settled));
}

Faults check_repeated_jobs(const History& history) {
  return all_of({check_leases(history, 1), check_firings(history, false), check_progress(history, "ended")});
}

Faults check_single_jobs(const History& history) {
  return all_of({check_leases(history, 1), check_firings(history, true), check_progress(history, "ended")});
}

}  // namespace storm
