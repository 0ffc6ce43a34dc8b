// A lock that any number of programs share, its fencing token, and the signal of its loss.
//   lock [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::Mutex mutex(client, "/examples/lock", {.id = "example"});
  auto lease = mutex.try_acquire_for(10s);
  if (!lease) {
    std::puts("another process has had the lock for 10 s");
    return EXIT_FAILURE;
  }
  // Hand this to whatever the lock protects, and let that refuse lower ones.
  std::printf("locked, fencing token %lld\n", static_cast<long long>(lease->token().value));

  std::mutex waiting;
  std::condition_variable_any never;
  for (int step = 1; step <= 3; ++step) {
    std::printf("working, step %d of 3\n", step);
    std::unique_lock lock(waiting);
    never.wait_for(lock, lease->lost(), 200ms, [] { return false; });  // The work: ends with the lease.
    if (!lease->valid()) {
      std::puts("the lock is lost: stop, another process may have it");
      return EXIT_FAILURE;
    }
  }
  lease->release();
  std::puts("released");
} catch (const std::exception& error) {
  std::fprintf(stderr, "lock: %s\n", error.what());
  return EXIT_FAILURE;
}
