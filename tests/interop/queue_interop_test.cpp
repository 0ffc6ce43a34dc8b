// Items go from this library to Apache Curator (Java) and kazoo (Python), and the other way; and all of them consume
// from one queue at a time. Each item must come out once, in the order of the queue where one consumes alone.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/barrier.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zktesting/server.hpp>

#include "tests/support/contention.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::in_thread;
using zkclient::CallOptions;
using zkclient::Client;
namespace fs = std::filesystem;

constexpr int count = 15;
using Items = std::vector<std::string>;
using ItemsByPath = std::map<std::string, Items>;

/// What a command printed, and how it ended.
struct Output {
  int status = -1;
  std::string text;
};

Output run(const std::string& command) {
  Output output;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr)
    output.text += buffer.data();
  output.status = ::pclose(pipe);
  return output;
}

std::string in_quotes(const std::string& text) { return "'" + text + "'"; }

/// One kind of queue, ours and theirs.
struct Kind {
  std::string name;  ///< As the other program calls it; its path is "/<name>" and what else makes it unique.
  QueueLayout layout;
  std::string lock = {};  ///< Curator's lock path.
  bool prioritized = false;
  std::string suffix = {};

  std::string path() const { return "/" + name + suffix; }
  std::string of_curator(const std::string& verb, int items) const {
    return " " + in_quotes(verb + ":" + name + ":" + path() + ":" + lock + ":" + std::to_string(items));
  }
  std::string of_kazoo(const std::string& verb, int items) const {
    return " " + in_quotes(verb + ":" + name + ":" + path() + ":" + std::to_string(items));
  }
};

