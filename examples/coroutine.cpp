// A coroutine program with an event loop of its own: takes a lock, and works under it until it is lost or done.
//   coroutine [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <zkclient/asio.hpp>
#include <zkrecipes/asio.hpp>

namespace asio = boost::asio;
using asio::use_awaitable;
using namespace std::chrono_literals;

namespace {

// One step of the work. Its write fails unless the lock is still ours: nothing else is safe from a pause at the wrong
// moment.
asio::awaitable<void> step(zkclient::Client client, const zkrecipes::Lease& lease, int number) {
  zkclient::Transaction write;
  write.check(lease.guard()).set("/examples/coroutine/result", std::to_string(number));
  co_await zkclient::async_commit(client, write, use_awaitable);
  asio::steady_timer pause(co_await asio::this_coro::executor, 100ms);
  co_await pause.async_wait(use_awaitable);
}

asio::awaitable<void> work(zkclient::Client client) {
  const zkclient::CallOptions in_time{.deadline = std::chrono::steady_clock::now() + 10s};
  const zkclient::CreateOptions with_parents{.parents = true};
  try {
    co_await zkclient::async_create(client, "/examples/coroutine/result", "", with_parents, in_time, use_awaitable);
  } catch (const zkclient::Error& error) {
    if (error.code() != zkclient::Errc::node_exists) throw;
  }
  zkrecipes::Mutex mutex(client, "/examples/coroutine/lock", {.id = "example"});
  zkrecipes::Lease lease = co_await zkrecipes::async_acquire(mutex, in_time, use_awaitable);
  std::printf("locked, fencing token %lld\n", static_cast<long long>(lease.token().value));
  for (int number = 1; number <= 3 && lease.valid(); ++number) {
    std::printf("working, step %d of 3\n", number);
    co_await step(client, lease, number);
  }
  co_await zkrecipes::async_release(lease, use_awaitable);  // Throws if it was lost meanwhile.
  const zkclient::NodeData result = co_await zkclient::async_get(client, "/examples/coroutine/result", use_awaitable);
  std::printf("released, the result is %s\n", result.data.c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  asio::io_context context;
  auto done = asio::co_spawn(context, work(client), asio::use_future);
  context.run();  // Returns when the coroutine has ended: what it waits for counts as work.
  done.get();
} catch (const std::exception& error) {
  std::fprintf(stderr, "coroutine: %s\n", error.what());
  return EXIT_FAILURE;
}
