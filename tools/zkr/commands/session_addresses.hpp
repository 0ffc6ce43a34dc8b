#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/json.hpp"
#include "tools/zkr/doctor/server_probe.hpp"

namespace zkr {

/// Where the clients of sessions are connected from, as the servers' lists of connections have it.
class SessionAddresses {
 public:
  /// Asks all servers at once. Blocks for a few steps of as long as an operation may take.
  explicit SessionAddresses(const Connection& connection);

  /// "10.0.0.8:40000". Nothing: no server that tells has a connection of that session.
  std::optional<std::string> of(std::int64_t session) const;
  json::value json_of(std::int64_t session) const;
  /// Why an address is missing.
  const char* why_missing() const;

 private:
  ConnectedSessions sessions_;
  bool all_tell_ = true;
};

}  // namespace zkr
