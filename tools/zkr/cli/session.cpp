#include "tools/zkr/cli/session.hpp"

#include <utility>

#include "tools/zkr/cli/failure.hpp"

namespace zkr {

zkclient::Client connect(const Context& context) { return connect(context, connection_of(context.connection)); }

zkclient::Client connect(const Context& context, const Connection& connection) {
  for (const Identity& identity : connection.identities)
    context.identities.push_back(identity.shown());
  zkclient::ClientOptions options = connection.options;
  options.metrics = context.metrics;
  zkclient::Client client(connection.hosts, std::move(options));
  client.connect();
  prove(client, connection.identities);
  return client;
}

zkclient::Client connect_to_look(const Context& context) {
  zkclient::Client client = connect(context);
  client.sync();
  return client;
}

zkclient::Client connect_to_look(const Context& context, const zkclient::Path& path, const char* command) {
  zkclient::Client client = connect_to_look(context);
  if (!client.exists(path)) throw zkclient::Error(zkclient::Errc::no_node, command, path.str());
  return client;
}

bool is_over(const zkclient::Client& client, const zkclient::Error& error) {
  return error.errc() == zkclient::Errc::deadline_exceeded && client.trouble().empty();
}

void fail_wait(const zkclient::Client& client, const zkclient::Error& error) {
  if (!is_over(client, error)) throw zkclient::Error(error);
  throw Failure(exit_not_acquired, error.what());
}

}  // namespace zkr
