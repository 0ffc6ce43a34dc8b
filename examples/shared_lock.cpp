// Readers that share, a writer that is alone, and a writer that goes on as a reader without a gap.
//   shared_lock [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <zkclient/client.hpp>
#include <zkrecipes/shared_mutex.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.
  zkrecipes::SharedMutex mutex(client, "/examples/shared", {.id = "example"});

  {
    zkrecipes::Lease reader = mutex.acquire_shared();
    zkrecipes::Lease second = mutex.acquire_shared();
    std::printf("two readers; a writer %s\n", mutex.try_acquire() ? "came in" : "has to wait");
  }
  zkrecipes::Lease lease = mutex.acquire();
  std::printf("a writer, fencing token %lld; a reader %s\n", static_cast<long long>(lease.token().value),
              mutex.try_acquire_shared() ? "came in" : "has to wait");
  mutex.downgrade(lease);
  std::printf("the writer reads now; another reader %s\n", mutex.try_acquire_shared() ? "came in" : "has to wait");
  lease.release();

  {
    const std::shared_lock<zkrecipes::SharedMutex> lock(mutex, 10s);  // As with std::shared_timed_mutex.
    std::printf("locked shared: %s\n", lock.owns_lock() && mutex.lease().valid() ? "yes" : "no");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "shared_lock: %s\n", error.what());
  return EXIT_FAILURE;
}
