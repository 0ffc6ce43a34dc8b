// A leader selector: a task that runs on one machine at a time, and what it has to do to deserve that.
//   selector [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <zkclient/client.hpp>
#include <zkrecipes/leader_selector.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");

  std::mutex mutex;
  std::condition_variable_any changed;
  int terms = 0;
  const auto task = [&](const std::stop_token& stop, zkrecipes::SelectedLeadership& leadership) {
    std::printf("leader, term %lld\n", static_cast<long long>(leadership.token().value));
    leadership.ready();
    for (int step = 0; step < 5 && !stop.stop_requested(); ++step) {  // Stops when the leadership is lost.
      leadership.alive();  // Says that it is not stuck. What it writes carries leadership.guard() or token().
      std::mutex waiting;
      std::unique_lock lock(waiting);
      changed.wait_for(lock, stop, 20ms, [] { return false; });
    }
    const std::lock_guard lock(mutex);
    ++terms;
    changed.notify_all();
  };
  zkrecipes::LeaderSelectorOptions options;
  options.progress_timeout = 10s;  // A task that is stuck for longer makes room for another machine's.
  options.on_error = [](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& what) {
      std::fprintf(stderr, "%s\n", what.what());
    }
  };
  zkrecipes::LeaderSelector selector(client, "/examples/selector", task, options);
  selector.start();

  std::unique_lock lock(mutex);
  const bool done = changed.wait_for(lock, 20s, [&] { return terms == 2; });
  lock.unlock();
  selector.close();
  std::puts(done ? "led twice" : "did not lead");
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "selector: %s\n", error.what());
  return EXIT_FAILURE;
}
