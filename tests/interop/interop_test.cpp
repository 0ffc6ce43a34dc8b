// Programs that use Apache Curator (Java) and kazoo (Python) contend with this library on the same paths.
//
// In every critical section the following is done in a folder that goes with the path; the holder that finds what must
// not be there counts an overlap:
//   exclusive   creates the file "writer", looks for "reader-*", counts the file "counter" up
//   shared      creates a file "reader-<library>-<id>", looks for "writer", counts "reader-*", stays for 2 to 5 ms
//   semaphore   creates a file "holder-<id>", counts "holder-*", stays for 2 to 5 ms
// Each process tells the greatest number of holders and of readers that it saw inside at once, itself included, and of
// how many libraries the readers were. Nobody begins before a whole CROWD has created files "here-<id>" in the folder.
// The first inside stay until one of them has seen readers of both libraries, or a full semaphore, and has created the
// file "seen".

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <zkclient/error.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zktesting/server.hpp>

#include "tests/interop/lossy_line.hpp"
#include "tests/interop/process.hpp"
#include "tests/support/contention.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::LossyLine;
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

/// The number in the line "WHAT NUMBER" of what a process printed; 0 without such a line.
int number_of(const std::string& what, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(what + " ")) return std::atoi(line.c_str() + what.size() + 1);
  }
  return 0;
}

/// The greatest numbers that any process saw inside at once.
struct Inside {
  int holders = 0;
  int readers = 0;
  int libraries = 0;  // Of the readers.
};

std::string in_quotes(const std::string& text) { return "'" + text + "'"; }

int rounds() {
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  return soak == nullptr ? 120 : 120 * std::max(1, std::atoi(soak));
}

/// A process of another library that does what it is told; see "obey" in CuratorPeer.java and kazoo_peer.py.
class Peer {
 public:
  explicit Peer(const std::string& command)
      : process_({"sh", "-c", command}, [this](const std::string& line) { said_.put(line); }) {}

  void tell(const std::string& line) const { process_.tell(line); }
  void expect(const std::string& line) { EXPECT_EQ(said_.take(), line); }
  void obey(const std::string& line) {
    tell(line);
    expect(line);
  }
  bool silent() const { return said_.empty(); }

 private:
  testkit::Box<std::string> said_;
  const testkit::Process process_;
};

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

  /// For kazoo, which looks for the parent and then creates its node: between the two the server may remove a container
  /// that is empty, and kazoo fails.
  static void make_lasting_parents(const std::vector<zkclient::Path>& paths) {
    const Client client = make_client();
    for (const zkclient::Path& path : paths)
      client.ensure(path, zkclient::CreateMode::persistent);
  }

  /// Where one path's critical sections meet.
  static std::string folder(const std::string& name) {
    const fs::path made = scratch_ / name;
    fs::create_directories(made);
    if (!fs::exists(made / "counter")) std::ofstream(made / "counter") << 0;
    return made.string();
  }
  static std::string job(const std::string& kind, const std::string& name, int libraries) {
    return " " + in_quotes(kind + ":/" + name + ":" + folder(name) + ":" + std::to_string(libraries * peers));
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
      const bool no_compiler = WIFEXITED(compiled.status) && WEXITSTATUS(compiled.status) == 127;
      if (no_compiler) return std::string();
      if (compiled.status != 0) throw std::runtime_error("CuratorPeer.java does not compile: " + compiled.text);
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
  static std::string curator_at(const zkclient::Path& path) {
    return curator() + "obey " + in_quotes(server().connect_string()) + " " + path.str();
  }
  static std::string kazoo_at(const zkclient::Path& path) {
    return kazoo() + in_quotes(server().connect_string()) + " obey " + path.str();
  }

  /// Everybody in the queue, when they are that many.
  static std::vector<Contender> queue_of(const SharedMutex& mutex, std::size_t count) {
    std::vector<Contender> queue;
    const auto has_come = [&] { return (queue = mutex.contenders()).size() == count; };
    if (!testkit::eventually(has_come)) throw std::runtime_error("the queue has " + std::to_string(queue.size()));
    return queue;
  }
  /// True when it has decided to wait: the server knows its watch.
  static bool waits_for(const SharedMutex& mutex, const Contender& waiter, const Contender& holder) {
    return testkit::watch_appears(server(), waiter.session_id, mutex.path() / holder.node);
  }
  static bool waits(const std::future<Lease>& acquiring) {
    return acquiring.wait_for(0s) == std::future_status::timeout;
  }

  /// Runs `peers` processes of each command at once.
  static Inside expect_no_overlap(const std::vector<std::string>& commands) {
    std::vector<std::future<Output>> processes;
    for (int i = 0; i < peers; ++i) {
      for (const std::string& command : commands)
        processes.push_back(in_thread([=] { return run(command); }));
    }
    Inside most;
    for (auto& process : processes) {
      const Output output = process.get();
      EXPECT_EQ(output.status, 0) << output.text;
      EXPECT_NE(output.text.find("overlaps 0\n"), std::string::npos) << output.text;
      most.holders = std::max(most.holders, number_of("holders", output.text));
      most.readers = std::max(most.readers, number_of("readers", output.text));
      most.libraries = std::max(most.libraries, number_of("libraries", output.text));
    }
    return most;
  }

 private:
  static inline fs::path scratch_;
  static inline std::unique_ptr<zktesting::Server> server_;
};

