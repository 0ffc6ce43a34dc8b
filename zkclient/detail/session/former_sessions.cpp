#include "zkclient/detail/session/former_sessions.hpp"

#include <algorithm>
#include <utility>

#include "zkclient/detail/log.hpp"
#include "zkclient/detail/session/core.hpp"
#include "zkclient/detail/session/sessions.hpp"

namespace zkclient::detail {
namespace {

constexpr std::size_t most_waiting = 8;  // Of those before them nothing is left by then.
constexpr auto former_patience = std::chrono::milliseconds(1000);

}  // namespace

/// Resumes one session, and closes it.
class FormerSessions::Closer final : public HandleOwner, public std::enable_shared_from_this<Closer> {
 public:
  using Done = UniqueFunction<void(bool over)>;

  explicit Closer(EventLoop& events) : events_(events), patience_(events) {}

  /// Throws Error: no attempt can be made. `done` is called once, unless stop() comes before: with whether the session
  /// is over at the servers.
  void begin(std::shared_ptr<SessionState> session, const HandleOptions& options, Done done) {
    session_ = std::move(session);
    id_ = options.resume.id;
    addresses_ = options.addresses;
    handle_ = std::make_shared<Handle>(events_, *this);
    handle_->open(options);
    done_ = std::move(done);
    // A server that says nothing may have gone, and others have counted the session anew.
    patience_.set_after(options.timeout, [self = shared_from_this()] { self->end(false); });
  }

  const std::shared_ptr<SessionState>& session() const noexcept { return session_; }
  // It still tries, and elsewhere than at `addresses`.
  bool misses(const std::string& addresses) const { return !was_connected_ && addresses_ != addresses; }

  void stop() {
    done_ = {};
    end(true);
  }

 private:
  void on_handle_event(HandleEvent event) override {
    switch (event) {
      case HandleEvent::connected:
        was_connected_ = true;
        patience_.cancel();
        handle_->close(former_patience, [self = shared_from_this()] { self->closed(); });
        break;
      case HandleEvent::expired:
      case HandleEvent::auth_failed:
      case HandleEvent::login_refused:
        events_.defer([self = shared_from_this()] { self->end(true); });  // Not from inside a call of the handle.
        break;
      case HandleEvent::disconnected:
      case HandleEvent::flushed: break;
    }
  }
  void on_ping_answered(BootClock::time_point) override {}
  void on_trouble(ServerTrouble) override {}
  std::chrono::nanoseconds left_to_keep() const override { return std::chrono::nanoseconds::zero(); }
  void on_node_event(int, const std::string&) override {}
  void on_reply(const std::shared_ptr<Op>&) override {}

  void closed() {
    const bool over = handle_ == nullptr || handle_->session_closed();
    if (over && log_enabled(LogLevel::info)) {
      log(LogLevel::info, session_name(id_) + ": given up, and now closed at the servers", {.session = id_});
    }
    end(over);
  }
  void end(bool over) {
    patience_.cancel();
    if (const auto handle = std::exchange(handle_, nullptr)) handle->drop();
    if (Done done = std::exchange(done_, {})) done(over);
  }

  EventLoop& events_;
  Timer patience_;
  std::shared_ptr<SessionState> session_;
  std::int64_t id_ = 0;
  std::string addresses_;
  bool was_connected_ = false;
  std::shared_ptr<Handle> handle_;
  Done done_;
};

FormerSessions::FormerSessions(EventLoop& events, Lifeline client, Reach reach)
    : events_(events), client_(std::move(client)), reach_(std::move(reach)), next_try_(events) {}

FormerSessions::~FormerSessions() { stop(); }

NodeUse FormerSessions::use(const SessionState& session) {
  std::erase_if(uses_, [](const auto& use) { return use.second.expired(); });
  std::weak_ptr<void>& known = uses_[session.id()];
  if (!known.expired()) return known.lock();
  NodeUse use(nullptr, [this, client = client_, &events = events_](std::nullptr_t) {
    if (client.expired()) return;
    events.defer([this, client] {  // Not at once: its owner is in the middle of its work.
      if (client.lock() != nullptr) pursue();
    });
  });
  known = use;
  return use;
}

bool FormerSessions::used(const SessionState& session) const {
  const auto found = uses_.find(session.id());
  return found != uses_.end() && !found->second.expired();
}

void FormerSessions::add(std::shared_ptr<SessionState> session) {
  if (stopped_ || session->id() == 0) return;
  keep(std::move(session));
  pursue();
}

void FormerSessions::keep(std::shared_ptr<SessionState> session) {
  if (waiting_.size() == most_waiting) waiting_.pop_front();
  waiting_.push_back(std::move(session));
}

// The server that a closer tries to reach may have gone: the client has left it.
void FormerSessions::take_back_from_elsewhere(const std::string& addresses) {
  for (auto place = closers_.begin(); place != closers_.end();) {
    const std::shared_ptr<Closer> closer = *place;
    if (!closer->misses(addresses)) {
      ++place;
      continue;
    }
    place = closers_.erase(place);
    closer->stop();
    keep(closer->session());
  }
}

void FormerSessions::pursue() {
  if (stopped_) return;
  if (const auto options = reach_()) take_back_from_elsewhere(options->addresses);
  std::deque<std::shared_ptr<SessionState>> later;
  for (const auto& session : std::exchange(waiting_, {})) {
    const auto options = used(*session) ? std::nullopt : reach_();
    if (!options || !begin(session, *options)) later.push_back(session);
  }
  waiting_ = std::move(later);
}

bool FormerSessions::begin(const std::shared_ptr<SessionState>& session, HandleOptions options) {
  options.resume = {session->id(), session->password()};
  options.timeout = session->timeout();
  const auto closer = closers_.insert(closers_.end(), std::make_shared<Closer>(events_));
  try {
    (*closer)->begin(session, options, [this, client = client_.lock(), closer, session](bool over) {
      closers_.erase(closer);
      if (over) return;
      keep(session);  // Its server did not answer. It was resumed, so it may last for a whole timeout from now on.
      try_again_after(session->timeout() / 4);
    });
  } catch (const Error&) {  // No descriptor, say.
    closers_.erase(closer);
    try_again_after(session->timeout() / 4);
    return false;
  }
  return true;
}

void FormerSessions::try_again_after(std::chrono::milliseconds pause) {
  if (stopped_ || next_try_.is_set()) return;
  next_try_.set_after(pause, [this, client = client_] {
    if (client.lock() != nullptr) pursue();
  });
}

void FormerSessions::stop() {
  stopped_ = true;
  next_try_.cancel();
  waiting_.clear();
  for (const auto& closer : std::exchange(closers_, {}))
    closer->stop();
}

NodeUse use_nodes(ClientCore& client, const SessionState& session) { return client.sessions().former().use(session); }

}  // namespace zkclient::detail
