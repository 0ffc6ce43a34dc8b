// Unique ids without a round trip for each: numbers from blocks, and ids of time, worker number and sequence.
//   ids [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/id_blocks.hpp>
#include <zkrecipes/worker_id.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");

  // Small numbers that grow. One transaction for each hundred of them.
  zkrecipes::IdBlocks orders(client, "/examples/ids/orders", {.block = 100});
  for (int i = 0; i < 3; ++i)
    std::printf("order %lld\n", static_cast<long long>(orders.next({.deadline = 10s})));

  // Snowflake ids: this process has a worker number for as long as it lives.
  zkrecipes::WorkerIds workers(client, "/examples/ids/workers");
  zkrecipes::WorkerId worker = workers.acquire({.deadline = 10s});
  const zkrecipes::IdLayout layout;
  std::int64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t id = worker.next();
    const zkrecipes::IdParts parts = layout.parts_of(id);
    std::printf("id %lld: worker %d, sequence %d\n", static_cast<long long>(id), parts.worker, parts.sequence);
    if (id <= last) return EXIT_FAILURE;
    last = id;
  }
  worker.release();
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
