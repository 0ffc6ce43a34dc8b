#include "tools/zkr/cli/connection_options.hpp"

#include <CLI/CLI.hpp>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/profile.hpp"

namespace zkr {

void add_connection_options(CLI::App& app, ConnectionOptions& options) {
  app.add_option("--server", options.servers, "Servers: host:port[,host:port...][/prefix]")
      ->envname("ZKRECIPES_SERVER")
      ->type_name("LIST");
  app.add_option("--prefix", options.prefix, "All paths lie below this one")->type_name("PATH");
  app.add_option("--profile", options.profile, "The part of the configuration that says the rest")
      ->envname("ZKR_PROFILE")
      ->type_name("NAME");
  app.add_option("--auth-fd", options.auth_fd, "The descriptor where lines \"digest user:password\" are read")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  add_duration(app, "--session-timeout", options.session_timeout, "Asked for; 30s");
  add_duration(app, "--connect-timeout", options.connect_timeout, "How long to wait for a server; 15s");
  add_duration(app, "--server-tick", options.server_tick,
               "The servers' tickTime; to be said for session timeouts below two ticks");
}

namespace {

using Time = std::optional<std::chrono::nanoseconds>;

/// The first that is said, rounded up.
std::chrono::milliseconds first_of(const Time& option, const Time& profile, std::chrono::nanoseconds otherwise) {
  return std::chrono::ceil<std::chrono::milliseconds>(option ? *option : profile.value_or(otherwise));
}

zkclient::Path joined_prefix(const std::string& chroot, const std::string& prefix) {
  const std::string whole = (chroot == "/" ? "" : chroot) + (prefix == "/" ? "" : prefix);
  return whole.empty() ? zkclient::Path() : zkclient::Path(whole);
}

}  // namespace

Connection connection_of(const ConnectionOptions& options) {
  using namespace std::chrono_literals;
  const Profile profile = load_profile(options.profile, profile_files());
  const std::string& servers = options.servers.empty() ? profile.server : options.servers;
  if (servers.empty())
    throw Failure(exit_configuration, "no servers: use --server, or a profile, or set ZKRECIPES_SERVER");
  Connection connection;
  const std::size_t slash = servers.find('/');
  connection.hosts = servers.substr(0, slash);
  const std::string chroot = slash == std::string::npos ? "" : servers.substr(slash);
  zkclient::ClientOptions& client = connection.options;
  client.prefix = joined_prefix(chroot, options.prefix.empty() ? profile.prefix : options.prefix);
  client.session_timeout = first_of(options.session_timeout, profile.session_timeout, 30s);
  client.operation_timeout = first_of(options.connect_timeout, profile.connect_timeout, 15s);
  if (options.server_tick || profile.server_tick)
    client.server_tick = first_of(options.server_tick, profile.server_tick, 0s);
  client.tls = profile.tls;
  client.sasl = profile.sasl;
  connection.identities = find_identities(options.auth_fd, profile.auth_file);
  return connection;
}

}  // namespace zkr
