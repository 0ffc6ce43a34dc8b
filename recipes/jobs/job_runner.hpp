#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "recipes/jobs/firing_decider.hpp"
#include "recipes/jobs/job_nodes.hpp"
#include "recipes/kernel/error_backlog.hpp"

namespace zkrecipes::detail {

/// The thread of a PeriodicJob: waits until a firing is due, gets the lease, runs the function, records that. Shared with the
/// thread, which may outlive the job when the function destroys that.
class JobRunner : public std::enable_shared_from_this<JobRunner> {
 public:
  struct Work {
    Schedule schedule;
    PeriodicJob::Task task;
    FiringPolicy policy;
    std::chrono::milliseconds max_early{0};
    std::function<std::chrono::system_clock::time_point()> clock;
    std::function<void(const std::exception_ptr&)> on_error;
  };
  JobRunner(JobNodes::Self nodes, Work work);

  void start();
  void tell_to_close();
  /// Also until on_error has been told of everything; calls it here for what the executor has not begun. False when the
  /// limits of the call came first.
  bool wait_until_finished(const zkclient::CallOptions& call);
  /// After tell_to_close(): the same without limits, but lets the thread end by itself if this is it. Then on_error is
  /// not called any more.
  void join();
  bool on_own_thread() const;
  bool is_running() const noexcept;
  bool forked() const noexcept { return nodes_->client()->loop()->forked(); }

 private:
  void run();
  void step();
  bool waits(const JobNodes::Seen& seen);
  void take_turn(const JobNodes::Seen& seen, JobNodes::Claim claim);
  void settle(const JobNodes::Seen& seen, const Lease& lease, const JobRun& record);
  void run_firing(const JobNodes::Seen& seen, Lease lease, JobRun run);
  void put(const char* operation, JobNodes::Change change);
  bool begin(const JobNodes::Seen& seen, const Lease& lease, const JobRun& run);
  void finish(const JobNodes::Seen& seen, const Lease& lease, const JobRun& run);
  bool call_task(const JobFiring& firing, JobRun& run);

  FiringStep decide(const JobNodes::Seen& seen, const JobClock& now) const;
  JobTime host_time() const;
  void sleep(std::chrono::milliseconds time);

  const JobNodes::Self nodes_;
  const Work work_;
  const std::shared_ptr<ErrorBacklog> errors_;
  std::stop_source closing_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::thread thread_;
  std::thread::id runner_;  // Known as soon as it runs.
  bool started_ = false;
  bool finished_ = false;             // The thread is about to end.
  std::shared_ptr<LeaseCore> lease_;  // While the function runs.
  std::stop_token stop_;              // The function's.
};

}  // namespace zkrecipes::detail
