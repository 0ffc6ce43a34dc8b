// Routes that every request needs and that change once in a while: read from memory, and never old.
//   coherent_cache [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/coherent_cache.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const char* hosts = server != nullptr ? server : "127.0.0.1:2181";

  // Two processes, so to speak: one that serves requests, and one that moves customers.
  const zkclient::Client frontend(hosts);
  const zkclient::Client backoffice(hosts);
  zkrecipes::CoherentCache routes(frontend, "/examples/routes", {.lease_term = 5s});
  zkrecipes::CoherentCache moves(backoffice, "/examples/routes", {.lease_term = 5s});

  moves.put("customer-17", "shard-1", {.deadline = 10s});
  for (int request = 0; request < 1000; ++request) {
    if (routes.get("customer-17")->data != "shard-1") return EXIT_FAILURE;
  }

  moves.put("customer-17", "shard-4");
  // The write has returned: no read that begins now finds the old route.
  if (routes.get("customer-17")->data != "shard-4") return EXIT_FAILURE;

  const auto next_shard = [](const zkrecipes::CoherentItem& item) { return item.data + "b"; };
  if (moves.update("customer-17", next_shard) != "shard-4b") return EXIT_FAILURE;
  if (routes.get("customer-17")->data != "shard-4b") return EXIT_FAILURE;
  if (routes.get("customer-18")->exists) return EXIT_FAILURE;

  const zkrecipes::CoherentCacheStatistics all = routes.statistics();
  std::printf("%llu reads from memory, %llu that asked\n", static_cast<unsigned long long>(all.hits),
              static_cast<unsigned long long>(all.misses));
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
