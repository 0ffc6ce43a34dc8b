// The other side of an election: a follower that waits for a leader that is ready, talks to it, and finds the next one
// when it does not answer any more.
//   follower [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/leader_election.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  const auto soon = [] { return std::chrono::steady_clock::now() + 10s; };

  zkrecipes::LeaderElection follower(client, "/examples/followed");
  const auto subscription = follower.observe([](const std::optional<zkrecipes::Leader>& leader) {
    if (!leader) {
      std::puts("observed: nobody leads");
    } else {
      std::printf("observed: %s leads%s\n", leader->id.c_str(), leader->ready ? ", ready" : "");
    }
  });

  // Two candidates, here in the same program. The second one leads when the first one resigns.
  zkrecipes::LeaderElection first(client, "/examples/followed", {.id = "first"});
  zkrecipes::LeaderElection second(client, "/examples/followed", {.id = "second"});
  auto leadership = first.campaign({.deadline = soon()});
  leadership.proclaim("http://127.0.0.1:8081");
  leadership.ready();

  auto leader = follower.wait_for_leader({}, {.deadline = soon()});  // One that has said ready().
  std::printf("talking to %s at %s\n", leader.id.c_str(), leader.value.value_or("?").c_str());

  leadership.release();  // It does not answer any more...
  auto next = second.campaign({.deadline = soon()});
  next.proclaim("http://127.0.0.1:8082");
  next.ready();
  leader = follower.wait_for_leader({.after = leader.term}, {.deadline = soon()});  // ...so find a later one.
  std::printf("talking to %s at %s\n", leader.id.c_str(), leader.value.value_or("?").c_str());
  second.resign();
  return leader.id == "second" ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "follower: %s\n", error.what());
  return EXIT_FAILURE;
}
