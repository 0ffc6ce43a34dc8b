// The quickest lock for few contenders, and one that its own thread may lock again.
//   unfair_lock [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <zkclient/client.hpp>
#include <zkrecipes/recursive_mutex.hpp>
#include <zkrecipes/unfair_mutex.hpp>

using namespace std::chrono_literals;

namespace {

int depth_of(zkrecipes::RecursiveMutex& mutex, int more) {
  const std::lock_guard lock(mutex);  // Sends nothing but the first time.
  return more == 0 ? mutex.depth() : depth_of(mutex, more - 1);
}

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.

  zkrecipes::UnfairMutex mutex(client, "/examples/unfair", {.id = "example"});
  auto lease = mutex.try_acquire_for(10s);
  if (!lease) return EXIT_FAILURE;
  if (const auto holder = mutex.holder()) std::printf("held by %s\n", holder->data.c_str());
  lease->release();
  std::printf("held by %s\n", mutex.holder() ? "somebody" : "nobody");

  zkrecipes::RecursiveMutex recursive(client, "/examples/recursive");
  std::printf("locked %d times by one thread\n", depth_of(recursive, 3));
} catch (const std::exception& error) {
  std::fprintf(stderr, "unfair_lock: %s\n", error.what());
  return EXIT_FAILURE;
}
