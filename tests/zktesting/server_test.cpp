#include "zktesting/server.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "testing_support.hpp"
#include "zktesting/detail/server_process.hpp"
#include "zktesting/ensemble.hpp"

namespace zktesting {
namespace {

namespace fs = std::filesystem;

/// Sets an environment variable for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class Scratch {
 public:
  Scratch() {
    std::string pattern = "/tmp/server-test-XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Scratch() { fs::remove_all(path); }
  fs::path path;
};

bool process_exists(int pid) { return fs::exists("/proc/" + std::to_string(pid)); }

bool serves(const Server& server) {
  return error_of([&] { std::ignore = server.four_letter_word("srvr"); }).empty();
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(Server, ServesWhenTheConstructorReturnsAndLeavesNothing) {
  int pid = 0;
  fs::path folder;
  {
    const auto begin = Clock::now();
    Server server;
    std::cout << "start-up: " << (Clock::now() - begin) / 1ms << " ms\n";
    pid = server.pid();
    folder = server.directory();
    EXPECT_TRUE(server.running());
    EXPECT_TRUE(process_exists(pid));
    EXPECT_TRUE(folder.filename().string().starts_with("zktesting-"));
    EXPECT_TRUE(server.address().starts_with("127."));
    EXPECT_EQ(server.connect_string(), server.address() + ":" + std::to_string(server.port()));
    EXPECT_EQ(connect_to(server.connect_string()).create("/a", "x", WireClient::persistent), 0);
    EXPECT_NE(server.log().find("binding to port"), std::string::npos) << server.log();
  }
  EXPECT_FALSE(process_exists(pid));
  EXPECT_FALSE(fs::exists(folder));
}

TEST(Server, UsesTmpdir) {
  const Scratch scratch;
  const Environment tmpdir("TMPDIR", scratch.path);
  {
    const Server server;
    EXPECT_EQ(server.directory().parent_path(), scratch.path);
  }
  EXPECT_EQ(entries(scratch.path), 0u);
}

TEST(Server, KeepsDataAndSessionsOverARestart) {
  Server server;
  const auto address = server.connect_string();
  WireClient client = connect_to(address);
  ASSERT_EQ(client.create("/kept", "data", WireClient::persistent), 0);
  ASSERT_EQ(client.create("/mine", "", WireClient::ephemeral), 0);
  const int pid = server.pid();

  server.restart();

  EXPECT_NE(server.pid(), pid);
  EXPECT_EQ(server.connect_string(), address);
  WireClient again = connect_to(address, 20s, client.session());
  ASSERT_TRUE(again.connected());
  EXPECT_EQ(again.get_data("/kept"), "data");
  EXPECT_EQ(again.exists("/mine"), 0);
}

TEST(Server, StopsAndStarts) {
  Server server;
  ASSERT_EQ(connect_to(server.connect_string()).create("/kept", "", WireClient::persistent), 0);
  server.stop();
  EXPECT_FALSE(server.running());
  EXPECT_EQ(server.pid(), 0);
  EXPECT_FALSE(serves(server));
  server.stop();
  EXPECT_NE(error_of([&] { server.pause(); }).find("does not run"), std::string::npos);
  server.resume();
  server.start();
  const int pid = server.pid();
  server.start();
  EXPECT_EQ(server.pid(), pid);
  EXPECT_EQ(connect_to(server.connect_string()).exists("/kept"), 0);
}

TEST(Server, StopsAPausedServerGracefully) {
  Server server;
  bool in_time = false;  // Before it is killed, after 10 s, which a busy machine may need: not every time.
  for (int attempt = 0; attempt < 5 && !in_time; ++attempt) {
    server.start();
    server.pause();
    const auto begin = Clock::now();
    server.stop();
    in_time = Clock::now() - begin < 9s;
    EXPECT_FALSE(server.running());
  }
  EXPECT_TRUE(in_time);
}

TEST(Server, NoticesThatItsProcessWasKilled) {
  Server server;
  ::kill(server.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !server.running(); }));
  EXPECT_EQ(server.pid(), 0);
  server.kill();
  server.start();
  EXPECT_TRUE(serves(server));
}

TEST(Server, ForgetsEverythingWhenWiped) {
  Server server;
  const auto address = server.connect_string();
  ASSERT_EQ(connect_to(address).create("/gone", "", WireClient::persistent), 0);
  server.restart_wiped();
  EXPECT_EQ(server.connect_string(), address);
  EXPECT_EQ(connect_to(address).exists("/gone"), WireClient::no_node);
}

TEST(Server, AnswersNobodyWhilePaused) {
  Server server;
  WireClient client = connect_to(server.connect_string());
  server.pause();
  EXPECT_TRUE(server.running());
  EXPECT_THROW(WireClient(detail::parse_endpoint(server.connect_string()), 20s, 200ms), Error);
  const auto xid = client.send(3, WireClient::path_body("/", false));
  server.resume();
  EXPECT_EQ(client.receive(xid), 0);
}

TEST(Server, CountsWhatItHas) {
  Server server;
  const auto nodes = server.znode_count();
  EXPECT_TRUE(eventually([&] { return server.connection_count() == 0; }));
  WireClient client = connect_to(server.connect_string());
  ASSERT_EQ(client.create("/e", "", WireClient::ephemeral), 0);
  ASSERT_EQ(client.create("/p", "", WireClient::persistent), 0);
  ASSERT_EQ(client.exists("/e", true), 0);
  EXPECT_EQ(server.znode_count(), nodes + 2);
  EXPECT_EQ(server.ephemeral_count(), 1u);
  EXPECT_EQ(server.watch_count(), 1u);
  EXPECT_TRUE(eventually([&] { return server.connection_count() == 1; }));
  EXPECT_EQ(server.stats()["zk_server_state"], "standalone");
  EXPECT_NE(server.four_letter_word("srvr").find("Mode: standalone"), std::string::npos);
  EXPECT_NE(error_of([&] { std::ignore = server.four_letter_word("hello"); }), "");
}

TEST(Server, HonoursItsOptions) {
  ServerOptions options;
  options.min_session_timeout = 3s;
  options.config["jute.dummy"] = "1";
  options.jvm_flags = {"-Djute.maxbuffer=4096"};
  const Server server(options);
  EXPECT_EQ(connect_to(server.connect_string(), 1s).session_timeout(), 3s);
  WireClient client = connect_to(server.connect_string());
  EXPECT_THROW(client.create("/big", std::string(5000, 'x'), WireClient::persistent), Error);
}

TEST(Server, TwoAtOnceAreStrangers) {
  Server one;
  Server two;
  EXPECT_NE(one.address(), two.address());
  ASSERT_EQ(connect_to(one.connect_string()).create("/one", "", WireClient::persistent), 0);
  EXPECT_EQ(connect_to(two.connect_string()).exists("/one"), WireClient::no_node);
  // Neither guard may hold the other's socket open: this end must be seen while `two` lives.
  const int pid = one.pid();
  one = Server();
  EXPECT_FALSE(process_exists(pid));
  EXPECT_TRUE(serves(one));
  EXPECT_TRUE(serves(two));
}

TEST(Server, InheritsNoDescriptorOfOurs) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // without close-on-exec
  const Server server;
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the end of the stream";
  ::close(ends[0]);
}

