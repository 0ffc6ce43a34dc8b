#include "zkclient/detail/core.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <boost/asio/post.hpp>

namespace zkclient::detail {
namespace {

// Requests handed to the C client at a time; the others wait here, where they can still be taken back.
constexpr int max_in_flight = 2048;
constexpr std::size_t max_waiting = 200'000;
// The server's default jute.maxbuffer, which a request must not reach; it would drop the connection.
constexpr std::size_t max_request_bytes = 1'048'575 - 512;
constexpr auto goodbye_patience = std::chrono::milliseconds(1000);
constexpr auto reopen_pause = std::chrono::milliseconds(200);

void check_options(const ClientOptions& options) {
  const auto refuse = [](const char* what) { throw Error(Errc::invalid_argument, "client", "", what); };
  // The C client gives a server two thirds of it to answer, and never connects if that is next to nothing.
  if (options.session_timeout.count() < 100 || options.session_timeout > std::chrono::hours(24)) {
    refuse("session_timeout must be at least 100 ms and at most a day");
  }
  if (options.operation_timeout.count() <= 0) refuse("operation_timeout must be positive");
  if (options.retry.initial.count() < 0 || options.retry.max.count() < 0) refuse("retry pauses must not be negative");
  if (options.retry.max_attempts < 1) refuse("retry.max_attempts must be at least 1");
  if (options.resume && (options.resume->id == 0 || options.resume->password.size() != 16)) {
    refuse("resume needs a session id and its password of 16 bytes");
  }
}

// A failed transaction, in words: the first operation that has a reason of its own.
std::string describe_failure(const ClientCore& core, const Request& request, const std::vector<int>& codes) {
  for (std::size_t i = 0; i < codes.size() && i < request.operations.size(); ++i) {
    if (codes[i] == rc::ok || codes[i] == rc::runtime_inconsistency) continue;
    struct Name {
      const char* operator()(const Transaction::Create&) const { return "create"; }
      const char* operator()(const Transaction::Set&) const { return "set"; }
      const char* operator()(const Transaction::Remove&) const { return "remove"; }
      const char* operator()(const Check&) const { return "check"; }
    };
    const auto& operation = request.operations[i];
    const std::string& path = std::visit([](const auto& op) -> const std::string& { return op.path.str(); }, operation);
    return fmt::format("operation {} of {}, {} {}: {}", i + 1, codes.size(), std::visit(Name{}, operation),
                       core.stripped(path), make_error_code(rc::to_errc(codes[i])).message());
  }
  return {};
}

}  // namespace

Request make_request(OpType type, std::string path) {
  Request request;
  request.type = type;
  request.path = std::move(path);
  return request;
}

std::shared_ptr<ClientCore> ClientCore::start(std::shared_ptr<Loop> loop, std::string_view hosts,
                                              ClientOptions options) {
  check_options(options);
  std::shared_ptr<ClientCore> core(new ClientCore(std::move(loop), parse_hosts(hosts), std::move(options)));
  core->loop_->add(core);
  core->shared_session_ = std::make_shared<SessionState>(core->options_.session_timeout);
  core->loop_->post([core] { core->open_session(); });
  return core;
}

ClientCore::ClientCore(std::shared_ptr<Loop> loop, std::vector<Host> hosts, ClientOptions options)
    : loop_(std::move(loop)),
      hosts_(std::move(hosts)),
      options_(std::move(options)),
      callbacks_(std::make_shared<CallbackGroup>(
          [weak = std::weak_ptr<Loop>(loop_)](Task task, bool urgent) {
            if (const auto self = weak.lock()) self->schedule(std::move(task), urgent);
          },
          loop_->has_user_executor())),
      resume_(options_.resume),
      deadline_timer_(loop_->context()),
      random_(std::random_device{}()) {}

ClientCore::~ClientCore() { loop_->remove(this); }

std::shared_ptr<SessionState> ClientCore::session() const {
  const std::lock_guard lock(mutex_);
  return shared_session_;
}

std::string ClientCore::full(const Path& path) const {
  if (options_.prefix.is_root()) return path.str();
  return path.is_root() ? options_.prefix.str() : options_.prefix.str() + path.str();
}

std::string ClientCore::stripped(const std::string& path) const {
  const std::string& prefix = options_.prefix.str();
  if (options_.prefix.is_root() || !path.starts_with(prefix)) return path;
  return path.size() == prefix.size() ? "/" : path.substr(prefix.size());
}

// --- Sessions -----------------------------------------------------------------------------------------------------

ClientCore::Connection::Connection(ClientCore& owner, std::shared_ptr<SessionState> state)
    : core(&owner), session(std::move(state)), silence(owner.context()) {
  LeaseKeeper::Hooks hooks;
  hooks.send = [this](Request request, Op::Done done) {
    const auto op = std::make_shared<Op>();
    op->request = std::move(request);
    op->done = std::move(done);
    op->bound = session;
    op->urgent = true;
    op->deadline = std::chrono::steady_clock::now() + session->timeout();
    core->start_op(op);
  };
  hooks.lose = [this] {
    if (core->connection_.get() == this) core->lose_session();
  };
  leases = std::make_shared<LeaseKeeper>(core->context(), session, std::move(hooks));
}

void ClientCore::Connection::on_handle_event(HandleEvent event) {
  if (core->connection_.get() != this || session->over()) return;
  switch (event) {
    case HandleEvent::connected: core->on_connected(); break;
    case HandleEvent::disconnected: core->on_suspended(); break;
    case HandleEvent::expired:
    case HandleEvent::auth_failed: core->lose_session(); break;
  }
}

void ClientCore::Connection::on_node_event(int type, const std::string& path) { watches.fire(type, path); }

void ClientCore::Connection::on_reply(const std::shared_ptr<Op>& op) {
  op->reply.session = session;
  core->on_reply(op);
}

void ClientCore::open_session() {
  const bool first = connection_ == nullptr;
  auto state = first ? session() : std::make_shared<SessionState>(options_.session_timeout);
  const auto connection = std::make_shared<Connection>(*this, state);
  connection_ = connection;
  {
    const std::lock_guard lock(mutex_);
    shared_session_ = state;
  }
  change_state(ConnectionState::connecting);
  if (all_numeric(hosts_)) {
    open_handle(connection, resolve(hosts_));
    return;
  }
  callbacks_->post([self = shared_from_this(), connection] {
    const std::string addresses = resolve(self->hosts_);  // Blocks, so not on the loop.
    self->loop_->post([self, connection, addresses] { self->open_handle(connection, addresses); });
  });
}

void ClientCore::open_handle(const std::shared_ptr<Connection>& connection, const std::string& addresses) {
  if (connection != connection_ || closing_) return;
  try {
    if (!addresses.empty()) {
      connection->handle = std::make_shared<Handle>(context(), *connection);
      connection->handle->open(addresses, options_.session_timeout, resume_.value_or(SessionCredentials{}));
      resume_.reset();  // A session that is lost later is not resumed.
      return;
    }
  } catch (const Error&) {
    connection->handle = nullptr;
  }
  // No name could be resolved, or no descriptor was to be had: that may change.
  connection->silence.expires_after(reopen_pause);
  connection->silence.async_wait([self = shared_from_this(), connection](const boost::system::error_code& error) {
    if (error || connection != self->connection_ || self->closing_) return;
    self->callbacks_->post([self, connection] {
      const std::string again = resolve(self->hosts_);
      self->loop_->post([self, connection, again] { self->open_handle(connection, again); });
    });
  });
}

void ClientCore::on_connected() {
  Connection& connection = *connection_;
  connection.silence.cancel();
  const SessionCredentials credentials = connection.handle->credentials();
  const std::int64_t known = connection.session->id();
  if (known != 0 && known != credentials.id) {
    lose_session();
    return;
  }
  connection.session->set_identity(credentials.id, connection.handle->timeout(), credentials.password);
  change_state(ConnectionState::connected);
  const auto session = connection.session;
  connection.leases->connected();
  if (session->over()) return;
  session->notify();
  pump();
}

void ClientCore::on_suspended() {
  const auto connection = connection_;
  change_state(ConnectionState::suspended);
  // Only a server can tell that a session expired. Without one for a whole timeout there is no reason for hope.
  connection->silence.expires_after(connection->session->timeout());
  connection->silence.async_wait([self = shared_from_this(), connection](const boost::system::error_code& error) {
    if (error || connection != self->connection_) return;
    // It may have reconnected while this was on its way.
    if (connection->session->raw_state() == ConnectionState::suspended) self->lose_session();
  });
  connection->session->notify();
}

void ClientCore::change_state(ConnectionState state) {
  const auto session = connection_->session;
  session->set_state(state);
  std::erase_if(listeners_, [](const std::weak_ptr<SubscriptionState>& listener) { return listener.expired(); });
  for (const auto& weak : listeners_) {
    const auto listener = weak.lock();
    if (listener == nullptr) continue;
    listener->queue()->post([weak, state, session] {
      if (const auto alive = weak.lock()) alive->listener(StateChange{state, Session(session)});
    });
  }
}

void ClientCore::lose_session() {
  if (closing_ || connection_->session->over()) return;
  end_session(ConnectionState::lost);
  // Not from inside a callback of what has just ended.
  asio::post(context(), [self = shared_from_this()] {
    if (!self->closing_ && self->connection_->session->over()) self->open_session();
  });
}

// The end of a session, in this order: nobody takes it for alive any more, then everybody is told.
void ClientCore::end_session(ConnectionState state) {
  const auto connection = connection_;
  connection->silence.cancel();
  end_pauses();
  connection->leases->stop();
  change_state(state);
  callbacks_->post([session = connection->session] { session->lost_source().request_stop(); }, true);
  const bool lost = state == ConnectionState::lost;
  std::deque<std::shared_ptr<Op>> waiting;
  waiting.swap(waiting_);
  for (const auto& op : waiting) {
    if (op->state != Op::State::waiting) continue;
    if (!lost) {
      fail(op, Errc::closed);
    } else if (op->bound == connection->session) {
      fail(op, Errc::session_lost);
    } else {
      waiting_.push_back(op);
    }
  }
  connection->watches.end_all(lost ? WatchEventType::session_lost : WatchEventType::closed);
  connection->session->notify();
  retire(connection);
}

// Says goodbye to the server if it listens, so that the session's nodes vanish now and not at its timeout.
void ClientCore::retire(const std::shared_ptr<Connection>& connection) {
  if (connection->handle == nullptr) {
    if (closing_) on_closed();
    return;
  }
  ++retiring_;
  connection->handle->close(goodbye_patience, [self = shared_from_this(), connection] {
    --self->retiring_;
    if (self->closing_) self->on_closed();
  });
}

// --- Requests -----------------------------------------------------------------------------------------------------

void ClientCore::submit(const std::shared_ptr<Op>& op, const std::stop_token& stop) {
  const bool accepted = loop_->post([self = shared_from_this(), op, stop] {
    if (stop.stop_requested()) {
      self->give_up(op, Errc::cancelled);
      return;
    }
    if (stop.stop_possible()) {
      // A request that comes later runs on the requester's thread: back to the loop.
      op->stop.emplace(stop, [self, weak = std::weak_ptr<Op>(op)] {
        const auto alive = weak.lock();
        if (alive == nullptr) return;
        self->loop_->post([self, alive] { self->give_up(alive, Errc::cancelled); });
      });
    }
    self->start_op(op);
  });
  if (!accepted) fail(op, Errc::closed);
}

void ClientCore::start_op(const std::shared_ptr<Op>& op) {
  if (op->state != Op::State::idle) return;  // Cancelled before it began.
  if (closing_ || connection_ == nullptr) {
    fail(op, Errc::closed);
  } else if (op->bound != nullptr && (op->bound != connection_->session || op->bound->over())) {
    fail(op, Errc::session_lost);
  } else if (op->deadline && *op->deadline <= std::chrono::steady_clock::now()) {
    give_up(op, Errc::deadline_exceeded);
  } else if (op->request.wire_size() > max_request_bytes) {
    fail(op, Errc::too_large);
  } else if (!op->urgent && !room_to_wait()) {
    fail(op, Errc::overloaded, "too many requests are waiting");
  } else if (op->request.watch && !connection_->watches.has_room(op->request.path)) {
    fail(op, Errc::overloaded, "the paths of all watches together would be too long to renew after a reconnection");
  } else {
    op->state = Op::State::waiting;
    op->urgent ? waiting_.push_front(op) : waiting_.push_back(op);
    pump();
    if (op->state != Op::State::done) add_deadline(op);
  }
}

bool ClientCore::room_to_wait() {
  if (waiting_.size() < max_waiting) return true;
  std::erase_if(waiting_, [](const auto& op) { return op->state != Op::State::waiting; });
  return waiting_.size() < max_waiting;
}

void ClientCore::pump() {
  while (!waiting_.empty() && connection_->session->raw_state() == ConnectionState::connected &&
         (waiting_.front()->urgent || connection_->handle->in_flight() < max_in_flight)) {
    const std::shared_ptr<Op> op = std::move(waiting_.front());
    waiting_.pop_front();
    if (op->state != Op::State::waiting) continue;
    if (op->request.type == OpType::connect) {
      op->reply.session = connection_->session;
      finish(op);
      continue;
    }
    op->state = Op::State::in_flight;
    ++op->attempts;
    if (connection_->handle->submit(op)) continue;
    op->state = Op::State::waiting;
    --op->attempts;
    waiting_.push_front(op);
    return;
  }
}

void ClientCore::on_reply(const std::shared_ptr<Op>& op) {
  if (!closing_) pump();  // There is room for another one.
  if (op->state != Op::State::in_flight) return;
  Reply& reply = op->reply;
  if (op->code == rc::ok) {
    finish(op);
  } else if (!rc::is_loss(op->code)) {
    const bool transaction = op->request.type == OpType::multi && !reply.codes.empty() && !rc::is_of_request(op->code);
    reply.detail = transaction ? describe_failure(*this, op->request, reply.codes) : std::string();
    reply.error = transaction ? Errc::transaction_failed : rc::to_errc(op->code);
    finish(op);
  } else if (op->request.is_write()) {
    fail(op, Errc::in_doubt);
  } else if (closing_) {
    fail(op, Errc::closed);
  } else if (op->bound != nullptr && op->bound->over()) {
    fail(op, Errc::session_lost);
  } else {
    retry(op);
  }
}

void ClientCore::retry(const std::shared_ptr<Op>& op) {
  const auto now = std::chrono::steady_clock::now();
  const auto remaining = op->deadline ? std::chrono::duration_cast<std::chrono::milliseconds>(*op->deadline - now)
                                      : std::chrono::milliseconds::max();
  const double random = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
  const auto pause = options_.retry.pause(op->attempts, remaining, random);
  if (!pause) {
    fail(op, Errc::connection_loss, fmt::format("given up after {} attempts", op->attempts));
    return;
  }
  op->state = Op::State::pausing;
  const auto timer = std::make_shared<asio::steady_timer>(context(), *pause);
  pausing_.emplace(op, timer);
  timer->async_wait([self = shared_from_this(), op, timer](const boost::system::error_code&) {
    self->pausing_.erase(op);
    if (op->state != Op::State::pausing) return;
    op->state = Op::State::idle;
    self->start_op(op);
  });
}

// Those who wait before they try again try now: they end, or go on waiting for the next session.
void ClientCore::end_pauses() {
  for (const auto& [op, timer] : pausing_)
    timer->cancel();
}

void ClientCore::fail(const std::shared_ptr<Op>& op, Errc code, std::string detail) {
  op->reply.error = code;
  op->reply.detail = std::move(detail);
  finish(op);
}

// Ends an op early. What was sent stays sent: a write is in doubt then.
void ClientCore::give_up(const std::shared_ptr<Op>& op, Errc code) {
  if (op->state == Op::State::done) return;
  const bool sent = op->state == Op::State::in_flight && op->request.is_write();
  op->reply.given_up = code;
  if (sent) {
    fail(op, Errc::in_doubt, code == Errc::cancelled ? "cancelled after it was sent" : "no reply before the deadline");
  } else {
    fail(op, code);
  }
}

void ClientCore::finish(const std::shared_ptr<Op>& op) {
  if (op->state == Op::State::done) return;
  op->state = Op::State::done;
  op->cancel_guard.reset();
  op->stop.reset();
  if (const auto pause = pausing_.find(op); pause != pausing_.end()) pause->second->cancel();
  Op::Done done = std::move(op->done);
  // The C client may still know the op; its reply then goes into an object that nobody looks at.
  Reply reply = op->in_library != nullptr ? op->reply : std::move(op->reply);
  if (done) done(std::move(reply));
}

void ClientCore::add_deadline(const std::shared_ptr<Op>& op) {
  if (!op->deadline) return;
  deadlines_.emplace(*op->deadline, op);
  // Most ops are done long before: forget those from time to time.
  if (deadlines_.size() > 4096 && (deadlines_.size() & (deadlines_.size() - 1)) == 0) {
    std::erase_if(deadlines_, [](const auto& entry) {
      const auto alive = entry.second.lock();
      return alive == nullptr || alive->state == Op::State::done;
    });
  }
  if (*op->deadline >= deadline_timer_due_) return;
  deadline_timer_due_ = *op->deadline;
  deadline_timer_.expires_at(deadline_timer_due_);
  deadline_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->on_deadlines();
  });
}

