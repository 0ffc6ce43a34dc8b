// Orders that can be taken back until a worker has them.
//   id_queue [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <zkclient/client.hpp>
#include <zkrecipes/id_queue.hpp>

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::IdQueue orders(client, "/examples/orders");
  orders.push("two loaves of bread", "order-17");
  orders.push("a cake", "order-18");
  std::printf("taken back: %zu\n", orders.remove("order-17"));
  while (std::optional<zkrecipes::Claim> order = orders.try_claim()) {
    std::printf("%s: %s; taken back: %zu\n", order->id().c_str(), order->data().c_str(), orders.remove("order-18"));
    order->commit();
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "id_queue: %s\n", error.what());
  return EXIT_FAILURE;
}
