#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <zkclient/client.hpp>
#include <zktesting/environment.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/fault_server.hpp"

/// What the tests of zkclient and of the recipes share.
namespace testkit {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

/// How long a test waits for what must happen; never how long it waits for what should not. Longer than the half minute
/// for which the leader of a new ensemble has been seen to sit on a request.
inline constexpr auto patience = 120s;

/// That of zktesting's servers.
inline constexpr std::chrono::milliseconds server_tick{500};

inline SteadyClock::time_point soon() { return SteadyClock::now() + patience; }
inline zkclient::CallOptions patient() { return {.deadline = soon()}; }

/// A value that one thread sets and another waits for.
template <typename T>
class Box {
 public:
  void put(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    changed_.notify_all();
  }
  /// The next value; fails the test and throws when none comes.
  T take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [&] { return !values_.empty(); })) throw std::runtime_error("no value came");
    T value = std::move(values_.front());
    values_.erase(values_.begin());
    return value;
  }
  /// Waits until a value satisfies `wanted`, dropping those before it.
  T take_until(const std::function<bool(const T&)>& wanted) {
    for (;;) {
      T value = take();
      if (wanted(value)) return value;
    }
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  bool empty() const { return size() == 0; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> values_;
};

/// Waits until `token` is stopped.
[[nodiscard]] bool stopped(const std::stop_token& token, std::chrono::milliseconds limit = patience);

/// The code of the zkclient::Error that `action` throws; fails the test if it throws none.
template <typename Action>
std::optional<zkclient::Errc> error_of(Action&& action) {
  try {
    action();
  } catch (const zkclient::Error& error) {
    return error.errc();
  }
  ADD_FAILURE() << "no error was thrown";
  return std::nullopt;
}

/// Threads of this process.
std::size_t thread_count();
/// Open descriptors of this process.
std::size_t descriptor_count();

/// Against the shared server (or the one that ZKRECIPES_SERVER names); every test has its own prefix, which is removed
/// at the end.
class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const std::string& hosts() const { return zktesting::SharedServer::instance().connect_string(); }
  /// Connected to the shared server, below this test's prefix; it knows the server's tick. Unless `options` say
  /// otherwise, its calls have as much time as a test has patience.
  zkclient::Client make_client(zkclient::ClientOptions options = {}) const;
  const zkclient::Path& prefix() const { return prefix_; }

 private:
  zkclient::Path prefix_;
};

/// With a server, and a proxy in front of it, to break as the test likes: in a simulated world of its own, or with a
/// real server (fault_server.hpp). That is handed on to the next test if it runs and nothing of this test is left at
/// it; otherwise the next one gets a new one.
class FaultTest : public ::testing::Test {
  const std::unique_ptr<FaultEnsemble> world_ = simulated_server();  // Begins first, ends last.

 protected:
  static constexpr auto session_timeout = std::chrono::milliseconds(2000);

  void TearDown() override;
  zkclient::ClientOptions options() const { return {.session_timeout = session_timeout, .server_tick = server_tick}; }
  /// In a simulated world: no time passes but what the test, the clients and the network wait for.
  bool time_is_made() const { return world_ != nullptr; }
  /// Goes through the proxy.
  zkclient::Client proxied() { return zkclient::Client(proxy.connect_string(), options()); }
  /// Goes straight to the server.
  zkclient::Client direct() { return zkclient::Client(server.connect_string(), options()); }

  FaultServer& server = world_ ? world_->server(0) : clean_server();
  zktesting::Proxy proxy{server.connect_string()};

 private:
  static FaultServer& clean_server();
};

}  // namespace testkit
