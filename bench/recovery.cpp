// How soon each recipe works again after a fault, beside the least that the protocol takes. See README.md.

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zktesting/expire.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include "zktesting/detail/wire_client.hpp"

#include "kept_log.hpp"
#include "recovery_recipes.hpp"
#include "statistics.hpp"

namespace {

using namespace std::chrono_literals;
using bench::Recipe;
using bench::Works;
using zkclient::Client;
using zkclient::Path;
using zktesting::detail::WireClient;
using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    R"(recovery: milliseconds until each recipe works again after a fault, as a table in Markdown

  --rounds N      (7)
  --quick         one round: does it work?
)";

constexpr auto patience = 60s;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void until_it_works(const char* name, const Works& works) {
  std::string last;
  for (const auto begin = Clock::now(); Clock::now() - begin < patience; std::this_thread::sleep_for(1ms)) {
    try {
      if (works()) return;
    } catch (const zkclient::Error& error) {
      last = error.what();
    }
  }
  throw std::runtime_error(fmt::format("{} does not work again: {}", name, last));
}

/// A process that uses one recipe, until it is destroyed.
class Process {
 public:
  Process(const Recipe& recipe, std::string hosts, const Path& path)
      : name_(recipe.name), stage_(std::move(hosts), path), works_(recipe.prepare(stage_)) {
    wait();
  }
  void wait() const { until_it_works(name_, works_); }
  /// The server has heard of it just now.
  void be_heard() const { stage_.client.exists("/"); }
  const Client& client() const { return stage_.client; }

 private:
  const char* name_;
  const bench::Stage stage_;
  const Works works_;
};

/// What the protocol takes, done by hand: a connection, and a request that succeeds.
class Wire {
 public:
  explicit Wire(const std::string& host, const std::string& path, const zktesting::detail::SessionId& resume = {})
      : path_(path),
        client_(zktesting::detail::parse_endpoints(host).at(0), bench::recovery_timeout, patience, resume) {}
  zktesting::detail::SessionId session() const { return client_.session(); }
  void create() { require(client_.create(path_, "x", WireClient::ephemeral)); }
  void write() { require(client_.set_data(path_, "x")); }
  void close() { require(client_.close_session()); }

 private:
  static void require(std::int32_t error) {
    if (error != WireClient::ok) throw std::runtime_error(fmt::format("a request by hand: error {}", error));
  }
  const std::string path_;
  WireClient client_;
};

enum Fault { blip, lost, restarted, reborn, killed, faults };

class Recovery {
 public:
  void run(int rounds) {
    for (round_ = 0; round_ < rounds; ++round_) {
      operator_.ensure(path("wire"), zkclient::CreateMode::persistent);
      least_one_by_one();
      for (const Recipe& recipe : bench::recovery_recipes())
        one_by_one(recipe);
      kill_processes();
      restart_server();
    }
  }

  void print(int rounds) {
    std::cout << fmt::format(
        "Milliseconds until it works again: the median of {} rounds, and the slowest. Session timeout {} ms, tick {} "
        "ms.\n"
        "After a server's start each counts from when its client is connected: {}.\n\n"
        "| | connection cut | session ended | server started again | process started again | process killed |\n"
        "|---|---|---|---|---|---|\n",
        rounds, bench::recovery_timeout.count(), zktesting::ServerOptions().tick.count(),
        text(times_.at(reconnected_)[restarted]));
    print(least_);
    for (const Recipe& recipe : bench::recovery_recipes())
      print(recipe.name);
  }

 private:
  void least_one_by_one() {
    Wire before(proxy_.connect_string(), path("wire/a").str());
    before.create();
    note(
        least_, blip, [&] { proxy_.cut(); },
        [&] { Wire(proxy_.connect_string(), path("wire/a").str(), before.session()).write(); });
    note(
        least_, lost, [] {}, [&] { Wire(proxy_.connect_string(), path("wire/b").str()).create(); });
    note(
        least_, reborn, [] {}, [&] { Wire(proxy_.connect_string(), path("wire/c").str()).create(); });
  }

  void one_by_one(const Recipe& recipe) {
    const Path place = path("alone") / recipe.name;
    auto process = std::make_unique<Process>(recipe, proxy_.connect_string(), place);
    const auto works = [&] { process->wait(); };
    note(
        recipe.name, blip, [&] { proxy_.cut(); }, works);
    const auto end_session = [&] {
      const zkclient::Session session = process->client().connect();
      proxy_.refuse(true);  // Else it might come back in the very instant.
      zktesting::expire(server_.connect_string(), session.id(), session.credentials().password);
      proxy_.refuse(false);
    };
    note(recipe.name, lost, end_session, works);
    process.reset();
    note(
        recipe.name, reborn, [] {},
        [&] { process = std::make_unique<Process>(recipe, proxy_.connect_string(), place); });
  }

