// Deadlines, stop requests and close() end every call at once, whatever the server does: it is not there, it accepts
// and says nothing, or it fell silent in the middle of a session.

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;

struct Operation {
  const char* name;
  bool is_write;
  std::function<void(const Client&, const CallOptions&)> run;
};

void ignore(const WatchEvent&) {}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> table{
      {"connect", false, [](const Client& c, const CallOptions& call) { c.connect(call); }},
      {"create", true, [](const Client& c, const CallOptions& call) { c.create("/n/a", "", {}, call); }},
      {"create with parents", true,
       [](const Client& c, const CallOptions& call) { c.create("/n/p/q", "", {.parents = true}, call); }},
      {"protected create", true,
       [](const Client& c, const CallOptions& call) {
         c.create("/n/e-", "", {.mode = CreateMode::ephemeral_sequential, .protection = true}, call);
       }},
      {"ensure", true,
       [](const Client& c, const CallOptions& call) { c.ensure("/n/x/y", CreateMode::container, call); }},
      {"get", false, [](const Client& c, const CallOptions& call) { c.get("/n", call); }},
      {"get_and_watch", false,
       [](const Client& c, const CallOptions& call) { (void)c.get_and_watch("/n", ignore, call); }},
      {"set", true, [](const Client& c, const CallOptions& call) { c.set("/n", "new", any_version, call); }},
      {"set_resolving", true,
       [](const Client& c, const CallOptions& call) {
         zkclient::Stat seen;
         seen.czxid = 1;
         c.set_resolving("/n", "unique", seen, call);
       }},
      {"exists", false, [](const Client& c, const CallOptions& call) { c.exists("/n", call); }},
      {"exists_and_watch", false,
       [](const Client& c, const CallOptions& call) { (void)c.exists_and_watch("/n", ignore, call); }},
      {"children", false, [](const Client& c, const CallOptions& call) { c.children("/n", call); }},
      {"children_and_watch", false,
       [](const Client& c, const CallOptions& call) { (void)c.children_and_watch("/n", ignore, call); }},
      {"remove", true, [](const Client& c, const CallOptions& call) { c.remove("/n/child", any_version, call); }},
      {"remove_tree", true, [](const Client& c, const CallOptions& call) { c.remove_tree("/n/child", call); }},
      {"get_acl", false, [](const Client& c, const CallOptions& call) { c.get_acl("/n", call); }},
      {"set_acl", true,
       [](const Client& c, const CallOptions& call) { c.set_acl("/n", zkclient::open_acl(), any_version, call); }},
      {"add_auth", false, [](const Client& c, const CallOptions& call) { c.add_auth("digest", "a:b", call); }},
      {"get_config", false, [](const Client& c, const CallOptions& call) { c.get_config(call); }},
      {"get_config_and_watch", false,
       [](const Client& c, const CallOptions& call) { (void)c.get_config_and_watch(ignore, call); }},
      {"reconfig", true, [](const Client& c, const CallOptions& call) { c.reconfig({.leaving = {"99"}}, call); }},
      {"commit", true,
       [](const Client& c, const CallOptions& call) { c.commit(Transaction().check("/n").set("/n", "multi"), call); }},
      {"sync", false, [](const Client& c, const CallOptions& call) { c.sync("/n", call); }},
  };
  return table;
}

bool sleeps(::pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  return stat.find(") S ") != std::string::npos;
}

enum class Server { absent, mute, silent };
const char* name_of(Server server) {
  switch (server) {
    case Server::absent: return "absent";
    case Server::mute: return "mute";
    case Server::silent: return "silent";
  }
  return "?";
}

