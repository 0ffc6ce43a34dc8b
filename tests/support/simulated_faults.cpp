// A program that has this source plays its tests of faults in simulated worlds. There time is made: so no test fails
// because the machine is slow, and none waits. And no server is started, which takes a second of the processor.

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include <zkclient/client.hpp>
#include <zktesting/simulation.hpp>

#include "tests/support/fault_server.hpp"
#include "zktesting/detail/endpoint.hpp"
#include "zktesting/detail/socket.hpp"

namespace testkit {
namespace {

using namespace std::chrono_literals;

/// The same in each run of the program, and another one each time that --gtest_repeat runs a test. ZKRECIPES_WORLD=n:
/// begin behind the n-th.
std::uint64_t next_seed() {
  static std::map<std::string, std::uint64_t> runs;
  const auto* const unit = ::testing::UnitTest::GetInstance();
  const auto* const test = unit->current_test_info();
  const std::uint64_t run = ++runs[std::string(unit->current_test_suite()->name()) + (test ? test->name() : "")];
  const char* const first = std::getenv("ZKRECIPES_WORLD");
  return run + (first == nullptr ? 0 : std::stoull(first));
}

zktesting::SimulationOptions simulation_of(const zktesting::EnsembleOptions& wanted) {
  zktesting::SimulationOptions options;
  options.seed = next_seed();
  options.servers = static_cast<int>(wanted.size);
  options.tick = wanted.server.tick;
  options.least_session_timeout = wanted.server.min_session_timeout;
  options.most_session_timeout = wanted.server.max_session_timeout;
  options.container_check_interval = wanted.server.container_check_interval;
  options.init_limit = wanted.init_limit;
  options.sync_limit = wanted.sync_limit;
  return options;
}

class SimulatedServer : public FaultServer {
 public:
  SimulatedServer(zktesting::Simulation& world, int index) : world_(world), index_(index) {}

  [[nodiscard]] std::string connect_string() const override { return "10.0.0." + std::to_string(index_ + 1) + ":2181"; }
  [[nodiscard]] std::string four_letter_word(std::string_view word) const override {
    const auto deadline = zktesting::detail::Clock::now() + 30s;
    zktesting::detail::Socket socket(zktesting::detail::parse_endpoint(connect_string()), deadline);
    socket.write(word, deadline);
    return socket.read_all(deadline);
  }
  [[nodiscard]] std::string log() const override { return "a simulated server has none"; }
  [[nodiscard]] bool running() const override { return running_; }
  void launch() {
    world_.start_server(index_);
    running_ = true;
  }
  void start() override {
    launch();
    await([&] { return world_.serves(index_); });
  }
  void stop() override { kill(); }
  void kill() override {
    world_.kill_server(index_);
    running_ = false;
    paused_ = false;
  }
  void pause() override {
    world_.pause_server(index_);
    paused_ = true;
  }
  void resume() override {
    world_.resume_server(index_);
    paused_ = false;
  }
  void restart_wiped() override {
    world_.wipe_server(index_);
    start();
  }
  [[nodiscard]] zktesting::Server& real() override {
    throw std::logic_error("this test needs a real server: it is one for OnRealServers");
  }

  [[nodiscard]] bool serves() const { return running_ && !paused_ && world_.serves(index_); }
  void await(const std::function<bool()>& condition) const {
    if (!world_.run_until(condition, 120s)) throw std::runtime_error("a simulated server does not serve");
  }

 private:
  zktesting::Simulation& world_;
  const int index_;
  bool running_ = true;
  bool paused_ = false;
};

class SimulatedEnsemble : public FaultEnsemble {
 public:
  explicit SimulatedEnsemble(const zktesting::EnsembleOptions& options) : world_(simulation_of(options)) {
    for (std::size_t i = 0; i < options.size; ++i)
      servers_.push_back(std::make_unique<SimulatedServer>(world_, static_cast<int>(i)));
    wait_for_all(120s);
  }

  [[nodiscard]] std::size_t size() const override { return servers_.size(); }
  [[nodiscard]] FaultServer& server(std::size_t index) override { return *servers_.at(index); }
  [[nodiscard]] std::optional<std::size_t> leader() override {
    const int found = world_.leader();
    if (found < 0 || !servers_.at(static_cast<std::size_t>(found))->serves()) return std::nullopt;
    return static_cast<std::size_t>(found);
  }
  [[nodiscard]] std::vector<std::size_t> followers() override {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < size(); ++i) {
      if (servers_[i]->serves() && leader() != i) found.push_back(i);
    }
    return found;
  }
  void wait_for_quorum(std::chrono::milliseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    do {
      if (!world_.run_until([&] { return leader().has_value(); }, timeout)) break;
      // One that is cut off takes itself for the leader for a while.
      const zkclient::Client client(FaultEnsemble::connect_string(*leader()));
      std::error_code error;
      client.create("/quorum-", "", {.mode = zkclient::CreateMode::ephemeral_sequential},
                    {.deadline = std::chrono::steady_clock::now() + 1s}, error);
      if (!error) return;
    } while (std::chrono::steady_clock::now() < end);
    throw std::runtime_error("there is no quorum");
  }
  void wait_for_all(std::chrono::milliseconds timeout) override {
    const auto all_serve = [&] {
      for (const auto& server : servers_) {
        if (server->running() && !server->serves()) return false;
      }
      return leader().has_value();
    };
    if (!world_.run_until(all_serve, timeout)) throw std::runtime_error("not all simulated servers serve");
  }
  void restart(std::size_t index) override {
    server(index).kill();
    servers_.at(index)->launch();
  }
  void isolate(std::size_t index, zktesting::Isolation mode) override {
    world_.isolate_server(static_cast<int>(index), mode);
  }
  void heal(std::size_t index) override { world_.heal_server(static_cast<int>(index)); }
  [[nodiscard]] bool is_simulated() const override { return true; }
  void silence(std::size_t index) override { world_.silence_server(static_cast<int>(index)); }

 private:
  zktesting::Simulation world_;
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
};

[[maybe_unused]] const bool registered = [] {
  simulate_with([](const zktesting::EnsembleOptions& options) -> std::unique_ptr<FaultEnsemble> {
    return std::make_unique<SimulatedEnsemble>(options);
  });
  return true;
}();

}  // namespace
}  // namespace testkit
