// LeaderElection beside Apache Curator's LeaderLatch, LeaderSelector beside its LeaderSelector, on one path each: one
// leader at a time, and everybody gets his turn; also while candidates are killed. ZKRECIPES_SOAK=<anything>: 50 kills.

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/leader_selector.hpp>

#include "tests/interop/process.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::Process;

constexpr int turns_each = 12;

std::string jars() {
  const char* given = std::getenv("ZKRECIPES_JARS");
  return given != nullptr ? given : "/usr/share/java";
}

/// The Java program, compiled; the options of the virtual machine are for a quick start.
class Curator {
 public:
  Curator() : classes_(std::filesystem::temp_directory_path() / ("zkrecipes-elections-" + std::to_string(::getpid()))) {
    for (const char* jar : {"curator-recipes", "curator-framework", "curator-client", "guava", "zookeeper"})
      path_ += jars() + "/" + jar + ".jar:";
    path_ += classes_.string();
    std::filesystem::create_directories(classes_);
    const std::string compile = "javac -d '" + classes_.string() + "' -cp '" + path_ + "' '" CURATOR_ELECTIONS "'";
    EXPECT_EQ(std::system(compile.c_str()), 0) << compile;
  }
  ~Curator() { std::filesystem::remove_all(classes_); }
  Curator(const Curator&) = delete;
  Curator& operator=(const Curator&) = delete;

  static bool installed() { return std::filesystem::exists(jars() + "/curator-recipes.jar"); }
  std::vector<std::string> command(const std::string& mode, const std::string& hosts,
                                   const std::string& timeout = {}) const {
    return {"java",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            "-Xmx128m",
            "-cp",
            path_,
            "CuratorElections",
            mode,
            hosts,
            timeout};
  }

 private:
  const std::filesystem::path classes_;
  std::string path_;
};

// --- Turns --------------------------------------------------------------------------------------------------------

/// Whoever leads has this node for a moment.
void occupy(const Client& client, const zkclient::Path& node) {
  std::error_code error;
  client.create(node, "", {.mode = zkclient::CreateMode::ephemeral}, {.deadline = soon()}, error);
  ASSERT_FALSE(error) << node.str() << ": somebody else leads at the same time: " << error.message();
  client.remove(node, zkclient::any_version, {.deadline = soon()});
}

