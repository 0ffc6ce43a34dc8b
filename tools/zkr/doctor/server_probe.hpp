#pragma once

#include <chrono>
#include <optional>
#include <set>
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

struct ProbeOptions {
  std::chrono::milliseconds patience{2000};  // For each step.
  std::uint16_t admin_port = 8080;
};

/// What was found out about one server without a session.
struct Probed {
  std::vector<Finding> findings;
  bool reached = false;
  std::optional<ServerState> state;
  /// The sessions that are connected to it. Nothing: it does not tell.
  std::optional<std::set<std::int64_t>> sessions;
};

/// Looks up the name, connects, and asks by four letters, else the admin server. Blocks; of the look-up nobody says how
/// long that takes.
Probed probe(const ServerName& server, const ProbeOptions& options);

}  // namespace zkr
