#include "tools/zkr/commands/session_addresses.hpp"

namespace zkr {

SessionAddresses::SessionAddresses(const Connection& connection) {
  for (const Probed& probed : probe_all(connection.hosts, {.patience = connection.options.operation_timeout})) {
    all_tell_ = all_tell_ && probed.sessions.has_value();
    if (probed.sessions) sessions_.insert(probed.sessions->begin(), probed.sessions->end());
  }
}

std::optional<std::string> SessionAddresses::of(std::int64_t session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? std::nullopt : std::optional(found->second);
}

json::value SessionAddresses::json_of(std::int64_t session) const {
  const auto address = of(session);
  return address ? json::value(*address) : json::value(nullptr);
}

const char* SessionAddresses::why_missing() const {
  return all_tell_ ? "no server has a connection of that session"
                   : "not all servers tell their connections: \"zkr doctor\" says why";
}

}  // namespace zkr
