// Which servers a client talks to: look-ups, and the move of a session from one list of servers to another.

#include <algorithm>

#include <fmt/format.h>

#include "zkclient/detail/log.hpp"
#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {
namespace {

constexpr auto first_look_up_pause = std::chrono::milliseconds(200);
constexpr auto last_look_up_pause = std::chrono::milliseconds(5000);
constexpr auto longest_drain = std::chrono::milliseconds(1000);
constexpr auto first_trouble_pause = std::chrono::milliseconds(1000);
constexpr auto last_trouble_pause = std::chrono::milliseconds(60'000);

}  // namespace

// The addresses of hosts_, at once or when they have been looked up.
void ClientCore::look_up_servers() {
  if (all_numeric(hosts_)) {
    use_addresses(resolve(hosts_));
  } else if (look_up_ == nullptr) {
    look_up_ = loop_->resolver().look_up(hosts_, [weak = weak_from_this()](const Resolution& resolution) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->look_up_ = nullptr;
      self->use_addresses(resolution);
    });
  }
}

void ClientCore::use_addresses(const Resolution& resolution) {
  const std::string& addresses = resolution.addresses;
  if (closing_ || connection_->session->over()) return;  // The next session looks them up again.
  const bool connected = connection_->session->raw_state() == ConnectionState::connected;
  if (connected && applied_update_ == newest_update_) return;  // The servers we know are back.
  troubles_.resolved(resolution);
  if (!resolution.unknown.empty()) tell_trouble();
  if (addresses.empty()) {
    plan_look_up();
  } else if (connection_->handle != nullptr && same_addresses(addresses, connection_->addresses)) {
    servers_applied();
    plan_look_up();
  } else {
    move_to(addresses);
  }
}

// At `warning` not each attempt, of which there may be twenty in a second, but the first one and then ever fewer.
void ClientCore::tell_trouble() {
  set_trouble(troubles_.text(hosts_));
  ++failed_attempts_;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_trouble_line_ || !log_enabled(LogLevel::warning)) return;
  log(LogLevel::warning, fmt::format("no connection, attempt {}: {}", failed_attempts_, trouble()));
  next_trouble_line_ = now + trouble_pause_;
  trouble_pause_ = std::min(trouble_pause_ * 2, last_trouble_pause);
}

void ClientCore::forget_trouble() {
  troubles_.clear();
  set_trouble({});
  failed_attempts_ = 0;
  next_trouble_line_ = {};
  trouble_pause_ = first_trouble_pause;
  outage_.cancel();
}

// Once in each outage, at the level that is always on: a program that waits for a server must not be silent for ever.
void ClientCore::begin_outage() {
  if (outage_.is_set()) return;
  const auto patience = connection_->session->timeout();
  outage_.set_after(patience, [weak = weak_from_this(), patience] {
    const auto self = weak.lock();
    if (self == nullptr || self->closing_) return;
    const std::string why = self->trouble();
    log(LogLevel::error,
        fmt::format("no server for {} ms: {}", patience.count(), why.empty() ? "nobody knows why" : why));
  });
}

// While there is no connection, names may have come to mean other addresses.
void ClientCore::plan_look_up() {
  const bool connected = connection_->session->raw_state() == ConnectionState::connected;
  const bool unsettled = !connected || applied_update_ != newest_update_;
  if (connection_->handle != nullptr && (all_numeric(hosts_) || !unsettled)) return;
  if (look_up_timer_.is_set()) return;
  // Spread, so that many clients do not ask at the same instant.
  const double share = std::uniform_real_distribution<double>(0.75, 1.25)(random_);
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(look_up_pause_ * share);
  look_up_pause_ = std::min(look_up_pause_ * 2, last_look_up_pause);
  look_up_timer_.set_after(pause, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    if (!self->closing_ && !self->connection_->session->over()) self->look_up_servers();
  });
}

