#pragma once

#include <string>
#include <vector>

#include "zktesting/server.hpp"

namespace zktesting::detail {

/// The command that runs a server with the given configuration file, without its last argument (the
/// file). Throws `Error` naming the Debian package of whatever is not installed.
std::vector<std::string> java_command(const ServerOptions& options, const std::filesystem::path& scratch);

}  // namespace zktesting::detail
