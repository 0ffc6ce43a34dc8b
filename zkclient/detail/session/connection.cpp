#include "zkclient/detail/session/connection.hpp"

#include <algorithm>
#include <utility>

namespace zkclient::detail {
namespace {

constexpr auto longest_drain = std::chrono::milliseconds(1000);

}  // namespace

Connection::Connection(EventLoop& events, ConnectionOwner& owner, std::shared_ptr<SessionState> session,
                       SessionCredentials resume, std::optional<std::chrono::milliseconds> tick)
    : events_(events),
      owner_(owner),
      session_(std::move(session)),
      resume_(std::move(resume)),
      silence_(events),
      drain_(events),
      idle_watches_(events) {
  watches_.on_idle([this] { schedule_removals(); });
  LeaseKeeper::Send send = [this](Request request, Op::Done done) {
    const auto op = std::make_shared<Op>();
    op->request = std::move(request);
    op->done = std::move(done);
    op->bound = session_;
    op->urgent = true;
    op->deadline = std::chrono::steady_clock::now() + session_->timeout();
    owner_.send_first(op);
  };
  leases_ = std::make_shared<LeaseKeeper>(events, session_, tick, std::move(send));
}

void Connection::on_handle_event(HandleEvent event) {
  if (session_->over() || handle_ == nullptr) return;  // Of a handle that was left.
  owner_.on_handle_event(*this, event);
}

// Without a word from any server for a whole timeout the session is given up: see when_silent().
std::chrono::nanoseconds Connection::left_to_keep() const {
  constexpr auto nothing = std::chrono::nanoseconds::zero();
  if (!resumes() || session_->over()) return nothing;
  std::chrono::nanoseconds left = session_->timeout();
  if (silence_.is_set()) left = silence_.due() - std::chrono::steady_clock::now();
  const std::chrono::nanoseconds lease = session_->valid_until() - BootClock::now();
  if (leases_->holding() && lease > nothing) left = std::min(left, lease);
  return std::max(left, nothing);
}

void Connection::on_node_event(int type, const std::string& path) {
  owner_.on_watch_event();
  armed_.fired(type, path);
  watches_.fire(type, path);
}

void Connection::on_reply(const std::shared_ptr<Op>& op) {
  const auto self = shared_from_this();
  const bool arms = op->code == rc::ok || (op->request.type == OpType::exists && op->code == rc::no_node);
  op->reply.session = session_;
  if (op->answered) leases_->heard(op->reply.sent);
  note(*op);
  auto mine = own_.extract(op.get());
  if (!mine.empty()) {
    if (op->request.watch) --arming_again_;
    mine.mapped()(*op);
  }
  owner_.on_reply(*this, op, leaves_ || session_->over());
  // Also when the caller has given up: the C client has the watch all the same.
  if (op->request.watch) watches_.settle(op->request.path, watch_kind(op->request.type), arms);
}

void Connection::note(const Op& op) {
  if (op.code == rc::ok) {
    armed_.saw(op.reply.stat);
    for (const OperationResult& result : op.reply.results) {
      if (result.stat) armed_.saw(*result.stat);
    }
  }
  // A server sends the events of what was committed before ahead of this answer. But while the session's watches are
  // armed again on a new handle, some of those events are still to come.
  const bool committed = op.code == rc::ok && op.request.is_write() && op.request.type != OpType::remove_watches;
  if (committed) session_->set_proven_at(op.reply.sent);
  if (committed && arming_again_ == 0) session_->set_told_up_to(op.reply.sent);
  if (!op.request.watch) return;
  const auto kind = watch_kind(op.request.type);
  if (op.code == rc::ok) armed_.armed(op.request.path, kind, true);
  if (op.code == rc::no_node && op.request.type == OpType::exists) armed_.armed(op.request.path, kind, false);
}

void Connection::when_silent(std::chrono::milliseconds patience, UniqueFunction<void()> then) {
  silence_.set_after(patience, std::move(then));
}

void Connection::stop() {
  silence_.cancel();
  stop_draining();
  idle_watches_.cancel();
  leases_->stop();
}

void Connection::retire(std::chrono::milliseconds patience, UniqueFunction<void()> done) {
  if (std::exchange(retired_, true)) return;
  silence_.cancel();
  if (handle_ == nullptr) {
    done();
  } else {
    handle_->close(patience, std::move(done));
  }
}

// --- Handles ---------------------------------------------------------------------------------------------------------

void Connection::open(const std::string& addresses, HandleOptions options) {
  const SessionCredentials known{session_->id(), session_->password()};
  options.resume = known.id != 0 ? known : resume_;
  try {
    handle_ = std::make_shared<Handle>(events_, *this);
    handle_->open(options);
  } catch (const Error&) {
    handle_ = nullptr;
    throw;
  }
  addresses_ = addresses;
  barrier_due_ = options.resume.id != 0;
}

bool Connection::take_over() {
  taking_over_ = true;
  send_barrier();
  leases_->connected(handle_->connect_begun());
  if (session_->over()) return false;
  arm_again();
  taking_over_ = false;
  return true;
}

// A new handle does not know how much of the history the session has seen, so it might be content with a server that
// lags behind the one before. A transaction that changes nothing makes sure that it does not: once a server has
// answered it, it has applied all that was committed before. Requests that follow are executed after it. Behind it come
// a heartbeat, if there are leases, then the session's watches, which are armed again, then everything else.
void Connection::send_barrier() {
  if (!barrier_due_) return;
  Request request = make_request(OpType::multi, "/");
  request.operations.emplace_back(Check{Path("/")});
  submit_own(std::move(request), [this](const Op& op) {
    if (!rc::is_loss(op.code)) barrier_due_ = false;
  });
}

void Connection::arm_again() {
  for (ArmedWatches::Pending& watch : armed_.pending()) {
    if (!watches_.reserve(watch.path, watch.kind)) {  // No caller waits for it, and there is no room.
      armed_.removed(watch.path, watch.kind);
      continue;
    }
    const bool children = watch.kind == WatchRegistry::Kind::children;
    Request request = make_request(children ? OpType::children : OpType::exists, watch.path);
    request.watch = true;
    submit_own(std::move(request), [this, watch = std::move(watch)](const Op& op) { on_rearmed(watch, op); });
  }
}

void Connection::on_rearmed(const ArmedWatches::Pending& watch, const Op& op) {
  if (rc::is_loss(op.code)) return;  // The next connection does it again.
  int event = watch.kind == WatchRegistry::Kind::children ? ArmedWatches::children_changed : ArmedWatches::data_changed;
  const bool answered = op.code == rc::ok || op.code == rc::no_node;
  // A refusal (access rights that changed) ends the watch, so that its owner looks for himself.
  if (answered) event = ArmedWatches::missed(watch, op.code == rc::ok ? std::optional(op.reply.stat) : std::nullopt);
  const bool armed_again = op.code == rc::ok || (op.code == rc::no_node && op.request.type == OpType::exists);
  if (!armed_again) armed_.fired(event, watch.path);
  if (event != 0) watches_.fire(event, watch.path);
}

// Sends a request of the connection's own. It is not repeated.
void Connection::submit_own(Request request, UniqueFunction<void(const Op&)> done) {
  const auto op = std::make_shared<Op>();
  op->request = std::move(request);
  own_.emplace(op.get(), std::move(done));
  if (op->request.watch) ++arming_again_;
  if (handle_->submit(op)) return;
  own_.erase(op.get());
  if (op->request.watch) --arming_again_;
  if (op->request.watch) watches_.settle(op->request.path, watch_kind(op->request.type), false);
}

void Connection::move(const std::string& addresses) {
  next_addresses_ = addresses;
  if (draining_) return;
  if (handle_ == nullptr) {
    owner_.on_drained(shared_from_this());
    return;
  }
  draining_ = true;
  if (!connected() || handle_->in_flight() == 0) {
    finish_draining();
    return;
  }
  const auto patience = std::min<std::chrono::milliseconds>(longest_drain, session_->timeout() / 8);
  drain_.set_after(patience, [self = shared_from_this(), owner = owner_.hold()] {
    if (self->draining_) self->owner_.on_drained(self);
  });
}

void Connection::check_drained() {
  if (handle_->in_flight() == 0) finish_draining();
}

// Not from inside a callback of the handle that goes.
void Connection::finish_draining() {
  events_.defer([self = shared_from_this(), owner = owner_.hold()] {
    if (self->draining_) self->owner_.on_drained(self);
  });
}

void Connection::stop_draining() noexcept {
  draining_ = false;
  drain_.cancel();
}

void Connection::leave_handle() {
  if (handle_ == nullptr) return;
  const auto old = std::exchange(handle_, nullptr);
  leaves_ = true;
  old->drop();
  leaves_ = false;
  armed_.handle_gone();
}

// --- Idle watches ----------------------------------------------------------------------------------------------------

void Connection::go_on_with_removals() {
  removals_wait_ = false;
  schedule_removals();
}

// Never at once: its cause is in the middle of its work, and may want the watch again.
void Connection::schedule_removals() {
  const auto due = watches_.idle_due();
  if (removals_wait_ || !due || owner_.closing() || session_->over()) return;
  const auto when = std::max(*due, std::chrono::steady_clock::now());
  if (idle_watches_.due() <= when) return;
  idle_watches_.set(when, [self = shared_from_this()] {
    if (self->session_->over()) return;
    self->remove_idle_watches();
    self->schedule_removals();
  });
}

// Straight to the C client, not through the queue: a read that arms a watch of the same node must not overtake it or be
// overtaken, and what counts is the order in which the C client gets them.
void Connection::remove_idle_watches() {
  if (!connected()) {
    removals_wait_ = true;  // For the connection.
    return;
  }
  for (const WatchRegistry::Key& key : watches_.take_idle(std::chrono::steady_clock::now())) {
    const auto op = std::make_shared<Op>();
    op->request = make_request(OpType::remove_watches, key.first);
    op->request.of_children = key.second == WatchRegistry::Kind::children;
    op->state = Op::State::in_flight;
    op->done = [weak = weak_from_this(), key](const Reply& reply) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      using Removal = WatchRegistry::Removal;
      // no_node: there is no such watch, its event has overtaken us. Otherwise the server cannot remove watches.
      const bool gone = reply.ok() || reply.failed(Errc::no_node);
      const bool lost = reply.failed(Errc::in_doubt);
      if (gone) self->armed_.removed(key.first, key.second);
      self->watches_.removed(key, gone ? Removal::done : lost ? Removal::try_later : Removal::refused);
      self->schedule_removals();
    };
    if (!handle_->submit(op)) watches_.removed(key, WatchRegistry::Removal::try_later);
  }
}

}  // namespace zkclient::detail
