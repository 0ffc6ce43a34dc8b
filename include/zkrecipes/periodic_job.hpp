#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>
#include <zkrecipes/schedule.hpp>

namespace zkrecipes {

/// What becomes of firings whose time has passed: nobody was up, or the run before them took too long.
///
/// skip   the last of them runs if it is late by no more than PeriodicJobOptions::grace; otherwise none does
/// last   the last of them runs, however late it is
/// all    each of them runs, one after the other, the oldest first
enum class MissedFirings { skip, last, all };

/// What becomes of a firing whose runner died, lost its lease, or was told to stop and threw, before the end of the run
/// was recorded.
///
/// run_again     it is run again: each firing runs at least once
/// never_again   it is left as it is: each firing runs at most once
enum class RunnerDied { run_again, never_again };

/// running       the run goes on
/// succeeded     the function has returned
/// failed        the function threw: JobRun::error
/// interrupted   the lease ended before the end of the run was recorded
/// skipped       not run: too late, by MissedFirings::skip
enum class JobOutcome { running, succeeded, failed, interrupted, skipped };

ZKRECIPES_API const char* to_string(JobOutcome outcome) noexcept;

/// One run of a firing.
struct JobRun {
  JobTime firing = {};                       ///< When it was due, by the schedule.
  int attempt = 1;                           ///< More than 1: the runners before it died. 0: it was skipped.
  JobOutcome outcome = JobOutcome::running;  ///< How it ended, if it has.
  std::string runner = {};  ///< PeriodicJobOptions::id of the runner; of what was skipped: of who found that out.
  FencingToken token = {};  ///< Of its lease.
  JobTime started = {};     ///< By the server's clock.
  std::optional<std::chrono::milliseconds> duration = {};  ///< By the runner's clock; of what has ended.
  /// What failed: the first 1,000 bytes; each that is not of UTF-8 stands as a replacement character of three bytes.
  std::string error = {};
  /// The first of the missed firings that this one stands for; see MissedFirings.
  std::optional<JobTime> missed_from = {};

  bool operator==(const JobRun&) const = default;
};

/// Where a job stands.
struct JobStatus {
  /// All firings up to this one are settled: run, skipped or given up. Ask the schedule for the next one.
  JobTime settled = {};
  /// The run that goes on, or whose runner has died just now.
  std::optional<JobRun> running = {};
};

/// What the function of a periodic job is told.
class ZKRECIPES_API JobFiring {
 public:
  JobFiring(JobTime time, int attempt, Lease lease) noexcept;  ///< For the recipe.

  /// Of the firing; not of its run, which may be later.
  JobTime time() const noexcept { return time_; }
  /// 1, or more if earlier runners died.
  int attempt() const noexcept { return attempt_; }
  /// The right to run: valid(), token(), guard(), transaction().
  const Lease& lease() const noexcept { return lease_; }

