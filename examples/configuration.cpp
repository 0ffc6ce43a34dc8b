// A configuration that is published as a whole, validated before it counts, and rolled back.
//   configuration [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <zkclient/client.hpp>
#include <zkrecipes/configuration.hpp>

using namespace std::chrono_literals;

namespace {

struct Limits {
  int connections = 0;
  std::string greeting;
};

// What it throws keeps bad values out of force.
Limits parse(const zkrecipes::ConfigurationValues& values) {
  return {std::stoi(values.at("limits/connections")), values.at("greeting")};
}

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.remove_tree("/examples/config", {.deadline = 10s});
  zkrecipes::TypedConfiguration<Limits> config(client, "/examples/config", parse);

  zkrecipes::ConfigurationUpdate update;
  update.values = {{"limits/connections", "100"}, {"greeting", "hello"}};
  update.note = "first";
  const std::int64_t first = config.publish(update, 0, {.deadline = 10s});
  config.wait_for_revision(first, {.deadline = 10s});
  std::printf("%d connections, \"%s\"\n", config.value()->connections, config.value()->greeting.c_str());

  update.values = {{"limits/connections", "many"}};
  try {
    config.publish(update, first, {.deadline = 10s});
  } catch (const zkclient::Error& error) {
    std::printf("refused: %s\n", error.detail().c_str());
  }

  // Both keys change in one transaction: nobody sees one without the other.
  update.values = {{"limits/connections", "5"}, {"greeting", "busy"}};
  const std::int64_t second = config.publish(update, first, {.deadline = 10s});
  config.wait_for_revision(second, {.deadline = 10s});
  std::printf("%d connections, \"%s\"\n", config.value()->connections, config.value()->greeting.c_str());

  const std::int64_t third = config.roll_back(first, {.deadline = 10s});
  config.wait_for_revision(third, {.deadline = 10s});
  std::printf("%d connections again, as revision %lld\n", config.value()->connections, static_cast<long long>(third));
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
