// Who serves what: each server registers itself, callers pick one, and leave out those that fail.
//   discovery [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/discovery.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  zkrecipes::ServiceDirectory directory(client, "/examples/services");

  // Two servers. Each stays registered while its object lives, whatever happens to connections and sessions.
  zkrecipes::ServiceInstance instance{.name = "thumbnails", .id = "server-1", .address = "10.0.0.1", .port = 8080};
  instance.payload = R"({"zone":"eu"})";
  instance.uri_spec = zkrecipes::UriSpec::parse("{scheme}://{address}:{port}/thumbnails");
  zkrecipes::Registration first = directory.register_instance(instance, {.deadline = 10s});
  instance.id = "server-2";
  instance.address = "10.0.0.2";
  zkrecipes::Registration second = directory.register_instance(instance, {.deadline = 10s});

  // A caller.
  const zkrecipes::ServiceProvider thumbnails =
      directory.provider("thumbnails", {.health = {.errors = 1, .pause = 10s}});
  (void)thumbnails.wait_ready({.deadline = 10s});
  for (int call = 0; call < 4; ++call) {
    const zkrecipes::ListedInstancePtr picked = thumbnails.pick();
    if (picked == nullptr) break;
    std::printf("call %d goes to %s%s\n", call, picked->instance.uri().c_str(),
                picked->confirmed ? "" : " (unconfirmed)");
    // The first server does not answer, so it is left out for a while.
    if (picked->instance.id == "server-1") thumbnails.note_error(picked);
  }

  // Before it goes, a server can tell callers to pick others.
  instance.enabled = false;
  second.update(instance, {.deadline = 10s});
  second.unregister({.deadline = 10s});
  first.unregister({.deadline = 10s});
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
