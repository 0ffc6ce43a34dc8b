#include "tools/zkr/cli/connection_options.hpp"

#include <CLI/CLI.hpp>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/failure.hpp"

namespace zkr {

void add_connection_options(CLI::App& app, ConnectionOptions& options) {
  app.add_option("--server", options.servers, "Servers: host:port[,host:port...][/prefix]")
      ->envname("ZKRECIPES_SERVER")
      ->type_name("LIST");
  app.add_option("--prefix", options.prefix, "All paths lie below this one")->type_name("PATH");
  add_duration(app, "--session-timeout", options.session_timeout, "Asked for; 30s");
  add_duration(app, "--connect-timeout", options.connect_timeout, "How long to wait for a server; 15s");
  add_duration(app, "--server-tick", options.server_tick,
               "The servers' tickTime; to be said for session timeouts below two ticks");
}

Connection connection_of(const ConnectionOptions& options) {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  if (options.servers.empty()) throw Failure(exit_configuration, "no servers: use --server, or set ZKRECIPES_SERVER");
  Connection connection;
  const std::size_t slash = options.servers.find('/');
  connection.hosts = options.servers.substr(0, slash);
  const std::string chroot = slash == std::string::npos ? "" : options.servers.substr(slash);
  if (chroot.size() + options.prefix.size() > 1)
    connection.options.prefix = zkclient::Path((chroot == "/" ? "" : chroot) + options.prefix);
  connection.options.session_timeout = ceil<milliseconds>(options.session_timeout.value());
  connection.options.operation_timeout = ceil<milliseconds>(options.connect_timeout.value());
  if (options.server_tick) connection.options.server_tick = ceil<milliseconds>(*options.server_tick);
  return connection;
}

zkclient::Client make_client(const ConnectionOptions& options) {
  const Connection connection = connection_of(options);
  return zkclient::Client(connection.hosts, connection.options);
}

}  // namespace zkr
