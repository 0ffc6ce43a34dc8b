#include "recipes/views/mirror.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "recipes/kernel/droppable_task.hpp"
#include "recipes/kernel/ended_wait.hpp"
#include "zkclient/detail/recipe_views.hpp"

namespace zkrecipes::detail {

namespace {

/// Before a read is sent again that the server had no time for, or a task is posted again that the executor has dropped.
constexpr auto pause = std::chrono::milliseconds(500);
/// Between the transactions that keep a cache young.
constexpr auto shortest_interval = std::chrono::milliseconds(10);

OpType type_of(MirrorRead::Kind kind) {
  switch (kind) {
    case MirrorRead::Kind::sync: return OpType::sync;
    case MirrorRead::Kind::get: return OpType::get;
    case MirrorRead::Kind::exists: return OpType::exists;
    case MirrorRead::Kind::children: return OpType::children;
  }
  return OpType::exists;
}

// The model only knows that there is one.
std::shared_ptr<NamePredicate> take_include(MirrorScope& scope) {
  scope.filtered = scope.options.include != nullptr;
  return std::make_shared<NamePredicate>(std::exchange(scope.options.include, nullptr));
}

bool is_lost(const Reply& reply) {
  return reply.failed(Errc::connection_loss) || reply.failed(Errc::deadline_exceeded) || reply.failed(Errc::throttled);
}

}  // namespace

// --- Listeners -------------------------------------------------------------------------------------------------------

void ChangeBacklog::call(const Snapshot& newest) {
  const std::vector<Change> changes = difference(seen_, newest);
  const bool is_first = !std::exchange(told_, true);
  const bool lacks_more_or_less = seen_.complete() != newest.complete();
  // What an exact one lacks cannot be read; what another one lacks may only be late.
  const bool lacks_others = !newest.complete() && seen_.exact() != newest.exact();
  seen_ = newest;
  if (is_first || lacks_more_or_less || lacks_others || !changes.empty()) call_(changes, newest);
}

// --- Following the sessions ------------------------------------------------------------------------------------------

/// Tells the mirror of a session's states, for as long as it lives.
class Mirror::SessionWatch {
 public:
  SessionWatch(std::shared_ptr<zk::SessionState> session, Mirror& mirror)
      : session_(std::move(session)), observer_(session_->observe([&mirror] { mirror.on_session_state(); })) {}
  ~SessionWatch() { session_->forget(observer_); }
  SessionWatch(const SessionWatch&) = delete;
  SessionWatch& operator=(const SessionWatch&) = delete;

