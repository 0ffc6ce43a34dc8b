#pragma once

#include <string>

#include "simulation/servers/tree.hpp"

namespace zktesting::simulated {

/// "create /a/b-0000000003", "multi: create /a, remove /b", "remove /a: error -101": what has become of a request, for
/// whoever reads the story of a world.
std::string told(const Request& asked, const Txn& done, std::int32_t error);
std::string told(SessionId session);

}  // namespace zktesting::simulated
