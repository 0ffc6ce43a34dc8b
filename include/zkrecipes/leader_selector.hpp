#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/election.hpp>
#include <zkrecipes/layout.hpp>

namespace zkrecipes {

namespace detail {
class SelectorTerm;
}

/// What a LeaderSelector's task holds while it runs: a Leadership, which goes when the task returns.
class ZKRECIPES_API [[nodiscard]] SelectedLeadership : public Leadership {
 public:
  explicit SelectedLeadership(std::shared_ptr<detail::SelectorTerm> term);  ///< For LeaderSelector.

  /// Tells the watchdog that the task makes progress (LeaderSelectorOptions::progress_timeout). Takes nanoseconds, from
  /// any thread.
  void alive() noexcept;

 private:
  std::shared_ptr<detail::SelectorTerm> term_;
};

struct LeaderSelectorOptions {
  Layout layout = Layout::curator();
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< This candidate's name; default "host:pid".
  /// A candidate again, at the end, whenever a term is over. Otherwise only after requeue().
  bool requeue = true;
  /// The watchdog: a task that says alive() less often than this has stalled, and its leadership is given up. Zero: no
  /// watchdog. Counts while this process is paused, too.
  std::chrono::milliseconds progress_timeout{0};
  /// For how long a task that close(), step_down() or the destructor has told to stop keeps its leadership if it does
  /// not return.
  std::chrono::milliseconds stop_grace{5'000};
  /// Told of what the task threw, of a task that stalled (Errc::deadline_exceeded), and of campaigns that failed and
  /// will be repeated. One call at a time, on the callback executor; what that has not begun when the selector is closed
  /// or destroyed is told by that call, on its thread.
  std::function<void(const std::exception_ptr&)> on_error = {};
};

/// Runs a task for as long as this process leads, on a thread of its own. Source: Apache Curator's LeaderSelector, with
/// which it can share a path (as with its InterProcessMutex; LeaderElection is the counterpart of LeaderLatch).
///
///   path (container)
///    |-- _c_<uuid>-lock-0000000003   ephemeral, data: the candidate's id; the leader, whose task runs
///    '-- _c_<uuid>-lock-0000000004   watches ...03 only
///
/// Invariant: the task runs only between a victory and the end of that leadership; when the leadership ends first, the
/// task's stop token has fired before.
///
/// Guaranteed: the stop token fires, and is_leader() turns false, before another candidate can lead, unless nodes are
/// deleted by hand; the leadership is given up when the task returns, throws or stalls. Not guaranteed: that a task
/// that ignores its token, or a process that is paused, stops in time (give token() or guard() to what the task writes
/// to); any order but that of arrival: there are no priorities among candidates.
///
/// What goes wrong                              What happens
/// -------------------------------------------  ------------------------------------------------------------------
/// server not up yet, or away                   the campaign waits for it
/// campaign fails (access refused, ...)         on_error; repeated after 0.1 s, doubled each time up to 10 s
/// session lost, own node deleted while leading the stop token fires; a candidate again when the task has returned
/// connection breaks while leading              nothing, or as above at valid_until()
/// session lost, node deleted while waiting     a candidate again, at the end
/// task throws                                  on_error; leadership given up; a candidate again after a pause as above
/// task stalls                                  leadership given up at once, stop token fires first; on_error; a
///                                              candidate again when the task has returned
/// task ignores its stop token                  leadership is lost or, after stop_grace, given up all the same; the
///                                              task runs on beside the next leader, and close() waits for it
/// client closed                                the stop token fires; the selector is finished
///
/// Thread safety: all members, also from the task and from on_error; but a callback of the task's stop token must not
/// wait for the task, and so must not close or destroy the selector.
class ZKRECIPES_API LeaderSelector {
 public:
  /// What the leader runs: until `stop` is asked for, or for as long as it wants to lead.
  using Task = std::function<void(std::stop_token stop, SelectedLeadership& leadership)>;

  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (no task, negative times).
  LeaderSelector(zkclient::Client client, zkclient::Path path, Task task, LeaderSelectorOptions options = {});
  /// As close(), without a deadline: waits for a running task, as std::jthread does. In the task itself it does not
  /// wait.
  ~LeaderSelector();
  LeaderSelector(const LeaderSelector&) = delete;
  LeaderSelector& operator=(const LeaderSelector&) = delete;

  /// Becomes a candidate. Returns at once, whether a server is there or not. Again: nothing. Errors: closed, forked.
  void start();
  /// Becomes a candidate once more when the present term is over (or at once, if none is and it was started).
  void requeue();
  /// Tells a running task to stop; the leadership ends when it returns, at the latest after stop_grace.
  void step_down();
  /// Ends the campaign, or tells the task to stop and waits until it has returned, its node is gone, and on_error has
  /// returned. Nothing of this object runs afterwards. In the task itself it does not wait. Idempotent. Errors: forked;
  /// deadline_exceeded (by default the client's operation_timeout), cancelled: then the leadership is given up, though
  /// the task runs on.
  void close(const zkclient::CallOptions& call = {});

  /// Whether this process leads, right now: true only while the task runs, was not told to stop, and the leadership is
  /// valid by its own clock. No I/O, tens of nanoseconds: meant to be asked before every step that matters.
  bool is_leader() const noexcept;

  /// As the members of Election.
  std::optional<Leader> leader(const zkclient::CallOptions& call = {}) const;
  void async_leader(zkclient::Handler<std::optional<Leader>> handler, const zkclient::CallOptions& call = {}) const;
  std::vector<Contender> candidates(const zkclient::CallOptions& call = {}) const;
  void async_candidates(zkclient::Handler<std::vector<Contender>> handler,
                        const zkclient::CallOptions& call = {}) const;
  Leader wait_for_leader(const LeaderCondition& condition = {}, const zkclient::CallOptions& call = {}) const;
  void async_wait_for_leader(const LeaderCondition& condition, zkclient::Handler<Leader> handler,
                             const zkclient::CallOptions& call = {}) const;
  std::optional<Leader> wait_for_change(const std::optional<Leader>& known,
                                        const zkclient::CallOptions& call = {}) const;
  void async_wait_for_change(const std::optional<Leader>& known, zkclient::Handler<std::optional<Leader>> handler,
                             const zkclient::CallOptions& call = {}) const;
  zkclient::Subscription observe(zkclient::UniqueFunction<void(const std::optional<Leader>&)> listener) const;
  const std::string& id() const noexcept;
  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace zkrecipes
