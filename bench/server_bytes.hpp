#pragma once

#include <cstdint>
#include <map>

namespace bench {

/// What was sent on each connection, by the kernel's number for it.
using SentBytes = std::map<std::uint64_t, std::uint64_t>;

/// What the server that listens on `port` of this machine has sent on the connections that are open now, and was
/// acknowledged: as the kernel counts it, so no server needs to tell. Throws std::system_error.
SentBytes bytes_sent_by(std::uint16_t port);

/// What came in between, but for what was sent on connections that have been closed since.
std::uint64_t sent_between(const SentBytes& before, const SentBytes& after);

}  // namespace bench
