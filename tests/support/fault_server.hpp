#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zktesting/ensemble.hpp>
#include <zktesting/server.hpp>

/// What tests of faults break: real servers, or those of a simulated world.
namespace testkit {

/// Its members do as those of zktesting::Server of the same name.
class FaultServer {
 public:
  virtual ~FaultServer() = default;

  [[nodiscard]] virtual std::string connect_string() const = 0;
  [[nodiscard]] virtual std::string four_letter_word(std::string_view word) const = 0;
  [[nodiscard]] virtual std::string log() const = 0;
  [[nodiscard]] virtual bool running() const = 0;
  virtual void start() = 0;
  virtual void stop() = 0;
  virtual void kill() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  virtual void restart_wiped() = 0;
  /// For what no simulated one has: a folder. Throws if this is one; see OnRealServers.
  [[nodiscard]] virtual zktesting::Server& real() = 0;

  void restart() {
    kill();
    start();
  }
  [[nodiscard]] std::map<std::string, std::string> stats() const;
  [[nodiscard]] std::size_t watch_count() const { return number("zk_watch_count"); }
  [[nodiscard]] std::size_t ephemeral_count() const { return number("zk_ephemerals_count"); }
  [[nodiscard]] std::size_t znode_count() const { return number("zk_znode_count"); }
  /// Without the one that asks.
  [[nodiscard]] std::size_t connection_count() const;

 private:
  [[nodiscard]] std::size_t number(const std::string& key) const;
};

/// Its members do as those of zktesting::Ensemble of the same name.
class FaultEnsemble {
 public:
  virtual ~FaultEnsemble() = default;

  [[nodiscard]] virtual std::size_t size() const = 0;
  [[nodiscard]] virtual FaultServer& server(std::size_t index) = 0;
  [[nodiscard]] virtual std::optional<std::size_t> leader() = 0;
  [[nodiscard]] virtual std::vector<std::size_t> followers() = 0;
  virtual void wait_for_quorum(std::chrono::milliseconds timeout = std::chrono::seconds(60)) = 0;
  virtual void wait_for_all(std::chrono::milliseconds timeout = std::chrono::seconds(60)) = 0;
  virtual void restart(std::size_t index) = 0;
  virtual void isolate(std::size_t index, zktesting::Isolation mode = zktesting::Isolation::freeze) = 0;
  virtual void heal(std::size_t index) = 0;
  [[nodiscard]] virtual bool is_simulated() const = 0;
  /// Only of a simulated one: nobody hears of the server any more, nor it of anybody.
  virtual void silence(std::size_t index) = 0;

  void kill(std::size_t index) { server(index).kill(); }
  void pause(std::size_t index) { server(index).pause(); }
  void resume(std::size_t index) { server(index).resume(); }
  [[nodiscard]] std::string connect_string(std::size_t index) { return server(index).connect_string(); }
  [[nodiscard]] std::string connect_string();
};

/// Tests, or whole suites, of this program that play on real servers also where the program has the simulated world.
/// Those that need what only real servers have; and one for each kind of fault, so that each kind meets the real thing.
class OnRealServers {
 public:
  OnRealServers(std::initializer_list<std::string_view> tests);
};

/// Programs with tests/support/simulated_faults.cpp have simulated ones, save for tests that are OnRealServers, and if
/// ZKRECIPES_REAL_SERVERS is in the environment. At most one at a time. A suite may share one.
std::unique_ptr<FaultEnsemble> make_ensemble(zktesting::EnsembleOptions options = {});
/// An ensemble of one server, or nullptr: this test is on a real server.
std::unique_ptr<FaultEnsemble> simulated_server();

using Simulate = std::unique_ptr<FaultEnsemble> (*)(const zktesting::EnsembleOptions&);
void simulate_with(Simulate simulate);

}  // namespace testkit
