// What is urgent comes first.
//   priority_queue [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <zkclient/client.hpp>
#include <zkrecipes/priority_queue.hpp>

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::PriorityQueue calls(client, "/examples/calls");
  calls.push("sales", 10);
  calls.push("fire", -5);
  calls.push("support", 0);
  while (const std::optional<std::string> call = calls.try_pop())
    std::printf("%s\n", call->c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "priority_queue: %s\n", error.what());
  return EXIT_FAILURE;
}
