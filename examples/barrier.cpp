// A gate that is shut while something is being prepared.
//   barrier [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <zkclient/client.hpp>
#include <zkrecipes/barrier.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::Barrier gate(client, "/examples/gate");
  gate.raise(zkrecipes::BarrierLife::ephemeral);  // If we die, nobody waits for ever.
  const std::jthread visitor([&] {
    std::printf("through at once: %s\n", gate.wait_for(50ms) ? "yes" : "no");
    std::printf("through after it was lowered: %s\n", gate.wait_for(30s) ? "yes" : "no");
  });
  std::this_thread::sleep_for(200ms);  // Preparing.
  gate.lower();
} catch (const std::exception& error) {
  std::fprintf(stderr, "barrier: %s\n", error.what());
  return EXIT_FAILURE;
}