TEST(ElectionInterop, OneLeaderAtATimeBesideCurator) {
  if (!Curator::installed()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const Curator program;
  zktesting::Server server;
  const Client client(server.connect_string(), {.session_timeout = 30s});
  std::atomic<int> latch_turns{0};
  std::atomic<int> selector_turns{0};
  const Process curator(program.command("turns", server.connect_string()), [&](const std::string& line) {
    if (line == "led latch") {
      ++latch_turns;
    } else if (line == "led selector") {
      ++selector_turns;
    } else {
      ADD_FAILURE() << "Curator says: " << line;
    }
  });
  std::atomic<int> our_elections{0};
  std::atomic<int> our_selections{0};
  std::atomic<bool> curators_leader_seen{false};

  LeaderSelector selector(client, "/selector",
                          [&](const std::stop_token&, SelectedLeadership&) {
                            occupy(client, "/occupied-selector");
                            ++our_selections;
                          },
                          {.id = "ours"});
  selector.start();
  LeaderElection election(client, "/latch", {.id = "ours"});
  const auto subscription = election.observe([&](const std::optional<Leader>& leader) {
    if (leader && leader->id == "curator") curators_leader_seen = true;
  });
  std::jthread candidate([&](const std::stop_token& stop) {
    try {
      while (!stop.stop_requested()) {
        const Leadership leadership = election.campaign({.stop = stop});
        occupy(client, "/occupied-latch");
        ++our_elections;
        election.resign({.deadline = soon()});
      }
    } catch (const zkclient::Error& error) {
      EXPECT_TRUE(stop.stop_requested()) << error.what();
    }
  });
  const auto everybody_had_his_turns = [&] {
    return latch_turns >= turns_each && selector_turns >= turns_each && our_elections >= turns_each &&
           our_selections >= turns_each && curators_leader_seen;
  };
  EXPECT_TRUE(eventually(everybody_had_his_turns, 2min));
  EXPECT_TRUE(curators_leader_seen) << "an observer sees leaders of both libraries";
  selector.close({.deadline = soon()});
  std::cout << "LeaderLatch " << latch_turns << ", LeaderElection " << our_elections << "; LeaderSelector "
            << selector_turns << ", ours " << our_selections << "\n";
}

// --- Kills --------------------------------------------------------------------------------------------------------

constexpr auto killed_timeout = 12'000ms;  // Only a kill ends a session.

/// Leads until it is killed, and says so, as CuratorElections.java does.
int run_candidate(const std::string& hosts) {
  const Client client(hosts, {.session_timeout = killed_timeout});
  const std::string pid = std::to_string(::getpid());
  LeaderElection election(client, "/killed", {.id = pid});
  std::cout << "waits " << pid << std::endl;
  const Leadership leadership = election.campaign();
  std::error_code taken;
  client.create("/occupied-killed", "", {.mode = zkclient::CreateMode::ephemeral}, {}, taken);
  std::cout << (taken ? "overlap " : "leads ") << pid << std::endl;
  std::string nothing;
  std::getline(std::cin, nothing);
  return EXIT_SUCCESS;
}

TEST(ElectionInterop, OneLeaderAtATimeThroughRandomKills) {
  if (!Curator::installed()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  const int kills = std::getenv("ZKRECIPES_SOAK") != nullptr ? 50 : 3;
  const char* given = std::getenv("ZKRECIPES_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::cout << "seed " << seed << " (ZKRECIPES_SEED)\n";
  std::minstd_rand random(seed);
  const Curator program;
  zktesting::Server server;
  const Client client(server.connect_string(), {.session_timeout = 30s});
  const LeaderElection observer(client, "/killed");

  Box<pid_t> leaders;
  Box<std::string> waiting;
  std::array<std::unique_ptr<Process>, 4> crew;  // The first half is ours.
  const auto on_line = [&](const std::string& line) {
    if (line.starts_with("leads ")) {
      leaders.put(std::stoi(line.substr(6)));
    } else if (line.starts_with("waits ")) {
      waiting.put(line);
    } else {
      ADD_FAILURE() << "a candidate says: " << line;
    }
  };
  const std::string timeout = std::to_string(killed_timeout.count());
  const auto start = [&](std::size_t i) {
    std::vector<std::string> ours{"/proc/self/exe", "--candidate", server.connect_string()};
    crew[i] = nullptr;
    crew[i] = std::make_unique<Process>(
        i < crew.size() / 2 ? ours : program.command("candidate", server.connect_string(), timeout), on_line);
  };
  for (const std::size_t i :
       {2U, 3U, 0U, 1U}) {  // Curator's first: ours start so quickly that they would be the leaders.
    start(i);
    (void)waiting.take();
  }

  std::array<int, 2> led{};
  pid_t leader = 0;
  for (int i = 0; i < kills; ++i) {
    if (leader == 0) {
      leader = leaders.take();
      const auto seen = observer.wait_for_leader({.ready = false}, {.deadline = soon()});
      EXPECT_EQ(seen.id, std::to_string(leader)) << "all of them see the same leader";
    }
    const auto index = [&](pid_t pid) {
      const auto found = std::find_if(crew.begin(), crew.end(), [&](const auto& one) { return one->pid() == pid; });
      return static_cast<std::size_t>(found - crew.begin());
    };
    const std::size_t leading = index(leader);
    ASSERT_LT(leading, crew.size());
    const std::size_t victim = random() % 4 != 0 ? leading : random() % crew.size();
    crew[victim]->kill();
    if (victim == leading) {
      ++led[leading < crew.size() / 2 ? 0 : 1];
      leader = 0;
    }
    start(victim);
  }
  if (leader == 0) (void)leaders.take();
  EXPECT_TRUE(leaders.empty()) << "nobody leads beside the last one";
  std::cout << "killed while leading: " << led[0] << " of ours, " << led[1] << " of Curator's\n";
  for (const auto& one : crew)
    one->kill();
}

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--candidate") return zkrecipes::run_candidate(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
