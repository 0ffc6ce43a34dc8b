#include "tools/zkr/cli/session.hpp"

namespace zkr {

zkclient::Client connect(const Context& context) {
  zkclient::Client client = make_client(context.connection);
  client.connect();
  return client;
}

zkclient::Client connect_to_look(const Context& context) {
  zkclient::Client client = connect(context);
  client.sync();
  return client;
}

}  // namespace zkr
