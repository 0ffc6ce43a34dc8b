#include <zkrecipes/periodic_job.hpp>

#include "recipes/jobs/job_format.hpp"
#include "recipes/jobs/job_runner.hpp"
#include "recipes/kernel/acl_check.hpp"

namespace zkrecipes {

using namespace words;
using detail::JobNodes;
using detail::JobRunner;

namespace {

constexpr const char* periodic_job = "periodic job";
constexpr const char* starting_periodic_job = "periodic job start";
constexpr const char* closing_periodic_job = "periodic job close";
constexpr const char* asking_for_status = "periodic job status";
constexpr const char* asking_for_history = "periodic job history";
constexpr std::size_t longest_history = 10'000;

void require_options(const Path& path, const PeriodicJobOptions& options) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, periodic_job, path.str(), why); };
  constexpr std::chrono::milliseconds none{0};
  detail::require_acl(periodic_job, path, options.acl);
  if (options.grace < none || options.grace > std::chrono::days(10'000)) {
    refuse("`grace` must be from zero to 10,000 days");
  }
  if (options.missed == MissedFirings::skip && options.grace == none) {
    refuse("without any `grace`, MissedFirings::skip skips every firing");
  }
  if (options.max_early < none || options.max_early > std::chrono::days(1)) {
    refuse("`max_early` must be from zero to a day");
  }
  if (options.history < 1 || options.history > longest_history) refuse("`history` must be from 1 to 10,000");
  if (options.id.size() > detail::most_id_bytes) refuse("`id` is longer than 200 bytes");
  if (!options.clock) refuse("there is no clock");
}

JobNodes::Self make_nodes(zkclient::Client client, Path path, const PeriodicJobOptions& options) {
  std::string id = options.id.empty() ? detail::process_name() : options.id;
  return std::make_shared<const JobNodes>(std::move(client), std::move(path),
                                          JobNodes::Options{std::move(id), options.history, options.acl});
}

}  // namespace

JobFiring::JobFiring(JobTime time, int attempt, Lease lease) noexcept
    : time_(time), attempt_(attempt), lease_(std::move(lease)) {}

struct PeriodicJob::State {
  JobNodes::Self nodes;
  std::shared_ptr<JobRunner> runner;

  void require_own_process(const char* operation) const {
    if (runner->forked()) throw Error(Errc::forked, operation, nodes->path().str());
  }
};

PeriodicJob::PeriodicJob(zkclient::Client client, zkclient::Path path, Schedule schedule, Task task,
                         PeriodicJobOptions options)
    : state_(std::make_shared<State>()) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, periodic_job, path.str(), why); };
  if (!schedule) refuse("no schedule");
  if (!task) refuse("no task");
  if (path.is_root()) refuse("the root is no path of a job");
  require_options(path, options);
  state_->nodes = make_nodes(std::move(client), std::move(path), options);
  const detail::FiringPolicy policy{options.missed, options.runner_died, options.grace};
  state_->runner = std::make_shared<JobRunner>(
      state_->nodes, JobRunner::Work{std::move(schedule), std::move(task), policy, options.max_early,
                                     std::move(options.clock), std::move(options.on_error)});
}

PeriodicJob::~PeriodicJob() {
  if (state_->runner->forked()) {
    zk::keep_for_ever(std::move(state_));
    return;
  }
  state_->runner->tell_to_close();
  state_->runner->join();
}

void PeriodicJob::start() {
  state_->require_own_process(starting_periodic_job);
  state_->runner->start();
}

void PeriodicJob::close(const CallOptions& call) {
  state_->require_own_process(closing_periodic_job);
  state_->runner->tell_to_close();
  if (state_->runner->on_own_thread() || state_->runner->wait_until_finished(call)) return;
  throw Error(call.stop.stop_requested() ? Errc::cancelled : Errc::deadline_exceeded, closing_periodic_job,
              path().str(), "the run has not ended, or on_error has not returned");
}

std::optional<JobStatus> PeriodicJob::status(const CallOptions& call) const {
  const auto work = [nodes = state_->nodes](Call limits) { return JobNodes::status(nodes, std::move(limits)); };
  return state_->nodes->form(asking_for_status).wait(call, work);
}
void PeriodicJob::async_status(zkclient::Handler<std::optional<JobStatus>> handler, const CallOptions& call) const {
  const auto work = [nodes = state_->nodes](Call limits) { return JobNodes::status(nodes, std::move(limits)); };
  state_->nodes->form(asking_for_status).start(call, work, std::move(handler));
}

std::vector<JobRun> PeriodicJob::history(const CallOptions& call) const {
  const auto work = [nodes = state_->nodes](Call limits) { return JobNodes::history(nodes, std::move(limits)); };
  return state_->nodes->form(asking_for_history).wait(call, work);
}
void PeriodicJob::async_history(zkclient::Handler<std::vector<JobRun>> handler, const CallOptions& call) const {
  const auto work = [nodes = state_->nodes](Call limits) { return JobNodes::history(nodes, std::move(limits)); };
  state_->nodes->form(asking_for_history).start(call, work, std::move(handler));
}

bool PeriodicJob::is_running() const noexcept { return !state_->runner->forked() && state_->runner->is_running(); }
const std::string& PeriodicJob::id() const noexcept { return state_->nodes->id(); }
const zkclient::Path& PeriodicJob::path() const noexcept { return state_->nodes->path(); }

}  // namespace zkrecipes