  using Processes = std::vector<std::unique_ptr<Process>>;
  Processes all(const std::string& hosts, const char* place) {
    Processes processes;
    for (const Recipe& recipe : bench::recovery_recipes())
      processes.push_back(std::make_unique<Process>(recipe, hosts, path(place) / recipe.name));
    for (const auto& process : processes)
      process->be_heard();
    return processes;
  }

  // At once, as each takes a session timeout.
  void kill_processes() {
    const Processes dead = all(proxy_.connect_string(), "killed");
    const std::string node = path("wire/d").str();
    auto wire = std::make_unique<Wire>(proxy_.connect_string(), node);
    wire->create();
    cut_off();
    std::vector<std::future<void>> running;
    const auto begin = Clock::now();
    for (const Recipe& recipe : bench::recovery_recipes()) {
      running.push_back(std::async(std::launch::async, [this, &recipe, begin] {
        const Process next(recipe, server_.connect_string(), path("killed") / recipe.name);
        note(recipe.name, killed, begin);
      }));
    }
    until_it_works(least_, [&] { return !operator_.exists(node); });
    Wire(server_.connect_string(), node).create();
    note(least_, killed, begin);
    for (auto& one : running)
      one.get();
    proxy_.refuse(false);
  }

  // Without a server for so long that all have given up their sessions. The server counts those anew.
  void restart_server() {
    const Processes processes = all(proxy_.connect_string(), "restarted");
    const std::string node = path("wire/e").str();
    Wire wire(proxy_.connect_string(), node);
    wire.create();
    std::vector<zkclient::Session> sessions;
    for (const auto& process : processes)
      sessions.push_back(process->client().session());
    cut_off();
    server_.kill();
    const auto over = [](const auto& session) { return session.state() == zkclient::ConnectionState::lost; };
    until_it_works("a session's end", [&] { return std::all_of(sessions.begin(), sessions.end(), over); });
    server_.start();
    proxy_.refuse(false);
    std::vector<std::future<void>> running;
    const auto start = Clock::now();
    for (std::size_t i = 0; i < processes.size(); ++i) {
      running.push_back(std::async(std::launch::async, [this, &processes, i, start] {
        (void)processes[i]->client().connect();
        note(reconnected_, restarted, start);
        const auto begin = Clock::now();
        processes[i]->wait();
        note(bench::recovery_recipes()[i].name, restarted, begin);
      }));
    }
    Wire(proxy_.connect_string(), node, wire.session()).close();
    Wire(proxy_.connect_string(), node).create();
    note(least_, restarted, start);
    for (auto& one : running)
      one.get();
  }

  void cut_off() {
    proxy_.refuse(true);
    proxy_.cut();
  }
  Path path(const std::string& place) const { return Path(fmt::format("/round-{}/{}", round_, place)); }

  void note(const char* name, Fault fault, Clock::time_point begin) {
    const double time = ms_since(begin);
    const std::lock_guard lock(mutex_);
    times_[name].resize(faults);
    times_[name][fault].push_back(time);
  }
  void note(const char* name, Fault fault, const std::function<void()>& break_it, const std::function<void()>& wait) {
    break_it();
    const auto begin = Clock::now();
    wait();
    note(name, fault, begin);
  }
  static std::string text(const std::vector<double>& times) {
    const bench::Summary summary = bench::summarize(times);
    const int digits = summary.median < 10 ? 1 : 0;
    return fmt::format("{:.{}f} ({:.{}f})", summary.median, digits, summary.max, digits);
  }
  void print(const char* name) {
    std::cout << "| " << name;
    for (const std::vector<double>& times : times_.at(name))
      std::cout << " | " << text(times);
    std::cout << " |\n";
  }

  static constexpr const char* least_ = "least, by hand";
  static constexpr const char* reconnected_ = "connected again";

  zktesting::Server server_;
  zktesting::Proxy proxy_{server_.connect_string()};
  const Client operator_{server_.connect_string()};
  int round_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::vector<double>>> times_;  // By row and fault.
};

}  // namespace

int main(int argc, char** argv) try {
  int rounds = 7;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--quick") {
      rounds = 1;
    } else if (option == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::stoi(argv[++i]));
    } else {
      std::cerr << usage;
      return 2;
    }
  }
  const bench::KeptLog kept;
  Recovery recovery;
  recovery.run(rounds);
  recovery.print(rounds);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "recovery: " << error.what() << "\n";
  return 1;
}
