// Where a service is: bound by the process that serves for as long as it lives, or once for all by an operator.
//   naming [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <zkclient/client.hpp>
#include <zkrecipes/naming.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  zkrecipes::Naming naming(client, "/examples/names");

  // The service. A second one would wait until this one is gone.
  zkrecipes::Lease lease = naming.bind("printer", "10.0.0.7:631", {.deadline = 10s});
  if (!naming.try_bind("printer", "10.0.0.8:631")) std::printf("the name printer has a holder\n");
  // It moves. The guard of the lease makes sure that the name is still its own.
  client.commit(lease.transaction().set(naming.path() / "printer", "10.0.0.9:631"));

  // An operator.
  naming.bind_permanent("database", "10.0.0.1:5432");
  const auto database = naming.resolve("database");
  if (!database) return EXIT_FAILURE;
  const int version = naming.rebind("database", "10.0.0.2:5432", database->version);

  // A worker whose name nobody else has.
  const zkrecipes::Lease worker = naming.make_unique("worker-", "idle");

  // A client.
  for (const std::string& name : naming.list()) {
    if (const auto binding = naming.resolve(name)) {
      std::printf("%s is at %s (%s)\n", name.c_str(), binding->data.c_str(), binding->permanent ? "permanent" : "held");
    }
  }

  naming.unbind("database", version);
  lease.release();
  std::printf("%zu name is left\n", naming.list().size());
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