void ClientCore::on_deadlines() {
  deadline_timer_due_ = Op::TimePoint::max();
  const auto now = std::chrono::steady_clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto op = deadlines_.begin()->second.lock();
    deadlines_.erase(deadlines_.begin());
    if (op != nullptr) give_up(op, Errc::deadline_exceeded);
  }
  while (!deadlines_.empty()) {
    const auto next = deadlines_.begin()->second.lock();
    if (next != nullptr && next->state != Op::State::done) {
      deadline_timer_due_ = deadlines_.begin()->first;
      deadline_timer_.expires_at(deadline_timer_due_);
      deadline_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
        const auto self = weak.lock();
        if (!error && self != nullptr) self->on_deadlines();
      });
      return;
    }
    deadlines_.erase(deadlines_.begin());
  }
}

// --- Listeners and closing ----------------------------------------------------------------------------------------

std::shared_ptr<SubscriptionState> ClientCore::subscribe(StateListener listener) {
  auto subscription = std::make_shared<SubscriptionState>(callbacks_);
  subscription->listener = std::move(listener);
  std::weak_ptr<SubscriptionState> weak = subscription;
  loop_->post([self = shared_from_this(), weak] {
    const auto added = weak.lock();
    if (added == nullptr || self->connection_ == nullptr) return;
    self->listeners_.push_back(weak);
    const auto session = self->connection_->session;
    added->queue()->post([weak, state = session->raw_state(), session] {
      if (const auto alive = weak.lock()) alive->listener(StateChange{state, Session(session)});
    });
  });
  return subscription;
}

void ClientCore::begin_close() {
  const bool accepted = loop_->post([self = shared_from_this()] { self->do_close(); });
  if (accepted) return;
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void ClientCore::do_close() {
  if (closing_) return;
  closing_ = true;
  loop_->remove(this);
  deadline_timer_.cancel();
  if (connection_->session->over()) {  // Lost, and the next one not yet opened.
    end_pauses();
    std::deque<std::shared_ptr<Op>> waiting;
    waiting.swap(waiting_);
    for (const auto& op : waiting)
      fail(op, Errc::closed);
    change_state(ConnectionState::closed);
    on_closed();
    return;
  }
  end_session(ConnectionState::closed);
}

void ClientCore::on_closed() {
  if (retiring_ > 0) return;
  // What the closing woke up (coroutines of recipes) gets one more turn of the loop before the close is over.
  asio::post(context(), [self = shared_from_this()] {
    const std::lock_guard lock(self->mutex_);
    self->closed_ = true;
    self->closed_changed_.notify_all();
  });
}

void ClientCore::finish_close() {
  {
    std::unique_lock lock(mutex_);
    closed_changed_.wait(lock, [this] { return closed_; });
  }
  callbacks_->wait();
}

}  // namespace zkclient::detail