TEST(Server, RefusesBadOptions) {
  ServerOptions bad;
  bad.config["clientPort"] = "2181";
  EXPECT_NE(error_of([&] { Server{bad}; }).find("clientPort"), std::string::npos);
  bad = {};
  bad.config["a"] = "b\nclientPort=1";
  EXPECT_NE(error_of([&] { Server{bad}; }).find("line break"), std::string::npos);
  bad = {};
  bad.tick = -1ms;
  EXPECT_NE(error_of([&] { Server{bad}; }).find("tick"), std::string::npos);
  bad = {};
  bad.min_session_timeout = 2min;
  EXPECT_NE(error_of([&] { Server{bad}; }).find("max_session_timeout"), std::string::npos);
  bad = {};
  bad.jvm_flags = {"Main"};
  EXPECT_NE(error_of([&] { Server{bad}; }).find("flag"), std::string::npos);
}

TEST(Server, NamesThePackageOfWhatIsMissing) {
  const Scratch scratch;
  const char* chosen = std::getenv("ZKRECIPES_JARS");
  const fs::path jars = chosen != nullptr ? chosen : "/usr/share/java";
  {
    const Environment java("ZKRECIPES_JAVA", "/nowhere/java");
    EXPECT_NE(error_of([] { Server{}; }).find("default-jre-headless"), std::string::npos);
  }
  {
    const Environment path("ZKRECIPES_JARS", scratch.path);
    EXPECT_NE(error_of([] { Server{}; }).find("zookeeper.jar not found: install libzookeeper-java"), std::string::npos);
    for (const char* jar : {"zookeeper.jar", "zookeeper-jute.jar", "slf4j-api.jar"}) {
      fs::create_symlink(jars / jar, scratch.path / jar);
    }
    EXPECT_NE(error_of([] { Server{}; }).find("install libdropwizard-metrics-java"), std::string::npos);
    fs::create_symlink(jars / "metrics-core.jar", scratch.path / "metrics-core.jar");
    EXPECT_NE(error_of([] { Server{}; }).find("install libsnappy-java"), std::string::npos);
    fs::create_symlink(jars / "snappy-java.jar", scratch.path / "snappy-java.jar");
    EXPECT_TRUE(serves(Server())) << "slf4j-simple.jar is optional";
  }
}

