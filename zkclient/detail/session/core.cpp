// The engine as a whole: how it begins and how it ends.

#include "zkclient/detail/session/core.hpp"

#include <algorithm>

#include "zkclient/detail/connection/security.hpp"

namespace zkclient::detail {
namespace {

void check_options(const ClientOptions& options) {
  const auto refuse = [](const char* what) { throw Error(Errc::invalid_argument, "client", "", what); };
  // The C client gives a server two thirds of it to answer, and never connects if that is next to nothing.
  if (options.session_timeout.count() < 100 || options.session_timeout > std::chrono::hours(24)) {
    refuse("session_timeout must be at least 100 ms and at most a day");
  }
  if (options.server_tick && options.server_tick->count() <= 0) refuse("server_tick must be positive");
  if (options.operation_timeout.count() <= 0) refuse("operation_timeout must be positive");
  if (options.retry.initial.count() < 0 || options.retry.max.count() < 0) refuse("retry pauses must not be negative");
  if (options.retry.max_attempts < 1) refuse("retry.max_attempts must be at least 1");
  if (options.resume && (options.resume->id == 0 || options.resume->password.size() != 16)) {
    refuse("resume needs a session id and its password of 16 bytes");
  }
}

// "For ever", which is beyond what the clock can count when it is added to the time it is.
constexpr std::chrono::milliseconds longest_operation_timeout = std::chrono::hours(24 * 365 * 100);

// Never an unencrypted connection in place of an encrypted one, or an anonymous one in place of one with a login.
void check_security(ClientOptions& options) {
  if (options.tls) options.tls = checked(std::move(*options.tls));
  if (options.sasl) check(*options.sasl);
  if (options.tls && options.sasl) {
    throw Error(Errc::unsupported, "client", "", "ClientOptions::tls and ::sasl together: the C client takes only one");
  }
}

}  // namespace

std::shared_ptr<ClientCore> ClientCore::start(std::shared_ptr<Loop> loop, std::string_view hosts,
                                              ClientOptions options) {
  check_options(options);
  check_security(options);
  options.operation_timeout = std::min(options.operation_timeout, longest_operation_timeout);
  std::shared_ptr<ClientCore> core(new ClientCore(std::move(loop), parse_hosts(hosts), std::move(options)));
  core->loop_->add(core);
  core->shared_session_ = std::make_shared<SessionState>(core->options_.session_timeout, core.get());
  core->loop_->post([core] { core->open_session(); });
  return core;
}

ClientCore::ClientCore(std::shared_ptr<Loop> loop, std::vector<Host> hosts, ClientOptions options)
    : loop_(std::move(loop)),
      options_(std::move(options)),
      callbacks_(std::make_shared<CallbackGroup>(
          [weak = std::weak_ptr<Loop>(loop_)](Task task, bool urgent) {
            if (const auto self = weak.lock()) self->schedule(std::move(task), urgent);
          },
          loop_->has_user_executor())),
      resume_(options_.resume),
      hosts_(std::move(hosts)),
      look_up_timer_(loop_->events()),
      outage_(loop_->events()),
      deadline_timer_(loop_->events()),
      random_(std::random_device{}()),
      login_timer_(loop_->events()) {}

ClientCore::~ClientCore() { loop_->remove(this); }

std::shared_ptr<SessionState> ClientCore::session() const {
  if (loop_->forked()) {  // Whoever had the lock is not here any more.
    static const auto none = std::make_shared<SessionState>(std::chrono::milliseconds(0));
    none->set_state(ConnectionState::closed);
    return none;
  }
  const std::lock_guard lock(mutex_);
  return shared_session_;
}

std::optional<std::string> ClientCore::server() const {
  if (loop_->forked()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return server_;
}

void ClientCore::set_server(std::optional<std::string> address) {
  const std::lock_guard lock(mutex_);
  server_ = std::move(address);
}

std::string ClientCore::trouble() const {
  if (loop_->forked()) return {};
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void ClientCore::set_trouble(std::string text) {
  const std::lock_guard lock(mutex_);
  trouble_ = std::move(text);
}

std::string ClientCore::full(const Path& path) const {
  const std::string& prefix = options_.prefix.str();
  if (options_.prefix.is_root()) return path.str();
  if (path.is_root()) return prefix;
  if (prefix.size() + path.str().size() > Path::max_size) {
    constexpr std::size_t shown = 200;
    const std::string start = path.str().substr(0, shown) + (path.str().size() > shown ? "..." : "");
    throw Error(Errc::invalid_path, "path", start, "is longer than 64 KiB with the client's prefix in front");
  }
  return prefix + path.str();
}

std::string ClientCore::stripped(const std::string& path) const {
  const std::string& prefix = options_.prefix.str();
  if (options_.prefix.is_root() || !path.starts_with(prefix)) return path;
  return path.size() == prefix.size() ? "/" : path.substr(prefix.size());
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
    added->queue()->post([weak, state = session->raw_state(), session, reason = self->trouble()] {
      if (const auto alive = weak.lock()) alive->listener(StateChange{state, Session(session), reason});
    });
  });
  return subscription;
}

void ClientCore::begin_close() {
  if (loop_->forked()) return;
  const bool accepted = loop_->post([self = shared_from_this()] { self->do_close(); });
  if (accepted) return;
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void ClientCore::do_close() {
  if (closing_) return;
  if (connection_->session->over()) open_session();  // A session that was lost stays lost: the next one is closed.
  closing_ = true;
  loop_->remove(this);
  deadline_timer_.cancel();
  login_timer_.cancel();
  outage_.cancel();
  look_up_ = nullptr;
  stop_looking_up();
  for (Signal* waiter : update_waiters_)
    waiter->set();
  end_session(ConnectionState::closed);
}

void ClientCore::on_closed() {
  if (retiring_ > 0) return;
  // What the closing woke up (coroutines of recipes) gets one more turn of the loop before the close is over.
  events().defer([self = shared_from_this()] {
    const std::lock_guard lock(self->mutex_);
    self->closed_ = true;
    self->closed_changed_.notify_all();
  });
}

void ClientCore::finish_close() {
  if (loop_->forked()) return;
  {
    CallbackPool::about_to_wait();
    std::unique_lock lock(mutex_);
    closed_changed_.wait(lock, [this] { return closed_; });
  }
  callbacks_->wait();
}

}  // namespace zkclient::detail
