#include "tools/zkr/cli/session.hpp"

namespace zkr {

zkclient::Client connect(const Context& context) { return connect(context, connection_of(context.connection)); }

zkclient::Client connect(const Context& context, const Connection& connection) {
  for (const Identity& identity : connection.identities)
    context.identities.push_back(identity.shown());
  zkclient::Client client(connection.hosts, connection.options);
  client.connect();
  prove(client, connection.identities);
  return client;
}

zkclient::Client connect_to_look(const Context& context) {
  zkclient::Client client = connect(context);
  client.sync();
  return client;
}

}  // namespace zkr
