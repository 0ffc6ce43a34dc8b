#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <zkclient/session.hpp>

#include "zkclient/detail/connection/handle.hpp"
#include "zkclient/detail/lease/lease_keeper.hpp"
#include "zkclient/detail/requests/request.hpp"
#include "zkclient/detail/watches/armed_watches.hpp"
#include "zkclient/detail/watches/watch_registry.hpp"

namespace zkclient::detail {

class Connection;

/// The kind of watch that a read arms.
constexpr WatchRegistry::Kind watch_kind(OpType type) noexcept {
  return type == OpType::children ? WatchRegistry::Kind::children : WatchRegistry::Kind::data;
}

/// Hears of a Connection's events, and sends what it asks for.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  /// Of its present handle, while its session lives.
  virtual void on_handle_event(Connection& connection, HandleEvent event) = 0;
  virtual void on_trouble(Connection& connection, ServerTrouble trouble) = 0;
  virtual void on_watch_event() = 0;
  /// A reply has come, or was lost. `left`: in that case since the connection was left; it did not break.
  virtual void on_reply(Connection& connection, const std::shared_ptr<Op>& op, bool left) = 0;
  /// The event that move() waited for has come, or takes too long.
  virtual void on_drained(const std::shared_ptr<Connection>& connection) = 0;
  /// Sends a heartbeat, before everything that waits.
  virtual void send_first(const std::shared_ptr<Op>& op) = 0;
  virtual bool closing() const noexcept = 0;
  /// Keeps the owner.
  virtual std::shared_ptr<void> hold() const = 0;
};

/// All that belongs to one session: its handle, which is replaced when the session moves to other servers, its watches
/// and its leases. The owner outlives it. Lives on the loop thread.
class Connection final : public HandleOwner, public std::enable_shared_from_this<Connection> {
 public:
  /// `resume`: the session to be resumed, if it has an id. `tick`: the server's, if it is known.
  Connection(EventLoop& events, ConnectionOwner& owner, std::shared_ptr<SessionState> session,
             SessionCredentials resume, std::optional<std::chrono::milliseconds> tick);

  const std::shared_ptr<SessionState>& session() const noexcept { return session_; }
  bool connected() const noexcept { return session_->raw_state() == ConnectionState::connected; }
  bool resumes() const noexcept { return session_->id() != 0 || resume_.id != 0; }
  const std::shared_ptr<Handle>& handle() const noexcept { return handle_; }  ///< Null: there is none now.
  const std::shared_ptr<LeaseKeeper>& leases() const noexcept { return leases_; }
  WatchRegistry& watches() noexcept { return watches_; }

  /// Opens a handle for `addresses`; the rest is in `options`. Throws Error.
  void open(const std::string& addresses, HandleOptions options);
  /// The handle is connected. What has to go before all other requests goes now. False: it was the session's end.
  bool take_over();
  bool taking_over() const noexcept { return taking_over_; }
  /// Watches of a former handle; meanwhile their events do not come in order with the answers.
  bool arms_again() const noexcept { return arming_again_ != 0; }
  /// After take_over(), and after the requests that waited.
  void go_on_with_removals();

  const std::string& addresses() const noexcept { return addresses_; }  ///< Those of the handle.
  /// Waits, not for long, until the requests that are on their way have come back; then on_drained().
  void move(const std::string& addresses);
  const std::string& next_addresses() const noexcept { return next_addresses_; }
  /// Nothing is sent meanwhile.
  bool draining() const noexcept { return draining_; }
  void check_drained();
  void finish_draining();
  void stop_draining() noexcept;
  /// Drops the handle, without a word to its server. What it has already heard is told before it goes: replies, and
  /// events of watches.
  void leave_handle();

  /// Calls `then` when `patience` is over, unless not_silent(), stop() or retire() comes before.
  void when_silent(std::chrono::milliseconds patience, UniqueFunction<void()> then);
  void not_silent() noexcept { silence_.cancel(); }
  /// The session is over: nothing is sent any more, and no lease lives on.
  void stop();
  /// Closes the session at the server, if that listens for `patience`; then `done`. Only the first call counts.
  void retire(std::chrono::milliseconds patience, UniqueFunction<void()> done);
  /// After retire(): the servers may still have the session.
  bool lingers() const noexcept { return handle_ == nullptr || !handle_->session_closed(); }

 private:
  void on_handle_event(HandleEvent event) override;
  void on_ping_answered(BootClock::time_point sent) override { leases_->heard(sent); }
  void on_trouble(ServerTrouble trouble) override { owner_.on_trouble(*this, std::move(trouble)); }
  std::chrono::nanoseconds left_to_keep() const override;
  void on_node_event(int type, const std::string& path) override;
  void on_reply(const std::shared_ptr<Op>& op) override;

  void send_barrier();
  void arm_again();
  void on_rearmed(const ArmedWatches::Pending& watch, const Op& op);
  void submit_own(Request request, UniqueFunction<void(const Op&)> done);
  void note(const Op& op);
  void schedule_removals();
  void remove_idle_watches();

  EventLoop& events_;
  ConnectionOwner& owner_;
  const std::shared_ptr<SessionState> session_;
  const SessionCredentials resume_;
  std::shared_ptr<Handle> handle_;
  std::shared_ptr<LeaseKeeper> leases_;
  WatchRegistry watches_;
  Timer silence_;
  bool retired_ = false;
  std::string addresses_;
  ArmedWatches armed_;
  std::unordered_map<const Op*, UniqueFunction<void(const Op&)>> own_;  // Requests of the connection itself.
  std::size_t arming_again_ = 0;  // How many of those arm watches again on a new handle.
  bool barrier_due_ = false;      // See send_barrier().
  bool taking_over_ = false;      // Only what is urgent may go first.
  bool draining_ = false;
  bool leaves_ = false;  // The handle is being dropped.
  std::string next_addresses_;
  Timer drain_;
  Timer idle_watches_;  // Until idle watches are removed at the server.
  bool removals_wait_ = false;
};

}  // namespace zkclient::detail
