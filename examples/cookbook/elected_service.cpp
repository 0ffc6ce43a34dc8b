// A service that runs on every host, one of which leads, on an event loop of its own, with coroutines.
//   elected_service ADDRESS    what the others are told when it leads. Servers: $ZKRECIPES_SERVER
// SIGTERM resigns and ends it: the next candidate leads two round trips later.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <tuple>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <zkclient/asio.hpp>
#include <zkrecipes/asio.hpp>

namespace asio = boost::asio;
using asio::use_awaitable;
using namespace std::chrono_literals;

namespace {

constexpr const char* beats = "/cookbook/service/beats";

// Returns when the leadership is lost, or this coroutine was told to stop.
asio::awaitable<void> lead(zkclient::Client client, zkrecipes::Leadership& leadership, std::string address) {
  co_await zkrecipes::async_proclaim(leadership, address, use_awaitable);
  // Take over here: load the state that the former leader left. Only then let followers find this leader.
  co_await zkrecipes::async_ready(leadership, use_awaitable);
  std::printf("leading, term %lld\n", static_cast<long long>(leadership.token().value));
  for (int beat = 1;; ++beat) {
    // The pause between two pieces of work ends at once when the leadership does.
    const zkclient::CallOptions pause{.deadline = 200ms};
    const auto [ended] = co_await zkrecipes::async_lost(leadership, pause, asio::as_tuple(use_awaitable));
    if (zkclient::code_of(ended) != zkclient::Errc::deadline_exceeded) co_return;
    // The work. It is refused unless this process still leads: a pause at the wrong moment does no harm.
    zkclient::Transaction work = leadership.transaction();
    work.set(beats, address + " " + std::to_string(beat));
    co_await zkclient::async_commit(client, work, use_awaitable);
  }
}

asio::awaitable<void> serve(zkclient::Client client, std::string address) {
  zkrecipes::LeaderElection election(client, "/cookbook/service/election", {.id = address});
  for (;;) {
    std::string trouble;
    try {
      // A stop ends the operation that waits. One that comes between two of them makes the next co_await throw.
      co_await zkclient::async_ensure(client, beats, zkclient::CreateMode::persistent, use_awaitable);
      // Of this turn only: whatever ends it gives the leadership back, and the next campaign does not wait behind it.
      zkrecipes::Leadership leadership = co_await zkrecipes::async_campaign(election, use_awaitable);
      co_await lead(client, leadership, address);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) break;
    std::printf("not leading any more %s\n", trouble.c_str());
    asio::steady_timer pause(co_await asio::this_coro::executor, 100ms);  // What is refused now may be refused again.
    co_await pause.async_wait(asio::as_tuple(use_awaitable));
  }
  // Nothing cancels this. Without it the next leader would wait for the end of the session.
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  const zkclient::CallOptions in_time{.deadline = 5s};
  co_await zkrecipes::async_resign(election, in_time, use_awaitable);
  std::puts("resigned");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: elected_service ADDRESS\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // A log shows each line at once.
  asio::io_context context;
  asio::cancellation_signal stop;
  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&stop](const boost::system::error_code& error, int) {
    if (!error) stop.emit(asio::cancellation_type::terminal);
  });
  const char* server = std::getenv("ZKRECIPES_SERVER");
  // Made after the context, so closed before that goes: what is pending ends on it.
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  std::exception_ptr failure;
  const auto ended = [&](const std::exception_ptr& error) {
    failure = error;
    signals.cancel();  // Lets run() return.
  };
  asio::co_spawn(context, serve(client, argv[1]), asio::bind_cancellation_slot(stop.slot(), ended));
  context.run();
  if (failure) std::rethrow_exception(failure);
} catch (const std::exception& error) {
  std::fprintf(stderr, "elected_service: %s\n", error.what());
  return EXIT_FAILURE;
}
