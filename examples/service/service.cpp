// A service with one leader that operators can look into: metrics, a health check, and a log of spans.
//   service NAME    what the others are told when it leads. Servers: $ZKRECIPES_SERVER
//   GET /metrics    for Prometheus: what the library counts, and what this service counts
//   GET /healthz    200 while it is of use, else 503 and the reason
// It serves HTTP at $ZKRECIPES_LISTEN (default 127.0.0.1:0, a port that is free) and says in its first line where. Each
// other line is a span (span_log.hpp). $ZKRECIPES_SESSION_TIMEOUT is in ms. SIGTERM resigns and ends it.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <zkclient/asio.hpp>
#include <zkclient/metrics.hpp>
#include <zkrecipes/asio.hpp>

#include "span_log.hpp"

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::use_awaitable;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

constexpr const char* ticks_path = "/examples/service/ticks";

// Everything below runs on the one thread that runs the io_context, so nothing of it needs a lock.
struct Service {
  std::string name;
  std::shared_ptr<zkclient::Metrics> metrics;
  zkclient::Client client;
  zkrecipes::LeaderElection election{client, "/examples/service/election", {.id = name}};
  zkrecipes::Leadership leadership{};
  long long ticks = 0;
};

// ---- The work --------------------------------------------------------------------------------------

// Returns when the leadership is lost.
asio::awaitable<void> lead(Service& service) {
  co_await zkrecipes::async_proclaim(service.leadership, service.name, use_awaitable);
  co_await zkrecipes::async_ready(service.leadership, use_awaitable);
  asio::steady_timer pause(co_await asio::this_coro::executor);
  // A tick that waits for a connection ends at the latest with the leadership.
  const zkclient::CallOptions while_leading{.stop = service.leadership.lost()};
  while (service.leadership.valid()) {
    zkclient::Transaction tick = service.leadership.transaction();  // Refused unless this process still leads.
    tick.set(ticks_path, std::to_string(service.ticks + 1));
    const auto [error, results] =
        co_await zkclient::async_commit(service.client, tick, while_leading, asio::as_tuple(use_awaitable));
    if (!error) ++service.ticks;
    // The tick that is in doubt is the next one as well, and writes the same. What else is refused ends the term.
    if (error && zkclient::code_of(error) != zkclient::ErrorKind::in_doubt && service.leadership.valid())
      std::rethrow_exception(error);
    pause.expires_after(100ms);
    co_await pause.async_wait(use_awaitable);
  }
}

asio::awaitable<void> campaign(Service& service) {
  for (;;) {
    std::string trouble = "the leadership was lost";
    try {
      // A stop ends the operation that waits. One that comes between two of them makes the next co_await throw.
      co_await zkclient::async_ensure(service.client, ticks_path, zkclient::CreateMode::persistent, use_awaitable);
      service.leadership = co_await zkrecipes::async_campaign(service.election, use_awaitable);
      co_await lead(service);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) break;
    service.leadership = {};  // Given back if it stands: the next campaign would wait for it.
    std::fprintf(stderr, "service: not leading: %s\n", trouble.c_str());
    asio::steady_timer pause(co_await asio::this_coro::executor, 100ms);  // What is refused now may be refused again.
    co_await pause.async_wait(asio::as_tuple(use_awaitable));
  }
  // Nothing cancels this. Without it the next leader would wait for the end of the session.
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  const zkclient::CallOptions in_time{.deadline = 5s};
  co_await zkrecipes::async_resign(service.election, in_time, use_awaitable);
}

// ---- What operators see ----------------------------------------------------------------------------

using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

void answer_health(const Service& service, Response& response) {
  response.set(http::field::content_type, "text/plain");
  if (service.leadership.valid()) {
    response.body() = "leading\n";  // It may go on without a connection until the leadership is lost.
  } else if (service.client.server()) {
    response.body() = "following\n";
  } else {
    const std::string trouble = service.client.trouble();
    response.result(http::status::service_unavailable);
    response.body() = (trouble.empty() ? "no server has answered yet" : trouble) + "\n";
  }
}

