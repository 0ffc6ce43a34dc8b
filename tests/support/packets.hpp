#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace testkit {

/// The packets with data that this process has sent to `server` ("ip:port"), on a connection that it has there; nullopt:
/// it has none.
std::optional<std::uint32_t> packets_sent(const std::string& server);

}  // namespace testkit
