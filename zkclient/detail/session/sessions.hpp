#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>

#include "zkclient/detail/connection/trouble_report.hpp"
#include "zkclient/detail/loop/callbacks.hpp"
#include "zkclient/detail/loop/lifeline.hpp"
#include "zkclient/detail/meter.hpp"
#include "zkclient/detail/metrics/span_teller.hpp"
#include "zkclient/detail/requests/credentials.hpp"
#include "zkclient/detail/servers/server_directory.hpp"
#include "zkclient/detail/session/connection.hpp"
#include "zkclient/detail/session/former_sessions.hpp"
#include "zkclient/detail/session/listeners.hpp"
#include "zkclient/detail/session/loop.hpp"
#include "zkclient/detail/session/own_writes.hpp"
#include "zkclient/detail/session/request_queue.hpp"

namespace zkclient::detail {

/// A client's sessions, one after another: opens them, moves them from server to server, and tells the other parts of
/// the client of their states. Lives on the loop thread, except newest() and server().
class Sessions final : private ConnectionOwner {
 public:
  /// The other parts of the client. All of them outlive this one.
  struct Parts {
    const std::shared_ptr<Loop>& loop;
    const ClientOptions& options;
    const std::shared_ptr<CallbackGroup>& callbacks;
    TroubleReport& trouble;
    Credentials& credentials;
    Listeners& listeners;
    RequestQueue& requests;
    std::shared_ptr<Meter> meter;       ///< Null for none.
    std::shared_ptr<SpanTeller> spans;  ///< Null for none.
    Lifeline client;
  };

  Sessions(Parts parts, std::vector<Host> hosts);

  /// Any thread. The one that is open, or was last.
  std::shared_ptr<SessionState> newest() const;
  /// Any thread. The server of that session, while it is connected.
  std::optional<std::string> server() const;

  void open();
  /// Whether one was opened yet.
  bool begun() const noexcept { return connection_ != nullptr; }
  Connection& current() const noexcept { return *connection_; }
  FormerSessions& former() noexcept { return former_; }
  ServerDirectory& servers() noexcept { return servers_; }
  OwnWrites& own_writes() noexcept { return own_writes_; }
  std::weak_ptr<void>& shared_by_views() noexcept { return shared_by_views_; }
  RequestQueue& requests() noexcept { return parts_.requests; }
  /// Replaces the list of servers; the session moves to the new ones. The number of that list.
  std::uint64_t use_servers(std::vector<Host> hosts);

  /// Closes the session; `closed` is called when all that were opened are closed, as far as their servers listen.
  void close(std::function<void()> closed);
  bool closing() const noexcept override { return closing_; }

 private:
  void on_handle_event(Connection& connection, HandleEvent event) override;
  void on_trouble(Connection& connection, ServerTrouble trouble) override;
  void on_watch_event() override { count(Metrics::Counter::watch_events); }
  void on_reply(Connection& connection, const std::shared_ptr<Op>& op, bool left) override;
  void on_drained(const std::shared_ptr<Connection>& connection) override;
  void send_first(const std::shared_ptr<Op>& op) override { parts_.requests.start(op); }
  std::shared_ptr<void> hold() const override { return parts_.client.lock(); }

  bool lives(const std::shared_ptr<Connection>& connection) const;
  void open_handle(const std::string& addresses);
  HandleOptions handle_options(std::string addresses) const;
  std::optional<HandleOptions> reach() const;
  void use_addresses(const Resolution& resolution);
  void plan_look_up();
  void note_applied();
  void on_connected();
  void end_outage();
  void on_suspended();
  /// `cause`: one of those that count lost sessions.
  void lose(Metrics::Counter cause, const std::string& why);
  void refuse_login();
  void open_next();
  void end(ConnectionState state, const std::string& reason = {});
  void retire(const std::shared_ptr<Connection>& connection);
  void change_state(ConnectionState state, std::string reason = {});
  void count(Metrics::Counter counter);
  void meter_change(ConnectionState from, ConnectionState to);
  void report_heartbeats(const std::shared_ptr<LeaseKeeper>& leases) const;

  const Parts parts_;
  EventLoop& events_;
  OwnWrites own_writes_;
  std::weak_ptr<void> shared_by_views_;
  ServerDirectory servers_;
  std::shared_ptr<Connection> connection_;
  FormerSessions former_;
  std::optional<SessionCredentials> resume_;
  Timer login_timer_;
  std::shared_ptr<ConnectPace> pace_ = std::make_shared<ConnectPace>();  // Of the present connection.
  std::chrono::steady_clock::time_point connected_at_{};
  const std::shared_ptr<RepeatedLines> repeated_ = std::make_shared<RepeatedLines>();
  std::string paced_addresses_;  // Those that the pace has counted attempts of.
  bool login_refused_ = false;
  int retiring_ = 0;
  bool closing_ = false;
  std::function<void()> closed_;

  mutable std::mutex mutex_;
  std::shared_ptr<SessionState> newest_;  // Guarded by mutex_.
  std::optional<std::string> server_;     // Guarded by mutex_.
};

}  // namespace zkclient::detail