// The library's text ends the exposition, so the families of the service come first.
std::string numbers(const Service& service) {
  return "# HELP service_ticks Ticks of this process while it led.\n# TYPE service_ticks "
         "counter\nservice_ticks_total " +
         std::to_string(service.ticks) + "\n" + service.metrics->to_openmetrics();
}

Response answer(const Service& service, const Request& request) {
  Response response(http::status::ok, request.version());
  response.keep_alive(request.keep_alive());
  if (request.method() != http::verb::get) {
    response.result(http::status::method_not_allowed);
    response.set(http::field::allow, "GET");
  } else if (request.target() == "/metrics") {
    response.set(http::field::content_type, zkclient::Metrics::content_type);
    response.body() = numbers(service);
  } else if (request.target() == "/healthz") {
    answer_health(service, response);
  } else {
    response.result(http::status::not_found);
  }
  response.prepare_payload();
  return response;
}

asio::awaitable<void> converse(const Service& service, beast::tcp_stream stream) {
  beast::flat_buffer buffer;
  for (bool more = true; more;) {
    Request request;
    stream.expires_after(60s);
    co_await http::async_read(stream, buffer, request,
                              use_awaitable);  // Throws, and so ends, when the other side goes.
    const Response response = answer(service, request);
    more = response.keep_alive();
    co_await http::async_write(stream, response, use_awaitable);
  }
}

asio::awaitable<void> serve(const Service& service, tcp::acceptor& acceptor) {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(asio::as_tuple(use_awaitable));
    if (!error) {
      asio::co_spawn(acceptor.get_executor(), converse(service, beast::tcp_stream(std::move(socket))), asio::detached);
      continue;
    }
    asio::steady_timer pause(acceptor.get_executor(), 100ms);  // There may be no descriptor left.
    co_await pause.async_wait(use_awaitable);
  }
}

// ---- The process -----------------------------------------------------------------------------------

std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

tcp::endpoint listen_address() {
  const std::string text = from_environment("ZKRECIPES_LISTEN", "127.0.0.1:0");
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw std::invalid_argument("ZKRECIPES_LISTEN has to be ADDRESS:PORT, not " + text);
  const int port = std::stoi(text.substr(colon + 1));
  return {asio::ip::make_address(text.substr(0, colon)), static_cast<unsigned short>(port)};
}

zkclient::ClientOptions client_options(const std::shared_ptr<zkclient::Metrics>& metrics) {
  zkclient::ClientOptions options;
  options.session_timeout =
      std::chrono::milliseconds(std::stoi(from_environment("ZKRECIPES_SESSION_TIMEOUT", "30000")));
  options.metrics = metrics;
  options.observer = std::make_shared<SpanLog>(stdout);
  return options;
}

void run(const std::string& name) {
  asio::io_context context;
  tcp::acceptor acceptor(context, listen_address());
  std::printf("listening on %s:%d\n", acceptor.local_endpoint().address().to_string().c_str(),
              acceptor.local_endpoint().port());
  asio::cancellation_signal stop;
  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&stop](const boost::system::error_code& error, int) {
    if (!error) stop.emit(asio::cancellation_type::terminal);
  });
  const auto metrics = std::make_shared<zkclient::Metrics>();
  // Made after the context, so closed before that goes.
  Service service{
      .name = name,
      .metrics = metrics,
      .client = zkclient::Client(from_environment("ZKRECIPES_SERVER", "127.0.0.1:2181"), client_options(metrics))};
  asio::co_spawn(context, serve(service, acceptor), asio::detached);
  std::exception_ptr failure;
  const auto ended = [&](const std::exception_ptr& error) {
    failure = error;
    context.stop();
  };
  asio::co_spawn(context, campaign(service), asio::bind_cancellation_slot(stop.slot(), ended));
  context.run();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: service NAME\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // A log shows each line at once.
  run(argv[1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "service: %s\n", error.what());
  return EXIT_FAILURE;
}
