#include "tests/support/testkit.hpp"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <thread>

#include "tests/support/threads.hpp"

namespace testkit {

bool stopped(const std::stop_token& token, std::chrono::milliseconds limit) {
  std::mutex mutex;
  std::condition_variable_any changed;
  // Outside the lock, both its registration and its end: each may have to wait for the callback.
  const std::stop_callback wake(token, [&] {
    const std::lock_guard guard(mutex);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, limit, [&] { return token.stop_requested(); });
}

std::size_t thread_count() { return count_threads(); }

std::size_t descriptor_count() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

void ServerTest::SetUp() {
  static std::atomic<int> counter{0};
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(info->test_suite_name()) + "." + info->name();
  for (char& c : name) {
    if (c == '/') c = '-';
  }
  prefix_ = zkclient::Path("/zkrecipes-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++)) / name;
  const zkclient::Client client(hosts());
  client.ensure(prefix_, zkclient::CreateMode::persistent);
}

namespace {

class RealServer : public FaultServer {
 public:
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
  zktesting::Server server_;
};

// Throws nothing: what else is to be done at the end of a test is done all the same.
template <typename AnyServer>
void show_log(const AnyServer& server) noexcept {
  try {
    std::cerr << "--- log of the server ---\n" << server.log() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "no log of the server: " << error.what() << "\n";
  }
}

}  // namespace

void ServerTest::TearDown() {
  if (HasFailure()) {
    auto& shared = zktesting::SharedServer::instance();
    if (shared.has_control()) show_log(shared.server());
  }
  const zkclient::Client client(hosts());
  client.remove_tree(prefix_.parent(), {.deadline = soon()});
}

zkclient::Client ServerTest::make_client(zkclient::ClientOptions options) const {
  options.prefix = prefix_;
  if (options.operation_timeout == zkclient::ClientOptions().operation_timeout) options.operation_timeout = patience;
  // Else leases of these sessions stand for nine seconds only, and a machine may be busy for longer.
  if (!options.server_tick && zktesting::SharedServer::instance().has_control()) options.server_tick = server_tick;
  zkclient::Client client(hosts(), std::move(options));
  client.connect({.deadline = soon()});
  return client;
}

namespace {

struct HandedOn {
  std::unique_ptr<FaultServer> server;
  bool suspect = false;  // A test failed with it.
};
HandedOn& handed_on() {
  static HandedOn instance;
  return instance;
}

// Empties the tree; false if there is more to a former test than its nodes.
bool made_clean(const FaultServer& server) {
  try {
    if (!server.running() || server.four_letter_word("ruok") != "imok") return false;
    {
      const zkclient::Client client(server.connect_string());
      for (const std::string& name : client.children("/").names) {
        if (name != "zookeeper") client.remove_tree(zkclient::Path("/") / name);
      }
    }
    return eventually(
        [&] { return server.connection_count() == 0 && server.ephemeral_count() == 0 && server.watch_count() == 0; },
        500ms);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

FaultServer& FaultTest::clean_server() {
  auto& [server, suspect] = handed_on();
  if (server == nullptr || suspect || !made_clean(*server)) server = std::make_unique<RealServer>();
  suspect = false;
  return *server;
}

void FaultTest::TearDown() {
  if (!HasFailure()) return;
  show_log(server);
  if (!world_) handed_on().suspect = true;
}

}  // namespace testkit
