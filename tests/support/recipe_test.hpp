#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkclient/runtime.hpp>
#include <zktesting/expire.hpp>

#include "tests/support/contention.hpp"

/// The fixtures of the recipes' tests.
namespace testkit {

/// Its executor runs what it is given, until it drops it.
class DroppingRuntime {
 public:
  zkclient::Runtime& runtime() { return runtime_; }
  void drop() {
    dropped_ = 0;
    drops_ = true;
  }
  void run() { drops_ = false; }
  /// Since it began to drop.
  bool dropped_one() const {
    return eventually([this] { return dropped_ > 0; });
  }

 private:
  void execute(std::function<void()> task) {
    if (drops_) {
      ++dropped_;
    } else {
      std::thread(std::move(task)).detach();
    }
  }

  std::atomic<bool> drops_{false};
  std::atomic<int> dropped_{0};
  zkclient::Runtime runtime_{{.callback_executor = [this](std::function<void()> task) { execute(std::move(task)); }}};
};

/// A recipe at `path`, against the shared server, with a connected client.
class RecipeTest : public ServerTest {
 protected:
  explicit RecipeTest(zkclient::Path path) : path_(std::move(path)) {}
  void SetUp() override {
    ServerTest::SetUp();
    client_ = make_client();
  }
  void TearDown() override {
    client_.reset();
    ServerTest::TearDown();
  }

  const zkclient::Path& path() const { return path_; }
  zkclient::Client& client() { return *client_; }
  std::vector<std::string> names() { return names(path_); }
  std::vector<std::string> names(const zkclient::Path& path) {
    std::error_code error;
    return client().children(path, {}, error).names;
  }
  /// Waits until that many nodes are there, for nodes that are removed in the background.
  bool remain(std::size_t count) { return remain(count, path_); }
  bool remain(std::size_t count, const zkclient::Path& path) {
    return eventually([&] { return names(path).size() == count; });
  }

  /// What the test has closed left no watch at the server, though the clients that it used live on: the library removes
  /// a watch that nobody needs any more, about a second later.
  void expect_no_watch_left() {
    if (!has_control()) return;
    std::error_code closed_by_the_test;
    client().sync("/", {.deadline = soon()}, closed_by_the_test);  // Behind reads that are on their way.
    EXPECT_TRUE(eventually([] { return server().watch_count() == 0; })) << server().four_letter_word("wchp");
  }

  static bool has_control() { return zktesting::SharedServer::instance().has_control(); }
  static zktesting::Server& server() { return zktesting::SharedServer::instance().server(); }

 private:
  const zkclient::Path path_;
  std::optional<zkclient::Client> client_;
};

/// For what only a server of our own tells.
#define NEEDS_CONTROL() \
  if (!has_control()) GTEST_SKIP() << "the server is not ours to ask"

/// A recipe at `path`, with a server of its own and a proxy in front of it.
class RecipeFaultTest : public FaultTest {
 protected:
  /// The node at `path` is there to stay, so that the server does not remove it where a test counts what is created.
  explicit RecipeFaultTest(zkclient::Path path) : path_(std::move(path)) { operator_.create(path_, ""); }

  /// A session so long that no hiccup of the machine ends it.
  static constexpr auto calm = 30s;
  /// A session for those who wait for its end, yet long enough for a loaded machine.
  static constexpr auto brief = 6s;

  zkclient::Client calm_direct() { return zkclient::Client(gate_.connect_string(), {.session_timeout = calm}); }
  zkclient::Client calm_proxied() { return zkclient::Client(proxy.connect_string(), {.session_timeout = calm}); }
  zkclient::Client brief_direct() { return zkclient::Client(gate_.connect_string(), {.session_timeout = brief}); }
  /// For a holder that has to hear of its end before the next one holds.
  zkclient::Client contended_proxied(const zkclient::Path& prefix = "/") {
    return zkclient::Client(proxy.connect_string(),
                            {.session_timeout = contended_session, .server_tick = server_tick, .prefix = prefix});
  }
  zkclient::Client brief_proxied() { return zkclient::Client(proxy.connect_string(), {.session_timeout = brief}); }
  /// The third party that looks, and deletes by hand.
  zkclient::Client& the_operator() { return operator_; }

