// Values of the program's own types, as JSON: how they become bytes is said once.
//   typed [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <zkclient/client.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/typed.hpp>

struct Limits {
  int connections = 0;
  std::string reason;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Limits, connections, reason)

template <>
struct zkrecipes::Codec<Limits> {
  static std::string encode(const Limits& limits) { return nlohmann::json(limits).dump(); }
  static Limits decode(std::string_view bytes) { return nlohmann::json::parse(bytes).get<Limits>(); }
};

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.
  using zkrecipes::decode;
  using zkrecipes::encode;

  zkrecipes::SharedValue shared(client, "/examples/typed/limits");
  shared.set(encode(Limits{10, "the first day"}));
  shared.update(zkrecipes::updating<Limits>([](std::optional<Limits> now) {
    return Limits{now ? 2 * now->connections : 1, "more visitors"};
  }));

  zkrecipes::TypedCache<Limits, zkrecipes::NodeCache> limits(client, shared.path());
  limits.wait_ready();
  std::printf("%d connections: %s\n", limits.value()->connections, limits.value()->reason.c_str());
  shared.set("{\"connections\": \"many\"}");  // By hand, say.
  limits.wait_ready();
  if (const auto problem = limits.problem()) std::printf("not taken: %s\n", problem->what());

  zkrecipes::Queue requests(client, "/examples/typed/requests");
  requests.push(encode(Limits{30, "asked for"}));
  zkrecipes::Claim claim = requests.claim();
  std::printf("asked for: %d\n", decode<Limits>(claim).connections);
  claim.commit();
} catch (const std::exception& error) {
  std::fprintf(stderr, "typed: %s\n", error.what());
  return EXIT_FAILURE;
}
