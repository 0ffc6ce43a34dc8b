// At most N at a time, where N changes while the semaphore is in use.
//   semaphore [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <zkclient/client.hpp>
#include <zkrecipes/semaphore.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::Semaphore downloads(client, "/examples/downloads", zkclient::Path("/examples/downloads-limit"));
  downloads.set_limit(2);
  std::vector<zkrecipes::Lease> two = downloads.acquire_many(2);  // Both or none.
  std::printf("%zu of %d; one more: %s\n", two.size(), downloads.limit(),
              downloads.try_acquire_for(100ms) ? "yes" : "no");
  downloads.set_limit(3);
  std::printf("now %d; one more: %s\n", downloads.limit(), downloads.try_acquire_for(10s) ? "yes" : "no");
} catch (const std::exception& error) {
  std::fprintf(stderr, "semaphore: %s\n", error.what());
  return EXIT_FAILURE;
}
