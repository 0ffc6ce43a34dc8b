// What a fleet of clients does to an ensemble that is in part or wholly gone, and what it costs the clients. See README.md.

#include <dlfcn.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkclient/log.hpp>
#include <zktesting/ensemble.hpp>

#include "kept_log.hpp"

namespace {

std::atomic<long> attempts{0};

}  // namespace

// In place of the C library's, for the whole program: each attempt of a client is a call of it. What zktesting asks its
// servers counts, too; it asks none while attempts are measured.
extern "C" int connect(int fd, const sockaddr* address, socklen_t length) {
  using Connect = int (*)(int, const sockaddr*, socklen_t);
  static const auto real = reinterpret_cast<Connect>(::dlsym(RTLD_NEXT, "connect"));
  ++attempts;
  return real(fd, address, length);
}

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using zkclient::Client;
using zkclient::ConnectionState;

constexpr const char* usage =
    R"(outages: a fleet of clients, of which one server, or all, go away

  --clients N     how many (1000)
)";

constexpr milliseconds session_timeout = 10s;
constexpr auto patience = 120s;

// How much is logged at the level info. Nothing of it is shown.
class LineCount {
 public:
  LineCount() {
    zkclient::set_log_handler([this](zkclient::LogLevel, std::string_view) { ++lines_; });
    zkclient::set_log_level(zkclient::LogLevel::info);
  }
  ~LineCount() {
    zkclient::set_log_level(zkclient::LogLevel::error);
    zkclient::set_log_handler({});
  }
  LineCount(const LineCount&) = delete;
  LineCount& operator=(const LineCount&) = delete;
  long lines() const { return lines_; }

 private:
  std::atomic<long> lines_{0};
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class Fleet {
 public:
  Fleet(const std::string& servers, std::size_t count) {
    clients_.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
      clients_.emplace_back(runtime_, servers, zkclient::ClientOptions{.session_timeout = session_timeout});
    wait_until([this] { return connected() == clients_.size(); });
    for (const Client& client : clients_)
      sessions_.push_back(client.session());
  }

  std::size_t connected() const {
    std::size_t count = 0;
    for (const Client& client : clients_)
      count += client.session().state() == ConnectionState::connected ? 1 : 0;
    return count;
  }
  std::size_t lost() const {
    std::size_t count = 0;
    for (const zkclient::Session& session : sessions_)
      count += session.state() == ConnectionState::lost ? 1 : 0;
    return count;
  }
  double seconds_until_all_are_back() const {
    const auto begin = Clock::now();
    wait_until([this] { return connected() == clients_.size(); });
    return seconds_since(begin);
  }
  static void wait_until(const std::function<bool()>& done) {
    const auto deadline = Clock::now() + patience;
    while (!done()) {
      if (Clock::now() > deadline) throw std::runtime_error("the clients do not connect");
      std::this_thread::sleep_for(2ms);
    }
  }

 private:
  zkclient::Runtime runtime_;
  std::vector<Client> clients_;
  std::vector<zkclient::Session> sessions_;
};

// Attempts in a second, of all clients together.
double attempts_per_second(milliseconds time) {
  const long before = attempts;
  const auto begin = Clock::now();
  std::this_thread::sleep_for(time);
  return static_cast<double>(attempts - before) / seconds_since(begin);
}

void row(const std::string& what, const std::string& value) {
  std::cout << fmt::format("{:<72}  {:>10}\n", what, value);
}
void row(const std::string& what, double value, int digits = 1) { row(what, fmt::format("{:.{}f}", value, digits)); }

zktesting::EnsembleOptions ensemble_options() {
  zktesting::EnsembleOptions options;
  options.isolable = false;
  return options;
}

void one_of_three(std::size_t count) {
  zktesting::Ensemble ensemble(ensemble_options());
  const Fleet fleet(ensemble.connect_string(), count);
  const std::vector<std::size_t> followers = ensemble.followers();
  const long before = attempts;
  ensemble.kill(followers.at(0));
  const double back = fleet.seconds_until_all_are_back();
  std::cout << "\none of three servers dies:\n";
  row("seconds until all are connected to the others", back, 2);
  row("attempts in that time, a client", static_cast<double>(attempts - before) / static_cast<double>(count), 2);
  row("attempts a second afterwards, all clients", attempts_per_second(10s));
  row("sessions lost", static_cast<double>(fleet.lost()), 0);
}

// `outage`: how long no server is there; they need a second or two more until they serve.
void all_of_three(std::size_t count, milliseconds outage) {
  zktesting::Ensemble ensemble(ensemble_options());
  const Fleet fleet(ensemble.connect_string(), count);
  for (std::size_t i = 0; i < ensemble.size(); ++i)
    ensemble.kill(i);
  const double first = attempts_per_second(1s);
  std::this_thread::sleep_for(outage / 2 - 1s);
  const double later = attempts_per_second(outage / 2);
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < ensemble.size(); ++i)
    ensemble.restart(i);
  const double serving = seconds_since(begin);
  fleet.seconds_until_all_are_back();
  std::cout << fmt::format("\nall servers die, and are started again after {} s (session timeout {} s):\n", outage / 1s,
                           session_timeout / 1s);
  row("attempts a second, all clients, in the first second", first);
  row("attempts a second, all clients, in the second half of the outage", later);
  row("seconds from the first start until the three answer", serving, 2);
  row("seconds from the first start until all clients are connected", seconds_since(begin), 2);
  row("sessions lost", static_cast<double>(fleet.lost()), 0);
}

void dead_server() {
  for (const milliseconds timeout : {4000ms, 30'000ms}) {
    const LineCount log;
    zktesting::Server server;
    const zkclient::Client client(server.connect_string(), {.session_timeout = timeout});
    client.connect();
    server.kill();
    const long lines = log.lines();
    const double rate = attempts_per_second(30s);
    std::cout << fmt::format("\none client, 30 s of a dead server, session timeout {} s:\n", timeout / 1s);
    row("attempts a second", rate, 2);
    row("lines of the log at the level info", static_cast<double>(log.lines() - lines), 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 1000;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--clients" || i + 1 == argc) {
      std::cerr << usage;
      return 2;
    }
    count = std::strtoul(argv[++i], nullptr, 10);
  }
  try {
    const bench::KeptLog kept;
    std::cout << fmt::format("outages: {} clients of one process, session timeout {} s\n", count, session_timeout / 1s);
    one_of_three(count);
    all_of_three(count, 4s);
    all_of_three(count, 8s);
    all_of_three(count, 30s);
  } catch (const std::exception& error) {
    std::cerr << "outages: " << error.what() << "\n";
    return 1;
  }
  dead_server();
  return 0;
}