void ClientCore::stop_looking_up() {
  look_up_timer_.cancel();
  look_up_pause_ = first_look_up_pause;
}

// First lets the requests that are on their way come back, if they do so soon.
void ClientCore::move_to(const std::string& addresses) {
  const auto connection = connection_;
  connection->next_addresses = addresses;
  if (connection->draining) return;
  const bool connected = connection->session->raw_state() == ConnectionState::connected;
  if (connection->handle == nullptr) {
    finish_move(connection);
    return;
  }
  connection->draining = true;
  if (!connected || connection->handle->in_flight() == 0) {
    on_drained();
    return;
  }
  const auto patience = std::min<std::chrono::milliseconds>(longest_drain, connection->session->timeout() / 8);
  connection->drain.set_after(patience, [self = shared_from_this(), connection] {
    if (connection->draining) self->finish_move(connection);
  });
}

void ClientCore::on_drained() {
  events().defer([self = shared_from_this(), connection = connection_] {
    if (connection->draining) self->finish_move(connection);
  });
}

// Leaves the old handle, without a word to its server, so that the session lives on, and opens a new one that resumes
// it. For everybody else this is a connection that broke.
void ClientCore::finish_move(const std::shared_ptr<Connection>& connection) {
  connection->draining = false;
  connection->drain.cancel();
  if (connection != connection_ || closing_ || connection->session->over()) return;
  if (connection->session->raw_state() == ConnectionState::connected) on_suspended();
  if (connection->handle != nullptr) {
    // What it has already heard is told before it goes: replies, and events of watches.
    const auto old = std::move(connection->handle);
    connection->handle = nullptr;
    connection->leaves = true;
    old->drop();
    connection->leaves = false;
    connection->armed.handle_gone();
  }
  if (connection != connection_ || closing_ || connection->session->over()) return;
  open_handle(connection->next_addresses);
}

void ClientCore::open_handle(const std::string& addresses) {
  Connection& connection = *connection_;
  const SessionState& session = *connection.session;
  const SessionCredentials known{session.id(), session.password()};
  try {
    connection.handle = std::make_shared<Handle>(events(), connection);
    connection.handle->open({.addresses = odd_list(addresses, random_()),
                             .timeout = options_.session_timeout,
                             .resume = known.id != 0 ? known : connection.resume,
                             .tls = options_.tls ? &*options_.tls : nullptr,
                             .sasl = options_.sasl ? &*options_.sasl : nullptr});
    connection.addresses = addresses;
    connection.barrier_due = known.id != 0 || connection.resume.id != 0;
    servers_applied();
  } catch (const Error& error) {  // No descriptor, say: that may change.
    troubles_.note({"", "no attempt could be made: " + error.detail()});
    tell_trouble();
    connection.handle = nullptr;
  }
  plan_look_up();
}

// A new handle does not know how much of the history the session has seen, so it might be content with a server that
// lags behind the one before. A transaction that changes nothing makes sure that it does not: once a server has
// answered it, it has applied all that was committed before. Requests that follow are executed after it. Behind it come
// a heartbeat, if there are leases, then the session's watches, which are armed again, then everything else.
void ClientCore::Connection::take_over() {
  if (barrier_due) {
    Request request = make_request(OpType::multi, "/");
    request.operations.emplace_back(Check{Path("/")});
    submit_own(std::move(request), [this](const Op& op) {
      if (!rc::is_loss(op.code)) barrier_due = false;
    });
  }
}

void ClientCore::Connection::arm_again() {
  for (ArmedWatches::Pending& watch : armed.pending()) {
    if (!watches.reserve(watch.path, watch.kind)) {  // Nobody waits for it, and there is no room.
      armed.removed(watch.path, watch.kind);
      continue;
    }
    const bool children = watch.kind == WatchRegistry::Kind::children;
    Request request = make_request(children ? OpType::children : OpType::exists, watch.path);
    request.watch = true;
    submit_own(std::move(request), [this, watch = std::move(watch)](const Op& op) { on_rearmed(watch, op); });
  }
}

