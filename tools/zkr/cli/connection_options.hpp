#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <zkclient/client.hpp>

namespace CLI {
class App;
}

namespace zkr {

/// How `zkr` reaches the servers.
struct ConnectionOptions {
  std::string servers;  // "host:port,host:port", or with "/prefix" behind.
  std::string prefix;
  std::optional<std::chrono::nanoseconds> session_timeout = std::chrono::seconds(30);
  std::optional<std::chrono::nanoseconds> connect_timeout = std::chrono::seconds(15);
  std::optional<std::chrono::nanoseconds> server_tick;
};

/// `options` must live as long as `app`.
void add_connection_options(CLI::App& app, ConnectionOptions& options);

/// What a client is made with.
struct Connection {
  std::string hosts;
  zkclient::ClientOptions options;
};
/// Errors: Failure, if no servers are named.
Connection connection_of(const ConnectionOptions& options);
/// The same, made. It connects in the background.
zkclient::Client make_client(const ConnectionOptions& options);

}  // namespace zkr
