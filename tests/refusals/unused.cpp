// What must not be written as a statement of its own, because the result is the point. HOW is what stands there.
#include <chrono>

#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/queue.hpp>

void ignores(zkclient::Client& client, zkrecipes::Mutex& mutex, zkrecipes::Queue& queue) {
#if HOW == 0  // Accepted: used, or ignored on purpose.
  const auto watched = client.get_and_watch("/", [](const zkclient::WatchEvent&) {});
  (void)watched.value();
  const zkrecipes::Lease lease = mutex.acquire();
  (void)mutex.try_acquire();
  (void)queue.pop();
  (void)queue.try_push("item");
#elif HOW == 1
  mutex.acquire();
#elif HOW == 2
  mutex.try_acquire();
#elif HOW == 3
  mutex.try_acquire_for(std::chrono::seconds(1));
#elif HOW == 4
  queue.claim();
#elif HOW == 5
  queue.try_claim();
#elif HOW == 6
  queue.pop();
#elif HOW == 7
  queue.try_push("item");
#elif HOW == 8
  client.get_and_watch("/", [](const zkclient::WatchEvent&) {});
#elif HOW == 9  // The watch would be gone at the end of the statement.
  const zkclient::NodeData& data = client.get_and_watch("/", [](const zkclient::WatchEvent&) {}).value();
  (void)data;
#endif
}