void ClientCore::Connection::on_rearmed(const ArmedWatches::Pending& watch, const Op& op) {
  if (rc::is_loss(op.code)) return;  // The next connection does it again.
  int event = watch.kind == WatchRegistry::Kind::children ? ArmedWatches::children_changed : ArmedWatches::data_changed;
  const bool answered = op.code == rc::ok || op.code == rc::no_node;
  // A refusal (access rights that changed) ends the watch, so that its owner looks for himself.
  if (answered) event = ArmedWatches::missed(watch, op.code == rc::ok ? std::optional(op.reply.stat) : std::nullopt);
  const bool armed_again = op.code == rc::ok || (op.code == rc::no_node && op.request.type == OpType::exists);
  if (!armed_again) armed.fired(event, watch.path);
  if (event != 0) watches.fire(event, watch.path);
}

// Sends a request of the connection's own. It is not repeated.
void ClientCore::Connection::submit_own(Request request, UniqueFunction<void(const Op&)> done) {
  const auto op = std::make_shared<Op>();
  op->request = std::move(request);
  own.emplace(op.get(), std::move(done));
  if (handle->submit(op)) return;
  own.erase(op.get());
  if (op->request.watch) watches.settle(op->request.path, watch_kind(op->request.type), false);
}

void ClientCore::Connection::note(const Op& op) {
  if (op.code == rc::ok) {
    armed.saw(op.reply.stat);
    for (const OperationResult& result : op.reply.results) {
      if (result.stat) armed.saw(*result.stat);
    }
  }
  if (!op.request.watch) return;
  const bool children = op.request.type == OpType::children;
  const auto kind = children ? WatchRegistry::Kind::children : WatchRegistry::Kind::data;
  if (op.code == rc::ok) armed.armed(op.request.path, kind, true);
  if (op.code == rc::no_node && op.request.type == OpType::exists) armed.armed(op.request.path, kind, false);
}

// --- A new list ---------------------------------------------------------------------------------------------------

void ClientCore::servers_applied() {
  if (applied_update_ != newest_update_ && log_enabled(LogLevel::info)) {
    log(LogLevel::info, session_name(connection_->session->id()) + ": new servers: " + connection_->addresses);
  }
  applied_update_ = newest_update_;
  for (Signal* waiter : update_waiters_)
    waiter->set();
}

Awaitable<Reply> ClientCore::update_servers(std::vector<Host> hosts, Call call) {
  const auto self = shared_from_this();
  Reply reply;
  if (closing_) {
    reply.error = Errc::closed;
    co_return reply;
  }
  hosts_ = std::move(hosts);
  const std::uint64_t update = ++newest_update_;
  look_up_ = nullptr;
  stop_looking_up();
  if (std::exchange(connection_->draining, false)) connection_->drain.cancel();
  look_up_servers();
  pump();  // What a drain that is not wanted any more has held back.

  Signal applied(events());
  const auto place = update_waiters_.insert(update_waiters_.end(), &applied);
  const CancelScope::Guard guard(call.cancel, [&applied] { applied.set(); });
  const auto waits = [&] {
    const bool cancelled = call.cancel != nullptr && call.cancel->requested();
    const bool late = call.deadline && std::chrono::steady_clock::now() >= *call.deadline;
    return applied_update_ < update && !closing_ && !cancelled && !late;
  };
  while (waits()) {
    applied.clear();
    co_await applied.wait(call.deadline);
  }
  update_waiters_.erase(place);
  if (applied_update_ < update && !closing_) {
    const bool cancelled = call.cancel != nullptr && call.cancel->requested();
    reply.error = cancelled ? Errc::cancelled : Errc::deadline_exceeded;
    reply.detail = "the client goes on trying to reach the new servers";
    co_return reply;
  }
  reply = co_await connected(call);
  co_return reply;
}

}  // namespace zkclient::detail
