// Programs that use Apache Curator (Java) and kazoo (Python) contend with this library on the same paths.
//
// In every critical section the following is done in a folder that goes with the path; whoever finds what must not be
// there counts an overlap:
//   exclusive   creates the file "writer", looks for "reader-*", counts the file "counter" up
//   shared      creates a file "reader-<id>", looks for "writer"
//   semaphore   creates a file "holder-<id>", counts "holder-*"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <zkclient/error.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>
#include <zktesting/server.hpp>

#include "tests/support/contention.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::in_thread;
using zkclient::Client;
namespace fs = std::filesystem;

constexpr int peers = 3;  // Processes of each library.
constexpr int semaphore_size = 2;

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

int rounds() {
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  return soak == nullptr ? 120 : 120 * std::max(1, std::atoi(soak));
}

class Interop : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = fs::temp_directory_path() / ("zkrecipes-interop-" + std::to_string(::getpid()));
    fs::create_directories(scratch_);
    server_ = std::make_unique<zktesting::Server>();
  }
  static void TearDownTestSuite() {
    server_.reset();
    fs::remove_all(scratch_);
  }

  static zktesting::Server& server() { return *server_; }
  static Client make_client() {
    Client client(server().connect_string(), {.session_timeout = 20s});
    client.connect({.deadline = testkit::soon()});
    return client;
  }

  /// Where one path's critical sections meet.
  static std::string folder(const std::string& name) {
    const fs::path made = scratch_ / name;
    fs::create_directories(made);
    if (!fs::exists(made / "counter")) std::ofstream(made / "counter") << 0;
    return made.string();
  }
  static std::string job(const std::string& kind, const std::string& name) {
    return " " + in_quotes(kind + ":/" + name + ":" + folder(name));
  }
  static int counted(const std::string& name) {
    int count = -1;
    std::ifstream(folder(name) + "/counter") >> count;
    return count;
  }

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
                                  in_quotes(ZKR_INTEROP_SOURCES "/CuratorPeer.java"));
      if (compiled.status != 0) {
        std::cerr << compiled.text;
        return std::string();
      }
      return "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xmx128m -cp " + in_quotes(path) +
             " CuratorPeer ";
    }();
    return command;
  }
  static std::string kazoo() {
    static const std::string command = [] {
      // A python3 that comes first in the path need not be the one that the system's packages are for.
      for (const char* interpreter : {"python3", "/usr/bin/python3"}) {
        const std::string python = "PYTHONPATH=" + in_quotes(ZKR_INTEROP_PYTHON) + " " + interpreter + " ";
        if (run(python + "-c 'import kazoo'").status != 0) continue;
        return python + in_quotes(ZKR_INTEROP_SOURCES "/kazoo_peer.py") + " ";
      }
      return std::string();
    }();
    return command;
  }
  static std::string contend_with(const std::string& program) {
    return program + " " + in_quotes(server().connect_string()) + " " + std::to_string(rounds());
  }
  static std::string ours() { return in_quotes(ZKR_INTEROP_PEER); }

  /// Runs `peers` processes of each command at once.
  static void expect_no_overlap(const std::vector<std::string>& commands) {
    std::vector<std::future<Output>> processes;
    for (int i = 0; i < peers; ++i) {
      for (const std::string& command : commands)
        processes.push_back(in_thread([=] { return run(command); }));
    }
    for (auto& process : processes) {
      const Output output = process.get();
      EXPECT_EQ(output.status, 0) << output.text;
      EXPECT_NE(output.text.find("overlaps 0\n"), std::string::npos) << output.text;
    }
  }

 private:
  static inline fs::path scratch_;
  static inline std::unique_ptr<zktesting::Server> server_;
};

// The names of Curator: all three libraries on one mutex (kazoo with a subclass of two lines), Curator and we on a shared
// mutex and a semaphore.
TEST_F(Interop, CuratorsLayout) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  if (kazoo().empty()) GTEST_SKIP() << "not installed: python3-kazoo";
  const std::string jobs =
      job("mutex", "mutex") + job("rw", "shared") + job("semaphore-" + std::to_string(semaphore_size), "semaphore");
  expect_no_overlap({contend_with(ours()) + jobs, contend_with(curator() + "contend") + jobs,
                     contend_with(kazoo()) + job("curator", "mutex")});
  EXPECT_EQ(counted("mutex"), 3 * peers * rounds());
  EXPECT_EQ(counted("shared"), 2 * peers * rounds() / 2);
}

// The names of kazoo: kazoo as it is, and we.
TEST_F(Interop, KazoosLayout) {
  if (kazoo().empty()) GTEST_SKIP() << "not installed: python3-kazoo";
  expect_no_overlap({contend_with(ours()) + job("kazoo-mutex", "kazoo") + job("kazoo-rw", "kazoo-shared"),
                     contend_with(kazoo()) + job("lock", "kazoo") + job("rw", "kazoo-shared")});
  EXPECT_EQ(counted("kazoo"), 2 * peers * rounds());
  EXPECT_EQ(counted("kazoo-shared"), 2 * peers * rounds() / 2);
}

// Curator's holder gives way to our request, and our holder learns of Curator's.
TEST_F(Interop, RevocationBothWays) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  Mutex ours(client, "/ours");
  const Lease lease = ours.acquire();
  const std::string command = curator() + "revoke " + in_quotes(server().connect_string()) + " /curators /ours";
  auto peer = in_thread([=] { return run(command); });
  Mutex curators(client, "/curators");
  ASSERT_TRUE(testkit::eventually([&] { return curators.contenders().size() == 1; }));
  // It sets its watch after it has acquired, and does not look at what was written before: ask until it listens.
  ASSERT_TRUE(testkit::eventually([&] {
    return revoke_holders(client, "/curators", {}) == RevokeOutcome::released || curators.contenders().empty();
  }));
  EXPECT_TRUE(testkit::stopped(lease.revoke_requested()));
  EXPECT_TRUE(lease.valid());
  const Output output = peer.get();
  EXPECT_EQ(output.status, 0) << output.text;
}

}  // namespace
}  // namespace zkrecipes