TEST(Server, FindsJavaInThePathOnly) {
  const Environment path("PATH", "/nowhere:relative");
  const auto text = error_of([] { Server{}; });
  EXPECT_NE(text.find("install default-jre-headless"), std::string::npos) << text;
}

TEST(Server, AnArchiveOfClassesThatIsNoneMakesNoDifference) {
  const Scratch scratch;
  const fs::path file = scratch.path / "classes";
  const Environment archive("ZKRECIPES_CLASS_ARCHIVE", file);
  EXPECT_TRUE(serves(Server())) << "a file that is not there";
  std::ofstream{file};
  EXPECT_TRUE(serves(Server())) << "an empty file";
  std::ofstream(file) << "these are no classes";
  EXPECT_TRUE(serves(Server())) << "a file of another kind";
}

TEST(Server, ProbesOfABusyServerGetEverMoreTime) {
  EXPECT_EQ(detail::probe_timeout(0s), 150ms);
  EXPECT_EQ(detail::probe_timeout(500ms), 150ms);
  EXPECT_EQ(detail::probe_timeout(20s), 5s) << "never more than a quarter beyond the time in which it could answer";
}

TEST(Server, ShowsItsLogWhenAnExceptionEndsItsLife) {
  const auto shown_when = [](bool throws) {
    ::testing::internal::CaptureStderr();
    try {
      const Server server;
      if (throws) throw std::runtime_error("a test went wrong");
    } catch (const std::runtime_error&) {
    }
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string shown = shown_when(true);
  EXPECT_NE(shown.find("the end of the log of the server on 127."), std::string::npos) << shown;
  EXPECT_GT(std::count(shown.begin(), shown.end(), '\n'), 5) << shown;
  EXPECT_EQ(shown_when(false), "");
}

TEST(Server, TellsInTheEndThatItWasKilledByOthers) {
  ::testing::internal::CaptureStderr();
  {
    const Server server;
    ::kill(server.pid(), SIGKILL);
    EXPECT_TRUE(eventually([&] { return !server.running(); }));
  }
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(shown.find("which has ended by itself with status 137:"), std::string::npos) << shown;
}

TEST(Server, AFailedStartTellsTheLogAndLeavesNothing) {
  const Scratch scratch;
  const Environment tmpdir("TMPDIR", scratch.path);
  ServerOptions options;
  options.config["tickTime"] = "nonsense";
  const auto text = error_of([&] { Server{options}; });
  EXPECT_NE(text.find("ended during its start"), std::string::npos) << text;
  EXPECT_NE(text.find("nonsense"), std::string::npos) << text;
  EXPECT_EQ(entries(scratch.path), 0u);
}

TEST(Server, AStartThatTakesTooLongFailsAndLeavesNothing) {
  const Scratch scratch;
  const Environment tmpdir("TMPDIR", scratch.path);
  ServerOptions options;
  options.start_timeout = 1ms;
  // It never serves: it waits until that file is gone.
  options.jvm_flags = {"-XX:+UnlockDiagnosticVMOptions", "-XX:+PauseAtStartup", "-XX:PauseAtStartupFile=/dev/null"};
  EXPECT_NE(error_of([&] { Server{options}; }).find("does not serve after 1 ms"), std::string::npos);
  EXPECT_EQ(entries(scratch.path), 0u);
}

/// A server that was told to use one port for two purposes ends at once.
TEST(Server, ThePortsOfAServerAreAllDifferent) {
  for (int round = 0; round < 30'000; ++round) {
    const auto [client, quorum, election] = detail::free_ports<3>("127.0.0.1");
    ASSERT_NE(client, quorum);
    ASSERT_NE(client, election);
    ASSERT_NE(quorum, election);
  }
}

TEST(Server, CanBeKilledTheMomentItIsLaunched) {
  const std::string address = detail::random_loopback_address();
  detail::ServerProcess process(
      {.options = {}, .endpoint = {address, detail::free_ports<1>(address)[0]}, .members = {}, .id = 0});
  for (int round = 0; round < 30; ++round) {
    const auto begin = Clock::now();
    process.launch();
    process.kill();
    EXPECT_FALSE(process.running());
    EXPECT_LT(Clock::now() - begin, 25s) << "its end was missed, and waited for";
  }
}

/// How a process that owns servers may end without running a destructor; "ensemble" is "killed" with an ensemble.
class Crash : public testing::TestWithParam<const char*> {};

[[noreturn]] void report_and_crash(int report, const Server& server, const Server& another, const std::string& how) {
  const std::string text = std::to_string(server.pid()) + " " + std::to_string(another.pid()) + " " +
                           server.directory().string() + " " + another.directory().string() + "\n";
  if (::write(report, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    ::_exit(2);
  }
  if (how == "abort") {
    ::signal(SIGABRT, SIG_DFL);
    ::abort();
  }
  if (how == "exit") {
    ::_exit(0);
  }
  for (;;) {
    ::pause();
  }
}

[[noreturn]] void own_servers_and_crash(int report, const std::string& how) {
  if (how == "ensemble") {
    Ensemble ensemble;
    report_and_crash(report, ensemble.server(0), ensemble.server(1), how);
  }
  Server server;
  const Server another;
  if (how == "paused") {
    server.pause();
  }
  if (how == "stopped") {
    server.stop();
  }
  report_and_crash(report, server, another, how);
}

TEST_P(Crash, LeavesNeitherProcessNorFolder) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    own_servers_and_crash(ends[1], GetParam());
  }
  ::close(ends[1]);
  std::string text;
  for (char byte = 0; ::read(ends[0], &byte, 1) == 1 && byte != '\n';) {
    text += byte;
  }
  ::close(ends[0]);
  int pid1 = -1;
  int pid2 = -1;
  std::string folder1;
  std::string folder2;
  std::istringstream(text) >> pid1 >> pid2 >> folder1 >> folder2;
  EXPECT_TRUE(fs::path(folder2).filename().string().starts_with("zktesting-")) << text;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return pid1 == 0 || !process_exists(pid1); }));
  EXPECT_TRUE(eventually([&] { return !process_exists(pid2); }));
  EXPECT_TRUE(eventually([&] { return !fs::exists(folder1) && !fs::exists(folder2); }));
}

INSTANTIATE_TEST_SUITE_P(Server, Crash, testing::Values("killed", "abort", "exit", "paused", "stopped", "ensemble"),
                         [](const auto& crash) { return std::string(crash.param); });

}  // namespace
}  // namespace zktesting