// The names of Curator: all three libraries on one mutex (kazoo with a subclass of two lines), Curator and we on a
// shared mutex and a semaphore.
TEST_F(Interop, CuratorsLayout) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  if (kazoo().empty()) GTEST_SKIP() << "not installed: python3-kazoo";
  make_lasting_parents({"/mutex"});
  const std::string jobs = job("mutex", "mutex", 3) + job("rw", "shared", 2) +
                           job("semaphore-" + std::to_string(semaphore_size), "semaphore", 2);
  const Inside most = expect_no_overlap({contend_with(ours()) + jobs, contend_with(curator() + "contend") + jobs,
                                         contend_with(kazoo()) + job("curator", "mutex", 3)});
  EXPECT_EQ(counted("mutex"), 3 * peers * rounds());
  EXPECT_EQ(counted("shared"), 2 * peers * rounds() / 2);
  EXPECT_EQ(most.holders, semaphore_size);
  EXPECT_GE(most.readers, 2);
  EXPECT_EQ(most.libraries, 2) << "readers of both have shared";
}

// The names of kazoo: kazoo as it is, and we.
TEST_F(Interop, KazoosLayout) {
  if (kazoo().empty()) GTEST_SKIP() << "not installed: python3-kazoo";
  make_lasting_parents({"/kazoo", "/kazoo-shared"});
  const Inside most =
      expect_no_overlap({contend_with(ours()) + job("kazoo-mutex", "kazoo", 2) + job("kazoo-rw", "kazoo-shared", 2),
                         contend_with(kazoo()) + job("lock", "kazoo", 2) + job("rw", "kazoo-shared", 2)});
  EXPECT_EQ(counted("kazoo"), 2 * peers * rounds());
  EXPECT_EQ(counted("kazoo-shared"), 2 * peers * rounds() / 2);
  EXPECT_GE(most.readers, 2);
  EXPECT_EQ(most.libraries, 2) << "readers of both have shared";
}

// kazoo's own ReadLock and WriteLock, step by step: a reader of kazoo's never waits with a writer behind it, because it
// would wait for that one (see docs/locks.md).
TEST_F(Interop, KazoosOwnReadAndWriteLocks) {
  if (kazoo().empty()) GTEST_SKIP() << "not installed: python3-kazoo";
  const Client client = make_client();
  SharedMutex mutex(client, "/kazoo-sides", {.layout = Layout::kazoo()});
  Peer kazoos(kazoo_at(mutex.path()));

  kazoos.obey("r read");
  Lease reader = mutex.acquire_shared({.deadline = soon()});
  kazoos.obey("s read");
  auto writing = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  std::vector<Contender> queue = queue_of(mutex, 4);
  EXPECT_TRUE(waits_for(mutex, queue[3], queue[2])) << "our writer, for their reader";
  reader.release();
  kazoos.obey("r unread");
  EXPECT_TRUE(waits(writing));
  kazoos.obey("s unread");
  Lease writer = result_of(writing);

  kazoos.tell("r read");
  queue = queue_of(mutex, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0])) << "their reader, for our writer";
  EXPECT_TRUE(kazoos.silent());
  writer.release();
  kazoos.expect("r read");

  reader = mutex.acquire_shared({.deadline = soon()});
  kazoos.tell("w write");
  queue = queue_of(mutex, 3);
  EXPECT_TRUE(waits_for(mutex, queue[2], queue[1])) << "their writer, for our reader";
  kazoos.obey("r unread");
  reader.release();
  kazoos.expect("w write");

  auto reading = in_thread([&] { return mutex.acquire_shared({.deadline = soon()}); });
  queue = queue_of(mutex, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0])) << "our reader, for their writer";
  EXPECT_TRUE(waits(reading));
  kazoos.obey("w unwrite");
  EXPECT_TRUE(result_of(reading).valid());
}