class QueueInterop : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = fs::temp_directory_path() / ("zkrecipes-queues-" + std::to_string(::getpid()));
    fs::create_directories(scratch_);
    server_ = std::make_unique<zktesting::Server>();
  }
  static void TearDownTestSuite() {
    server_.reset();
    fs::remove_all(scratch_);
  }
  static std::string hosts() { return in_quotes(server_->connect_string()); }
  static Client make_client() { return Client(server_->connect_string(), {.session_timeout = 20s}); }
  static CallOptions patient() { return {.deadline = testkit::SteadyClock::now() + 60s}; }

  // Both return "" where the other library is not installed.
  static std::string curator() {
    static const std::string command = [] {
      const char* chosen = std::getenv("ZKRECIPES_JARS");
      const std::string jars = chosen != nullptr ? chosen : "/usr/share/java";
      std::string path = scratch_.string();
      for (const char* jar : {"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
                              "guava", "failureaccess", "slf4j-api", "metrics-core", "snappy-java"}) {
        const std::string file = jars + "/" + jar + ".jar";
        if (fs::exists(file)) path += ":" + file;
      }
      if (!fs::exists(jars + "/curator-recipes.jar")) return std::string();
      const Output compiled = run("javac -d " + in_quotes(scratch_.string()) + " -cp " + in_quotes(path) + " " +
                                  in_quotes(ZKR_INTEROP_SOURCES "/CuratorQueues.java"));
      if (compiled.status != 0) {
        std::cerr << compiled.text;
        return std::string();
      }
      return "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xmx128m -cp " + in_quotes(path) +
             " CuratorQueues " + hosts();
    }();
    return command;
  }
  static std::string kazoo() {
    static const std::string command = [] {
      // The system's Python has the system's packages, whichever is first in the path.
      for (const char* python : {"python3", "/usr/bin/python3"}) {
        const std::string with_path = "PYTHONPATH=" + in_quotes(ZKR_INTEROP_PYTHON) + " " + python + " ";
        if (run(with_path + "-c 'import kazoo'").status != 0) continue;
        return with_path + in_quotes(ZKR_INTEROP_SOURCES "/kazoo_queues.py") + " " + hosts();
      }
      return std::string();
    }();
    return command;
  }

  /// Runs the jobs of another program, and returns what it took.
  static ItemsByPath work(const std::string& command) {
    const Output output = run(command);
    EXPECT_EQ(output.status, 0) << output.text;
    ItemsByPath taken;
    std::istringstream lines(output.text);
    bool done = false;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string first;
      std::string path;
      std::string item;
      words >> first >> path >> item;
      done = done || first == "done";
      if (first == "item") taken[path].push_back(item);
    }
    EXPECT_TRUE(done) << output.text;
    return taken;
  }

  static void push(const Client& client, const Kind& kind, int priorities) {
    const QueueOptions options{.layout = kind.layout};
    if (kind.prioritized) {
      PriorityQueue queue(client, kind.path(), options);
      for (int i = 0; i < count; ++i)
        queue.push(kind.path() + "-" + std::to_string(i), priorities - i % 5, patient());
    } else {
      Queue queue(client, kind.path(), options);
      for (int i = 0; i < count; ++i)
        queue.push(kind.path() + "-" + std::to_string(i), patient());
    }
  }
  static Items pop(const Client& client, const Kind& kind) {
    Items items;
    const QueueOptions options{.layout = kind.layout};
    if (kind.prioritized) {
      PriorityQueue queue(client, kind.path(), options);
      while (auto item = queue.try_pop(patient()))
        items.push_back(*item);
    } else {
      Queue queue(client, kind.path(), options);
      while (auto item = queue.try_pop(patient()))
        items.push_back(*item);
    }
    return items;
  }
  static Items expected(const Kind& kind) {
    Items items;
    for (int priority = 4; priority >= 0; --priority) {
      for (int i = 0; i < count; ++i) {
        const bool now = kind.prioritized ? i % 5 == priority : priority == 0;
        if (now) items.push_back(kind.path() + "-" + std::to_string(i));
      }
    }
    return items;
  }

  using Job = std::string (Kind::*)(const std::string&, int) const;
  static void exchange(const std::string& program, const std::vector<Kind>& kinds, Job job, int priorities) {
    const Client client = make_client();
    std::string puts = program;
    std::string takes = program;
    for (const Kind& kind : kinds) {
      puts += (kind.*job)("put", count);
      takes += (kind.*job)("take", count);
    }
    work(puts);
    for (const Kind& kind : kinds)
      EXPECT_EQ(pop(client, kind), expected(kind)) << "theirs to ours, " << kind.path();
    for (const Kind& kind : kinds)
      push(client, kind, priorities);
    ItemsByPath taken = work(takes);
    for (const Kind& kind : kinds)
      EXPECT_EQ(taken[kind.path()], expected(kind)) << "ours to theirs, " << kind.path();
  }

  /// Both push, and both consume, at a time; we by claims.
  static void share(const std::string& program, const Kind& kind, Job job) {
    const Client client = make_client();
    auto producing = in_thread([&] { return work(program + (kind.*job)("put", count)); });
    auto consuming = in_thread([&] { return work(program + (kind.*job)("take", 0)); });
    Queue queue(client, kind.path(), {.layout = kind.layout});
    for (int i = 0; i < count; ++i)
      queue.push("ours-" + std::to_string(i), patient());
    std::map<std::string, int> seen;
    // Theirs ends when nothing has come for a while, which may be before all of theirs is there.
    int turn = 0;
    const auto is_over = [](const std::future<ItemsByPath>& running) {
      return running.wait_for(0s) == std::future_status::ready;
    };
    while (!is_over(producing) || !is_over(consuming) || queue.size() > 0) {
      if (auto claim = queue.try_claim_for(50ms)) {
        if (++turn % 5 == 0) continue;  // Given back.
        claim->commit(patient());
        for (const std::string& item : claim->items())
          ++seen[item];
      }
      std::this_thread::sleep_for(2ms);  // So that they get some, too.
    }
    producing.get();
    ItemsByPath theirs = consuming.get();
    for (const std::string& item : theirs[kind.path()])
      ++seen[item];
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(2 * count));
    for (const auto& [item, times] : seen)
      EXPECT_EQ(times, 1) << item;
  }

 private:
  static inline fs::path scratch_;
  static inline std::unique_ptr<zktesting::Server> server_;
};

TEST_F(QueueInterop, CuratorsQueues) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const std::vector<Kind> kinds = {
      {"simple", QueueLayout::zookeeper()},
      {"queue", QueueLayout::curator()},
      {"queue", QueueLayout::curator(zkclient::Path("/locks")), "/locks", false, "-locked"},
      {"multi", QueueLayout::curator()},
      {"priority", QueueLayout::curator(), "", true},
  };
  exchange(curator(), kinds, &Kind::of_curator, 2);
}

