// The library's numbers beside those of a service that uses prometheus-cpp, at one address.
//   prometheus [ADDRESS:PORT]    default: 127.0.0.1:0, a port that is free. Servers: $ZKRECIPES_SERVER
// It says in its first line where it listens, takes a lock now and then, and ends at SIGTERM.

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/registry.h>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>

#include "zkrecipes_collectable.hpp"

namespace {

// False after a second without one.
bool is_terminated(const sigset_t& signals) {
  const timespec second{.tv_sec = 1, .tv_nsec = 0};
  return ::sigtimedwait(&signals, nullptr, &second) > 0;
}

void run(const std::string& address, const sigset_t& signals) {
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
    const zkrecipes::Lease lease = mutex.acquire();
    rounds.Increment();
    if (!std::exchange(said, true)) std::printf("listening on 127.0.0.1:%d\n", exposer.GetListeningPorts().front());
  } while (!is_terminated(signals));
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
  run(argc > 1 ? argv[1] : "127.0.0.1:0", signals);
} catch (const std::exception& error) {
  std::fprintf(stderr, "prometheus: %s\n", error.what());
  return EXIT_FAILURE;
}