// Our writer becomes a reader: Curator's reader right behind it comes in, Curator's writer waits for both.
TEST_F(Interop, OurDowngradeBesideCurator) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  SharedMutex mutex(client, "/our-downgrade");
  Peer curators(curator_at(mutex.path()));
  Lease lease = mutex.acquire({.deadline = soon()});
  curators.tell("r read");
  std::vector<Contender> queue = queue_of(mutex, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0]));
  curators.tell("w write");
  queue = queue_of(mutex, 3);
  EXPECT_TRUE(waits_for(mutex, queue[2], queue[1]));
  EXPECT_TRUE(curators.silent());

  mutex.downgrade(lease);
  curators.expect("r read");
  EXPECT_TRUE(lease.valid());
  queue = queue_of(mutex, 3);
  EXPECT_TRUE(queue[0].shared && queue[0].holds && lease.node().ends_with(queue[0].node));
  curators.obey("r unread");
  queue = queue_of(mutex, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0])) << "their writer, for the reader that we have become";
  EXPECT_TRUE(curators.silent());
  lease.release();
  curators.expect("w write");
}

// Curator's writer becomes a reader, with a node of its own behind those who wait by then: our reader comes in when the
// writer's node goes, our writer behind the reader's node only after that one.
TEST_F(Interop, CuratorsDowngradeBesideUs) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  SharedMutex mutex(client, "/curators-downgrade");
  Peer curators(curator_at(mutex.path()));
  curators.obey("c write");
  auto reading = in_thread([&] { return mutex.acquire_shared({.deadline = soon()}); });
  std::vector<Contender> queue = queue_of(mutex, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0])) << "our reader, for their writer";
  curators.obey("c read");
  auto writing = in_thread([&] { return mutex.acquire({.deadline = soon()}); });
  queue = queue_of(mutex, 4);
  EXPECT_TRUE(waits_for(mutex, queue[3], queue[2])) << "our writer, for their reader";
  EXPECT_TRUE(waits(reading));

  curators.obey("c unwrite");
  Lease reader = result_of(reading);
  queue = queue_of(mutex, 3);
  EXPECT_TRUE(queue[0].holds && queue[1].holds && !queue[2].holds);
  reader.release();
  EXPECT_TRUE(waits(writing));
  curators.obey("c unread");
  EXPECT_TRUE(result_of(writing).valid());
}

// Our downgrade again, and each step of ours loses its reply: nobody comes in too early, and everybody does in the end.
TEST_F(Interop, OurDowngradeBesideCuratorWhileRepliesAreLost) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  const SharedMutex looks(client, "/our-lossy-downgrade");
  make_lasting_parents({looks.path()});  // The first create makes our node.
  LossyLine line(server().connect_string(), "/");
  SharedMutex mutex(line.client(), looks.path());
  Peer curators(curator_at(mutex.path()));
  Lease lease = line.lose_reply(RequestType::create2, [&] { return mutex.acquire({.deadline = soon()}); });
  curators.tell("r read");
  std::vector<Contender> queue = queue_of(looks, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0]));
  curators.tell("w write");
  queue = queue_of(looks, 3);
  EXPECT_TRUE(waits_for(mutex, queue[2], queue[1]));
  EXPECT_TRUE(curators.silent());

  line.lose_reply(RequestType::multi, [&] { mutex.downgrade(lease, {.deadline = soon()}); });
  curators.expect("r read");
  EXPECT_TRUE(lease.valid());
  queue = queue_of(looks, 3);
  EXPECT_TRUE(queue[0].shared && queue[0].holds && lease.node().ends_with(queue[0].node));
  curators.obey("r unread");
  queue = queue_of(looks, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0])) << "their writer, for the reader that we have become";
  EXPECT_TRUE(curators.silent());
  line.lose_reply(RequestType::remove, [&] { lease.release(); });
  curators.expect("w write");
  queue_of(looks, 1);
}

