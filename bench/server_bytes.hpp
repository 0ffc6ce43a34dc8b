#pragma once

#include <cstdint>

namespace bench {

/// What a server has sent to all who are connected to it now: the sum over the connections of this machine whose local
/// port is `port`, as the kernel counts it. Throws std::system_error.
[[nodiscard]] std::uint64_t bytes_sent_by(std::uint16_t port);

}  // namespace bench
