#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include <zkrecipes/mutex.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::Created;
using zkclient::Runtime;

std::size_t resident_kilobytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

long milliseconds_since(SteadyClock::time_point begin) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - begin).count());
}

TEST(ManySessionsTest, AThousandSessionsShareTwoThreads) {
  constexpr std::size_t count = 1000;
  zktesting::Server server;
  { const Runtime first; }  // A sanitizer may start a thread of its own with ours.
  const std::size_t threads = testkit::thread_count();
  const std::size_t descriptors = testkit::descriptor_count();
  const std::size_t memory = resident_kilobytes();
  {
    Runtime runtime;
    std::vector<Client> clients;
    clients.reserve(count);
    Box<Result<Session>> sessions;
    auto begin = SteadyClock::now();
    for (std::size_t i = 0; i < count; ++i) {
      clients.emplace_back(runtime, server.connect_string(), zkclient::ClientOptions{.session_timeout = 60s});
      clients.back().async_connect([&](Result<Session> result) { sessions.put(std::move(result)); },
                                   {.deadline = testkit::soon()});
    }
    std::set<std::int64_t> ids;
    for (std::size_t i = 0; i < count; ++i)
      ids.insert(sessions.take().value().id());
    EXPECT_EQ(ids.size(), count);
    std::cout << count << " sessions connected in " << milliseconds_since(begin) << " ms, "
              << (resident_kilobytes() - memory) / count << " kB each\n";

    begin = SteadyClock::now();
    Box<Result<Created>> nodes;
    for (std::size_t i = 0; i < count; ++i) {
      clients[i].async_create(Path("/e" + std::to_string(i)), "x", {.mode = CreateMode::ephemeral},
                              [&](Result<Created> result) { nodes.put(std::move(result)); },
                              {.deadline = testkit::soon()});
    }
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_TRUE(ids.contains(nodes.take().value().stat.ephemeral_owner));
    std::cout << count << " nodes created in " << milliseconds_since(begin) << " ms\n";
    EXPECT_EQ(server.ephemeral_count(), count);
    // The loop and the handlers' thread, and helpers where handlers were slow.
    EXPECT_LE(testkit::thread_count(), threads + 17);
    EXPECT_TRUE(eventually([&] { return testkit::thread_count() == threads + 2; }));

    begin = SteadyClock::now();
    clients.clear();
    std::cout << count << " sessions closed in " << milliseconds_since(begin) << " ms\n";
    // Long before one that was not closed expires.
    EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 0; }, 40s))
        << "a session was not closed at the server";
  }
  EXPECT_TRUE(eventually([&] { return testkit::thread_count() == threads; }));
  EXPECT_EQ(testkit::descriptor_count(), descriptors);
  EXPECT_TRUE(eventually([&] { return server.connection_count() == 0; }));
}

TEST(ManySessionsTest, DescriptorsAreAsFewAsDocumented) {
  const zktesting::Server server;
  const std::size_t before = testkit::descriptor_count();
  const auto more = [before] { return testkit::descriptor_count() - before; };
  {
    Runtime runtime;
    EXPECT_EQ(more(), 3u);
    const Client client(runtime, server.connect_string(), {.session_timeout = 30s});
    client.connect({.deadline = testkit::soon()});
    EXPECT_EQ(more(), 5u);
    for (int i = 0; i < 3; ++i)
      zkrecipes::Mutex(client, "/lock").acquire({.deadline = testkit::soon()}).release();
    EXPECT_EQ(more(), 5u);
  }
  EXPECT_EQ(more(), 0u);
}

TEST(ManySessionsTest, ClosingTheRuntimeClosesThemAllAtOnce) {
  constexpr std::size_t count = 200;
  zktesting::Server server;
  std::vector<Client> clients;
  SteadyClock::time_point begin;
  {
    Runtime runtime;
    for (std::size_t i = 0; i < count; ++i)
      clients.emplace_back(runtime, server.connect_string());
    for (std::size_t i = 0; i < count; ++i) {
      clients[i].create(Path("/e" + std::to_string(i)), "", {.mode = CreateMode::ephemeral});
    }
    server.pause();
    begin = SteadyClock::now();
  }
  // Nobody answered: they must have been given up together, not one after the other.
  EXPECT_LT(SteadyClock::now() - begin, 60s);
  server.resume();
  EXPECT_TRUE(eventually([&] { return server.connection_count() == 0; }));
}

}  // namespace
