#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include <zkclient/anchored.hpp>
#include <zkclient/clock.hpp>
#include <zkclient/export.hpp>

namespace zkclient {

namespace detail {
class SessionState;
}

/// Connection states, in the order in which a session goes through them:
///
///   from        to          when
///   ----------  ----------  ---------------------------------------------------------------------------
///   connecting  connected   the server granted the session
///   connecting  lost        the session that was to be resumed is not there any more, or the SASL login failed
///   connected   suspended   the connection broke, or moves to new servers (Client::update_servers); the session
///                           may still be alive at the server
///   suspended   connected   reconnected within the session's time: same id, nodes and watches are there
///   connected   lost        the server ended the session or refused the credentials
///   suspended   lost        the same, or the SASL login failed, or it was suspended for a whole session timeout
///   these three closed      Client::close(); the last state of every session that was not lost before
///
/// `lost` and `closed` are final for a session. After `lost` the Client opens a new session, whose states
/// start again at `connecting`. A session that the client gave up itself may live on at the servers, with its
/// nodes. The client closes it as soon as it is connected again; nodes that a recipe replaces in one transaction
/// (a member's, a registered instance's) are replaced before that.
enum class ConnectionState { connecting, connected, suspended, lost, closed };

ZKRECIPES_API const char* to_string(ConnectionState state) noexcept;

/// Identity and secret of a session; enough to resume it from another client.
struct SessionCredentials {
  std::int64_t id = 0;   ///< As Session::id().
  std::string password;  ///< 16 bytes. A secret: its owner can take over or end the session.
};

/// ONE session with the server, never resurrected: a Client that lost its session opens a new one, and every
/// lease holds the session it belongs to. A cheap handle; copies share the session.
///
/// Thread safety: every member may be called from any thread; none blocks.
class ZKRECIPES_API Session {
 public:
  explicit Session(std::shared_ptr<const detail::SessionState> state) : state_(std::move(state)) {}

  /// The server's id of this session; 0 until it is connected for the first time.
  std::int64_t id() const noexcept;
  /// The timeout that the server granted; the requested one until then.
  std::chrono::milliseconds timeout() const noexcept;
  /// `lost` only when the server has said so, or has been silent for a whole timeout. The leases of a session are lost
  /// by their clock, which is earlier.
  ConnectionState state() const noexcept;
  /// Fires once, when the session is lost or closed. What is held by it is told earlier (Lease::lost()): before the
  /// server can have given its nodes to others. Callbacks run on the callback executor.
  std::stop_token lost() const noexcept;
  /// Until when the server cannot have ended the session, proven by a write that a quorum acknowledged. In
  /// the past when nothing is proven. Only maintained while the session holds leases.
  BootClock::time_point valid_until() const noexcept;
  /// When the newest write of this session was sent that a quorum has acknowledged: so old is the last proof that the
  /// session lives. It never goes back; the clock's zero before the first such write. While the session holds leases
  /// there is a heartbeat in each sixth of timeout(), so a proof that is a quarter of it old is overdue.
  BootClock::time_point proven_at() const noexcept;
  /// For handing the session over to another client (ClientOptions::resume). Id 0 until connected.
  SessionCredentials credentials() const;

  friend bool operator==(const Session&, const Session&) = default;

  const std::shared_ptr<const detail::SessionState>& impl() const noexcept { return state_; }  ///< For recipes.

 private:
  Anchored<std::shared_ptr<const detail::SessionState>> state_;
};

}  // namespace zkclient
