#include <zkrecipes/leader_selector.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "recipes/elections/election_core.hpp"
#include "recipes/elections/selector_term.hpp"
#include "recipes/kernel/error_backlog.hpp"

namespace zkrecipes {

using namespace words;
using detail::LeasePtr;
using detail::SelectorTerm;

namespace {

constexpr const char* task_operation = "leader task";
constexpr auto first_pause = std::chrono::milliseconds(100);
constexpr auto last_pause = std::chrono::milliseconds(10'000);

}  // namespace

SelectedLeadership::SelectedLeadership(std::shared_ptr<SelectorTerm> term)
    : Leadership(Lease(term->lease())), term_(std::move(term)) {}

void SelectedLeadership::alive() noexcept {
  if (term_ != nullptr) term_->alive();
}

/// Shared with the thread, which may outlive the selector when the task destroys it.
struct LeaderSelector::State : std::enable_shared_from_this<State> {
  std::shared_ptr<detail::ElectionCore> election;
  Task task;
  LeaderSelectorOptions options;
  std::shared_ptr<detail::ErrorBacklog> errors;
  std::stop_source closing;

  mutable std::mutex mutex;
  std::condition_variable_any changed;
  std::thread thread;
  std::thread::id runner;  // Known as soon as it runs.
  bool started = false;
  bool wanted = false;    // To be a candidate.
  bool finished = false;  // The thread is about to end.
  std::shared_ptr<SelectorTerm> term;

  // In a forked child the thread is the parent's, and another one of the parent's may have had the lock.
  bool forked() const noexcept { return election->client()->loop()->forked(); }
  void require_own_process(const char* operation) const {
    if (forked()) throw Error(Errc::forked, operation, election->path().str());
  }

  void run();
  bool wait_until_wanted();
  void pause(std::chrono::milliseconds& time);
  bool lead(const LeasePtr& lease);
  std::shared_ptr<SelectorTerm> present() const {
    const std::lock_guard lock(mutex);
    return term;
  }
  void want() {
    const std::lock_guard lock(mutex);
    wanted = true;
    changed.notify_all();
  }
  bool on_own_thread() const {
    const std::lock_guard lock(mutex);
    return runner == std::this_thread::get_id();
  }
  void tell_to_close();
  bool wait_until_finished(const CallOptions& call);
};

// --- The thread ---------------------------------------------------------------------------------------------------

void LeaderSelector::State::run() {
  {
    const std::lock_guard lock(mutex);
    runner = std::this_thread::get_id();
  }
  auto next_pause = first_pause;
  while (wait_until_wanted()) {
    bool well = false;
    std::exception_ptr failure;  // Its last owner is told.
    try {
      const Lease lease = election->campaign({.stop = closing.get_token()});
      well = lead(lease.impl());
      if (options.requeue) want();
    } catch (const Error& error) {
      if (closing.stop_requested() || error.errc() == Errc::closed) break;
      failure = std::current_exception();
    }
    if (failure != nullptr) {
      errors->report(std::move(failure));
      want();  // The wish stands.
    }
    if (well) {
      next_pause = first_pause;
    } else {
      pause(next_pause);
    }
  }
  const std::lock_guard lock(mutex);
  finished = true;
  changed.notify_all();
}

bool LeaderSelector::State::wait_until_wanted() {
  std::unique_lock lock(mutex);
  if (!changed.wait(lock, closing.get_token(), [this] { return wanted; })) return false;
  wanted = false;
  return !closing.stop_requested();
}

// After an error, growing.
void LeaderSelector::State::pause(std::chrono::milliseconds& time) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, closing.get_token(), time, [] { return false; });
  time = std::min(time * 2, last_pause);
}

// One term. False when the task threw.
bool LeaderSelector::State::lead(const LeasePtr& lease) {
  const std::weak_ptr<State> weak = weak_from_this();
  const auto on_stall = [weak, timeout = options.progress_timeout] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const std::string detail =
        "no sign of progress for " + std::to_string(timeout.count()) + " ms: the leadership was given up";
    self->errors->report(
        std::make_exception_ptr(Error(Errc::deadline_exceeded, task_operation, self->election->path().str(), detail)));
  };
  const SelectorTerm::Limits limits{options.progress_timeout, options.stop_grace};
  const auto now = std::make_shared<SelectorTerm>(lease, limits, on_stall);
  {
    const std::lock_guard lock(mutex);
    if (closing.stop_requested()) {
      lease->drop();
      return true;
    }
    term = now;
  }
  now->begin();
  std::exception_ptr failure;
  try {
    SelectedLeadership leadership(now);
    task(now->stop(), leadership);
  } catch (...) {
    failure = std::current_exception();
  }
  const bool well = failure == nullptr;
  if (!well) errors->report(std::move(failure));
  {
    const std::lock_guard lock(mutex);
    term = nullptr;
  }
  now->end();
  lease->drop();  // Unless the task has moved it out and it is gone already.
  return well;
}

// --- The outside --------------------------------------------------------------------------------------------------

