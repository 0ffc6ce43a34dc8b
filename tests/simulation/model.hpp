#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "simulation/servers/watches.hpp"
#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// What is compared with real servers: servers of the model, numbered from 0 as the real ones.
class Model {
 public:
  struct Connection {
    std::deque<std::string> sent;  // Frames without their lengths.
    bool closed = false;           // By the server, after what was sent.
  };

  virtual ~Model() = default;

  /// A connection for a new session, which a real server has given its number.
  virtual ConnectionId open(SessionId session, std::string_view address, std::size_t server) = 0;
  /// For one that lives. What it had authenticated as is forgotten.
  virtual ConnectionId resume(SessionId session, std::string_view address, std::size_t server) = 0;
  virtual void drop(ConnectionId connection) = 0;
  /// All that the server says to these bytes, `replies` among it, has been sent when this returns.
  virtual void receive(ConnectionId connection, std::string_view bytes, std::size_t replies) = 0;

  virtual Connection& connection(ConnectionId connection) = 0;
  /// Of a session that the model has given a number of its own: that of the real servers.
  [[nodiscard]] virtual SessionId real_session(SessionId session) const { return session; }
  [[nodiscard]] virtual Zxid last_zxid() const = 0;
};

}  // namespace zktesting::simulated
