#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "zktesting/detail/socket.hpp"

namespace zktesting::detail {

/// The identity of a session.
struct SessionId {
  std::int64_t id = 0;
  std::string password = std::string(16, '\0');
};

/// Just enough of ZooKeeper's protocol to open a session and to touch nodes. Blocking, one request
/// at a time; the destructor closes the connection and leaves the session to its timeout. No
/// pings: only for what is quicker than a session timeout. Not thread-safe. Failures are `Error`.
class WireClient {
 public:
  enum Mode : std::int32_t { persistent = 0, ephemeral = 1 };
  /// Server's error codes that matter here.
  static constexpr std::int32_t ok = 0;
  static constexpr std::int32_t no_node = -101;
  static constexpr std::int32_t node_exists = -110;
  static constexpr std::int32_t session_expired = -112;

  /// Opens a session, or resumes the given one. `connected()` is false if the server says that
  /// there is no such session. Every later call has to end within `call_timeout` of its start.
  WireClient(const Endpoint& endpoint, std::chrono::milliseconds session_timeout,
             std::chrono::milliseconds call_timeout, const SessionId& resume = {});

  [[nodiscard]] bool connected() const { return session_.id != 0; }
  [[nodiscard]] const SessionId& session() const { return session_; }
  /// As negotiated.
  [[nodiscard]] std::chrono::milliseconds session_timeout() const { return session_timeout_; }

  /// These return the server's error code, 0 if all is well.
  std::int32_t create(std::string_view path, std::string_view data, Mode mode);
  std::int32_t remove(std::string_view path);
  std::int32_t set_data(std::string_view path, std::string_view data);
  std::int32_t exists(std::string_view path, bool watch = false);
  std::int32_t ping();
  std::int32_t close_session();
  /// Nothing if there is no such node.
  std::optional<std::string> get_data(std::string_view path);

  /// For requests of which the reply is awaited later (or never): returns the xid.
  std::int32_t send(std::int32_t type, std::string_view body);
  /// Waits for the reply to `xid` and returns its error code; `body` gets what follows the header.
  std::int32_t receive(std::int32_t xid, std::string* body = nullptr);

  /// The frames of a handshake and of a request, for callers that write them themselves.
  static std::string connect_frame(std::chrono::milliseconds session_timeout, const SessionId& session);
  static std::string request_frame(std::int32_t xid, std::int32_t type, std::string_view body);
  static std::string path_body(std::string_view path, bool watch);
  static std::string create_body(std::string_view path, std::string_view data, Mode mode);

 private:
  [[nodiscard]] Deadline deadline() const { return Clock::now() + call_timeout_; }

  std::chrono::milliseconds call_timeout_;
  Socket socket_;
  SessionId session_;
  std::chrono::milliseconds session_timeout_{};
  std::int32_t next_xid_ = 1;
};

/// A server's answer to a handshake.
struct ConnectReply {
  std::chrono::milliseconds session_timeout{};
  SessionId session;  ///< id 0: the session is over.
};
ConnectReply read_connect_reply(Socket& socket, Deadline deadline);
/// One frame without its length.
std::string read_frame(Socket& socket, Deadline deadline);

/// Big-endian numbers at `offset`; throws `Error` if the bytes end before.
std::int32_t get_int32(std::string_view bytes, std::size_t offset);
std::int64_t get_int64(std::string_view bytes, std::size_t offset);

}  // namespace zktesting::detail
