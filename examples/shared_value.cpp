// A limit that all instances of a service share: one sets it, all hear of it, and an adjustment never overwrites another
// one unseen.
//   shared_value [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <optional>
#include <string>
#include <zkclient/client.hpp>
#include <zkrecipes/shared_value.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  zkrecipes::SharedValue limit(client, "/examples/shared-value/limit");
  limit.set("100", {.deadline = 10s});

  std::latch heard(1);
  const zkclient::Subscription subscription = limit.on_change([&heard](const zkrecipes::VersionedValue& now) {
    std::printf("the limit is %s\n", now.data.c_str());
    if (now.data == "110") heard.count_down();
  });

  // What was read is what is replaced, or nothing is.
  const zkrecipes::VersionedValue seen = limit.get();
  if (!limit.compare_set(seen.version, "105")) return EXIT_FAILURE;
  if (limit.compare_set(seen.version, "95")) return EXIT_FAILURE;

  // Again, if another instance was faster.
  limit.update([](const zkrecipes::VersionedValue& now) { return std::to_string(std::stoi(now.data) + 5); });
  heard.wait();
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
