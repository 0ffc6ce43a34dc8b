#include "zkclient/detail/session/sessions.hpp"

#include <utility>

#include <fmt/format.h>

#include "zkclient/detail/log.hpp"
#include "zkclient/detail/probes.hpp"

namespace zkclient::detail {
namespace {

constexpr auto close_patience = std::chrono::milliseconds(1000);
constexpr auto shortest_connection = std::chrono::milliseconds(1000);  // One that breaks sooner is no success.
constexpr auto login_pause = std::chrono::milliseconds(1000);          // After one that was refused.

std::string after_colon(const std::string& why) { return why.empty() ? why : ": " + why; }

}  // namespace

Sessions::Sessions(Parts parts, std::vector<Host> hosts)
    : parts_(std::move(parts)),
      events_(parts_.loop->events()),
      servers_(events_, parts_.loop->resolver(), parts_.client, std::move(hosts),
               [this](const Resolution& resolution) { use_addresses(resolution); }),
      former_(events_, parts_.client, [this] { return reach(); }),
      resume_(parts_.options.resume),
      login_timer_(events_),
      newest_(std::make_shared<SessionState>(parts_.options.session_timeout, parts_.client.lock().get())) {}

std::shared_ptr<SessionState> Sessions::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

std::optional<std::string> Sessions::server() const {
  const std::lock_guard lock(mutex_);
  return server_;
}

bool Sessions::lives(const std::shared_ptr<Connection>& connection) const {
  return connection == connection_ && !closing_ && !connection->session()->over();
}

// --- From one to the next --------------------------------------------------------------------------------------------

void Sessions::open() {
  const ClientOptions& options = parts_.options;
  auto state = begun() ? std::make_shared<SessionState>(options.session_timeout, hold().get()) : newest();
  // A session that is lost later is not resumed.
  SessionCredentials resumed = std::exchange(resume_, std::nullopt).value_or(SessionCredentials{});
  connection_ = std::make_shared<Connection>(events_, static_cast<ConnectionOwner&>(*this), state, std::move(resumed),
                                             options.server_tick);
  report_heartbeats(connection_->leases());
  pace_ = std::make_shared<ConnectPace>(*pace_);  // The former handle goes on for a moment.
  parts_.requests.use(*connection_);
  {
    const std::lock_guard lock(mutex_);
    newest_ = state;
  }
  change_state(ConnectionState::connecting, parts_.trouble.text());
  parts_.trouble.begin_outage(state->timeout(), servers_.hosts());
  servers_.stop_planning();
  servers_.look_up();
}

void Sessions::open_next() {
  if (!closing_ && connection_->session()->over()) open();
}

void Sessions::lose(Metrics::Counter cause, const std::string& why) {
  if (closing_ || connection_->session()->over()) return;
  count(cause);
  if (log_enabled(LogLevel::warning)) {
    const std::int64_t id = connection_->session()->id();
    log(LogLevel::warning, fmt::format("{}: lost: {}", session_name(id), why), {.session = id});
  }
  end(ConnectionState::lost, why);
  if (login_refused_) return;  // refuse_login() goes on.
  // Not from inside a callback of what has just ended.
  events_.defer([this, client = hold()] { open_next(); });
}

// Credentials that are put right at the server, or a login that failed for want of a key server, may do later.
void Sessions::refuse_login() {
  if (closing_) return;
  log(LogLevel::error, "SASL: the login was refused, or failed");
  login_refused_ = true;
  lose(Metrics::Counter::sessions_refused, "the login failed");
  login_refused_ = false;
  parts_.requests.fail_waiting(Errc::auth_failed, "SASL");
  login_timer_.set_after(login_pause, [this, client = hold()] { open_next(); });
}

// The end of a session, in this order: first no thread takes it for alive any more, then all are told.
void Sessions::end(ConnectionState state, const std::string& reason) {
  const auto connection = connection_;
  const auto session = connection->session();
  if (state == ConnectionState::closed && log_enabled(LogLevel::info)) {
    log(LogLevel::info, session_name(session->id()) + ": closed", {.session = session->id()});
  }
  servers_.stop_planning();
  parts_.requests.end_session();
  connection->stop();
  session->set_end_reason(reason);
  change_state(state, reason);
  ++retiring_;
  const bool lost = state == ConnectionState::lost;
  if (lost) {
    parts_.requests.fail_waiting(Errc::session_lost, session->end_reason(), session.get());
  } else {
    parts_.requests.fail_waiting(Errc::closed);
  }
  connection->watches().end_all(lost ? WatchEventType::session_lost : WatchEventType::closed);
  session->notify();  // Leases tell their holders: before the session is told to be lost, and closed.
  parts_.callbacks->post(
      [this, client = hold(), connection] {
        connection->session()->lost_source().request_stop();
        parts_.loop->post([this, client, connection] { retire(connection); });
      },
      true);
  if (!lost) {
    retire(connection);
    return;
  }
  // Closing it at the server gives its nodes away: not before its holders were told, unless one of them blocks.
  connection->when_silent(close_patience, [this, client = hold(), connection] { retire(connection); });
}

// Closes the session at the server, if that listens, so that its nodes vanish now and not at its timeout. If not, that
// is done when there is a server again.
void Sessions::retire(const std::shared_ptr<Connection>& connection) {
  connection->retire(close_patience, [this, client = hold(), connection] {
    if (connection->lingers()) former_.add(connection->session());
    --retiring_;
    if (closing_ && retiring_ == 0) closed_();
  });
}

void Sessions::close(std::function<void()> closed) {
  if (closing_) return;
  closed_ = std::move(closed);
  if (connection_->session()->over()) open();  // A session that was lost stays lost: the next one is closed.
  closing_ = true;
  parts_.requests.close();
  login_timer_.cancel();
  parts_.trouble.stop();
  former_.stop();
  servers_.drop_look_up();
  servers_.wake_waiters();
  end(ConnectionState::closed);
}

// --- States ----------------------------------------------------------------------------------------------------------

void Sessions::on_handle_event(Connection& connection, HandleEvent event) {
  if (&connection != connection_.get()) return;
  switch (event) {
    case HandleEvent::connected: on_connected(); break;
    case HandleEvent::disconnected: on_suspended(); break;
    case HandleEvent::flushed: parts_.requests.pump(); break;
    case HandleEvent::expired:
      pace_->restart();  // It has answered.
      lose(Metrics::Counter::sessions_expired, "the server ended it");
      break;
    case HandleEvent::auth_failed:
      log(LogLevel::error, session_name(connection.session()->id()) + ": the server refused the credentials",
          {.session = connection.session()->id()});
      parts_.credentials.refuse();
      lose(Metrics::Counter::sessions_refused, "the server refused the credentials");
      break;
    case HandleEvent::login_refused: refuse_login(); break;
  }
}

void Sessions::on_trouble(Connection& connection, ServerTrouble trouble) {
  if (&connection != connection_.get()) return;
  count(Metrics::Counter::attempts_failed);
  parts_.trouble.note(std::move(trouble));
  parts_.trouble.tell(servers_.hosts());
}

void Sessions::on_reply(Connection& connection, const std::shared_ptr<Op>& op, bool left) {
  // While watches are armed again on a new handle, some events may be behind this answer.
  const bool told = op->answered && !connection.arms_again();
  own_writes_.tell(op->request, told ? connection.session() : nullptr);
  parts_.requests.on_reply(op, left, connection.leases()->round_trip());
}

void Sessions::end_outage() {
  parts_.trouble.forget();
  connected_at_ = std::chrono::steady_clock::now();
  for (const std::string& line : repeated_->finish())
    log_library_line(line);
}

void Sessions::on_connected() {
  const auto connection = connection_;
  const auto session = connection->session();
  connection->not_silent();
  end_outage();
  servers_.stop_planning();
  const Handle& handle = *connection->handle();
  const SessionCredentials credentials = handle.credentials();
  const bool resumed = connection->resumes();
  if (session->id() != 0 && session->id() != credentials.id) {
    lose(Metrics::Counter::sessions_refused, "the server gave another one in its place");
    return;
  }
  if (session->id() == 0) count(Metrics::Counter::sessions_opened);
  session->set_identity(credentials.id, handle.timeout(), credentials.password);
  if (log_enabled(LogLevel::info)) {
    const std::string server = handle.server().value_or("");
    log(LogLevel::info,
        fmt::format("{}: {} at {}, timeout {} ms", session_name(credentials.id), resumed ? "resumed" : "opened",
                    server.empty() ? "?" : server, session->timeout().count()),
        {.session = credentials.id, .server = server});
  }
  connection->handle()->authenticate_first(parts_.credentials.all());
  change_state(ConnectionState::connected);
  plan_look_up();
  if (!connection->take_over()) return;
  session->notify();
  parts_.requests.pump();
  connection->go_on_with_removals();
  former_.pursue();
}

void Sessions::on_suspended() {
  const bool stood = std::chrono::steady_clock::now() - connected_at_ >= shortest_connection;
  stood ? pace_->restart() : pace_->broke_at_once();
  const auto connection = connection_;
  const auto session = connection->session();
  const std::string why = parts_.trouble.text();
  if (log_enabled(LogLevel::warning)) {
    log(LogLevel::warning, fmt::format("{}: the connection was lost{}", session_name(session->id()), after_colon(why)),
        {.session = session->id(), .server = server().value_or("")});
  }
  change_state(ConnectionState::suspended, why);
  parts_.trouble.begin_outage(session->timeout(), servers_.hosts());
  if (connection->draining()) connection->finish_draining();
  // Only a server can tell that a session expired. Without one for a whole timeout there is no reason for hope.
  connection->when_silent(session->timeout(), [this, client = hold(), connection] {
    if (connection != connection_) return;
    // It may have reconnected while this was on its way.
    if (connection->session()->raw_state() != ConnectionState::suspended) return;
    lose(Metrics::Counter::sessions_given_up,
         "no server was heard for its whole timeout" + after_colon(parts_.trouble.text()));
  });
  session->notify();
  plan_look_up();
}

void Sessions::change_state(ConnectionState state, std::string reason) {
  const auto session = connection_->session();
  meter_change(session->raw_state(), state);
  probe::session_state(session->id(), to_string(session->raw_state()), to_string(state), reason);
  session->set_state(state);
  {
    const std::lock_guard lock(mutex_);
    server_ = state == ConnectionState::connected ? connection_->handle()->server() : std::nullopt;
  }
  parts_.listeners.tell({state, Session(session), std::move(reason)});
}

// --- Metrics ---------------------------------------------------------------------------------------------------------

void Sessions::count(Metrics::Counter counter) {
  if (parts_.meter != nullptr) parts_.meter->count(counter);
}

void Sessions::meter_change(ConnectionState from, ConnectionState to) {
  if (parts_.meter == nullptr || from == to) return;
  const bool connects = to == ConnectionState::connected;
  const bool leaves = from == ConnectionState::connected;
  if (connects || leaves) parts_.meter->change(Metrics::Gauge::sessions_connected, connects ? 1 : -1);
  if (connects) count(Metrics::Counter::connections_opened);
  if (leaves && to == ConnectionState::suspended) count(Metrics::Counter::connections_lost);
  if (to == ConnectionState::closed && connection_->session()->id() != 0) count(Metrics::Counter::sessions_closed);
}

void Sessions::report_heartbeats(const std::shared_ptr<LeaseKeeper>& leases) const {
  if (parts_.meter == nullptr && parts_.spans == nullptr) return;
  leases->report_heartbeats([meter = parts_.meter, spans = parts_.spans,
                             session = connection_->session()](const LeaseKeeper::Heartbeat& beat) {
    SpanBegin begin;
    const auto duration = begin.boot - beat.sent;
    if (meter != nullptr && !beat.error) {
      meter->time(Metrics::Timing::heartbeat, duration);
      if (beat.validity_left > std::chrono::nanoseconds::zero()) {
        meter->time(Metrics::Timing::validity_left, beat.validity_left);
      }
    }
    if (spans == nullptr) return;
    begin.at -= std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
    begin.boot = beat.sent;
    const std::error_code error = beat.error ? make_error_code(*beat.error) : std::error_code();
    spans->tell({.kind = Span::Kind::heartbeat,
                 .operation = "heartbeat",
                 .begin = begin,
                 .error = error,
                 .session = session->id()});
  });
}

// --- Servers ---------------------------------------------------------------------------------------------------------

void Sessions::use_addresses(const Resolution& resolution) {
  const std::string& addresses = resolution.addresses;
  if (closing_ || connection_->session()->over()) return;                // The next session looks them up again.
  if (connection_->connected() && servers_.newest_is_applied()) return;  // The servers we know are back.
  parts_.trouble.resolved(resolution, servers_.hosts());
  if (!resolution.unknown.empty()) {
    count(Metrics::Counter::attempts_failed);
    parts_.trouble.tell(servers_.hosts());
  }
  if (addresses.empty()) {
    plan_look_up();
  } else if (connection_->handle() != nullptr && same_addresses(addresses, connection_->addresses())) {
    note_applied();
    plan_look_up();
  } else {
    connection_->move(addresses);
  }
}

// While there is no connection, names may have come to mean other addresses.
void Sessions::plan_look_up() {
  const bool settled = connection_->connected() && servers_.newest_is_applied();
  if (connection_->handle() != nullptr && (settled || servers_.numeric())) return;
  servers_.look_up_later();
}

// Leaves the old handle and opens a new one that resumes the session. For all others this is a connection that broke.
void Sessions::on_drained(const std::shared_ptr<Connection>& connection) {
  connection->stop_draining();
  if (!lives(connection)) return;
  if (connection->connected()) on_suspended();
  connection->leave_handle();
  if (lives(connection)) open_handle(connection->next_addresses());
}

HandleOptions Sessions::handle_options(std::string addresses) const {
  const ClientOptions& options = parts_.options;
  return {.addresses = std::move(addresses),
          .timeout = options.session_timeout,
          .tls = options.tls ? &*options.tls : nullptr,
          .sasl = options.sasl ? &*options.sasl : nullptr};
}

std::optional<HandleOptions> Sessions::reach() const {
  auto serving = connection_->connected() ? connection_->handle()->server() : std::nullopt;
  if (!serving) return std::nullopt;
  // The C client takes an IPv6 address without its brackets.
  std::erase_if(*serving, [](char c) { return c == '[' || c == ']'; });
  return handle_options(std::move(*serving));
}

void Sessions::open_handle(const std::string& addresses) {
  // Of other servers nothing is known that would be worth a pause.
  if (!same_addresses(std::exchange(paced_addresses_, addresses), addresses)) pace_->restart();
  try {
    HandleOptions options = handle_options(servers_.shuffled(addresses));
    options.pace = pace_;
    options.repeated = repeated_;
    connection_->open(addresses, options);
    note_applied();
  } catch (const Error& error) {  // No descriptor, say: that may change.
    count(Metrics::Counter::attempts_failed);
    parts_.trouble.note({"", "no attempt could be made: " + error.detail()});
    parts_.trouble.tell(servers_.hosts());
  }
  plan_look_up();
}

void Sessions::note_applied() {
  if (!servers_.newest_is_applied() && log_enabled(LogLevel::info)) {
    const std::int64_t id = connection_->session()->id();
    log(LogLevel::info, session_name(id) + ": new servers: " + connection_->addresses(), {.session = id});
  }
  servers_.set_applied();
}

std::uint64_t Sessions::use_servers(std::vector<Host> hosts) {
  const std::uint64_t list = servers_.replace(std::move(hosts));
  servers_.drop_look_up();
  servers_.stop_planning();
  connection_->stop_draining();
  servers_.look_up();
  parts_.requests.pump();  // Requests that a drain, not wanted any more, has held back.
  return list;
}

}  // namespace zkclient::detail
