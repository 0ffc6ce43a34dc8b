// The library's numbers beside those of a service that uses prometheus-cpp, at one address.
//   prometheus [ADDRESS:PORT]    default: 127.0.0.1:0, a port that is free. Servers: $ZKRECIPES_SERVER
// It says in its first line where it listens, takes a lock now and then, and ends at SIGTERM.

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/registry.h>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>

#include "zkrecipes_collectable.hpp"

namespace {

// Asks for the end at the first signal, whatever the program waits for: it has no server, or another client has the lock.
void await_signal(const sigset_t& signals, const std::stop_token& over, std::stop_source end) {
  const timespec second{.tv_sec = 1, .tv_nsec = 0};
  while (!over.stop_requested()) {
    if (::sigtimedwait(&signals, nullptr, &second) <= 0) continue;
    end.request_stop();
    return;
  }
}

// False after a second in which nobody has.
bool asks_for_end(const std::stop_token& end) {
  std::mutex mutex;
  std::condition_variable_any nothing;
  std::unique_lock lock(mutex);
  nothing.wait_for(lock, end, std::chrono::seconds(1), [] { return false; });
  return end.stop_requested();
}

void run(const std::string& address, const std::stop_token& end) {
  const auto metrics = std::make_shared<zkclient::Metrics>();
  const auto library = std::make_shared<ZkrecipesCollectable>(metrics);
  const auto registry = std::make_shared<prometheus::Registry>();
  prometheus::Counter& rounds = prometheus::BuildCounter()
                                    .Name("service_rounds_total")
                                    .Help("Times that the lock was held.")
                                    .Register(*registry)
                                    .Add({});
  prometheus::Exposer exposer(address);
  exposer.RegisterCollectable(registry);
  exposer.RegisterCollectable(library);  // Both are held by weak pointers.

  const char* server = std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181", {.metrics = metrics});
  zkrecipes::Mutex mutex(client, "/examples/prometheus/lock");
  bool said = false;
  do {
    const zkrecipes::Lease lease = mutex.acquire({.stop = end});
    rounds.Increment();
    if (!std::exchange(said, true)) std::printf("listening on 127.0.0.1:%d\n", exposer.GetListeningPorts().front());
  } while (!asks_for_end(end));
}

}  // namespace

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // Before there is another thread, which would get the signal.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const std::stop_source end;
  const std::jthread waiter([&](const std::stop_token& over) { await_signal(signals, over, end); });
  run(argc > 1 ? argv[1] : "127.0.0.1:0", end.get_token());
} catch (const zkclient::Error& error) {
  if (error.errc() == zkclient::Errc::cancelled) return EXIT_SUCCESS;  // By the signal.
  std::fprintf(stderr, "prometheus: %s\n", error.what());
  return EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "prometheus: %s\n", error.what());
  return EXIT_FAILURE;
}
