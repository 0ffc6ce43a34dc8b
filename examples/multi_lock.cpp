// Several locks at once: all or none, within one deadline, and never a deadlock.
//   multi_lock [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/multi_lock.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::Mutex account(client, "/examples/accounts/17");
  zkrecipes::Mutex other(client, "/examples/accounts/4");
  zkrecipes::SharedMutex rates(client, "/examples/rates");
  zkrecipes::MultiLock transfer;
  transfer.add(account).add(other).add_shared(rates);

  auto leases = transfer.try_acquire_for(10s);
  if (!leases) {
    std::puts("one of the three is taken");
    return EXIT_FAILURE;
  }
  zkclient::Transaction booking;
  leases->guard(booking);  // Fails unless all three are still held.
  booking.create("/examples/accounts/booked", "", {.mode = zkclient::CreateMode::ephemeral});
  client.commit(booking);
  std::printf("booked while holding %zu locks\n", leases->leases().size());
  leases->release();
} catch (const std::exception& error) {
  std::fprintf(stderr, "multi_lock: %s\n", error.what());
  return EXIT_FAILURE;
}
