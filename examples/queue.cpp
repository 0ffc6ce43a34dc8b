// Jobs for the first worker that comes: claimed while they are worked on, and gone when they are done.
//   queue [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <zkclient/client.hpp>
#include <zkrecipes/queue.hpp>

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::Queue jobs(client, "/examples/jobs", {.id = "worker-1", .capacity = 100, .max_deliveries = 3});
  jobs.push("paint the fence");
  jobs.push_all({"mow the lawn", "feed the cat"});
  {
    const zkrecipes::Claim given_up = jobs.claim();
    std::printf("started: %s\n", given_up.data().c_str());
  }  // Not committed: it goes back to its place.
  while (std::optional<zkrecipes::Claim> job = jobs.try_claim()) {
    std::printf("done: %s (delivery %d)\n", job->data().c_str(), job->deliveries());
    job->commit();
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "queue: %s\n", error.what());
  return EXIT_FAILURE;
}