LeaderSelector::LeaderSelector(zkclient::Client client, zkclient::Path path, Task task, LeaderSelectorOptions options)
    : state_(std::make_shared<State>()) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, "leader selector", path.str(), why); };
  if (!task) refuse("no task");
  if (options.progress_timeout.count() < 0 || options.stop_grace.count() < 0) refuse("a negative time");
  state_->errors = std::make_shared<detail::ErrorBacklog>(client.impl()->callbacks(), std::move(options.on_error));
  state_->election = detail::make_fair_election(std::move(client), std::move(path), options.id, options.layout,
                                                options.acl, {"lock", {"lock-", "__lock__"}});
  state_->task = std::move(task);
  state_->options = std::move(options);
}

LeaderSelector::~LeaderSelector() {
  if (state_->forked()) {
    zk::keep_for_ever(std::move(state_));
    return;
  }
  state_->tell_to_close();
  if (state_->on_own_thread()) {
    state_->thread.detach();
  } else if (state_->thread.joinable()) {
    state_->thread.join();
    try {
      state_->election->resign({});
    } catch (const Error&) {
      // The node is being removed in the background.
    }
  }
  state_->errors->end();
}

void LeaderSelector::start() {
  state_->require_own_process("leader selector start");
  const std::lock_guard lock(state_->mutex);
  if (state_->closing.stop_requested() || state_->finished) {
    throw Error(Errc::closed, "leader selector start", path().str());
  }
  if (state_->started) return;
  state_->started = state_->wanted = true;
  try {
    state_->thread = zk::start_thread("zk-selector", [state = state_] { state->run(); });
  } catch (const std::system_error& error) {
    state_->started = state_->wanted = false;
    throw Error(Errc::system_error, "leader selector start", path().str(), error.code().message());
  }
}

void LeaderSelector::requeue() {
  if (state_->forked()) return;
  const std::lock_guard lock(state_->mutex);
  if (!state_->started) return;
  state_->wanted = true;
  state_->changed.notify_all();
}

void LeaderSelector::step_down() {
  if (state_->forked()) return;
  if (const auto term = state_->present()) term->tell_to_stop();
}

void LeaderSelector::State::tell_to_close() {
  closing.request_stop();
  if (const auto now = present()) now->tell_to_stop();
}

// False when the limits of the call came first.
bool LeaderSelector::State::wait_until_finished(const CallOptions& call) {
  std::unique_lock lock(mutex);
  if (!started) return true;
  const auto deadline = call.deadline.value_or(election->client()->default_deadline());
  return changed.wait_until(lock, call.stop, deadline, [this] { return finished; });
}

void LeaderSelector::close(const CallOptions& call) {
  state_->require_own_process("leader selector close");
  state_->tell_to_close();
  if (state_->on_own_thread()) return;
  if (!state_->wait_until_finished(call)) {
    if (const auto term = state_->present()) term->give_up();
    throw Error(call.stop.stop_requested() ? Errc::cancelled : Errc::deadline_exceeded, "leader selector close",
                path().str(), "the task has not returned");
  }
  state_->election->resign(call);
  if (state_->errors->tell_all(call, call.deadline.value_or(state_->election->client()->default_deadline()))) return;
  throw Error(call.stop.stop_requested() ? Errc::cancelled : Errc::deadline_exceeded, "leader selector close",
              path().str(), "on_error has not returned");
}

bool LeaderSelector::is_leader() const noexcept {
  if (state_->forked()) return false;
  const std::lock_guard lock(state_->mutex);
  return state_->term != nullptr && state_->term->leads();
}

std::optional<Leader> LeaderSelector::leader(const CallOptions& call) const { return state_->election->leader(call); }
void LeaderSelector::async_leader(zkclient::Handler<std::optional<Leader>> handler, const CallOptions& call) const {
  state_->election->async_leader(std::move(handler), call);
}

std::vector<Contender> LeaderSelector::candidates(const CallOptions& call) const {
  return state_->election->candidates(call);
}
void LeaderSelector::async_candidates(zkclient::Handler<std::vector<Contender>> handler,
                                      const CallOptions& call) const {
  state_->election->async_candidates(std::move(handler), call);
}

Leader LeaderSelector::wait_for_leader(const LeaderCondition& condition, const CallOptions& call) const {
  return state_->election->wait_for_leader(condition, call);
}
void LeaderSelector::async_wait_for_leader(const LeaderCondition& condition, zkclient::Handler<Leader> handler,
                                           const CallOptions& call) const {
  state_->election->async_wait_for_leader(condition, std::move(handler), call);
}

std::optional<Leader> LeaderSelector::wait_for_change(const std::optional<Leader>& known,
                                                      const CallOptions& call) const {
  return state_->election->wait_for_change(known, call);
}
void LeaderSelector::async_wait_for_change(const std::optional<Leader>& known,
                                           zkclient::Handler<std::optional<Leader>> handler,
                                           const CallOptions& call) const {
  state_->election->async_wait_for_change(known, std::move(handler), call);
}

zkclient::Subscription LeaderSelector::observe(detail::LeaderListener listener) const {
  return detail::observe_leader(state_->election->place(), std::move(listener));
}

const std::string& LeaderSelector::id() const noexcept { return state_->election->id(); }
const zkclient::Path& LeaderSelector::path() const noexcept { return state_->election->path(); }

}  // namespace zkrecipes