 private:
  const std::shared_ptr<zk::SessionState> session_;
  const zk::SessionState::ObserverId observer_;
};

std::shared_ptr<Mirror> Mirror::start(std::shared_ptr<zk::ClientCore> client, MirrorScope scope) {
  auto mirror = std::make_shared<Mirror>(client, std::move(scope));
  const bool accepted = client->loop()->post([mirror] {
    zk::spawn(run(mirror));
    if (mirror->max_age_.count() > 0) zk::spawn(keep_young(mirror));
  });
  if (!accepted) throw Error(client->loop()->refusal(), "cache", mirror->path_);
  return mirror;
}

Mirror::Mirror(std::shared_ptr<zk::ClientCore> client, MirrorScope scope)
    : client_(std::move(client)),
      path_(scope.path),
      full_path_(scope.full_path),
      max_age_(std::min<std::chrono::milliseconds>(scope.options.max_age, std::chrono::hours(24))),
      include_(take_include(scope)),
      model_(std::move(scope)),
      timer_(client_->events()),
      filter_pause_(client_->events()),
      session_over_(client_->events()) {}

Awaitable<void> Mirror::run(std::shared_ptr<Mirror> self) {
  const zk::CancelScope::Guard ended(self->ended_, [raw = self.get()] { raw->session_over_.set(); });
  self->sync_ = SharedSync::of(self->client_);
  const auto own = zk::own_writes_of(*self->client_)
                       .observe(self->full_path_, [raw = self.get()](const std::shared_ptr<SessionState>& told) {
                         raw->on_own_write(told);
                       });
  Call call;
  call.cancel = self->ended_;
  while (!self->over()) {
    const Reply connected = co_await self->client_->connected(call);
    if (!connected.ok()) {
      if (self->over()) break;
      // No login, say: that may change.
      co_await self->session_over_.wait(std::chrono::steady_clock::now() + pause);
      continue;
    }
    if (connected.session->over()) continue;
    self->session_over_.clear();
    const SessionWatch watch(connected.session, *self);
    self->follow(connected.session);
    if (!self->over()) co_await self->session_over_.wait(std::nullopt);
  }
  self->finish();
}

// A write of any kind that this client sends meanwhile, a lease's heartbeat say, does the same and costs nothing.
Awaitable<void> Mirror::keep_young(std::shared_ptr<Mirror> self) {
  const std::chrono::nanoseconds interval = std::max<std::chrono::nanoseconds>(self->max_age_ / 2, shortest_interval);
  Call call;
  call.cancel = self->ended_;
  zk::Signal over(self->client_->events());
  const zk::CancelScope::Guard ended(self->ended_, [&over] { over.set(); });
  while (!self->over()) {
    const auto& session = self->client_->current();
    const auto told = session == nullptr ? zkclient::BootClock::time_point() : session->told_up_to();
    const bool never = told == zkclient::BootClock::time_point();
    const auto age = never ? interval : zkclient::BootClock::now() - told;
    if (age >= interval) co_await self->pass(ReadBarrier::quorum, call);
    if (self->over()) break;
    co_await over.wait(std::chrono::steady_clock::now() + (age < interval ? interval - age : interval));
  }
}

void Mirror::follow(const std::shared_ptr<zk::SessionState>& session) {
  note_settled(false);
  session_ = session;
  model_.session_opened();
  connected_ = true;
  on_session_state();
  schedule();
}

void Mirror::on_session_state() {
  const bool connected = session_->raw_state() == ConnectionState::connected;
  if (connected != connected_) {
    note_settled(false);
    connected_ = connected;
    connected ? model_.reconnected() : model_.disconnected();
    schedule();
    tell_state();
  }
  if (session_->over()) session_over_.set();
}

// The events of an own write come ahead of its answer, so what it has changed has a number by now.
void Mirror::on_own_write(const std::shared_ptr<SessionState>& told) {
  if (told != nullptr && told == session_) {
    own_mark_ = model_.mark();
  } else {
    ++doubts_;
  }
}

void Mirror::finish() {
  finished_ = true;
  timer_.cancel();
  filter_pause_.cancel();
  ended_->request();  // The loop ends only when no timer of keep_young() is left.
  note_settled(false);
  model_.closed();
  include_->stop();
  tell_state();
  waiting_.wake_all();
}

// --- Reading ---------------------------------------------------------------------------------------------------------

// Not at once: what else has come with the same event belongs to it.
void Mirror::schedule() {
  if (finished_ || std::exchange(scheduled_, true)) return;
  client_->events().defer([self = shared_from_this()] {
    self->scheduled_ = false;
    self->work();
  });
}

void Mirror::work() {
  if (finished_) return;
  const auto now = std::chrono::steady_clock::now();
  for (MirrorRead& read : model_.take_reads(now))
    zk::spawn(Mirror::read(shared_from_this(), std::move(read), session_));
  ask_filter();
  if (SnapshotPtr published = model_.publish(now)) publish(std::move(published));
  tell_state();
  note_settled(model_.state() == CacheState::current && model_.covers(model_.mark()));
  waiting_.wake_all();  // A refresh also waits for what has been read again and was the same.
  if (const auto due = model_.due()) {
    timer_.set(*due, [this] { schedule(); });
  } else {
    timer_.cancel();
  }
}

// One batch at a time, so the calls of the filter do not overlap.
void Mirror::ask_filter() {
  std::vector<std::string> paths = model_.take_names();
  if (!paths.empty()) ask_filter(std::make_shared<const std::vector<std::string>>(std::move(paths)));
}

// The model waits for a verdict of these names, and asks for no others before.
void Mirror::ask_filter(PathsPtr paths) {
  auto ask = [weak = weak_from_this(), client = client_, include = include_, paths] {
    auto included = judge(*include, *paths);
    if (!included) return;
    client->loop()->post([weak, included = std::move(*included)] {
      const auto self = weak.lock();
      if (self == nullptr || self->finished_) return;
      self->model_.judged(included, std::chrono::steady_clock::now());
      self->schedule();
    });
  };
  auto dropped = [weak = weak_from_this(), client = client_, paths] {
    client->loop()->post([weak, paths] {
      const auto self = weak.lock();
      if (self == nullptr || self->finished_) return;
      self->filter_pause_.set_after(pause, [raw = self.get(), paths] { raw->ask_filter(paths); });
    });
  };
  client_->callbacks()->post(DroppableTask(std::move(ask), std::move(dropped)));
}

Request Mirror::request_of(const MirrorRead& read) const { return zk::make_request(type_of(read.kind), read.path); }

// The model drops it with the node, so it does not outlive the mirror.
std::shared_ptr<zk::LoopWatch> Mirror::watch_of(const MirrorRead& read) {
  const bool is_list = read.side == MirrorSide::list;
  const auto kind = is_list ? zk::WatchRegistry::Kind::children : zk::WatchRegistry::Kind::data;
  return std::make_shared<zk::LoopWatch>(
      client_, kind, [this, node = read.node, side = read.side](WatchEventType type) {
        const bool of_node = type == WatchEventType::created || type == WatchEventType::deleted ||
                             type == WatchEventType::data_changed || type == WatchEventType::children_changed;
        if (!of_node || finished_) return;
        note_settled(false);
        model_.event(node, side, type == WatchEventType::deleted);
        schedule();
      });
}

Awaitable<void> Mirror::read(std::shared_ptr<Mirror> self, MirrorRead read, std::shared_ptr<zk::SessionState> session) {
  Call call;
  call.cancel = self->ended_;
  call.bound = session;
  Request request = self->request_of(read);
  std::shared_ptr<zk::LoopWatch> watch;
  if (read.kind != MirrorRead::Kind::sync) watch = self->watch_of(read);
  const std::uint64_t doubts = self->doubts_;
  // After a reconnection all caches of the client want one; no cache's end ends that of the others.
  const PendingReply pending =
      watch == nullptr ? self->sync_->launch(session) : self->client_->launch_watching(std::move(request), call, watch);
  Reply reply = co_await pending.get();
  if (reply.failed(Errc::throttled)) co_await zk::pause_for(pause, self->client_->events(), session);
  // A session that is over has no watches; the next one reads everything.
  if (self->finished_ || self->session_ != session || session->over()) co_return;
  if (read.kind == MirrorRead::Kind::sync && (reply.ok() || reply.failed(Errc::no_node)))
    self->synced_ = std::max(self->synced_, doubts);
  self->on_reply(read, std::move(reply), std::move(watch));
}

void Mirror::on_reply(const MirrorRead& read, Reply reply, std::shared_ptr<void> watch) {
  MirrorReply answer;
  answer.lost = is_lost(reply);
  const bool is_sync = read.kind == MirrorRead::Kind::sync;
  if (!answer.lost && !(is_sync && reply.failed(Errc::no_node))) answer.error = reply.error;
  answer.stat = reply.stat;
  answer.data = std::move(reply.data);
  answer.names = std::move(reply.names);
  answer.watch = std::move(watch);
  model_.reply(read.id, std::move(answer), std::chrono::steady_clock::now());
  schedule();
}

// --- Telling ---------------------------------------------------------------------------------------------------------

void Mirror::publish(SnapshotPtr published) {
  Snapshot newest(std::move(published));
  {
    const std::lock_guard lock(mutex_);
    snapshot_ = newest;
    problem_ = model_.problem();
  }
  change_listeners_->tell(std::move(newest));
}

void Mirror::tell_state() {
  const CacheState state = model_.state();
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || state_ == state) return;
    state_ = state;
  }
  state_listeners_->tell(state);
}