 private:
  JobTime time_;
  int attempt_;
  Lease lease_;
};

struct PeriodicJobOptions {
  MissedFirings missed = MissedFirings::last;      ///< What becomes of firings that nobody has run in time.
  RunnerDied runner_died = RunnerDied::run_again;  ///< What becomes of a firing whose runner died.
  /// See MissedFirings::skip. From zero to 10,000 days; with `skip` at least a millisecond. It has to exceed what a
  /// process takes to wake and to get the lease, in which a firing is late already: seconds rather than milliseconds.
  std::chrono::milliseconds grace{60'000};
  std::chrono::milliseconds max_early{5'000};  ///< By how much a firing may run early, by the server's clock. To a day.
  std::size_t history = 100;                   ///< How many runs are kept. From 1 to 10,000.
  std::string id = {};  ///< This runner's name in the records, at most 200 bytes; default "host:pid".
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// The clock that says when a firing is due; for tests. Called on the job's thread.
  std::function<std::chrono::system_clock::time_point()> clock = std::chrono::system_clock::now;
  /// Told of what the function threw, of runs whose end could not be recorded, and of failures after which the job tries
  /// again. One call at a time, on the callback executor; what that has not begun when the job is closed or destroyed is
  /// told by that call, on its thread.
  std::function<void(const std::exception_ptr&)> on_error = {};
};

/// Runs a function on a schedule, each firing in one process of all that name the same path. Sources: ShedLock, the
/// clustered scheduler of Quartz, and kazoo's NonBlockingLease, which do the same for their languages. This layout is
/// our own: neither Curator nor kazoo has a recipe whose nodes could be shared.
///
///   path (persistent)
///    |-- state                       persistent; data: JSON, the last firing that is settled, and the one that runs.
///    |                               Empty: all firings before its mtime are settled
///    |-- runner                      ephemeral; data: who runs, its host, since when
///    |-- _c_<uuid>-runner            ephemeral, made and deleted together with it: this run's alone
///    |-- history/                    persistent
///    |    '-- 2026-11-29T02:30:00.000Z-1   persistent; data: JSON, one run: firing and attempt
///    '-- writes/                     slots of the exactly-once writer (docs/exactly_once.md)
///
///   state    {"settled":"2026-11-29T02:30:00.000Z","running":{...}}
///   history  {"firing":"2026-11-29T02:30:00.000Z","attempt":1,"outcome":"failed","runner":"host:17","token":4294967302,
///            "started":"2026-11-29T02:30:00.004Z","duration_ms":1500,"error":"disk full"}
///
/// Invariant: a run begins by a transaction that changes `state` on the condition of its version and of the runner's own
/// node; so a firing that is settled never begins again, and two runs never begin without the end of the first one's
/// node between them. Firings are told apart by their times, which the schedule computes, and not by anybody's clock.
///
/// Guaranteed: no firing runs in two processes at a time, as told by the lease's own clock, unless nodes are deleted by
/// hand; the stop token fires before another process can run; with run_again each firing that is not missed runs to its
/// end, or throws, at least once; with never_again no firing begins twice. Not guaranteed: that a function that ignores
/// its token, or a process that is paused, stops in time (give lease().token() or guard() to what the function writes
/// to); "exactly once" for what the function does outside of ZooKeeper: no scheduler can promise that. Runs of one job
/// never overlap: a function that does not return keeps all later firings waiting.
///
/// Clocks: each process wakes by its own. The one that gets the lease reads the server's clock (the time of its own
/// node) and goes by the earlier of that, plus max_early, and its own. So a host whose clock is an hour ahead begins a
/// firing at most max_early early, and skips nothing: it takes for missed only what is due by both clocks, and runs what
/// is early one by one. It takes the lease for a moment about once a minute until then. A host whose clock is behind
/// finds firings settled by others; if it is alone, it is as late as its clock. If the clock of ZooKeeper's leader is
/// behind by more than max_early, all firings are late by what exceeds that. If it is ahead when the job is started for
/// the first time, or when `state` is made again, all firings up to its time count as settled: nothing runs, and nothing
/// is reported, until the hosts' clocks have come there. JobStatus::settled tells; an operator sets `state` back.
///
/// What goes wrong                              What happens
/// -------------------------------------------  ------------------------------------------------------------------
/// server not up yet, or away                   the job waits for it; then the policy for missed firings holds
/// a request fails (access refused, ...)        on_error; tried again after 0.1 s, later less often, at least each 10 s
/// begin or end of a run: reply lost            nothing: resolved, recorded once
/// runner dies while it runs                    another process goes on when its session has ended: as RunnerDied says.
///                                              The history has the run as interrupted
/// session lost while it runs                   the stop token fires; as if the runner had died; on_error (not_held)
///                                              when the function has returned. While its end is recorded: on_error
///                                              (in_doubt), and the history tells whether it was
/// connection breaks while it runs              nothing, or as above at the lease's valid_until()
/// runner's node deleted by hand                as a lost session, as soon as that is seen
/// function throws                              recorded as failed, on_error; the firing is settled
/// told to stop, and the function throws        not recorded: as if the runner had died
/// function ignores its stop token              it runs on beside the next runner; close() waits for it
/// firings were missed                          as MissedFirings says
/// a host's clock is ahead                      it runs early by max_early at most
/// state/history removed by hand                made again: what is before that moment, by the clock of ZooKeeper's
///                                              leader, counts as settled
/// the history cannot be written                settled without the record; on_error
/// old records cannot be removed                they stay; on_error after each run; tried again after the next one
/// state is no JSON of ours                     on_error (foreign_node), which names it; tried again as above
/// schedule throws, or returns no later time    on_error; tried again as above. So if the clock throws
/// client closed                                the stop token fires; on_error (closed) when the function has returned;
///                                              the job is finished
///
/// Thread safety: all members, also from the function and from on_error; but a callback of the function's stop token must
/// not wait for the function, and so must not close or destroy the job.
class ZKRECIPES_API PeriodicJob {
 public:
  /// The work of a firing. It should return soon when `stop` fires (lease lost, or close()); if it could not finish, it
  /// should throw then.
  using Task = std::function<void(std::stop_token stop, const JobFiring& firing)>;

  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (no schedule, no task, no clock, the root as the
  /// path, an option out of its range).
  PeriodicJob(zkclient::Client client, zkclient::Path path, Schedule schedule, Task task,
              PeriodicJobOptions options = {});
  /// As close(), without a deadline: waits for a running function, as std::jthread does, and until its end is on record
  /// or its session over. In the function itself it does not wait.
  ~PeriodicJob();
  PeriodicJob(const PeriodicJob&) = delete;
  PeriodicJob& operator=(const PeriodicJob&) = delete;

  /// Takes part from here on, with a thread of its own. Returns at once, whether a server is there or not. The first
  /// process ever to start a job settles all firings before that moment, by the clock of ZooKeeper's leader. Again:
  /// nothing. Errors: closed, forked, system_error.
  void start();
  /// Takes part no more: tells a running function to stop, waits until it has returned, and records its end. Nothing of
  /// this object runs afterwards. In the function itself it does not wait. Waits for on_error, too, or calls it for what
  /// is still to be told; in on_error itself it does not wait for that. Idempotent. Errors: forked; deadline_exceeded (by
  /// default the client's operation_timeout), cancelled: then the function runs on, under its lease, or on_error does.
  void close(const zkclient::CallOptions& call = {});

  /// Where the job stands; nullopt if it was never started anywhere. Needs no start(). Blocks for one round trip.
  /// Errors: foreign_node, and those common to all operations of Client.
  std::optional<JobStatus> status(const zkclient::CallOptions& call = {}) const;
  void async_status(zkclient::Handler<std::optional<JobStatus>> handler, const zkclient::CallOptions& call = {}) const;
  /// The runs that are on record, the latest firing first; nodes that are no records of ours are left out. Needs no
  /// start(). Blocks for two round trips. Errors: those common to all operations of Client.
  std::vector<JobRun> history(const zkclient::CallOptions& call = {}) const;
  void async_history(zkclient::Handler<std::vector<JobRun>> handler, const zkclient::CallOptions& call = {}) const;

  /// True while the function runs in this process, was not told to stop, and its lease is valid. No I/O.
  bool is_running() const noexcept;
  const std::string& id() const noexcept;
  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace zkrecipes
