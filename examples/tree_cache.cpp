// A whole tree in memory: what a transaction changes in several directories shows in one snapshot.
//   tree_cache [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/tree_cache.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.remove_tree("/examples/fleet", {.deadline = 10s});
  for (const char* path :
       {"/examples/fleet", "/examples/fleet/idle", "/examples/fleet/busy", "/examples/fleet/idle/car-7"})
    client.create(path, "", {.parents = true});

  zkrecipes::TreeCache fleet(client, "/examples/fleet");
  const zkrecipes::Snapshot before = fleet.wait_ready({.deadline = 10s});

  // The car moves from one directory to the other, in one transaction. No exact snapshot has it twice, or not at all.
  zkclient::Transaction move;
  move.remove("/examples/fleet/idle/car-7").create("/examples/fleet/busy/car-7", "customer 12");
  client.commit(move);
  const zkrecipes::Snapshot now = fleet.refresh(zkrecipes::ReadBarrier::sync, {.deadline = 10s});
  for (const zkrecipes::Change& change : difference(before, now))
    std::printf("%s %s\n", to_string(change.kind), change.path.c_str());
  std::printf("%zu idle, %zu busy, %s at zxid %lld\n", now.children("idle").size(), now.children("busy").size(),
              now.exact() ? "exactly" : "about", static_cast<long long>(now.zxid()));
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