/// In front of the shared server, which is never harmed: only this test's way to it.
class CallLimitsTest : public testkit::ServerTest, public ::testing::WithParamInterface<Server> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    observer.emplace(make_client());
    observer->create("/n", "old");
    observer->create("/n/child");
    // Far beyond what any test waits for: nothing here ends by itself.
    const ClientOptions options{.session_timeout = 40s, .operation_timeout = 10min, .prefix = prefix()};
    if (GetParam() == Server::absent) proxy.refuse(true);
    if (GetParam() == Server::mute) proxy.stall(Direction::to_client);
    client.emplace(proxy.connect_string(), options);
    if (GetParam() != Server::silent) return;
    client->connect({.deadline = testkit::soon()});
    proxy.stall(Direction::to_client);
  }
  void TearDown() override {
    heal();
    client.reset();
    observer.reset();
    ServerTest::TearDown();
  }
  void heal() {
    proxy.refuse(false);
    proxy.unstall(Direction::to_client);
  }
  bool may_be_sent(const Operation& operation) const { return GetParam() == Server::silent && operation.is_write; }

  /// The code of a call that must fail.
  Errc run(const Operation& operation, const CallOptions& call) {
    try {
      operation.run(*client, call);
    } catch (const Error& error) {
      return error.errc();
    }
    return Errc{};
  }
  void expect_ended(const Operation& operation, Errc code, Errc reason) {
    // connect() has nothing to wait for in a session that fell silent.
    if (GetParam() == Server::silent && std::string(operation.name) == "connect") return;
    EXPECT_EQ(code, may_be_sent(operation) ? Errc::in_doubt : reason) << make_error_code(code).message();
  }
  /// As above, for a call that may also have ended before it was sent, as it does on a busy machine: in doubt exactly
  /// when it was sent. `before`: `writes_like(operation)` when it began.
  void expect_ended(const Operation& operation, Errc code, Errc reason, std::size_t before) {
    if (may_be_sent(operation) && code == reason) {
      EXPECT_EQ(writes_like(operation), before) << "sent, but not in doubt";
      return;
    }
    expect_ended(operation, code, reason);
    // The proxy reads it later than the call ends; the next call counts its own.
    if (code == Errc::in_doubt) {
      EXPECT_TRUE(testkit::eventually([&] { return writes_like(operation) > before; })) << "in doubt, but not sent";
    }
  }
  /// How many requests that change something, as this operation sends them, reached the proxy. What looks in the background
  /// for the node of a create that was given up sends transactions of its own, before the next operation begins.
  std::size_t writes_like(const Operation& operation) const {
    if (std::string(operation.name) == "commit") return proxy.request_count(RequestType::multi);
    std::size_t count = 0;
    for (const RequestType type :
         {RequestType::create, RequestType::create2, RequestType::create_container, RequestType::remove,
          RequestType::set_data, RequestType::set_acl, RequestType::reconfig})
      count += proxy.request_count(type);
    return count;
  }
  // The machine may be busy, but not in each of many attempts; a call that waited for something else would always be
  // late.
  static bool more_attempts(const std::vector<std::chrono::nanoseconds>& delays) {
    const bool prompt = !delays.empty() && *std::min_element(delays.begin(), delays.end()) < promptness;
    return delays.size() < attempts || (!prompt && delays.size() < most_attempts);
  }
  void expect_prompt(const std::vector<std::chrono::nanoseconds>& delays) {
    const auto best = *std::min_element(delays.begin(), delays.end());
    const auto worst = *std::max_element(delays.begin(), delays.end());
    EXPECT_LT(best, promptness);
    EXPECT_LT(worst, 20s) << "the connection is given up after 26 s";
    slowest = std::max<std::chrono::nanoseconds>(slowest, worst);
  }
  void print_slowest(const char* what) const {
    GTEST_LOG_(INFO) << name_of(GetParam()) << ": slowest end of a call after " << what << ": "
                     << std::chrono::duration<double, std::milli>(slowest).count() << " ms";
  }
  /// What never left this process has changed nothing, now or later.
  void expect_nothing_happened_unless_sent() {
    heal();
    client->sync("/", {.deadline = testkit::soon()});
    if (GetParam() == Server::silent) return;
    EXPECT_EQ(observer->get("/n").data, "old");
    EXPECT_EQ(observer->children("/n").names, std::vector<std::string>{"child"});
    EXPECT_EQ(proxy.request_count(RequestType::any), 1u) << "only the sync";
  }

  static constexpr std::size_t attempts = 4;
  static constexpr std::size_t most_attempts = 40;
  static constexpr auto promptness = 50ms;
  std::optional<Client> observer;
  zktesting::Proxy proxy{hosts()};
  std::optional<Client> client;
  std::chrono::nanoseconds slowest{0};
};

