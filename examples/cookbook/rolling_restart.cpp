// At most LIMIT hosts of a fleet are down for a restart at a time, also when a host dies in the middle of it.
//   rolling_restart HOST LIMIT RESTART HEALTHY    two commands for the shell. Servers: $ZKRECIPES_SERVER
// Start it on every host. It waits its turn, runs RESTART, and waits until HEALTHY succeeds. A host that does not come
// back stops the roll-out: those behind it exit with 1, and restart nothing.

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <zkclient/client.hpp>
#include <zkrecipes/semaphore.hpp>

using namespace std::chrono_literals;

namespace {

constexpr const char* down = "/cookbook/restart/down";  // Its children: hosts that may be down.

// False if it does not become healthy in time.
bool restart(const char* command, const char* healthy) {
  if (std::system(command) != 0) return false;
  const auto limit = std::chrono::steady_clock::now() + 5min;
  while (std::system(healthy) != 0) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(100ms);
  }
  return true;
}

// Notes that this host may be down, unless `limit` others are. The note is persistent: a permit goes with its process,
// but a host whose process died in the middle of a restart is still down.
bool go_down(const zkclient::Client& client, const zkclient::Path& note, std::size_t limit) {
  const bool was_down = client.exists(note).has_value();  // Left by an earlier run of this host.
  client.ensure(note, zkclient::CreateMode::persistent);
  // First the note, then the count: of two hosts that do this at once, the later one sees the note of the other. The
  // sync makes that true for each server of an ensemble.
  client.sync(down);
  const auto notes = client.children(down).names;
  if (notes.size() <= limit) return true;
  std::printf("refused: %zu hosts are down already:", notes.size() - 1);
  for (const std::string& name : notes) {
    if (name != note.name()) std::printf(" %s", name.c_str());
  }
  std::puts("");
  if (!was_down) client.remove_tree(note);
  return false;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fprintf(stderr, "usage: rolling_restart HOST LIMIT RESTART HEALTHY\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // A log shows each line at once.
  const std::string host = argv[1];
  const int limit = std::stoi(argv[2]);
  const char* server = std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");

  zkrecipes::Semaphore permits(client, "/cookbook/restart/permits", limit, {.id = host});
  zkrecipes::Lease permit = permits.acquire();  // First come, first served.
  const zkclient::Path note = zkclient::Path(down) / host;
  if (!go_down(client, note, static_cast<std::size_t>(limit))) return EXIT_FAILURE;

  // The permit may be lost meanwhile, when the network to the servers is cut. That does not matter: the note counts.
  std::printf("restarting %s\n", host.c_str());
  if (!restart(argv[3], argv[4])) {
    std::printf("not healthy: %s; the note %s stays\n", host.c_str(), note.str().c_str());
    return EXIT_FAILURE;
  }
  client.remove_tree(note);  // Success also if it is gone already, so a lost reply does no harm.
  std::printf("healthy: %s\n", host.c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "rolling_restart: %s\n", error.what());
  return EXIT_FAILURE;
}
