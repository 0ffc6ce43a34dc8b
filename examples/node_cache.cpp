// A setting that lives in a node, always at hand: read without asking the server, and told of when it changes.
//   node_cache [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/node_cache.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");

  zkrecipes::NodeCache limit(client, "/examples/limit");
  const auto subscription =
      limit.on_change([](const std::vector<zkrecipes::Change>& changes, const zkrecipes::Snapshot&) {
        for (const zkrecipes::Change& change : changes)
          std::printf("%s: %s\n", to_string(change.kind), change.after ? change.after->data.c_str() : "");
      });
  const auto current = [&] {
    const zkrecipes::Snapshot now = limit.snapshot();  // No request.
    return now.exists() ? now.root()->data : std::string("not set");
  };
  limit.wait_ready({.deadline = 10s});
  std::printf("limit: %s\n", current().c_str());

  // Somewhere else in the system an operator sets it.
  client.create("/examples/limit", "100", {.parents = true});
  client.set("/examples/limit", "200");
  limit.wait_until([](const zkrecipes::Snapshot& now) { return now.exists() && now.root()->data == "200"; },
                   {.deadline = 10s});
  std::printf("limit: %s\n", current().c_str());

  client.remove("/examples/limit");
  limit.refresh(zkrecipes::ReadBarrier::sync, {.deadline = 10s});  // Not older than what was written before.
  std::printf("limit: %s\n", current().c_str());
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
