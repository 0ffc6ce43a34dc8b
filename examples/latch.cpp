// A service that answers only when all its parts are warm, although they are different processes.
//   latch [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/latch.hpp>

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  constexpr int parts = 3;
  for (const std::int64_t start : {1, 2}) {  // Each start of the service is a generation.
    zkrecipes::Latch warm(client, "/examples/latch/warm", parts, {.generation = start});
    std::vector<std::jthread> warming;
    for (int i = 0; i < parts; ++i)
      warming.emplace_back([&] { warm.count_down(); });
    warm.wait();
    std::printf("start %d: all %d parts are warm\n", static_cast<int>(start), parts);
    warm.wait();  // Who comes late passes.
  }
  client.remove("/examples/latch/warm");  // So that the example may be run again.
} catch (const std::exception& error) {
  std::fprintf(stderr, "latch: %s\n", error.what());
  return EXIT_FAILURE;
}
