// Reminders that no consumer gets before their time.
//   delay_queue [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/delay_queue.hpp>

int main(int argc, char** argv) try {
  using namespace std::chrono_literals;
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::DelayQueue reminders(client, "/examples/reminders");
  const auto now = std::chrono::system_clock::now();
  reminders.push("the tea is ready", now + 200ms);
  reminders.push("pour the water", now + 100ms);
  int left = 2;
  if (const auto due = reminders.try_pop()) {
    std::printf("%s\n", due->c_str());  // On a slow machine.
    --left;
  } else {
    std::printf("nothing is due\n");
  }
  for (; left > 0; --left)
    std::printf("%s\n", reminders.pop().c_str());  // Waits, and sends nothing meanwhile.
} catch (const std::exception& error) {
  std::fprintf(stderr, "delay_queue: %s\n", error.what());
  return EXIT_FAILURE;
}