// Told by the session, in the order of its answers: so what is settled now contains what was told up to now, and what
// it is told later as well, until the next event. What is not settled goes by what the model makes of the times.
void Mirror::note_settled(bool settled) {
  if (session_ != nullptr) model_.told_up_to(session_->told_up_to());
  const std::lock_guard lock(mutex_);
  take_age();
  as_of_ = std::max(as_of_, model_.as_of());
  settled_on_ = settled ? session_ : nullptr;
}

void Mirror::take_age() const {
  if (settled_on_ != nullptr) as_of_ = std::max(as_of_, settled_on_->told_up_to());
}

std::optional<zkclient::BootClock::time_point> Mirror::as_of() const {
  if (forked()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  take_age();
  if (as_of_ == zkclient::BootClock::time_point()) return std::nullopt;
  return as_of_;
}

Snapshot Mirror::snapshot() const {
  if (forked()) return {};
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

CacheState Mirror::state() const {
  if (forked()) return CacheState::closed;
  const std::lock_guard lock(mutex_);
  return closed_ ? CacheState::closed : state_;
}

std::optional<Error> Mirror::problem() const {
  if (forked()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!problem_) return std::nullopt;
  return Error(problem_->code, "cache", problem_->path);
}

zkclient::Subscription Mirror::on_change(Cache::Listener listener) {
  if (!listener) throw Error(Errc::invalid_argument, "on_change", path_, "no listener");
  if (forked()) throw Error(Errc::forked, "on_change", path_);
  return change_listeners_->add(client_->callbacks(), ChangeBacklog(std::move(listener)));
}

zkclient::Subscription Mirror::on_state(Cache::StateListener listener) {
  if (!listener) throw Error(Errc::invalid_argument, "on_state", path_, "no listener");
  if (forked()) throw Error(Errc::forked, "on_state", path_);
  return state_listeners_->add(client_->callbacks(), StateBacklog<CacheState>(std::move(listener)));
}

void Mirror::close() {
  if (forked()) return;
  include_->stop();  // Before state() says closed.
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  const auto self = shared_from_this();  // What is released here may have owned it.
  // Before anything is released: a destructor may wait for a thread that waits for this cache.
  client_->loop()->post([ended = ended_] { ended->request(); });
  change_listeners_->stop();
  state_listeners_->stop();
  include_->release();
  // Listeners that close the cache do not wait for each other.
  if (change_listeners_->runs_here() || state_listeners_->runs_here() || include_->runs_here()) return;
  change_listeners_->wait();
  state_listeners_->wait();
  include_->end();
}

// --- Calls -----------------------------------------------------------------------------------------------------------

Error Mirror::error(Errc code, const char* operation, std::string_view detail) const {
  return Error(code, operation, path_, detail);
}

Error Mirror::ended_wait(Errc code, const char* operation, std::string_view awaited) const {
  return error(code, operation, wait_story(awaited, describe_view(*this)));
}

Awaitable<Result<Snapshot>> Mirror::wait_ready(std::shared_ptr<Mirror> self, Call call) {
  return contain(std::move(self), "wait for cache", ReadBarrier::none, std::move(call));
}

Awaitable<Reply> Mirror::pass(ReadBarrier barrier, Call call) {
  for (;;) {
    Request request = zk::make_request(OpType::sync, full_path_);
    if (barrier == ReadBarrier::quorum) {
      request = zk::make_request(OpType::multi, "/");
      request.operations.emplace_back(zkclient::Check{zkclient::Path("/")});
    }
    Reply reply = co_await client_->perform(std::move(request), call);
    if (reply.failed(Errc::no_node)) reply.error.reset();
    // A majority has agreed on a refusal, too: the client may have no right to the root.
    if (reply.failed(Errc::transaction_failed)) reply.error.reset();
    if (!reply.unanswered() && !reply.failed(Errc::connection_loss)) co_return reply;
  }
}

// What is waited for does not rest.
std::uint64_t Mirror::hurry_to(std::uint64_t mark) {
  if (model_.covers(mark)) return mark;
  model_.hurry(mark);
  schedule();
  return mark;
}

const char* Mirror::contents_of(ReadBarrier barrier) const {
  if (barrier != ReadBarrier::none) return "a snapshot behind the barrier";
  return snapshot().revision() == 0 ? "the first snapshot" : "a snapshot with what this client has written";
}

Awaitable<Result<Snapshot>> Mirror::refresh(std::shared_ptr<Mirror> self, ReadBarrier barrier, Call call) {
  return contain(std::move(self), "refresh cache", barrier, std::move(call));
}

// What was committed before the barrier has been told by events before its reply, so it is dirty, or read, by now. If
// the barrier was answered in a session that the mirror does not know yet, that says nothing. An own write that was answered
// is a barrier itself. One whose answer was lost takes a sync: whoever says that it was done has found it, or has made sure
// that it cannot be done any more, so the leader has it.
Awaitable<Result<Snapshot>> Mirror::contain(std::shared_ptr<Mirror> self, const char* operation, ReadBarrier barrier,
                                            Call call) {
  // Behind that sync, or behind an event in this session, is all that is known of those writes.
  if (self->resolved_ < self->synced_) {
    self->own_mark_ = self->model_.mark();
    self->resolved_ = self->synced_;
  }
  const bool told = barrier == ReadBarrier::none && self->doubts_ == self->resolved_;
  if (told && self->model_.covers(self->own_mark_)) co_return self->snapshot();
  const Waiting waiter(self->waiting_, self->client_->events(), call);
  Call limits = call;
  limits.cancel = std::make_shared<zk::CancelScope>();  // By the caller, and by close().
  const auto cancel = [scope = limits.cancel] { scope->request(); };
  const zk::CancelScope::Guard cancelled(call.cancel, cancel);
  const zk::CancelScope::Guard ended(self->ended_, cancel);
  std::optional<std::uint64_t> mark;
  if (told) mark = self->hurry_to(self->own_mark_);
  for (;;) {
    waiter->clear();
    if (mark && self->model_.covers(*mark)) co_return self->snapshot();
    if (const auto failure = waiter->failure(self->finished_ || self->over()))
      co_return self->ended_wait(*failure, operation, self->contents_of(barrier));
    if (!mark) {
      const std::uint64_t doubts = self->doubts_;
      const ReadBarrier passed = barrier == ReadBarrier::none ? ReadBarrier::sync : barrier;
      const Reply reply = co_await self->pass(passed, limits);
      if (!reply.ok() && self->over()) continue;
      if (!reply.ok()) co_return zk::to_error(reply, operation, self->path_);
      if (reply.session != self->session_) {
        co_await waiter->wait();
        continue;
      }
      mark = self->own_mark_ = self->hurry_to(self->model_.mark());
      self->resolved_ = std::max(self->resolved_, doubts);
      continue;
    }
    co_await waiter->wait();
  }
}

struct Mirror::Answer {
  bool arrived = false;
  bool dropped = false;  // The predicate was not called.
  bool holds = false;
  std::exception_ptr error = nullptr;
};

void Mirror::ask_predicate(std::shared_ptr<SnapshotPredicate> predicate, Snapshot about, std::shared_ptr<Answer> answer,
                           std::shared_ptr<Waiter> waiting) const {
  auto tell = [client = client_, answer = std::move(answer), waiting = std::move(waiting)](Answer found) {
    client->loop()->post([answer, waiting, found] {
      *answer = found;
      waiting->wake();
    });
  };
  auto ask = [tell, predicate = std::move(predicate), about = std::move(about)] {
    Answer found{.arrived = true};
    try {
      found.holds = predicate->holds(about);
    } catch (...) {
      found.error = std::current_exception();
    }
    tell(std::move(found));
  };
  auto dropped = [tell] { tell({.arrived = true, .dropped = true}); };
  client_->callbacks()->post(DroppableTask(std::move(ask), std::move(dropped)));
}

Awaitable<Result<Snapshot>> Mirror::wait_until(std::shared_ptr<Mirror> self,
                                               std::shared_ptr<SnapshotPredicate> predicate, Call call) {
  Result<Snapshot> first = co_await contain(self, "wait for change", ReadBarrier::none, call);
  if (!first) co_return first.error();
  const Waiting waiter(self->waiting_, self->client_->events(), call);
  std::shared_ptr<Answer> answer;  // About `seen`.
  Snapshot seen;
  zk::Timer rest(self->client_->events());  // After a call of the predicate that the executor has dropped.
  for (;;) {
    waiter->clear();
    if (answer != nullptr && answer->error) std::rethrow_exception(answer->error);
    if (answer != nullptr && answer->holds) co_return seen;
    if (const auto failure = waiter->failure(self->finished_ || self->over()))
      co_return self->ended_wait(*failure, "wait for change", "a snapshot that the predicate takes");
    if (answer != nullptr && answer->dropped) {
      answer = nullptr;
      seen = Snapshot();  // It is still to be asked about it.
      rest.set_after(pause, [raw = waiter.operator->()] { raw->wake(); });
    }
    const bool open = answer != nullptr && !answer->arrived;
    const Snapshot now = self->snapshot();
    if (!open && !rest.is_set() && now.revision() != seen.revision()) {
      seen = now;
      answer = std::make_shared<Answer>();
      self->ask_predicate(predicate, seen, answer, waiter.get());
    }
    co_await waiter->wait();
  }
}

}  // namespace zkrecipes::detail