  /// The next request of this type is lost, or the reply to it after it was applied.
  zktesting::Fault lose(bool request, zktesting::RequestType type = zktesting::RequestType::multi) {
    return request ? proxy.drop_next_request(type) : proxy.drop_next_reply(type);
  }
  /// Those behind the proxy are cut off until it does not refuse them any more.
  void refuse_and_cut() {
    proxy.refuse(true);
    proxy.cut();
  }
  /// Cuts those behind the proxy off again and again, sometimes for a while: for four seconds, and then until `enough`.
  void flap(unsigned seed, const std::function<bool()>& enough) {
    std::minstd_rand random(seed);
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    const auto pause = [&](unsigned most) { never.wait_for(lock, std::chrono::milliseconds(random() % most)); };
    const auto end = SteadyClock::now() + 4s;
    while (SteadyClock::now() < end || (!enough() && SteadyClock::now() < end + patience)) {
      pause(100);
      proxy.cut();
      if (random() % 4 != 0) continue;
      proxy.refuse(true);
      pause(250);
      proxy.refuse(false);
    }
  }

  /// The contenders' nodes.
  virtual std::vector<std::string> names() { return names(path_); }
  std::vector<std::string> names(const zkclient::Path& path) {
    std::error_code error;
    return operator_.children(path, {}, error).names;
  }
  bool remain(std::size_t count) {
    return eventually([&] { return names().size() == count; });
  }
  /// Meanwhile no client can come: one that comes back in the very instant of the end is left connected without a
  /// session, and without an answer. One thread at a time.
  void expire(const zkclient::Client& client) {
    // The end of the last session may not have reached the client yet.
    EXPECT_TRUE(eventually([&] { return !expired_.contains(client.connect({.deadline = soon()}).id()); }));
    const auto session = client.connect({.deadline = soon()});
    expired_.insert(session.id());
    const Shut proxy_shut(proxy);
    const Shut gate_shut(gate_);
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  }
  bool watches(const zkclient::Client& client, const zkclient::Path& path) {
    return watch_appears(server, client.connect({.deadline = soon()}).id(), path);
  }
  static bool reaches(const zkclient::Client& client, zkclient::ConnectionState state) {
    return eventually([&] { return client.session().state() == state; });
  }
  template <typename T>
  static std::optional<zkclient::Errc> failure_of(std::future<T>& waiting) {
    return error_of([&] { (void)result_of(waiting); });
  }
  /// Nothing is left of anybody: no contender, no ephemeral node, no watch.
  void expect_nothing_left() {
    EXPECT_TRUE(remain(0));
    EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 0; })) << server.four_letter_word("dump");
    expect_no_watch_left();
  }
  /// Neither of the operator's, who is still connected, nor of clients that the test has closed.
  void expect_no_watch_left() {
    std::error_code cut_off;
    const bool connected = operator_.session().state() == zkclient::ConnectionState::connected;
    if (connected) operator_.sync("/", {.deadline = soon()}, cut_off);  // Behind reads that are on their way.
    EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << server.four_letter_word("wchp");
  }

 private:
  /// Refuses new connections, and afterwards does as before.
  class Shut {
   public:
    explicit Shut(zktesting::Proxy& proxy) : proxy_(proxy), before_(proxy.refuses()) { proxy_.refuse(true); }
    ~Shut() { proxy_.refuse(before_); }
    Shut(const Shut&) = delete;
    Shut& operator=(const Shut&) = delete;

   private:
    zktesting::Proxy& proxy_;
    const bool before_;
  };

  const zkclient::Path path_;
  std::set<std::int64_t> expired_;
  zktesting::Proxy gate_{server.connect_string()};  // For those that go straight to the server, so to speak.
  zkclient::Client operator_ = calm_direct();
};

}  // namespace testkit
