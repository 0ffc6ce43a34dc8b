// A leader election: the term of the leader, what it tells the others, and the signal of its loss.
//   election [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <zkclient/client.hpp>
#include <zkrecipes/leader_election.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::LeaderElection election(client, "/examples/leader", {.id = "example"});
  auto leadership = election.campaign({.deadline = std::chrono::steady_clock::now() + 10s});
  std::printf("elected, term %lld\n", static_cast<long long>(leadership.token().value));
  leadership.proclaim("http://127.0.0.1:8080");  // Fails unless we still lead.
  leadership.ready();

  if (const auto leader = election.leader()) {  // All candidates and observers see this.
    std::printf("leader %s is %s at %s\n", leader->id.c_str(), leader->ready ? "ready" : "not ready",
                leader->value.value_or("?").c_str());
  }
  std::mutex waiting;
  std::condition_variable_any never;
  std::unique_lock lock(waiting);
  never.wait_for(lock, leadership.lost(), 500ms, [] { return false; });  // Leads until it is lost.
  if (!leadership.valid()) {
    std::puts("deposed: stop, another process may lead");
    return EXIT_FAILURE;
  }
  leadership.release();
  std::puts("resigned");
} catch (const std::exception& error) {
  std::fprintf(stderr, "election: %s\n", error.what());
  return EXIT_FAILURE;
}
