// An unfair election, for a few candidates who want the least latency; and a guardian, which makes room for the next
// leader within milliseconds when this process is killed.
//   unfair_election [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <zkclient/client.hpp>
#include <zkrecipes/guardian.hpp>
#include <zkrecipes/unfair_leader_election.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* given = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const std::string servers = given != nullptr ? given : "127.0.0.1:2181";
  const zkclient::Client client(servers);
  const zkrecipes::Guardian guardian(client, servers);  // The program zkrecipes-guardian has to be in $PATH.

  zkrecipes::UnfairLeaderElection election(client, "/examples/unfair", {.id = "example"});
  auto leadership = election.campaign({.deadline = std::chrono::steady_clock::now() + 10s});
  leadership.ready();
  std::printf("elected, term %lld, guarded by process %d\n", static_cast<long long>(leadership.token().value),
              guardian.process_id());
  leadership.release();
  std::puts("resigned");
} catch (const std::exception& error) {
  std::fprintf(stderr, "unfair_election: %s\n", error.what());
  return EXIT_FAILURE;
}
