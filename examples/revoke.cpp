// Asking a holder to give its lock back, and breaking the lock of one that does not.
//   revoke [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.
  zkrecipes::Mutex mutex(client, "/examples/revocable", {.id = "example"});

  {
    zkrecipes::Lease lease = mutex.acquire();
    std::jthread polite([&] {
      std::mutex waiting;
      std::condition_variable_any never;
      std::unique_lock lock(waiting);
      never.wait_for(lock, lease.revoke_requested(), 10s, [] { return false; });  // The work.
      lease.release();
    });
    const auto outcome = zkrecipes::revoke_holders(client, mutex.path(), {.break_after = 10s});
    std::printf("asked for: %s\n", to_string(outcome));
  }
  {
    zkrecipes::Lease lease = mutex.acquire();
    const auto outcome = zkrecipes::revoke_holders(client, mutex.path(), {.break_after = 200ms});
    std::mutex waiting;
    std::condition_variable_any never;
    std::unique_lock lock(waiting);
    never.wait_for(lock, lease.lost(), 10s, [] { return false; });
    std::printf("not given back in time: %s, the lease is %s\n", to_string(outcome), to_string(lease.state()));
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "revoke: %s\n", error.what());
  return EXIT_FAILURE;
}
