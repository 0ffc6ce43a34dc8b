// Three members work in rounds: nobody starts before all are there, nobody goes on before all are done.
//   double_barrier [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>
#include <zkclient/client.hpp>
#include <zkrecipes/double_barrier.hpp>

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  std::vector<std::jthread> members;
  for (int i = 0; i < 3; ++i) {
    members.emplace_back([&client, i] {
      zkrecipes::DoubleBarrier barrier(client, "/examples/rounds", 3, {.id = std::to_string(i)});
      for (int round = 1; round <= 2; ++round) {
        const zkrecipes::Round entered = barrier.enter();
        std::printf("round %d: member %d of %zu\n", round, i, entered.members.size());
        barrier.leave();
      }
    });
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "double_barrier: %s\n", error.what());
  return EXIT_FAILURE;
}
