#include "tests/support/fault_server.hpp"

#include <cstdlib>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

namespace testkit {
namespace {

using Names = std::set<std::string, std::less<>>;

Names& on_real_servers() {
  static Names instance;
  return instance;
}
Simulate& simulate() {
  static Simulate instance = nullptr;
  return instance;
}

/// A misspelt name would let its test go on in a simulated world, and say nothing.
void require_known(const Names& names) {
  const auto* const unit = ::testing::UnitTest::GetInstance();
  Names known;
  for (int i = 0; i < unit->total_test_suite_count(); ++i) {
    const auto* const suite = unit->GetTestSuite(i);
    known.insert(suite->name());
    for (int k = 0; k < suite->total_test_count(); ++k)
      known.insert(std::string(suite->name()) + "." + suite->GetTestInfo(k)->name());
  }
  for (const std::string& name : names) {
    if (!known.contains(name)) throw std::logic_error("OnRealServers: this program has no test " + name);
  }
}

bool simulated() {
  if (simulate() == nullptr || std::getenv("ZKRECIPES_REAL_SERVERS") != nullptr) return false;
  require_known(on_real_servers());
  const auto* const unit = ::testing::UnitTest::GetInstance();
  const std::string suite = unit->current_test_suite()->name();
  const auto* const test = unit->current_test_info();
  return !on_real_servers().contains(suite) &&
         (test == nullptr || !on_real_servers().contains(suite + "." + test->name()));
}

/// One of an ensemble, which owns it.
class ServerOfEnsemble : public FaultServer {
 public:
  explicit ServerOfEnsemble(zktesting::Server& server) : server_(server) {}

  [[nodiscard]] std::string connect_string() const override { return server_.connect_string(); }
  [[nodiscard]] std::string four_letter_word(std::string_view word) const override {
    return server_.four_letter_word(word);
  }
  [[nodiscard]] std::string log() const override { return server_.log(); }
  [[nodiscard]] bool running() const override { return server_.running(); }
  void start() override { server_.start(); }
  void stop() override { server_.stop(); }
  void kill() override { server_.kill(); }
  void pause() override { server_.pause(); }
  void resume() override { server_.resume(); }
  void restart_wiped() override { server_.restart_wiped(); }
  [[nodiscard]] zktesting::Server& real() override { return server_; }

 private:
  zktesting::Server& server_;
};

class RealEnsemble : public FaultEnsemble {
 public:
  explicit RealEnsemble(zktesting::EnsembleOptions options) : ensemble_(std::move(options)) {
    for (std::size_t i = 0; i < ensemble_.size(); ++i)
      servers_.push_back(std::make_unique<ServerOfEnsemble>(ensemble_.server(i)));
  }

  [[nodiscard]] std::size_t size() const override { return servers_.size(); }
  [[nodiscard]] FaultServer& server(std::size_t index) override { return *servers_.at(index); }
  [[nodiscard]] std::optional<std::size_t> leader() override { return ensemble_.leader(); }
  [[nodiscard]] std::vector<std::size_t> followers() override { return ensemble_.followers(); }
  void wait_for_quorum(std::chrono::milliseconds timeout) override { ensemble_.wait_for_quorum(timeout); }
  void wait_for_all(std::chrono::milliseconds timeout) override { ensemble_.wait_for_all(timeout); }
  void restart(std::size_t index) override { ensemble_.restart(index); }
  void isolate(std::size_t index, zktesting::Isolation mode) override { ensemble_.isolate(index, mode); }
  void heal(std::size_t index) override { ensemble_.heal(index); }
  [[nodiscard]] bool is_simulated() const override { return false; }
  void silence(std::size_t /*index*/) override { throw std::logic_error("only simulated servers can be silenced"); }

 private:
  zktesting::Ensemble ensemble_;
  std::vector<std::unique_ptr<ServerOfEnsemble>> servers_;
};

}  // namespace

std::size_t FaultServer::connection_count() const {
  const std::size_t all = number("zk_num_alive_connections");
  return all == 0 ? 0 : all - 1;
}

std::map<std::string, std::string> FaultServer::stats() const {
  std::istringstream lines(four_letter_word("mntr"));
  std::map<std::string, std::string> found;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab != std::string::npos) found.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
  return found;
}

std::size_t FaultServer::number(const std::string& key) const {
  const auto all = stats();
  const auto found = all.find(key);
  if (found == all.end()) throw zktesting::Error("the server's statistics have no number " + key);
  return std::stoul(found->second);
}

std::string FaultEnsemble::connect_string() {
  std::string all;
  for (std::size_t i = 0; i < size(); ++i)
    all += (i == 0 ? "" : ",") + connect_string(i);
  return all;
}

OnRealServers::OnRealServers(std::initializer_list<std::string_view> tests) {
  on_real_servers().insert(tests.begin(), tests.end());
}

std::unique_ptr<FaultEnsemble> make_ensemble(zktesting::EnsembleOptions options) {
  if (simulated()) return simulate()(options);
  return std::make_unique<RealEnsemble>(std::move(options));
}

std::unique_ptr<FaultEnsemble> simulated_server() {
  zktesting::EnsembleOptions options;
  options.size = 1;
  return simulated() ? simulate()(options) : nullptr;
}

void simulate_with(Simulate made) { simulate() = made; }

}  // namespace testkit
