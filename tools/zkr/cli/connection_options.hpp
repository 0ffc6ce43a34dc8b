#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>

#include "tools/zkr/cli/identities.hpp"

namespace CLI {
class App;
}

namespace zkr {

/// How `zkr` reaches the servers.
struct ConnectionOptions {
  std::string servers;  // "host:port,host:port", or with "/prefix" behind.
  std::string prefix;
  std::optional<std::chrono::nanoseconds> session_timeout;
  std::optional<std::chrono::nanoseconds> connect_timeout;
  std::optional<std::chrono::nanoseconds> server_tick;
  std::string profile;         // Says what is not said here.
  std::optional<int> auth_fd;  // Where credentials are read.
};

/// `options` must live as long as `app`.
void add_connection_options(CLI::App& app, ConnectionOptions& options);

/// What a client is made with.
struct Connection {
  std::string hosts;
  zkclient::ClientOptions options;
  std::vector<Identity> identities;  // To be proven: see prove().
};
/// With what the profile says, and the credentials, which are read here. Errors: Failure, if no servers are named, or the
/// profile or the credentials cannot be read.
Connection connection_of(const ConnectionOptions& options);

}  // namespace zkr
