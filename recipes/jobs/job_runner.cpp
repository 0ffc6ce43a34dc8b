#include "recipes/jobs/job_runner.hpp"

#include <algorithm>
#include <utility>

#include "recipes/jobs/job_format.hpp"
#include "recipes/kernel/growing_pause.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* starting_job = "periodic job start";
constexpr const char* reading_job = "periodic job read";
constexpr const char* claiming_job = "periodic job claim";
constexpr const char* waiting_job = "periodic job wait";
constexpr const char* beginning_run = "periodic job begin";
constexpr const char* finishing_run = "periodic job finish";
constexpr const char* pruning_history = "periodic job prune";
constexpr auto first_retry = std::chrono::milliseconds(100);
constexpr auto last_retry = std::chrono::milliseconds(10'000);
/// Then the clock is read again, which somebody may have set; and the state.
constexpr auto longest_sleep = std::chrono::milliseconds(60'000);

/// The run has not begun, or it is not known: what the state says next time counts.
bool is_no_begin(const Error& error) {
  const Errc code = error.errc();
  return code == Errc::not_held || code == Errc::session_lost || code == Errc::bad_version || code == Errc::in_doubt;
}

/// What on_error is told whatever its code is. Of anything else `closed` is the end of the job's own client, and
/// `cancelled` that of the job. Never leaves this file.
struct Failure {
  std::exception_ptr error;
};

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

JobRun interrupted(JobRun run) {
  run.outcome = JobOutcome::interrupted;
  return run;
}

}  // namespace

JobRunner::JobRunner(JobNodes::Self nodes, Work work)
    : nodes_(std::move(nodes)),
      work_(std::move(work)),
      errors_(std::make_shared<ErrorBacklog>(nodes_->client()->callbacks(), work_.on_error)) {}

// --- The thread -------------------------------------------------------------------------------------------------------

void JobRunner::run() {
  {
    const std::lock_guard lock(mutex_);
    runner_ = std::this_thread::get_id();
  }
  GrowingPause pauses(first_retry, last_retry);
  while (!closing_.stop_requested()) {
    std::exception_ptr failure;  // Its last owner is told.
    try {
      step();
      pauses.reset();
    } catch (const Failure& thrown) {
      failure = thrown.error;
    } catch (const Error& error) {
      if (error.errc() == Errc::closed || (closing_.stop_requested() && error.errc() == Errc::cancelled)) break;
      failure = std::current_exception();
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure == nullptr) continue;
    errors_->report(std::move(failure));
    sleep(pauses.next());
  }
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

void JobRunner::step() {
  const CallOptions until_closed{.stop = closing_.get_token()};
  const auto read = [nodes = nodes_](Call call) { return JobNodes::read(nodes, std::move(call)); };
  const JobNodes::Seen seen = nodes_->form(reading_job).endless().unrecorded().wait(until_closed, read);
  if (waits(seen)) return;
  const auto get = [nodes = nodes_, version = seen.version](Call call) {
    return JobNodes::claim(nodes, version, std::move(call));
  };
  JobNodes::Claim claim = nodes_->form(claiming_job).endless().wait(until_closed, get);
  if (claim.got()) {
    take_turn(seen, std::move(claim));
  } else if (claim.busy) {
    const auto wait = [nodes = nodes_](Call call) { return JobNodes::wait_until_free(nodes, std::move(call)); };
    nodes_->form(waiting_job).endless().unrecorded().wait(until_closed, wait);
  }
}

// By this host's clock. If a run has begun, only the lease tells whether its runner lives.
bool JobRunner::waits(const JobNodes::Seen& seen) {
  if (seen.status.running) return false;
  const JobTime now = host_time();
  const FiringStep next = decide(seen, {now, now});
  if (next.kind == FiringStep::Kind::never) sleep(longest_sleep);
  if (next.kind == FiringStep::Kind::wait) sleep(next.firing - now);
  return next.kind == FiringStep::Kind::never || next.kind == FiringStep::Kind::wait;
}

// Under the lease, by the server's clock.
void JobRunner::take_turn(const JobNodes::Seen& seen, JobNodes::Claim claim) {
  const JobClock now = job_clock(host_time(), claim.server_time, work_.max_early);
  const FiringStep next = decide(seen, now);
  JobRun run{.firing = next.firing,
             .attempt = next.attempt,
             .runner = nodes_->id(),
             .token = claim.lease.token(),
             .started = claim.server_time,
             .missed_from = next.missed_from};
  switch (next.kind) {
    case FiringStep::Kind::wait:
    case FiringStep::Kind::never:
      claim.lease = Lease();
      sleep(next.kind == FiringStep::Kind::wait ? next.firing - now.early : longest_sleep);
      break;
    case FiringStep::Kind::give_up: settle(seen, claim.lease, interrupted(*seen.status.running)); break;
    case FiringStep::Kind::skip:
      run.attempt = 0;
      run.outcome = JobOutcome::skipped;
      settle(seen, claim.lease, run);
      break;
    case FiringStep::Kind::run:
      if (seen.status.running) run.missed_from = seen.status.running->missed_from;
      run_firing(seen, std::move(claim.lease), std::move(run));
      break;
  }
}

// Not stopped by close(): what has begun without a word would count as a run. It ends with the session at the latest.
void JobRunner::put(const char* operation, JobNodes::Change change) {
  const bool record = change.record.has_value();
  const auto write = [&](Call call) { return JobNodes::write(nodes_, operation, std::move(change), std::move(call)); };
  const std::optional<Error> without_record = nodes_->form(operation).endless().wait({}, write);
  if (without_record) errors_->report(std::make_exception_ptr(*without_record));
  if (!record) return;
  const auto prune = [nodes = nodes_](Call call) { return JobNodes::prune(nodes, std::move(call)); };
  const Result<void> pruned = nodes_->form(pruning_history).unrecorded().result({.stop = closing_.get_token()}, prune);
  if (pruned || pruned.error().errc() == Errc::cancelled || pruned.error().errc() == Errc::closed) return;
  errors_->report(std::make_exception_ptr(pruned.error()));
}

// Without a run.
void JobRunner::settle(const JobNodes::Seen& seen, const Lease& lease, const JobRun& record) {
  try {
    put(finishing_run, {lease.impl(), seen.version, {record.firing, std::nullopt}, record});
  } catch (const Error& error) {
    if (!is_no_begin(error)) throw;
  }
}

void JobRunner::run_firing(const JobNodes::Seen& seen, Lease lease, JobRun run) {
  if (closing_.stop_requested() || !begin(seen, lease, run)) return;
  const JobFiring firing(run.firing, run.attempt, std::move(lease));
  if (!firing.lease().valid()) return;  // Lost before the answer came: it counts as a run whose runner died.
  if (call_task(firing, run)) finish(seen, firing.lease(), run);
}

bool JobRunner::begin(const JobNodes::Seen& seen, const Lease& lease, const JobRun& run) {
  JobNodes::Change change{lease.impl(), seen.version, {seen.status.settled, run}, std::nullopt};
  if (seen.status.running) change.record = interrupted(*seen.status.running);
  try {
    put(beginning_run, std::move(change));
    return true;
  } catch (const Error& error) {
    if (!is_no_begin(error)) throw;
    return false;
  }
}

// False if the run has not come to an end that could be recorded.
bool JobRunner::call_task(const JobFiring& firing, JobRun& run) {
  std::stop_source stop;
  {
    const std::lock_guard lock(mutex_);
    lease_ = firing.lease().impl();
    stop_ = stop.get_token();
  }
  const auto tell = [stop]() mutable { stop.request_stop(); };
  std::exception_ptr failure;
  const auto began = std::chrono::steady_clock::now();
  {
    const std::stop_callback lost(firing.lease().lost(), tell);
    const std::stop_callback closing(closing_.get_token(), tell);
    try {
      work_.task(stop.get_token(), firing);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  run.duration = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  {
    const std::lock_guard lock(mutex_);
    lease_ = nullptr;
    stop_ = {};
  }
  run.outcome = failure == nullptr ? JobOutcome::succeeded : JobOutcome::failed;
  if (failure == nullptr) return true;
  run.error = words_of(failure);
  errors_->report(std::move(failure));
  return !stop.stop_requested();
}

void JobRunner::finish(const JobNodes::Seen& seen, const Lease& lease, const JobRun& run) {
  try {
    put(finishing_run, {lease.impl(), seen.version + 1, {run.firing, std::nullopt}, run});
  } catch (const Error& error) {
    const std::string end = "the end of the run of " + text_of(run.firing);
    const bool unknown = error.errc() == Errc::in_doubt;
    const std::string what = end + (unknown ? " may be recorded, or not: " : " was not recorded: ") + error.what();
    const Errc code = error.errc() == Errc::session_lost ? Errc::not_held : error.errc();
    throw Failure{std::make_exception_ptr(Error(code, finishing_run, nodes_->path().str(), what))};
  }
}

FiringStep JobRunner::decide(const JobNodes::Seen& seen, const JobClock& now) const {
  std::optional<BegunRun> begun;
  if (const auto& running = seen.status.running) begun = BegunRun{running->firing, running->attempt};
  try {
    return decide_firing(work_.schedule, seen.status.settled, begun, now, work_.policy);
  } catch (...) {
    throw Failure{std::current_exception()};
  }
}

JobTime JobRunner::host_time() const {
  try {
    return std::chrono::floor<std::chrono::milliseconds>(work_.clock());
  } catch (...) {
    throw Failure{std::current_exception()};
  }
}

void JobRunner::sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, closing_.get_token(), std::min<std::chrono::milliseconds>(time, longest_sleep),
                    [] { return false; });
}

// --- The outside ------------------------------------------------------------------------------------------------------

void JobRunner::start() {
  const std::lock_guard lock(mutex_);
  if (closing_.stop_requested() || finished_) throw Error(Errc::closed, starting_job, nodes_->path().str());
  if (std::exchange(started_, true)) return;
  try {
    thread_ = zk::start_thread("zk-job", [self = shared_from_this()] { self->run(); });
  } catch (const std::system_error& error) {
    started_ = false;
    throw Error(Errc::system_error, starting_job, nodes_->path().str(), error.code().message());
  }
}

void JobRunner::tell_to_close() { closing_.request_stop(); }

bool JobRunner::wait_until_finished(const CallOptions& call) {
  const auto deadline = call.deadline.value_or(nodes_->client()->default_deadline());
  {
    std::unique_lock lock(mutex_);
    if (started_ && !changed_.wait_until(lock, call.stop, deadline, [this] { return finished_; })) return false;
  }
  return errors_->tell_all(call, deadline);
}

void JobRunner::join() {
  if (on_own_thread()) {
    thread_.detach();
  } else if (thread_.joinable()) {
    thread_.join();
  }
  errors_->end();
}

bool JobRunner::on_own_thread() const {
  const std::lock_guard lock(mutex_);
  return runner_ == std::this_thread::get_id();
}

bool JobRunner::is_running() const noexcept {
  const std::lock_guard lock(mutex_);
  if (lease_ == nullptr || stop_.stop_requested()) return false;
  const LeaseState state = lease_->state();
  return state == LeaseState::held || state == LeaseState::uncertain;
}

}  // namespace zkrecipes::detail