// Curator's downgrade again: our waiters lose the replies to what they send, and the events that would wake them.
TEST_F(Interop, CuratorsDowngradeBesideUsWhileRepliesAndEventsAreLost) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  const SharedMutex looks(client, "/curators-lossy-downgrade");
  LossyLine line(server().connect_string(), "/");
  SharedMutex mutex(line.client(), looks.path());
  Peer curators(curator_at(mutex.path()));
  curators.obey("c write");
  auto reading = line.lose_reply(RequestType::create2,
                                 [&] { return in_thread([&] { return mutex.acquire_shared({.deadline = soon()}); }); });
  std::vector<Contender> queue = queue_of(looks, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0])) << "our reader, for their writer";
  curators.obey("c read");
  auto writing = line.lose_reply(RequestType::create2,
                                 [&] { return in_thread([&] { return mutex.acquire({.deadline = soon()}); }); });
  queue = queue_of(looks, 4);
  EXPECT_TRUE(waits_for(mutex, queue[3], queue[2])) << "our writer, for their reader";
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0])) << "our reader, again on the new connection";
  EXPECT_TRUE(waits(reading));

  zktesting::Fault lost = line.lose_event();
  curators.obey("c unwrite");
  EXPECT_TRUE(lost.wait(testkit::patience));
  Lease reader = result_of(reading);
  queue = queue_of(looks, 3);
  EXPECT_TRUE(queue[0].holds && queue[1].holds && !queue[2].holds);
  line.lose_reply(RequestType::remove, [&] { reader.release(); });
  EXPECT_TRUE(waits(writing));
  queue = queue_of(looks, 2);
  EXPECT_TRUE(waits_for(mutex, queue[1], queue[0])) << "our writer, for their reader";
  lost = line.lose_event();
  curators.obey("c unread");
  EXPECT_TRUE(lost.wait(testkit::patience));
  EXPECT_TRUE(result_of(writing).valid());
}

// The limit is in a node, Curator's SharedCount: if either side sets it, both keep to it, and both wake up when it is
// raised.
TEST_F(Interop, SemaphoreWithItsLimitInANode) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  Semaphore semaphore(client, "/counted", zkclient::Path("/counted-limit"));
  // So many have leases or wait for one, and nobody else is about to: a try that fails then, fails by the limit.
  const auto leases_are = [&](std::size_t count) {
    return testkit::eventually([&] {
      std::error_code none;
      return client.children("/counted/locks", {}, none).names.empty() &&
             client.children("/counted/leases", {}, none).names.size() == count;
    });
  };
  Peer curators(curator_at(semaphore.path()));
  semaphore.set_limit(1);
  Lease first = semaphore.acquire({.deadline = soon()});
  EXPECT_TRUE(leases_are(1));
  curators.tell("a try");
  curators.expect("a try refused");
  curators.tell("b take");
  EXPECT_TRUE(testkit::eventually([&] { return client.children("/counted/leases").names.size() == 2; }));
  EXPECT_TRUE(curators.silent());
  semaphore.set_limit(2);
  curators.expect("b take");

  EXPECT_TRUE(leases_are(2));
  EXPECT_FALSE(semaphore.try_acquire());
  EXPECT_TRUE(leases_are(2));
  auto acquiring = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  EXPECT_TRUE(testkit::eventually([&] { return client.children("/counted/leases").names.size() == 3; }));
  EXPECT_TRUE(waits(acquiring));
  curators.obey("b limit 3");
  Lease second = result_of(acquiring);
  EXPECT_EQ(semaphore.limit(), 3);

  curators.obey("b limit 1");
  first.release();
  second.release();
  EXPECT_TRUE(leases_are(1));
  EXPECT_FALSE(semaphore.try_acquire()) << "one is held, and that is all there may be now";
  semaphore.set_limit(2);
  EXPECT_TRUE(leases_are(1));
  curators.tell("a try");
  curators.expect("a try granted");
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

// The same for those who share.
TEST_F(Interop, RevocationOfReadersBothWays) {
  if (curator().empty()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Client client = make_client();
  SharedMutex mutex(client, "/asked-readers");
  Peer curators(curator_at(mutex.path()));
  const Lease lease = mutex.acquire_shared({.deadline = soon()});
  curators.obey("c revocable");
  curators.obey("c read");
  const Contender theirs = queue_of(mutex, 2)[1];
  EXPECT_FALSE(lease.revoke_requested().stop_requested());
  curators.obey("c revoke " + lease.node());
  EXPECT_TRUE(testkit::stopped(lease.revoke_requested()));
  EXPECT_TRUE(lease.valid()) << "it is only asked";
  EXPECT_EQ(revoke(client, mutex.path() / theirs.node), RevokeOutcome::requested);
  curators.expect("c asked");
}

}  // namespace
}  // namespace zkrecipes