// Items that are due, the earliest first; and none that is not.
TEST_F(QueueInterop, CuratorsDelayQueue) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  const auto item = [](const Kind& kind, int number) { return kind.path() + "-" + std::to_string(number); };
  const std::vector<Kind> kinds = {
      {"delay", QueueLayout::curator()},
      {"delay", QueueLayout::curator(zkclient::Path("/delay-locks")), "/delay-locks", false, "-locked"},
  };
  std::string puts = curator();
  std::string takes = curator();
  for (const Kind& kind : kinds) {
    puts += kind.of_curator("put", count);
    takes += kind.of_curator("take", 0);
  }
  work(puts);
  for (const Kind& kind : kinds) {
    DelayQueue queue(client, kind.path(), {.layout = kind.layout});
    for (int i = count - 2; i >= 0; --i)
      EXPECT_EQ(queue.try_pop(patient()), item(kind, i)) << "theirs to ours";
    EXPECT_EQ(queue.try_pop(patient()), std::nullopt);
    const std::vector<QueueItem> later = queue.list(patient());
    ASSERT_EQ(later.size(), 1U);
    const auto now = std::chrono::system_clock::now();
    EXPECT_GT(later.front().not_before, now);
    EXPECT_LE(later.front().not_before, now + 1h);
    for (int i = 0; i < count; ++i)
      queue.push(item(kind, i), now - std::chrono::seconds(i), patient());
  }
  ItemsByPath taken = work(takes);
  for (const Kind& kind : kinds) {
    Items due;
    for (int i = count - 1; i >= 0; --i)
      due.push_back(item(kind, i));
    EXPECT_EQ(taken[kind.path()], due) << "ours to theirs";
    EXPECT_EQ(DelayQueue(client, kind.path(), {.layout = kind.layout}).size(patient()), 1U);
  }
}

TEST_F(QueueInterop, CuratorsIdQueue) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  const std::vector<Kind> kinds = {
      {"id", QueueLayout::curator()},
      {"id", QueueLayout::curator(zkclient::Path("/id-locks")), "/id-locks", false, "-locked"},
  };
  std::string puts = curator();
  std::string takes = curator();
  for (const Kind& kind : kinds) {
    puts += kind.of_curator("put", count);
    takes += kind.of_curator("remove", 2) + kind.of_curator("take", 0);
  }
  const auto without = [](const Kind& kind, int id) {
    Items items;
    for (int i = 0; i < count; ++i) {
      if (i % 5 != id) items.push_back(kind.path() + "-" + std::to_string(i));
    }
    return items;
  };
  work(puts);
  for (const Kind& kind : kinds) {
    IdQueue queue(client, kind.path(), {.layout = kind.layout});
    EXPECT_EQ(queue.list(patient()).at(7).id, "id-2");
    EXPECT_EQ(queue.remove("id-3", patient()), 3U);
    Items taken;
    while (auto claim = queue.try_claim(patient())) {
      taken.push_back(claim->data());
      claim->commit(patient());
    }
    EXPECT_EQ(taken, without(kind, 3)) << "theirs to ours";
    for (int i = 0; i < count; ++i)
      queue.push(kind.path() + "-" + std::to_string(i), "id-" + std::to_string(i % 5), patient());
  }
  ItemsByPath taken = work(takes);
  for (const Kind& kind : kinds) {
    Items expected = without(kind, 2);
    expected.insert(expected.begin(), "3");  // So many it has removed.
    EXPECT_EQ(taken[kind.path()], expected) << "ours to theirs";
  }
}

TEST_F(QueueInterop, KazoosQueues) {
  if (kazoo().empty()) GTEST_SKIP() << "not installed: python3-kazoo";
  const std::vector<Kind> kinds = {
      {"queue", QueueLayout::kazoo(), "", false, "-kazoo"},
      {"locking", QueueLayout::kazoo_locking()},
      {"priority", QueueLayout::kazoo(), "", true, "-kazoo"},
  };
  exchange(kazoo(), kinds, &Kind::of_kazoo, 4);
}

TEST_F(QueueInterop, ClaimsSharedWithCurator) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  share(curator(), {"queue", QueueLayout::curator(zkclient::Path("/shared-locks")), "/shared-locks", false, "-shared"},
        &Kind::of_curator);
}

TEST_F(QueueInterop, ClaimsSharedWithKazoo) {
  if (kazoo().empty()) GTEST_SKIP() << "not installed: python3-kazoo";
  share(kazoo(), {"locking", QueueLayout::kazoo_locking(), "", false, "-shared"}, &Kind::of_kazoo);
}

TEST_F(QueueInterop, Barriers) {
  const Client client = make_client();
  const auto both_ways = [&](const std::string& program, const std::string& path, const std::string& tail) {
    const auto job = [&](const char* verb) { return program + " " + in_quotes(verb + ("::" + path) + tail); };
    Barrier barrier(client, path);
    work(job("raise"));
    EXPECT_TRUE(barrier.state());
    auto waiting = in_thread([&] { return barrier.wait_for(60s); });
    work(job("lower"));
    EXPECT_TRUE(waiting.get());
    barrier.raise();
    auto theirs = in_thread([&] { return work(job("wait")); });
    EXPECT_EQ(theirs.wait_for(300ms), std::future_status::timeout);
    barrier.lower();
    theirs.get();
  };
  if (!curator().empty()) both_ways(curator(), "/curators-barrier", "::0");
  if (!kazoo().empty()) both_ways(kazoo(), "/kazoos-barrier", ":0");
}

}  // namespace
}  // namespace zkrecipes
