// One session after another, and who is told of their states.

#include "zkclient/detail/session/core.hpp"

#include <fmt/format.h>

#include "zkclient/detail/log.hpp"

namespace zkclient::detail {
namespace {

constexpr auto close_patience = std::chrono::milliseconds(1000);
constexpr auto login_pause = std::chrono::milliseconds(1000);  // After one that was refused.

}  // namespace

ClientCore::Connection::Connection(ClientCore& owner, std::shared_ptr<SessionState> state)
    : core(&owner),
      session(std::move(state)),
      silence(owner.events()),
      drain(owner.events()),
      idle_watches(owner.events()) {
  watches.on_idle([this] { schedule_removals(); });
  LeaseKeeper::Send send = [this](Request request, Op::Done done) {
    const auto op = std::make_shared<Op>();
    op->request = std::move(request);
    op->done = std::move(done);
    op->bound = session;
    op->urgent = true;
    op->deadline = std::chrono::steady_clock::now() + session->timeout();
    core->start_op(op);
  };
  leases = std::make_shared<LeaseKeeper>(core->events(), session, core->options_.server_tick, std::move(send));
}

void ClientCore::Connection::on_handle_event(HandleEvent event) {
  if (core->connection_.get() != this || session->over() || handle == nullptr) return;  // Of a handle that was left.
  switch (event) {
    case HandleEvent::connected: core->on_connected(); break;
    case HandleEvent::disconnected: core->on_suspended(); break;
    case HandleEvent::flushed: core->pump(); break;
    case HandleEvent::expired: core->lose_session("the server ended it"); break;
    case HandleEvent::auth_failed:
      log(LogLevel::error, session_name(session->id()) + ": the server refused the credentials");
      core->refuse_credentials();
      core->lose_session("the server refused the credentials");
      break;
    case HandleEvent::login_refused: core->refuse_login(); break;
  }
}

void ClientCore::Connection::on_node_event(int type, const std::string& path) {
  armed.fired(type, path);
  watches.fire(type, path);
}

void ClientCore::Connection::on_reply(const std::shared_ptr<Op>& op) {
  const auto self = shared_from_this();
  const bool arms = op->code == rc::ok || (op->request.type == OpType::exists && op->code == rc::no_node);
  op->reply.session = session;
  if (op->answered) leases->heard(op->reply.sent);
  note(*op);
  auto mine = own.extract(op.get());
  if (!mine.empty()) mine.mapped()(*op);
  core->judge_size(op, leaves || session->over(), leases->round_trip());
  core->on_reply(op);
  // Also when the caller has given up: the C client has the watch all the same.
  if (op->request.watch) watches.settle(op->request.path, watch_kind(op->request.type), arms);
}

void ClientCore::Connection::on_trouble(ServerTrouble trouble) {
  if (core->connection_.get() != this) return;
  core->troubles_.note(std::move(trouble));
  core->tell_trouble();
}

void ClientCore::open_session() {
  const bool first = connection_ == nullptr;
  auto state = first ? session() : std::make_shared<SessionState>(options_.session_timeout, this);
  connection_ = std::make_shared<Connection>(*this, state);
  if (resume_) connection_->resume = *resume_;
  resume_.reset();  // A session that is lost later is not resumed.
  {
    const std::lock_guard lock(mutex_);
    shared_session_ = state;
  }
  change_state(ConnectionState::connecting, trouble());
  begin_outage();
  stop_looking_up();
  look_up_servers();
}

void ClientCore::on_connected() {
  Connection& connection = *connection_;
  connection.silence.cancel();
  forget_trouble();
  stop_looking_up();
  const SessionCredentials credentials = connection.handle->credentials();
  const std::int64_t known = connection.session->id();
  if (known != 0 && known != credentials.id) {
    lose_session("the server gave another one in its place");
    return;
  }
  connection.session->set_identity(credentials.id, connection.handle->timeout(), credentials.password);
  if (log_enabled(LogLevel::info)) {
    log(LogLevel::info, fmt::format("{}: {} at {}, timeout {} ms", session_name(credentials.id),
                                    known != 0 || connection.resume.id != 0 ? "resumed" : "opened",
                                    connection.handle->server().value_or("?"), connection.session->timeout().count()));
  }
  connection.handle->authenticate_first(credentials_);
  change_state(ConnectionState::connected);
  plan_look_up();
  const auto session = connection.session;
  connection.taking_over = true;
  connection.take_over();
  connection.leases->connected(connection.handle->connect_begun());
  if (session->over()) return;
  connection.arm_again();
  connection.taking_over = false;
  session->notify();
  pump();
  connection.removals_wait = false;
  connection.schedule_removals();
}

void ClientCore::on_suspended() {
  const auto connection = connection_;
  const std::string why = trouble();
  if (log_enabled(LogLevel::warning)) {
    log(LogLevel::warning, fmt::format("{}: the connection was lost{}{}", session_name(connection->session->id()),
                                       why.empty() ? "" : ": ", why));
  }
  change_state(ConnectionState::suspended, why);
  begin_outage();
  if (connection->draining) on_drained();
  // Only a server can tell that a session expired. Without one for a whole timeout there is no reason for hope.
  connection->silence.set_after(connection->session->timeout(), [self = shared_from_this(), connection] {
    if (connection != self->connection_) return;
    // It may have reconnected while this was on its way.
    if (connection->session->raw_state() == ConnectionState::suspended) {
      self->lose_session("no server was heard for its whole timeout");
    }
  });
  connection->session->notify();
  plan_look_up();
}

void ClientCore::change_state(ConnectionState state, std::string reason) {
  const auto session = connection_->session;
  session->set_state(state);
  set_server(state == ConnectionState::connected ? connection_->handle->server() : std::nullopt);
  std::erase_if(listeners_, [](const std::weak_ptr<SubscriptionState>& listener) { return listener.expired(); });
  for (const auto& weak : listeners_) {
    const auto listener = weak.lock();
    if (listener == nullptr) continue;
    listener->queue()->post([weak, state, session, reason] {
      if (const auto alive = weak.lock()) alive->listener(StateChange{state, Session(session), reason});
    });
  }
}

void ClientCore::lose_session(const char* why) {
  if (closing_ || connection_->session->over()) return;
  if (log_enabled(LogLevel::warning)) {
    const std::size_t leases = connection_->leases->size();
    const std::string with = leases == 0 ? std::string() : fmt::format("; leases lost with it: {}", leases);
    log(LogLevel::warning, fmt::format("{}: lost: {}{}", session_name(connection_->session->id()), why, with));
  }
  end_session(ConnectionState::lost, why);
  if (login_refused_) return;  // refuse_login() goes on.
  // Not from inside a callback of what has just ended.
  events().defer([self = shared_from_this()] {
    if (!self->closing_ && self->connection_->session->over()) self->open_session();
  });
}

// Credentials that are put right at the server, or a login that failed for want of a key server, may do later.
void ClientCore::refuse_login() {
  if (closing_) return;
  log(LogLevel::error, "SASL: the login was refused, or failed");
  login_refused_ = true;
  lose_session("the login failed");
  login_refused_ = false;
  std::deque<std::shared_ptr<Op>> waiting;
  waiting.swap(waiting_);
  for (const auto& op : waiting) {
    if (op->state == Op::State::waiting) fail(op, Errc::auth_failed, "SASL");
  }
  login_timer_.set_after(login_pause, [self = shared_from_this()] {
    if (!self->closing_ && self->connection_->session->over()) self->open_session();
  });
}

// The end of a session, in this order: nobody takes it for alive any more, then everybody is told.
void ClientCore::end_session(ConnectionState state, std::string reason) {
  const auto connection = connection_;
  if (state == ConnectionState::closed && log_enabled(LogLevel::info)) {
    log(LogLevel::info, session_name(connection->session->id()) + ": closed");
  }
  connection->silence.cancel();
  connection->drain.cancel();
  connection->draining = false;
  connection->idle_watches.cancel();
  end_pauses();
  alone_.reset();  // The next session need not wait for what this one has lost.
  connection->leases->stop();
  change_state(state, std::move(reason));
  ++retiring_;
  callbacks_->post(
      [self = shared_from_this(), connection] {
        connection->session->lost_source().request_stop();
        self->loop_->post([self, connection] { self->retire(connection); });
      },
      true);
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
  if (!lost) {
    retire(connection);
    return;
  }
  // The goodbye gives the session's nodes away: not before its holders were told, unless one of them blocks.
  connection->silence.set_after(close_patience, [self = shared_from_this(), connection] { self->retire(connection); });
}

// Says goodbye to the server if it listens, so that the session's nodes vanish now and not at its timeout.
void ClientCore::retire(const std::shared_ptr<Connection>& connection) {
  if (std::exchange(connection->retired, true)) return;
  connection->silence.cancel();
  const auto done = [self = shared_from_this(), connection] {
    --self->retiring_;
    if (self->closing_) self->on_closed();
  };
  if (connection->handle == nullptr) {
    done();
  } else {
    connection->handle->close(close_patience, done);
  }
}

}  // namespace zkclient::detail
