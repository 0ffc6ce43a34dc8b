// Nodes that exist for as long as their owner wants: one that says that this process lives, and one that is left to a time
// to live.
//   persistent_node [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/persistent_node.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");

  // Ephemeral, with a number that it keeps. It is made again whatever happens: a lost session, somebody who deletes it.
  zkrecipes::PersistentNode worker(client, "/examples/nodes/worker-", "starting",
                                   {.mode = zkclient::CreateMode::ephemeral_sequential});
  const auto subscription =
      worker.on_state([](zkrecipes::PresenceState state) { std::printf("worker: %s\n", to_string(state)); });
  worker.wait_created({.deadline = 10s});
  const zkclient::Path node = *worker.node();
  std::printf("%s, transaction %lld\n", node.str().c_str(), static_cast<long long>(worker.token().value));

  client.remove(node);
  worker.set_data("ready", {.deadline = 10s});  // In the next node, which has the same name.
  std::printf("%s again: %s\n", node.str().c_str(), client.get(node).data.c_str());
  worker.remove({.deadline = 10s});

  // It outlives this process by an hour. Where the servers have no such nodes, it says so.
  zkrecipes::PersistentTtlNode cache(client, "/examples/nodes/cache", 1h, "10.0.0.1:8080");
  try {
    cache.wait_created({.deadline = 10s});
    std::printf("%s: %s\n", cache.path().str().c_str(), client.get(cache.path()).data.c_str());
  } catch (const zkclient::Error& error) {
    if (error.errc() != zkclient::Errc::unimplemented) throw;
    std::printf("%s\n", error.what());
  }
  cache.remove({.deadline = 10s});
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
