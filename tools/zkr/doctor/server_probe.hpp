#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/zkr/doctor/server_state.hpp"

namespace zkr {

/// A server as it is named.
struct ServerName {
  std::string host;
  std::uint16_t port = 2181;

  std::string shown() const;
};

/// What is sent to the admin server that is named, to be told how the server is.
std::string question_for_admin_server(const ServerName& server);

struct ProbeOptions {
  std::chrono::milliseconds patience{2000};  // For each step.
  std::uint16_t admin_port = 8080;
};

/// Where the clients of sessions are connected from, by session: "10.0.0.8:40000".
using ConnectedSessions = std::map<std::int64_t, std::string>;

/// What was found out about one server without a session.
struct Probed {
  std::vector<Finding> findings;
  bool reached = false;
  std::optional<ServerState> state;
  /// The sessions that are connected to it. Nothing: it does not tell.
  std::optional<ConnectedSessions> sessions;
};

/// Looks up the name, connects, and asks by four letters, else the admin server. Blocks; of the look-up nobody says how
/// long that takes.
Probed probe(const ServerName& server, const ProbeOptions& options);

/// When the session's connection was made, by the server's clock. Blocks, as probe(). Nothing: the server does not tell.
std::optional<std::chrono::system_clock::time_point> connected_since(const ServerName& server, std::int64_t session,
                                                                     const ProbeOptions& options);

/// probe() of all servers at the same time, in the order in which they are named. `hosts`: "host:port,host:port".
std::vector<Probed> probe_all(const std::string& hosts, const ProbeOptions& options);

}  // namespace zkr
