// A user's program that has an Asio of its own: another Boost than the one the project is tested with, or one that is
// configured in another way (CMakeLists.txt says which). Both run at the same time and must not disturb each other.

// Boost 1.74 uses std::exchange without it.
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/version.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stop_token>
#include <string>
#include <thread>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>
#include <zktesting/expire.hpp>
#include <zktesting/server.hpp>

#if defined(NEIGHBOUR_BOOST_VERSION) && BOOST_VERSION != NEIGHBOUR_BOOST_VERSION
#error "The compiler found another Boost than this test is about"
#endif

using namespace std::chrono_literals;

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s\n", what);
  std::exit(EXIT_FAILURE);
}

// The program's own work with Asio, all of it on one thread: BOOST_ASIO_DISABLE_THREADS allows no more.
class Ticker {
 public:
  explicit Ticker(std::stop_token stop) : stop_(std::move(stop)) { tick(); }

  void run() {
    idle_.expires_after(1h);
    idle_.async_wait([this](const boost::system::error_code& error) {
      cancelled_ = error == boost::asio::error::operation_aborted;
    });
    context_.run();
    require(ticks_ > 0 && posts_ == ticks_, "each tick of the program's own timer posts one handler");
    require(cancelled_, "the program's own timer is cancelled");
    std::printf("%d ticks with Boost %s\n", ticks_, BOOST_LIB_VERSION);
  }

 private:
  void tick() {
    timer_.expires_after(2ms);
    timer_.async_wait([this](const boost::system::error_code& error) {
      require(!error, "the program's own timer ends by itself");
      ++ticks_;
      boost::asio::post(context_, [this] { ++posts_; });
      if (stop_.stop_requested()) {
        idle_.cancel();
      } else {
        tick();
      }
    });
  }

  const std::stop_token stop_;
  boost::asio::io_context context_;
  boost::asio::steady_timer timer_{context_};
  boost::asio::steady_timer idle_{context_};
  int ticks_ = 0;
  int posts_ = 0;
  bool cancelled_ = false;
};

// Adds one to a node's number, again and again, under a lock.
constexpr int turns = 20;

void count(const std::string& server) {
  const zkclient::Client client(server);
  zkrecipes::Mutex mutex(client, "/lock");
  for (int turn = 0; turn < turns; ++turn) {
    const zkrecipes::Lease lease = mutex.acquire();
    require(lease.valid(), "the lease is valid");
    const std::int32_t number = std::stoi(client.get("/number").data);
    client.set("/number", std::to_string(number + 1));
  }
}

// Exceptions of the libraries are caught by their type.
void catch_errors(const zkclient::Client& client) {
  try {
    client.get("/missing");
    require(false, "a missing node is an error");
  } catch (const zkclient::Error& error) {
    require(error.code() == zkclient::Errc::no_node, "the error says that there is no node");
  }
  try {
    zktesting::expire("127.0.0.1:1", 1, "too short");
    require(false, "a password that is too short is an error");
  } catch (const zktesting::Error&) {
  }
}

}  // namespace

int main() try {
  const zktesting::Server server;
  const zkclient::Client client(server.connect_string());
  client.create("/number", "0");
  {
    const std::jthread ticking([](std::stop_token stop) { Ticker(std::move(stop)).run(); });
    const std::jthread first([&] { count(server.connect_string()); });
    const std::jthread second([&] { count(server.connect_string()); });
    catch_errors(client);
  }
  require(client.get("/number").data == std::to_string(2 * turns), "no turn was lost");
  std::printf("%d turns\n", 2 * turns);
} catch (const std::exception& error) {
  std::printf("failed: %s\n", error.what());
  return EXIT_FAILURE;
}
