// How many jobs are done, counted by all workers of all machines; each one counts once, whatever happens to the replies.
//   counter [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>
#include <zkclient/client.hpp>
#include <zkrecipes/counter.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  zkrecipes::Counter done(client, "/examples/counters/done");

  // Four workers share the object: their calls share transactions, and each call learns which job it was.
  const std::int64_t before = done.add(0, {.deadline = 10s}).after;
  std::vector<std::jthread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&done] {
      for (int job = 0; job < 25; ++job) {
        const zkrecipes::CounterChange change = done.add(1);
        if (change.after % 50 == 0) std::printf("%lld jobs are done\n", static_cast<long long>(change.after));
      }
    });
  }
  workers.clear();
  if (done.get() != before + 100) return EXIT_FAILURE;

  // Tickets, until there are none.
  zkrecipes::Counter tickets(client, "/examples/counters/tickets");
  tickets.set(2);
  const auto take_one = [](std::int64_t left) { return left > 0 ? std::optional(left - 1) : std::nullopt; };
  for (int guest = 1; guest <= 3; ++guest) {
    const zkrecipes::CounterChange change = tickets.update(take_one);
    std::printf("guest %d: %s\n", guest, change.after < change.before ? "a ticket" : "sold out");
  }
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
