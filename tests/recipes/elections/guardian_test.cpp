// The guardian: one test for each row of the table "What goes wrong" in <zkrecipes/guardian.hpp>, and what it promises.
// The process that dies is this same program, started with "--worker".

#include <zkrecipes/guardian.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <thread>

#include <zkclient/error.hpp>
#include <zkclient/features.hpp>
#include <zkclient/runtime.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zktesting/expire.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/tls_keys.hpp"
#include "tests/support/words.hpp"

extern char** environ;

namespace zkrecipes {
namespace {

using namespace testkit::words;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Gone, or dead and waiting for its parent to notice.
bool ended(int process) {
  const std::string stat = file_text("/proc/" + std::to_string(process) + "/stat");
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

/// A program that this process starts, which inherits what is not closed on exec.
pid_t start_child(const char* program, const char* argument) {
  std::string name(program);
  std::string value(argument);
  std::array<char*, 3> argv{name.data(), value.data(), nullptr};
  pid_t process = 0;
  return ::posix_spawnp(&process, program, nullptr, nullptr, argv.data(), environ) == 0 ? process : -1;
}

/// Leads, holds a lock, has a child, and says which process its guardian is, and its child. A line on its input: it
/// loses its session, leads again with the next one, and says so.
int run_worker(const std::string& hosts, std::chrono::milliseconds timeout, std::optional<zkclient::TlsOptions> tls) {
  const auto tasks = std::make_shared<std::atomic<int>>(0);
  const auto in_a_thread = [tasks](std::function<void()> task) {
    ++*tasks;
    std::thread([tasks, task = std::move(task)] {
      task();
      --*tasks;
    }).detach();
  };
  // The guardian is told of a session by a task that was begun before anybody has a lease in it.
  const auto guardian_is_told = [&] { return eventually([&] { return *tasks == 0; }); };
  zkclient::Runtime runtime({.callback_executor = in_a_thread});
  const Client client(runtime, hosts,
                      {.session_timeout = timeout, .server_tick = testkit::server_tick, .tls = std::move(tls)});
  const Guardian guardian(client, hosts);
  LeaderElection election(client, "/election", {.id = "worker"});
  Mutex mutex(client, "/lock");
  Leadership leadership = election.campaign({.deadline = soon()});
  const Lease lease = mutex.acquire({.deadline = soon()});
  if (!guardian_is_told()) return EXIT_FAILURE;
  std::cout << guardian.process_id() << std::endl << start_child("sleep", "600") << std::endl;
  for (std::string order; std::getline(std::cin, order);) {
    const auto session = client.session();
    zktesting::expire(hosts, session.id(), session.credentials().password);
    if (!stopped(session.lost())) return EXIT_FAILURE;
    leadership = election.campaign({.deadline = soon()});
    if (!guardian_is_told()) return EXIT_FAILURE;
    std::cout << "again" << std::endl;
  }
  return EXIT_SUCCESS;
}

class Worker {
 public:
  explicit Worker(const std::string& hosts, std::chrono::milliseconds timeout = 60s,
                  const std::optional<zkclient::TlsOptions>& tls = {}) {
    std::array<int, 2> input{};
    std::array<int, 2> output{};
    if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) throw std::bad_alloc();
    std::vector<std::string> arguments{"/proc/self/exe", "--worker", hosts, std::to_string(timeout.count())};
    if (tls)
      arguments.insert(arguments.end(), {tls->ca_file, tls->certificate_file, tls->key_file, tls->key_passphrase});
    std::vector<char*> argv;
    for (std::string& argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    output_ = output[0];
    guardian_ = std::stoi(hear());
    child_ = std::stoi(hear());
  }
  ~Worker() {
    if (pid_ != 0) kill();
    ::kill(child_, SIGKILL);
    ::close(input_);
    ::close(output_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void kill() {
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int finish() {
    ::close(std::exchange(input_, -1));
    return wait();
  }
  int guardian() const { return guardian_; }
  int child() const { return child_; }
  void lose_the_session() {
    EXPECT_EQ(::write(input_, "\n", 1), 1);
    EXPECT_EQ(hear(), "again");
  }

 private:
  std::string hear() const {
    std::string line;
    char byte = 0;
    while (::read(output_, &byte, 1) == 1 && byte != '\n')
      line += byte;
    return line;
  }

  pid_t pid_ = 0;
  int input_ = -1;
  int output_ = -1;
  int guardian_ = 0;
  int child_ = 0;
};

class GuardianTest : public testing::Test {
 protected:
  /// Sooner than any worker's session of 60 s ends by itself: its client was heard of in the last ten.
  static constexpr auto at_once = 45s;

  static void SetUpTestSuite() { server_ = new zktesting::Server(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static zktesting::Server& server() { return *server_; }
  static std::string hosts() { return server().connect_string(); }
  Client& client() { return client_; }
  GuardianTest() { client_.connect({.deadline = soon()}); }

 private:
  static inline zktesting::Server* server_ = nullptr;
  Client client_{hosts(), {.session_timeout = 30s}};
};

TEST_F(GuardianTest, KilledProcessLeavesItsPlaceAtOnce) {
  Worker worker(hosts());
  LeaderElection election(client(), "/election", {.id = "next"});
  Mutex mutex(client(), "/lock");
  EXPECT_EQ(election.leader()->id, "worker");
  EXPECT_FALSE(mutex.try_acquire());
  const auto killed = SteadyClock::now();
  worker.kill();
  const Leadership leadership = election.campaign({.deadline = soon()});
  const Lease lease = mutex.acquire({.deadline = soon()});
  const auto took = SteadyClock::now() - killed;
  std::cout << "took over after " << took / 1ms << " ms\n";
  EXPECT_LT(took, at_once) << "the session timeout is 60 s";
  EXPECT_TRUE(eventually([&] { return ended(worker.guardian()); })) << "its work is done";
  EXPECT_FALSE(ended(worker.child())) << "what it inherited kept nothing open";
}

TEST_F(GuardianTest, OnlyTheSessionOfTheDeadProcessIsClosed) {
  LeaderElection other(client(), "/other");
  const Leadership leadership = other.campaign({.deadline = soon()});
  const Guardian guardian(client(), hosts());
  Worker worker(hosts());
  worker.kill();
  EXPECT_TRUE(eventually([&] { return ended(worker.guardian()); }));
  client().sync("/");
  EXPECT_TRUE(leadership.valid());
  EXPECT_FALSE(ended(guardian.process_id()));
}

TEST_F(GuardianTest, HelperHasNothingOfItsOwnersOpen) {
  const Guardian guardian(client(), hosts());
  const std::filesystem::path descriptors("/proc/" + std::to_string(guardian.process_id()) + "/fd");
  const auto open = [&] {
    std::error_code error;
    std::filesystem::directory_iterator all(descriptors, error);
    return error ? -1 : std::distance(begin(all), end(all));
  };
  if (open() == -1) GTEST_SKIP() << "only root may look";
  EXPECT_TRUE(eventually([&] { return open() == 3; })) << "the socket, and no output";
}

TEST_F(GuardianTest, NormalEndOfTheProcess) {
  Worker worker(hosts());
  EXPECT_EQ(worker.finish(), EXIT_SUCCESS);
  EXPECT_TRUE(eventually([&] { return ended(worker.guardian()); }));
  LeaderElection election(client(), "/election");
  // A client's end does not wait for a server that is slow to end the session.
  EXPECT_TRUE(eventually([&] { return !election.leader(); }, at_once));
}

TEST_F(GuardianTest, TheSessionOutlivesItsGuardian) {
  LeaderElection election(client(), "/election");
  const Leadership leadership = election.campaign({.deadline = soon()});
  int process = 0;
  {
    const Guardian guardian(client(), hosts());
    client().sync("/");
    process = guardian.process_id();
    EXPECT_FALSE(ended(process));
  }
  EXPECT_TRUE(ended(process));
  client().sync("/");
  EXPECT_TRUE(leadership.valid());
  EXPECT_EQ(election.leader()->term, leadership.token());
}

TEST_F(GuardianTest, HelperDies) {
  const std::int64_t session = client().connect({.deadline = soon()}).id();
  const Guardian guardian(client(), hosts());
  ::kill(guardian.process_id(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return ended(guardian.process_id()); }));
  LeaderElection election(client(), "/election");
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
  // What it is told goes nowhere, and harms nobody.
  zktesting::expire(hosts(), session, client().session().credentials().password);
  EXPECT_TRUE(eventually([&] { return client().session().id() != session && client().session().id() != 0; },
                         testkit::patience));
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
}

TEST_F(GuardianTest, HelperIsStopped) {
  LeaderElection election(client(), "/election");
  const Leadership leadership = election.campaign({.deadline = soon()});
  int process = 0;
  {
    const Guardian guardian(client(), hosts());
    process = guardian.process_id();
    ::kill(process, SIGSTOP);
  }
  EXPECT_TRUE(ended(process)) << "the destructor does not wait for it to go on";
  client().sync("/");
  EXPECT_TRUE(leadership.valid());
}

// `zkr` and supervisors send TERM to all that a dead process leaves behind, sooner than the helper can close the session.
TEST_F(GuardianTest, HelperDoesItsWorkThoughItIsToldToEnd) {
  zktesting::Server own;
  Worker worker(own.connect_string(), 60s);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT})
    ::kill(worker.guardian(), signal);
  worker.kill();
  const Client next(own.connect_string());
  EXPECT_TRUE(Mutex(next, "/lock").acquire({.deadline = soon()}).valid());
  EXPECT_EQ(own.log().find("Expiring session"), std::string::npos) << "it was closed";
}

TEST_F(GuardianTest, SessionLost) {
  Worker worker(hosts());
  worker.lose_the_session();
  LeaderElection election(client(), "/election");
  EXPECT_EQ(election.leader()->id, "worker");
  worker.kill();
  const auto killed = SteadyClock::now();
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
  EXPECT_LT(SteadyClock::now() - killed, at_once) << "the helper knew the new session, whose timeout is 60 s";
}

TEST_F(GuardianTest, TheFirstServerDoesNotAnswer) {
  Worker worker("127.0.0.1:1," + hosts());
  worker.kill();
  LeaderElection election(client(), "/election");
  const auto killed = SteadyClock::now();
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
  EXPECT_LT(SteadyClock::now() - killed, at_once);
}

TEST_F(GuardianTest, NoServerAnswers) {
  zktesting::Server own;
  Worker worker(own.connect_string(), 8s);
  own.kill();  // At once: the worker must not lose its session first.
  const auto killed = SteadyClock::now();
  worker.kill();
  EXPECT_FALSE(ended(worker.guardian()));
  EXPECT_TRUE(eventually([&] { return ended(worker.guardian()); })) << "it does not try for ever";
  EXPECT_GT(SteadyClock::now() - killed, 1s) << "but for a while";
}

TEST_F(GuardianTest, ServerAnswersLater) {
  zktesting::Server own;
  Worker worker(own.connect_string());
  own.stop();
  worker.kill();
  own.start();
  const auto up = SteadyClock::now();
  const Client next(own.connect_string(), {.session_timeout = 30s});
  LeaderElection election(next, "/election");
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
  EXPECT_LT(SteadyClock::now() - up, at_once) << "the helper has tried again: the session's timeout is 60 s";
}

TEST_F(GuardianTest, ClientClosed) {
  Client own(hosts(), {.session_timeout = 30s});
  own.connect({.deadline = soon()});
  const Guardian guardian(own, hosts());
  own.close();
  EXPECT_TRUE(eventually([&] { return ended(guardian.process_id()); }));
}

TEST_F(GuardianTest, NothingIsSaidInArgumentsAndEnvironment) {
  const Guardian guardian(client(), hosts());
  const auto session = client().connect({.deadline = soon()});
  std::string password;
  for (const char byte : session.credentials().password) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", static_cast<unsigned char>(byte));
    password += text;
  }
  const std::string process = "/proc/" + std::to_string(guardian.process_id());
  const std::string only_its_name("zkrecipes-guardian\0", 19);
  EXPECT_TRUE(eventually([&] { return file_text(process + "/cmdline") == only_its_name; }));
  EXPECT_EQ(file_text(process + "/environ").find(password), std::string::npos);
}

// A guardian of `zkr` that ends what carries these ends its owner, and not this one, which has work to do then.
TEST_F(GuardianTest, HelperShedsTheMarksOfARunThatItsOwnerIsPartOf) {
  rlimit before{};
  ::getrlimit(RLIMIT_LOCKS, &before);
  if (before.rlim_max < 4711) GTEST_SKIP() << "the limit of file locks is lower than the mark";
  const rlimit mark{4711, before.rlim_max};
  ::setrlimit(RLIMIT_LOCKS, &mark);
  ::setenv("ZKR_IDS", "some-run", 1);
  ::setenv("RES_OPTIONS", "attempts:3", 1);
  const Guardian guardian(client(), hosts());
  ::setrlimit(RLIMIT_LOCKS, &before);
  ::unsetenv("ZKR_IDS");
  ::unsetenv("RES_OPTIONS");
  const auto limit = [&] {
    rlimit now{};
    ::prlimit(guardian.process_id(), RLIMIT_LOCKS, nullptr, &now);
    return now.rlim_cur;
  };
  EXPECT_TRUE(eventually([&] { return limit() == before.rlim_max; }));
  const std::string environment = "/proc/" + std::to_string(guardian.process_id()) + "/environ";
  EXPECT_TRUE(eventually([&] { return file_text(environment).find("some-run") == std::string::npos; }));
  if (file_text(environment).empty()) GTEST_SKIP() << "only root may look at the rest";
  EXPECT_NE(file_text(environment).find("RES_OPTIONS=attempts:3"), std::string::npos) << "its resolver reads that";
}

// The helper shows the client's certificate, and reads its key, which is locked by a passphrase.
TEST_F(GuardianTest, KilledProcessWithTlsLeavesItsPlaceAtOnce) {
  if (!zkclient::features().tls)
    GTEST_SKIP() << "this C client has no TLS; to run the test: scripts/test.sh --preset tls";
  const testkit::TlsKeys keys;
  zktesting::Server own(keys.server());
  Worker worker(own.secure_connect_string(), 60s, keys.client_with_passphrase());
  const Client next(own.connect_string(), {.session_timeout = 30s});
  LeaderElection election(next, "/election");
  EXPECT_EQ(election.leader()->id, "worker");
  worker.kill();
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
  EXPECT_EQ(own.log().find("Expiring session"), std::string::npos) << "it was closed";
  EXPECT_TRUE(eventually([&] { return ended(worker.guardian()); }));
}

// It must not hand the session's password to whoever listens at the address.
TEST_F(GuardianTest, HelperTrustsNoServerThatItsCaHasNotSigned) {
  if (!zkclient::features().tls)
    GTEST_SKIP() << "this C client has no TLS; to run the test: scripts/test.sh --preset tls";
  const testkit::TlsKeys keys;
  zktesting::Server own(keys.server());
  const std::string ca = keys.file("replaced.pem");
  std::filesystem::copy_file(keys.file("ca.pem"), ca);
  zkclient::TlsOptions tls = keys.client();
  tls.ca_file = ca;
  Worker worker(own.secure_connect_string(), 8s, tls);
  std::filesystem::copy_file(keys.file("other-ca.pem"), ca, std::filesystem::copy_options::overwrite_existing);
  worker.kill();
  EXPECT_TRUE(eventually([&] { return ended(worker.guardian()); }));
  EXPECT_TRUE(eventually([&] { return own.log().find("Expiring session") != std::string::npos; }))
      << "nobody closed it";
}

TEST_F(GuardianTest, HelperNotFound) {
  const std::size_t descriptors = testkit::descriptor_count();
  EXPECT_EQ(error_of([&] { Guardian(client(), hosts(), {.helper = "/nonexistent/guardian"}); }), Errc::system_error);
  EXPECT_EQ(error_of([&] { Guardian(client(), "a:b"); }), Errc::invalid_argument);
  EXPECT_EQ(testkit::descriptor_count(), descriptors);
}

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  ::setenv("ZKRECIPES_GUARDIAN", GUARDIAN, 1);  // The one that was just built.
  if (argc > 3 && std::string_view(argv[1]) == "--worker") {
    std::optional<zkclient::TlsOptions> tls;
    if (argc > 7) tls = zkclient::TlsOptions{argv[4], argv[5], argv[6], argv[7]};
    return zkrecipes::run_worker(argv[2], std::chrono::milliseconds(std::stol(argv[3])), std::move(tls));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