TEST_P(CallLimitsTest, AStopRequestEndsEveryCall) {
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    std::vector<std::chrono::nanoseconds> delays;
    while (more_attempts(delays)) {
      const std::size_t before = writes_like(operation);
      std::stop_source source;
      Box<SteadyClock::time_point> stopped;
      std::thread stopper([&, caller = ::gettid()] {
        (void)testkit::eventually([&] { return sleeps(caller); });  // It waits for the answer, most likely.
        stopped.put(SteadyClock::now());
        source.request_stop();
      });
      const Errc code = run(operation, {.stop = source.get_token()});
      const auto end = SteadyClock::now();
      stopper.join();
      delays.push_back(end - stopped.take());
      expect_ended(operation, code, Errc::cancelled, before);
    }
    expect_prompt(delays);
  }
  print_slowest("a stop request");
  expect_nothing_happened_unless_sent();
}

TEST_P(CallLimitsTest, ADeadlineEndsEveryCall) {
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    std::vector<std::chrono::nanoseconds> delays;
    while (more_attempts(delays)) {
      const std::size_t before = writes_like(operation);
      const auto deadline = SteadyClock::now() + 10ms;
      const Errc code = run(operation, {.deadline = deadline});
      delays.push_back(SteadyClock::now() - deadline);
      expect_ended(operation, code, Errc::deadline_exceeded, before);
    }
    expect_prompt(delays);
  }
  print_slowest("its deadline");
  expect_nothing_happened_unless_sent();
}

TEST_P(CallLimitsTest, ClosingEndsEveryCallOnce) {
  Box<std::pair<const Operation*, Errc>> ended;
  std::vector<std::thread> threads;
  for (const Operation& operation : operations())
    threads.emplace_back([&] { ended.put({&operation, run(operation, {})}); });
  Box<Errc> handled;
  for (int i = 0; i < 50; ++i) {
    client->async_get("/n", [&](const zkclient::Result<zkclient::NodeData>& result) {
      handled.put(result ? Errc{} : result.error().errc());
    });
  }
  if (GetParam() == Server::silent) {  // They are on their way.
    EXPECT_TRUE(proxy.wait_for_requests(RequestType::get_data, 51, testkit::patience));
  }
  const auto begin = SteadyClock::now();
  client->close();
  const auto took = SteadyClock::now() - begin;
  EXPECT_LT(took, 20s) << "the session's timeout is 40 s, the calls' ten minutes";
  EXPECT_EQ(handled.size(), 50u) << "close() returned before they were called";
  for (std::thread& thread : threads)
    thread.join();
  ASSERT_EQ(ended.size(), operations().size());
  for (std::size_t i = 0; i < operations().size(); ++i) {
    const auto [operation, code] = ended.take();
    SCOPED_TRACE(operation->name);
    if (code == Errc::closed) continue;  // It had not been sent.
    expect_ended(*operation, code, Errc::closed);
  }
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(handled.take(), Errc::closed);
  GTEST_LOG_(INFO) << name_of(GetParam()) << ": close() took "
                   << std::chrono::duration<double, std::milli>(took).count() << " ms";
}

INSTANTIATE_TEST_SUITE_P(Server, CallLimitsTest, ::testing::Values(Server::absent, Server::mute, Server::silent),
                         [](const auto& param) { return name_of(param.param); });

}  // namespace
