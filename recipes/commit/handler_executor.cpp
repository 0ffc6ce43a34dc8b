#include "recipes/commit/handler_executor.hpp"

#include <utility>

namespace zkrecipes::detail {

namespace {

constexpr std::size_t max_batch = 64;  // So that the first of many need not wait for the last one's prepare().

std::string message_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown kind";
  }
}

}  // namespace

/// Runs what waits. An executor may destroy it instead: then the next job asks for another one.
class HandlerExecutor::Turn {
 public:
  explicit Turn(std::shared_ptr<HandlerExecutor> of) : of_(std::move(of)) {}
  Turn(Turn&&) noexcept = default;
  ~Turn() {
    if (of_ != nullptr) of_->end_turn(false);
  }

  void operator()() { std::exchange(of_, nullptr)->run(); }

 private:
  std::shared_ptr<HandlerExecutor> of_;
};

void HandlerExecutor::submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (finishing_ || failure_) return;
    waiting_.push_back(std::move(job));
    if (std::exchange(running_, true)) return;
  }
  client_->callbacks()->post(Turn(shared_from_this()));
}

void HandlerExecutor::finish(zkclient::UniqueFunction<void()> done) {
  std::deque<Job> dropped;
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    dropped.swap(waiting_);
    finished_ = std::move(done);
    if (std::exchange(running_, true)) return;
  }
  client_->callbacks()->post(Turn(shared_from_this()));
}

std::optional<Error> HandlerExecutor::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// One task at a time; each batch a task of its own, so that others get their turn.
void HandlerExecutor::run() {
  std::deque<Job> batch;
  {
    const std::lock_guard lock(mutex_);
    while (!waiting_.empty() && batch.size() < max_batch) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }
  if (!batch.empty()) run_batch(batch);
  end_turn(true);
}

void HandlerExecutor::end_turn(bool may_go_on) {
  zkclient::UniqueFunction<void()> finished;
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    goes_on = may_go_on && !finishing_ && !failure_ && !waiting_.empty();
    if (!goes_on) {
      running_ = false;
      finished = std::exchange(finished_, nullptr);
    }
  }
  if (goes_on) client_->callbacks()->post(Turn(shared_from_this()));
  if (!finished) return;
  let_go();
  finished();
}

// Before their owner may take them for gone.
void HandlerExecutor::let_go() {
  handlers_ = {};
  log_ = nullptr;
}

void HandlerExecutor::run_batch(std::deque<Job>& batch) {
  try {
    write_what_comes(batch);
    for (Job& job : batch) {
      switch (job.kind) {
        case Kind::prepare: prepare(job); break;
        case Kind::commit:
        case Kind::abort: apply(job); break;
        case Kind::end: append(job, LogEntry::end); break;
      }
    }
    if (std::exchange(dirty_, false)) log_->sync();
  } catch (const Error& error) {
    fail(error.what(), error);
    return;
  } catch (const std::exception& error) {
    fail(error.what(), std::nullopt);
    return;
  } catch (...) {
    fail("an exception of an unknown kind", std::nullopt);
    return;
  }
  report(std::move(batch));
}

void HandlerExecutor::append(Job& job, LogEntry entry, std::string_view data) {
  log_->append(entry, job.transaction.id, data);
  job.logged = advance(job.logged, entry).value_or(LogState::none);
}

// On the disk before a handler is called: a process that dies in prepare() has to find out later what to abort.
void HandlerExecutor::write_what_comes(std::deque<Job>& batch) {
  bool matters = false;
  for (Job& job : batch) {
    if (job.kind == Kind::prepare && job.logged == LogState::none) {
      append(job, LogEntry::begin, encode(LoggedData{job.tree, job.transaction.payload}));
      matters = true;
    }
    const bool decided = job.logged == LogState::committed || job.logged == LogState::aborted;
    if (decided || job.logged == LogState::applied) continue;
    if (job.kind != Kind::commit && job.kind != Kind::abort) continue;
    // Only by the word of an operator: the log was lost.
    if (job.logged == LogState::none) {
      append(job, LogEntry::begin, encode(LoggedData{job.tree, job.transaction.payload}));
    }
    if (job.logged == LogState::begun && job.kind == Kind::commit) append(job, LogEntry::ready);
    if (job.kind == Kind::commit) append(job, LogEntry::commit);
    if (job.kind == Kind::abort) append(job, LogEntry::abort);
    matters = matters || job.kind == Kind::commit;
  }
  if (matters) log_->sync();
}

// No exception of the user's leaves here, and every one of the log's does.
void HandlerExecutor::prepare(Job& job) {
  CommitVote vote;
  try {
    vote = handlers_.prepare(job.transaction);
  } catch (...) {
    vote = CommitVote::no(message_of(std::current_exception()));
  }
  job.result.ready = vote.commit;
  job.result.reason = vote.reason.substr(0, max_reason);
  if (!vote.commit) return;
  append(job, LogEntry::ready);
  dirty_ = true;
}

void HandlerExecutor::apply(Job& job) {
  try {
    job.kind == Kind::commit ? handlers_.commit(job.transaction) : handlers_.abort(job.transaction);
  } catch (...) {
    job.result.thrown = true;
    job.result.reason = message_of(std::current_exception());
    return;
  }
  append(job, LogEntry::applied);
  // An abort that is forgotten is found again, or presumed; a commit must not be done twice.
  dirty_ = dirty_ || job.kind == Kind::commit;
}

void HandlerExecutor::report(std::deque<Job> batch) {
  client_->loop()->post([batch = std::make_shared<std::deque<Job>>(std::move(batch))] {
    for (Job& job : *batch) {
      job.result.logged = job.logged;
      if (job.done) job.done(std::move(job.result));
    }
  });
}

void HandlerExecutor::fail(const std::string& why, std::optional<Error> error) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = error ? *error : Error(Errc::system_error, "participant log", "", why);
  }
  client_->loop()->post([self = shared_from_this()] {
    if (self->failed_) self->failed_();
  });
}

}  // namespace zkrecipes::detail
