// What becomes of the command and of all that it starts: signals, exit status, the end of its tree. No server: the test
// holds the lease. Each test runs with the walk of /proc alone, and, where we may make one, with a control group.
// ZKRECIPES_ROUNDS=number: of starts, of commands, and of whatever else is repeated to find a race.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "tests/zkr/harness.hpp"
#include "tests/zkr/rounds.hpp"
#include "tools/guardian/control_group.hpp"
#include "tools/guardian/orders.hpp"
#include "tools/zkr/run/cgroup.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

const bool nothing_is_left = (end_what_tests_leave(), true);

bool cgroup_possible() {
  const auto tried = Cgroup::make("zkr-test-" + std::to_string(::getpid()));
  if (tried) tried->remove();
  return tried.has_value();
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The folder that a front's control group is in, if it has one.
std::string cgroup_of(pid_t front) {
  const auto own = own_cgroup(text_of_file("/proc/self/mountinfo"), text_of_file("/proc/self/cgroup"));
  return own.value_or("/nowhere") + "/zkr-" + std::to_string(front);
}

class ProcessTreeTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("yes") && !cgroup_possible()) GTEST_SKIP() << "no writable cgroup of version 2 here";
  }
  RigSetup setup(Words options = {}, bool grant = true) const {
    options.insert(options.end(), {"--cgroup", GetParam()});
    return {.options = options, .grant = grant};
  }
  /// The command's tree is gone, the lease is given back, and the front ends like that.
  static void expect_end(Rig& rig, const std::string& how) {
    rig.expect_release_of_empty_tree();
    EXPECT_EQ(told(rig.await_end()), how);
  }
};

/// The last of several runs is told to end, and it does. (Between two runs the keeper has the command's output open.)
void expect_end_of_runs(Rig& rig) {
  rig.signal(SIGTERM);
  EXPECT_TRUE(rig.hand().await_release());
  rig.hand().confirm_release();
  EXPECT_EQ(told(rig.await_end()), killed_by(SIGTERM));
}

INSTANTIATE_TEST_SUITE_P(Walk, ProcessTreeTest, testing::Values("no"));
INSTANTIATE_TEST_SUITE_P(Cgroup, ProcessTreeTest, testing::Values("yes"));

TEST(ZkrCgroup, NameThatIsTakenIsNoHindrance) {
  if (!cgroup_possible()) GTEST_SKIP() << "no writable cgroup of version 2 here";
  const std::string name = "zkr-test-" + std::to_string(::getpid());
  const auto first = Cgroup::make(name);
  const auto second = Cgroup::make(name);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_NE(first->path(), second->path());
  first->remove();
  second->remove();
}

// ---- Exit status -------------------------------------------------------------------------------------------------

TEST_P(ProcessTreeTest, Z5ExitCodeIsPassedOnExactly) {
  for (const int code : {0, 1, 2, 79, 127, 255}) {
    Rig rig(puppet("exit " + std::to_string(code)), setup());
    expect_end(rig, exited(code));
  }
}

TEST_P(ProcessTreeTest, Z5SignalOfTheCommandIsPassedOnExactly) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGTERM, SIGINT, SIGPIPE, SIGUSR2}) {
    Rig rig(puppet("die " + std::to_string(signal)), setup());
    expect_end(rig, killed_by(signal));
  }
}

TEST(ZkrKeeper, FailureIsToldAsOne) {
  const auto close = [](std::FILE* pipe) { EXPECT_EQ(told(::pclose(pipe)), exited(70)); };
  const std::unique_ptr<std::FILE, decltype(close)> output(
      ::popen((rig_program() + " /nowhere/at-all --report yes -- true 2>&1").c_str(), "r"), close);
  std::array<char, 256> line{};
  ASSERT_NE(std::fgets(line.data(), line.size(), output.get()), nullptr);
  EXPECT_STREQ(line.data(), "zkr: the test does not listen\n");
  ASSERT_NE(std::fgets(line.data(), line.size(), output.get()), nullptr);
  EXPECT_TRUE(std::string(line.data()).starts_with(R"({"reason":"failed","code":70,"signal":null,)")) << line.data();
  EXPECT_EQ(std::fgets(line.data(), line.size(), output.get()), nullptr) << line.data();
}

TEST_P(ProcessTreeTest, CommandThatIsNotThereGives127) {
  Rig rig({"/nowhere/at-all"}, setup());
  expect_end(rig, exited(127));
}

TEST_P(ProcessTreeTest, CommandThatMayNotBeRunGives126) {
  Folder folder;
  std::ofstream(folder / "plain") << "no program\n";
  Rig rig({folder / "plain"}, setup());
  expect_end(rig, exited(126));
}

TEST_P(ProcessTreeTest, CommandIsSearchedForInThePath) {
  Rig rig({"sh", "-c", "exit 5"}, setup());
  expect_end(rig, exited(5));
}

TEST_P(ProcessTreeTest, ScriptWithoutAFirstLineIsRunByTheShell) {
  Folder folder;
  std::ofstream(folder / "script") << "exit $#\n";
  ::chmod((folder / "script").c_str(), 0755);
  Rig rig({folder / "script", "a", "b"}, setup());
  expect_end(rig, exited(2));
}

TEST_P(ProcessTreeTest, Z55ReapedOrphansStealNoStatus) {
  Rig rig(puppet("orphans 300 exit 42"), setup());
  expect_end(rig, exited(42));
}

/// How the command ends that is given this number, as "CODE SIGNAL". One ending in nine is a signal.
std::string ending_of(std::size_t command) {
  constexpr std::array signals{SIGKILL, SIGTERM, SIGUSR2};
  if (command % 9 == 8) return "0 " + std::to_string(signals.at(command / 9 % signals.size()));
  return std::to_string(command % 256) + " 0";
}

// One keeper runs them all. Their orphans end while they end, and each is reaped by the same loop.
TEST_P(ProcessTreeTest, Z55EachOfManyShortCommandsKeepsItsStatus) {
  const Folder folder;
  const std::size_t wanted = rounds(60);
  std::string endings;
  Rig rig(puppet("take-ending orphans 3 end-as-taken"), setup({"--endings", folder / "endings"}));
  for (std::size_t command = 0; command < wanted; ++command) {
    endings += ending_of(command) + "\n";
    rig.type(ending_of(command) + "\n");
    ASSERT_TRUE(rig.hand().await_release()) << command;
    rig.hand().confirm_release();
    rig.next_run();
  }
  expect_end_of_runs(rig);
  EXPECT_EQ(text_of_file(folder / "endings"), endings);
}

/// As in a container: what is executed next is the first process of its namespace. Whose exit code is passed on.
void enter_namespace() {
  if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) ::_exit(250);
  const pid_t first = ::fork();
  if (first == 0) {
    ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) ::_exit(251);
    return;
  }
  ::close(STDOUT_FILENO);
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  int status = 0;
  ::waitpid(first, &status, 0);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 252);
}

TEST_P(ProcessTreeTest, FirstProcessOfANamespaceSaysTheSignalInItsCode) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may make the namespace";
  RigSetup container = setup();
  container.before_exec = enter_namespace;
  Rig rig(puppet("daemon [ pause ] say up pause"), container);
  ASSERT_TRUE(rig.lines().await("up"));
  Lease wanted = long_lease();
  wanted.revoke_asked = true;
  rig.hand().set(wanted);
  expect_end(rig, exited(80));

  Rig second(puppet("daemon [ pause ] die 15"), container);
  expect_end(second, exited(128 + SIGTERM));
}

// ---- Signals -----------------------------------------------------------------------------------------------------

TEST_P(ProcessTreeTest, Z1TermReachesTheCommandThenAllIsGoneAndReleased) {
  Rig rig(puppet("say up pause"), setup());
  ASSERT_TRUE(rig.lines().await("up"));
  rig.signal(SIGTERM);
  expect_end(rig, killed_by(SIGTERM));
}

TEST_P(ProcessTreeTest, Z2QuitIsForwardedAndTheFrontWaits) {
  Rig rig(puppet("signals say up read exit 3"), setup());
  ASSERT_TRUE(rig.lines().await("up"));
  rig.signal(SIGQUIT);
  ASSERT_TRUE(rig.lines().await("signal 03"));
  EXPECT_FALSE(rig.hand().released_now());
  rig.type("go\n");
  expect_end(rig, exited(3));
}

/// SIGCHLD is the front's own, SIGCONT acts on all states, and the stopping ones stop the front.
std::set<int> forwarded_signals() {
  std::set<int> all;
  for (int signal = 1; signal < NSIG; ++signal)
    all.insert(signal);
  for (const int signal : {SIGKILL, SIGSTOP, SIGCHLD, SIGCONT, 32, 33})
    all.erase(signal);
  return all;
}

TEST_P(ProcessTreeTest, Z3EachSignalArrivesOnce) {
  Rig rig(puppet("signals say up read exit 0"), setup());
  ASSERT_TRUE(rig.lines().await("up"));
  for (const int signal : forwarded_signals()) {
    rig.signal(signal);
    const std::string line = std::string("signal ") + (signal < 10 ? "0" : "") + std::to_string(signal);
    ASSERT_TRUE(rig.lines().await(line)) << signal;
  }
  rig.type("go\n");
  EXPECT_EQ(rig.lines().rest(), Words{"line go"});
  expect_end(rig, exited(0));
}

// ---- Standard error ------------------------------------------------------------------------------------------------

const Words told_by_usr2{"--on-revoke", "12", "--grace", "3600000"};

/// A line goes to standard error, and the command hears SIGUSR2. Nothing ends it for hours.
void make_it_say_something(Rig& rig) {
  ASSERT_TRUE(rig.lines().await("up"));
  Lease wanted = long_lease();
  wanted.timeout = 10h;
  wanted.revoke_asked = true;
  rig.hand().set(wanted);
  ASSERT_TRUE(rig.lines().await("signal 12"));
}

/// The signals between two such calls have been passed on by the second one.
void expect_signal_to_arrive(Rig& rig) {
  rig.signal(SIGUSR1);
  ASSERT_TRUE(rig.lines().await("signal 10"));
}

void fill(const Descriptor& pipe) {
  const int flags = ::fcntl(pipe.get(), F_GETFL);
  ::fcntl(pipe.get(), F_SETFL, flags | O_NONBLOCK);
  const std::string bytes(4096, '.');
  while (::write(pipe.get(), bytes.data(), bytes.size()) > 0) {
  }
  ::fcntl(pipe.get(), F_SETFL, flags);
}

std::string rest_of(const Descriptor& pipe) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = ::read(pipe.get(), buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(size));
  return text;
}

TEST_P(ProcessTreeTest, Z35StandardErrorThatNobodyReadsIsNoSignal) {
  PipeEnds errors;
  RigSetup deaf = setup(told_by_usr2);
  deaf.before_exec = [&errors] { ::dup2(errors.in.get(), STDERR_FILENO); };
  Rig rig(puppet("signals say up read exit 3"), deaf);
  errors.out.close();
  make_it_say_something(rig);
  expect_signal_to_arrive(rig);
  expect_signal_to_arrive(rig);
  rig.type("go\n");
  rig.expect_release_of_empty_tree();
  rig.lines().rest();
  const Words& all = rig.lines().all();
  EXPECT_EQ(std::count(all.begin(), all.end(), "signal 13"), 0) << "SIGPIPE";
  EXPECT_EQ(told(rig.await_end()), exited(80));
}

TEST_P(ProcessTreeTest, Z35StandardErrorBeyondTheLimitOfFilesIsNoSignal) {
  constexpr rlim_t most = 1 << 20;
  const Folder folder;
  const Descriptor file(::open((folder / "errors").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), most), 0);
  RigSetup limited = setup(told_by_usr2);
  limited.before_exec = [&file] {
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::dup2(file.get(), STDERR_FILENO);
  };
  Rig rig(puppet("signals say up read exit 3"), limited);
  make_it_say_something(rig);
  expect_signal_to_arrive(rig);
  expect_signal_to_arrive(rig);
  rig.type("go\n");
  rig.expect_release_of_empty_tree();
  rig.lines().rest();
  const Words& all = rig.lines().all();
  EXPECT_EQ(std::count(all.begin(), all.end(), "signal 25"), 0) << "SIGXFSZ";
  EXPECT_EQ(told(rig.await_end()), exited(80));
}

TEST_P(ProcessTreeTest, FullStandardErrorHindersNothing) {
  PipeEnds errors;
  fill(errors.in);
  RigSetup full = setup(told_by_usr2);
  full.before_exec = [&errors] { ::dup2(errors.in.get(), STDERR_FILENO); };
  Rig rig(puppet("signals close 2 say up read exit 3"), full);
  make_it_say_something(rig);
  expect_signal_to_arrive(rig);
  expect_signal_to_arrive(rig);
  errors.in.close();
  std::array<char, 65536> read{};
  ASSERT_GT(::read(errors.out.get(), read.data(), read.size()), 0);
  rig.type("go\n");
  rig.expect_release_of_empty_tree();
  EXPECT_EQ(told(rig.await_end()), exited(80));
  EXPECT_TRUE(rest_of(errors.out).ends_with("zkr: 1 message is missing here: standard error had no room\n"));
}

TEST_P(ProcessTreeTest, Z47NoSignalArrivesUnasked) {
  for (std::size_t start = rounds(10); start > 0; --start) {
    Rig rig(puppet("signals say up read"), setup());
    rig.type("go\n");
    EXPECT_EQ(rig.lines().rest(), (Words{"up", "line go"}));
    expect_end(rig, exited(0));
  }
}

TEST_P(ProcessTreeTest, Z50SignalToAllOfUsLetsTheCommandEndUnderTheLease) {
  RigSetup own_group = setup();
  own_group.before_exec = [] { ::setpgid(0, 0); };
  Rig rig(puppet("signals say up read read exit 0"), own_group);
  ASSERT_TRUE(rig.lines().await("up"));
  ::kill(rig.keeper(), SIGTERM);
  ::kill(rig.front(), SIGTERM);
  ASSERT_TRUE(rig.lines().await("signal 15"));
  rig.type("still here\n");
  ASSERT_TRUE(rig.lines().await("line still here"));
  EXPECT_FALSE(rig.hand().released_now());
  rig.type("go\n");
  expect_end(rig, exited(0));
}

TEST_P(ProcessTreeTest, SignalThatOurCallerIgnoresEndsNoFurtherRun) {
  RigSetup nohup = setup({"--again", "yes"});
  nohup.before_exec = [] { ::signal(SIGHUP, SIG_IGN); };
  Rig rig(puppet("say up read exit 0"), nohup);
  ASSERT_TRUE(rig.lines().await("up"));
  rig.signal(SIGHUP);
  await_signals_taken(rig.front());
  rig.type("go\n");
  ASSERT_TRUE(rig.hand().await_release());
  rig.hand().confirm_release();
  rig.next_run();
  ASSERT_TRUE(rig.lines().await("up"));
  expect_end_of_runs(rig);
}

TEST_P(ProcessTreeTest, SignalThatIsNotMeantToEndUsEndsNoWaitForAnotherRun) {
  Rig rig(puppet("say up read exit 0"), setup({"--again", "yes"}, false));
  rig.signal(SIGUSR1);
  await_signals_taken(rig.front());
  rig.hand().set(long_lease());
  ASSERT_TRUE(rig.lines().await("up"));
  expect_end_of_runs(rig);
}

TEST_P(ProcessTreeTest, Z12SignalWhileWaitingWithdrawsAndKills) {
  Rig rig(puppet("say up"), setup({}, false));
  rig.signal(SIGINT);
  expect_end(rig, killed_by(SIGINT));
  EXPECT_EQ(rig.lines().rest(), Words{});
}

TEST_P(ProcessTreeTest, Z13TermBetweenGrantAndForkStartsNothing) {
  Rig rig(puppet("say up"), setup({}, false));
  ::kill(rig.keeper(), SIGSTOP);
  await([&] { return state_of(rig.keeper()) == 'T'; });
  rig.signal(SIGTERM);
  await_signals_taken(rig.front());
  rig.hand().set(long_lease());
  ::kill(rig.keeper(), SIGCONT);
  expect_end(rig, killed_by(SIGTERM));
  EXPECT_EQ(rig.lines().rest(), Words{});
}

TEST_P(ProcessTreeTest, Z16SignalsInTheLastMomentHarmNothing) {
  for (std::size_t run = rounds(20); run > 0; --run) {
    Rig rig(puppet("ignore 10 say up exit 6"), setup());
    ASSERT_TRUE(rig.lines().await("up"));
    rig.signal(SIGUSR1);
    expect_end(rig, exited(6));
  }
}

// ---- What the command gets ---------------------------------------------------------------------------------------

TEST_P(ProcessTreeTest, Z8WordsArriveAsTheyAre) {
  Rig rig({"sh", "-c", "for word; do echo \"<$word>\"; done", "sh", "--help", "--", "", "a b", "\xff"}, setup());
  EXPECT_EQ(rig.lines().rest(), (Words{"<--help>", "<-->", "<>", "<a b>", "<\xff>"}));
  expect_end(rig, exited(0));
}

TEST_P(ProcessTreeTest, Z10StandardInputIsInherited) {
  Rig rig(puppet("read read"), setup());
  rig.type("one\n");
  rig.close_input();
  EXPECT_EQ(rig.lines().rest(), (Words{"line one", "end of input"}));
  expect_end(rig, exited(0));
}

TEST_P(ProcessTreeTest, DescriptorsAndSignalsAreThoseOfTheCaller) {
  RigSetup caller = setup();
  caller.before_exec = [] {
    ::close(STDIN_FILENO);
    ::dup2(STDERR_FILENO, 7);
    ::close_range(8, ~0U, 0);
    for (int number = 3; number < 7; ++number)
      ::close(number);
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  };
  Rig rig(puppet("descriptors signal-state"), caller);
  EXPECT_EQ(rig.lines().rest(), (Words{"descriptors 1 2 7", "SigBlk 0000000000000200", "SigIgn 0000000000001001"}));
  expect_end(rig, exited(0));
}

TEST_P(ProcessTreeTest, CallerThatIgnoresItsChildrenHindersNothing) {
  RigSetup caller = setup();
  caller.before_exec = [] { ::signal(SIGCHLD, SIG_IGN); };
  Rig rig(puppet("signal-state daemon [ pause ] exit 3"), caller);
  EXPECT_EQ(rig.lines().rest().at(1), "SigIgn 0000000000010000");  // The command gets it as it was.
  expect_end(rig, exited(3));
}

TEST_P(ProcessTreeTest, LostDescriptorMayHaveAnyNumber) {
  for (int number = 3; number < 30; ++number) {
    RigSetup caller = setup({"--lost-fd", std::to_string(number)});
    caller.before_exec = [] { ::close_range(3, ~0U, 0); };
    Rig rig(puppet("descriptors"), caller);
    EXPECT_EQ(rig.lines().rest(), Words{"descriptors 0 1 2 " + std::to_string(number)});
    expect_end(rig, exited(0));
  }
}

TEST_P(ProcessTreeTest, LostDescriptorOfACallerIsNotTheCommands) {
  RigSetup caller = setup();
  caller.before_exec = [] { ::setenv("ZKR_LOST_FD", "7", 1); };
  Rig rig(puppet("env ZKR_LOST_FD"), caller);
  EXPECT_EQ(rig.lines().rest(), Words{"ZKR_LOST_FD=(none)"});
  expect_end(rig, exited(0));
}

TEST_P(ProcessTreeTest, Z60NumbersInTheEnvironmentAreTheCommands) {
  RigSetup caller = setup();
  caller.before_exec = [] {
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("WATCHDOG_PID", "1", 1);
    ::setenv("ZKR_TOKEN", "inherited", 1);
  };
  Rig rig(puppet("pid env LISTEN_PID env WATCHDOG_PID env ZKR_TOKEN"), caller);
  const Words lines = rig.lines().rest();
  ASSERT_EQ(lines.size(), 4U);
  const std::string own = std::to_string(number_in(lines[0]));
  EXPECT_EQ(lines[1], "LISTEN_PID=" + own);
  EXPECT_EQ(lines[2], "WATCHDOG_PID=1");  // Another's watchdog is none of the command's.
  EXPECT_EQ(lines[3], "ZKR_TOKEN=17");
  expect_end(rig, exited(0));
}

TEST_P(ProcessTreeTest, CommandWithoutATerminalHasAGroupOfItsOwn) {
  RigSetup caller = setup();
  caller.before_exec = [] { ::setsid(); };
  Rig rig(puppet("pid group"), caller);
  const Words lines = rig.lines().rest();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(number_in(lines[0]), number_in(lines[1]));
  expect_end(rig, exited(0));
}

// ---- The tree ----------------------------------------------------------------------------------------------------

constexpr const char* stubborn_tree =
    "ignore 15 fork [ setsid ignore 1 fork [ say third pause ] say second pause ] "
    "daemon [ without-environment [ ignore 15 say fourth pause ] ] say first tick";

void await_tree(Rig& rig) {
  std::set<std::string> missing{"first", "second", "third", "fourth"};
  while (!missing.empty()) {
    const auto line = rig.lines().await("");
    ASSERT_TRUE(line);
    missing.erase(*line);
  }
}

TEST_P(ProcessTreeTest, Z4LossOfTheLeaseEndsTheWholeTree) {
  Rig rig(puppet(stubborn_tree), setup());
  await_tree(rig);
  Lease lost = long_lease();
  lost.state = LeaseState::lost;
  rig.hand().set(lost);
  expect_end(rig, exited(79));
}

TEST_P(ProcessTreeTest, ProcessesWithoutTheirFirstThreadAreKilled) {
  Rig rig(puppet("without-first-thread [ ignore 15 fork [ say first pause ] "
                 "daemon [ without-first-thread [ fork [ say second pause ] say third pause ] ] say fourth pause ]"),
          setup());
  await_tree(rig);
  Lease lost = long_lease();
  lost.state = LeaseState::lost;
  rig.hand().set(lost);
  expect_end(rig, exited(79));
}

TEST_P(ProcessTreeTest, Z43LeftoversAreEndedAtTheEnd) {
  Rig rig({"sh", "-c", "sleep 1000 & exit 4"}, setup());
  expect_end(rig, exited(4));
}

TEST_P(ProcessTreeTest, Z44NothingEscapes) {
  Rig rig(puppet("fork [ setsid fork [ setsid pause ] exit 0 ] daemon [ without-environment [ pause ] ] exit 0"),
          setup());
  expect_end(rig, exited(0));
}

TEST_P(ProcessTreeTest, Z39LeftDaemonIsKilledAfterItsGrace) {
  Rig rig(puppet("daemon [ ignore 15 say up pause ] read exit 0"), setup());
  ASSERT_TRUE(rig.lines().await("up"));
  rig.type("go\n");
  expect_end(rig, exited(0));
}

/// A command says its number, and leaves a daemon that says "up". Returns the number when the command is reaped.
pid_t await_daemon_alone(Rig& rig) {
  const pid_t command = number_in(rig.lines().await("pid").value_or("pid 0"));
  EXPECT_TRUE(rig.lines().await("up"));
  await([command] { return state_of(command) == 'X'; });
  return command;
}

TEST_P(ProcessTreeTest, Z39DaemonIsWaitedFor) {
  Rig rig(puppet("pid daemon [ say up read say done ] exit 9"), setup({"--descendants", "wait"}));
  await_daemon_alone(rig);
  EXPECT_FALSE(rig.hand().released_now());
  rig.type("go\n");
  EXPECT_TRUE(rig.lines().await("done"));
  expect_end(rig, exited(9));
}

TEST_P(ProcessTreeTest, DaemonThatIsWaitedForCanBeEnded) {
  Rig rig(puppet("pid daemon [ say up pause ] exit 9"), setup({"--descendants", "wait"}));
  await_daemon_alone(rig);
  rig.signal(SIGTERM);
  expect_end(rig, exited(9));
}

TEST_P(ProcessTreeTest, Z43TermReachesEachOfTheTree) {
  Rig rig(puppet("ignore 15 fork [ fork [ signals say deepest pause ] pause ] pause"), setup({"--grace", "2000"}));
  ASSERT_TRUE(rig.lines().await("deepest"));
  Lease wanted = long_lease();
  wanted.revoke_asked = true;
  rig.hand().set(wanted);
  EXPECT_TRUE(rig.lines().await("signal 15"));
  expect_end(rig, exited(80));
}

TEST_P(ProcessTreeTest, Z39DaemonIsLeft) {
  Rig rig(puppet("daemon [ say up read say done ] read exit 9"), setup({"--descendants", "leave"}));
  ASSERT_TRUE(rig.lines().await("up"));
  rig.type("x\ny\n");  // Either of them may read the first.
  ASSERT_TRUE(rig.hand().await_release());
  rig.hand().confirm_release();
  EXPECT_EQ(told(rig.await_end()), exited(9));
}

TEST_P(ProcessTreeTest, DaemonThatIsLeftKeepsItsControlGroup) {
  const std::string cgroup = GetParam();
  Rig rig(puppet("daemon [ say up read ] exit 9"), setup({"--descendants", "leave"}));
  const std::string folder = cgroup_of(rig.front());
  ASSERT_TRUE(rig.hand().await_release());
  rig.hand().confirm_release();
  EXPECT_EQ(told(rig.await_end()), exited(9));
  EXPECT_TRUE(rig.lines().await("up"));
  EXPECT_EQ(std::filesystem::exists(folder), cgroup == "yes") << "a group that is in use cannot be removed";
  rig.close_input();
  rig.lines().rest();
  await([&folder] {
    guardian::remove_control_group(folder);
    return !std::filesystem::exists(folder);
  });
}

TEST(ZkrCgroup, OneThatWasLeftGoesWithTheNextRun) {
  if (!cgroup_possible()) GTEST_SKIP() << "no writable cgroup of version 2 here";
  const Words options{"--cgroup", "yes", "--descendants", "leave"};
  Rig first(puppet("daemon [ say up read ] exit 9"), {.options = options});
  const std::string left = cgroup_of(first.front());
  ASSERT_TRUE(first.hand().await_release());
  first.hand().confirm_release();
  EXPECT_EQ(told(first.await_end()), exited(9));
  ASSERT_TRUE(std::filesystem::exists(left));
  first.close_input();
  first.lines().rest();
  // One that waits for its lease has a group, and nothing in it.
  Rig waiting(puppet("exit 0"), {.options = options, .grant = false});
  const std::string in_use = cgroup_of(waiting.front());
  ASSERT_TRUE(std::filesystem::exists(in_use));
  await([&] {
    Rig next(puppet("exit 0"), {.options = options});
    next.expect_release_of_empty_tree();
    EXPECT_EQ(told(next.await_end()), exited(0));
    return !std::filesystem::exists(left);
  });
  EXPECT_TRUE(std::filesystem::exists(in_use));
  waiting.hand().set(long_lease());
  waiting.expect_release_of_empty_tree();
  EXPECT_EQ(told(waiting.await_end()), exited(0));
}

TEST(ZkrCgroup, OneThatIsLockedStays) {
  if (!cgroup_possible()) GTEST_SKIP() << "no writable cgroup of version 2 here";
  const pid_t nobody = ::fork();
  if (nobody == 0) ::_exit(0);
  ::waitpid(nobody, nullptr, 0);
  const auto made = Cgroup::make("zkr-" + std::to_string(nobody));
  ASSERT_TRUE(made);
  const std::string path = made->path();
  const std::string parent = std::filesystem::path(path).parent_path().string();
  remove_empty_cgroups(parent);
  EXPECT_TRUE(std::filesystem::exists(path));
  auto over = Cgroup::make("zkr-" + std::to_string(nobody));
  ASSERT_TRUE(over);
  const std::string left = over->path();
  EXPECT_NE(left, path);
  over.reset();
  remove_empty_cgroups(parent);
  EXPECT_FALSE(std::filesystem::exists(left));
  made->remove();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_P(ProcessTreeTest, Z52ForkStormIsEnded) {
  Rig rig(puppet("ignore 15 storm"), setup());
  ASSERT_TRUE(rig.lines().await("storm"));
  Lease lost = long_lease();
  lost.state = LeaseState::lost;
  rig.hand().set(lost);
  expect_end(rig, exited(79));
}

TEST_P(ProcessTreeTest, StoppedTreeObeysTerm) {
  Rig rig(puppet("pid die 19 exit 1"), setup());
  const auto line = rig.lines().await("pid");
  ASSERT_TRUE(line);
  await([&] { return state_of(number_in(*line)) == 'T'; });
  await([&] { return state_of(rig.front()) == 'T'; });  // The front stops as its command does.
  Lease wanted = long_lease();
  wanted.revoke_asked = true;
  rig.hand().set(wanted);
  EXPECT_TRUE(rig.hand().await_release());
  EXPECT_TRUE(rig.lines().ended_now());
  rig.hand().confirm_release();
  rig.signal(SIGCONT);
  EXPECT_EQ(told(rig.await_end()), exited(80));
}

// ---- Death of our own --------------------------------------------------------------------------------------------

TEST_P(ProcessTreeTest, Z40DeadFrontEndsTheTreeAndReleases) {
  Rig rig(puppet(stubborn_tree), setup());
  await_tree(rig);
  rig.signal(SIGKILL);
  rig.expect_release_of_empty_tree();
  EXPECT_EQ(told(rig.await_end()), killed_by(SIGKILL));
}

TEST_P(ProcessTreeTest, Z51DeadKeeperEndsTheTree) {
  Rig rig(puppet(stubborn_tree), setup());
  await_tree(rig);
  ::kill(rig.keeper(), SIGKILL);
  EXPECT_EQ(told(rig.await_end()), exited(79));
  EXPECT_TRUE(rig.lines().ended_now());
}

/// As in `sh -c 'server & exec zkr ...'`.
void start_stranger() {
  if (::fork() != 0) return;
  ::close_range(0, ~0U, 0);
  ::alarm(600);  // It outlives no test for long, however that ends.
  while (true)
    ::pause();
}

TEST_P(ProcessTreeTest, ChildrenOfOurCallerAreLeftAlone) {
  RigSetup caller = setup();
  caller.before_exec = start_stranger;
  Rig rig(puppet("daemon [ ignore 15 pause ] say up pause"), caller);
  ASSERT_TRUE(rig.lines().await("up"));
  std::vector<pid_t> strangers = PinnedProcess(rig.front()).children();
  std::erase(strangers, rig.keeper());
  ASSERT_EQ(strangers.size(), 1U);
  ::kill(rig.keeper(), SIGKILL);
  EXPECT_EQ(told(rig.await_end()), exited(79));
  EXPECT_TRUE(rig.lines().ended_now());
  EXPECT_EQ(state_of(strangers[0]), 'S');
  ::kill(strangers[0], SIGKILL);
}

/// A process of the test's that has the number of one that is gone.
class Stranger {
 public:
  explicit Stranger(pid_t number) {
    clone_args how{};
    how.exit_signal = SIGCHLD;
    how.set_tid = reinterpret_cast<std::uint64_t>(&number);
    how.set_tid_size = 1;
    const auto made = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
    if (made == 0) be_stranger();
    number_ = made;
    if (is_there()) await([this] { return is_left_alone(); });
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() {
    if (!is_there()) return;
    ::kill(number_, SIGKILL);
    ::waitpid(number_, nullptr, 0);
  }

  /// Not if the number is another's already, or if we may not choose one.
  bool is_there() const { return number_ > 0; }
  /// Nobody has sent it anything that it can feel.
  bool is_left_alone() const { return state_of(number_) == 'S'; }
  void stop() const {
    ::kill(number_, SIGSTOP);
    await([this] { return state_of(number_) == 'T'; });
  }

 private:
  [[noreturn]] static void be_stranger() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close_range(0, ~0U, 0);
    forget_signal_state();
    while (true)
      ::pause();
  }

  pid_t number_ = -1;
};

#define NEEDS_STRANGER(stranger) \
  if (!(stranger).is_there()) GTEST_SKIP() << "a process cannot be given the number of one that is gone"

/// A child of the test's that has ended is reaped.
void bury(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

pid_t sleeping_child() {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true)
    ::pause();
}

TEST(ZkrProcessTree, Z54NumberThatIsAnothersByNowIsNotTakenForTheOneThatWasMeant) {
  const pid_t number = sleeping_child();
  const PinnedProcess meant(number);
  EXPECT_TRUE(meant.lives());
  bury(number);
  const Stranger stranger(number);
  NEEDS_STRANGER(stranger);
  EXPECT_FALSE(meant.lives());
  EXPECT_FALSE(meant.status());
  EXPECT_TRUE(meant.children().empty());
  EXPECT_EQ(meant.signal(SIGKILL), ESRCH);
  EXPECT_TRUE(stranger.is_left_alone());
}

TEST(ZkrProcessTree, Z54StoppedProcessWithTheNumberOfOneThatWasFrozenIsNotLetGoOn) {
  ProcessTree tree;
  for (const pid_t other : PinnedProcess(::getpid()).children())
    tree.spare(other);
  const pid_t number = sleeping_child();
  const Instant started = BootClock::now();
  tree.freeze();
  await([number] { return state_of(number) == 'T'; });
  bury(number);
  await([started] { return BootClock::now() > started + 50ms; });  // The kernel counts hundredths of a second.
  const Stranger stranger(number);
  NEEDS_STRANGER(stranger);
  stranger.stop();
  tree.thaw();
  EXPECT_EQ(state_of(number), 'T');
}

/// What ends the tree of a rig whose command has ended, and how the front ends then.
struct EndOfTree {
  const char* name;
  void (*begin)(Rig& rig);
  int code;
};

const std::array ends_of_trees{
    EndOfTree{"a signal to the front", [](Rig& rig) { rig.signal(SIGTERM); }, 9},
    EndOfTree{"a signal for the command", [](Rig& rig) { rig.signal(SIGINT); }, 9},
    EndOfTree{"the loss of the lease",
              [](Rig& rig) {
                Lease lost = long_lease();
                lost.state = LeaseState::lost;
                rig.hand().set(lost);
              },
              79},
    EndOfTree{"the death of the keeper", [](Rig& rig) { ::kill(rig.keeper(), SIGKILL); }, 79},
};

TEST_P(ProcessTreeTest, Z54NumberOfTheCommandMayBeAStrangers) {
  for (const EndOfTree& end : ends_of_trees) {
    Rig rig(puppet("pid daemon [ say up pause ] exit 9"), setup({"--descendants", "wait"}));
    const Stranger stranger(await_daemon_alone(rig));
    NEEDS_STRANGER(stranger);
    end.begin(rig);
    if (rig.hand().await_release()) rig.hand().confirm_release();  // A keeper that is dead does not.
    EXPECT_EQ(told(rig.await_end()), exited(end.code)) << end.name;
    EXPECT_TRUE(rig.lines().ended_now()) << end.name;
    EXPECT_TRUE(stranger.is_left_alone()) << end.name;
  }
}

// The other way round: what the front is to leave alone is gone, and its number is that of something of the command's.
TEST_P(ProcessTreeTest, Z54NumberOfACallersChildMayBeOneOfTheCommands) {
  RigSetup caller = setup();
  caller.before_exec = start_stranger;
  Rig rig(puppet("fork [ fork-as-read [ ignore 15 say up pause ] exit 0 ] pause"), caller);
  std::vector<pid_t> strangers = PinnedProcess(rig.front()).children();
  std::erase(strangers, rig.keeper());
  ASSERT_EQ(strangers.size(), 1U);
  ::kill(strangers[0], SIGKILL);
  await([&] { return state_of(strangers[0]) == 'X'; });
  rig.type(std::to_string(strangers[0]) + "\n");
  if (rig.lines().await("") != "up") GTEST_SKIP() << "a process cannot be given the number of one that is gone";
  // An orphan by then, it is the keeper's child, and the front's after that.
  await([&] { return PinnedProcess(strangers[0]).status().value().parent == rig.keeper(); });
  ::kill(rig.keeper(), SIGKILL);
  EXPECT_EQ(told(rig.await_end()), exited(79));
  EXPECT_TRUE(rig.lines().ended_now());
}

TEST_P(ProcessTreeTest, DeadKeeperEndsAForkStorm) {
  Rig rig(puppet("ignore 15 storm"), setup());
  ASSERT_TRUE(rig.lines().await("storm"));
  ::kill(rig.keeper(), SIGKILL);
  EXPECT_EQ(told(rig.await_end()), exited(79));
  EXPECT_TRUE(rig.lines().ended_now());
}

TEST_P(ProcessTreeTest, DeadKeeperOfAWaiterIsNoLossOfALease) {
  Rig rig(puppet("say up"), setup({}, false));
  ::kill(rig.keeper(), SIGKILL);
  EXPECT_EQ(told(rig.await_end()), exited(71));
}

TEST_P(ProcessTreeTest, DeadKeeperThatGivesBackCostsNoExitStatus) {
  for (const auto& [command, how] : {std::pair("exit 3", exited(3)), std::pair("die 15", killed_by(SIGTERM))}) {
    Rig rig(puppet(command), setup());
    EXPECT_TRUE(rig.hand().await_release());
    ::kill(rig.keeper(), SIGKILL);
    EXPECT_EQ(told(rig.await_end()), how);
  }
}

TEST_P(ProcessTreeTest, Z41KeeperThatDiesRightAfterTheForkLeavesNothing) {
  Folder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Rig rig(puppet("say up"), setup({"--after-fork", fifo}));
  await([&] { return PinnedProcess(rig.keeper()).children().size() == 1; });
  // The front is stopped, so only the command's own look at its parent can end it.
  rig.signal(SIGSTOP);
  await([&] { return state_of(rig.front()) == 'T'; });
  Descriptor end(::open(fifo.c_str(), O_WRONLY | O_CLOEXEC));  // The command is there, before its prctl().
  ::kill(rig.keeper(), SIGKILL);
  await([&] { return state_of(rig.keeper()) == 'Z'; });
  end.close();
  EXPECT_EQ(rig.lines().rest(), Words{});
  rig.signal(SIGCONT);
  EXPECT_EQ(told(rig.await_end()), exited(79));
}

TEST_P(ProcessTreeTest, CommandIsNotExecutedAfterTheDeadline) {
  Folder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Rig rig(puppet("say up"), setup({"--after-fork", fifo, "--kill-margin", "1000"}, false));
  const Instant deadline = BootClock::now() + 2s;
  rig.hand().set(lease_to_kill_at(deadline, 1s));
  std::vector<pid_t> command;
  await([&] {
    command = PinnedProcess(rig.keeper()).children();
    return !command.empty() || BootClock::now() > deadline;
  });
  // So neither of them can kill it.
  for (const pid_t stopped : {rig.front(), rig.keeper()}) {
    ::kill(stopped, SIGSTOP);
    await([&] { return state_of(stopped) == 'T'; });
  }
  await([&] { return BootClock::now() > deadline; });
  await([&] {
    Descriptor(::open(fifo.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)).close();  // It is let go on.
    return command.empty() || std::string("XZ").find(state_of(command[0])) != std::string::npos;
  });
  ::kill(rig.keeper(), SIGCONT);
  if (rig.hand().await_release()) rig.hand().confirm_release();
  rig.signal(SIGCONT);
  EXPECT_EQ(rig.lines().rest(), Words{});
  EXPECT_EQ(told(rig.await_end()), exited(79));
}

/// For the guardian. Others must not be marked like that: the guardian of a test may outlive it for a moment.
Words marked() {
  static int number = 0;
  return {"--mark", "test-" + std::to_string(::getpid()) + "-" + std::to_string(++number)};
}

bool nobody_may_execute(const std::filesystem::path& program) {
  using std::filesystem::perms;
  const auto all_may = [](const std::filesystem::path& entry) {
    return (std::filesystem::status(entry).permissions() & perms::others_exec) != perms::none;
  };
  for (std::filesystem::path entry = program; entry.has_relative_path(); entry = entry.parent_path()) {
    if (!all_may(entry)) return false;
  }
  return true;
}

/// None of them can do anything before it dies.
void kill_front_and_keeper(Rig& rig) {
  ::kill(rig.keeper(), SIGSTOP);
  await([&] { return state_of(rig.keeper()) == 'T'; });
  rig.signal(SIGKILL);
  ::kill(rig.keeper(), SIGKILL);
}

TEST_P(ProcessTreeTest, GuardianKillsWhatHasOutlivedItsFirstThread) {
  Rig rig(puppet("daemon [ without-first-thread [ say up pause ] ] pause"), setup(marked()));
  ASSERT_TRUE(rig.lines().await("up"));
  kill_front_and_keeper(rig);
  EXPECT_EQ(rig.lines().rest(), Words{});
}

TEST_P(ProcessTreeTest, GuardianKillsWhatHasNoEnvironment) {
  Rig rig(puppet("daemon [ without-environment [ daemon [ ignore 15 say up pause ] ] ] pause"), setup(marked()));
  ASSERT_TRUE(rig.lines().await("up"));
  kill_front_and_keeper(rig);
  EXPECT_EQ(rig.lines().rest(), Words{});
}

/// As nobody: root may look into each process.
void become_nobody() {
  constexpr uid_t nobody = 65534;
  if (::setresgid(nobody, nobody, nobody) != 0 || ::setresuid(nobody, nobody, nobody) != 0) ::_exit(250);
}

TEST_P(ProcessTreeTest, GuardianKillsWhatGuardsItsMemory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become nobody";
  if (!nobody_may_execute(rig_program()) || !nobody_may_execute(PUPPET)) GTEST_SKIP() << "not for everybody here";
  RigSetup of_nobody = setup(marked());
  of_nobody.before_exec = become_nobody;
  of_nobody.open_to_all = true;
  Rig rig(puppet("daemon [ undumpable ignore 15 say up pause ] pause"), of_nobody);
  ASSERT_TRUE(rig.lines().await("up"));
  kill_front_and_keeper(rig);
  EXPECT_EQ(rig.lines().rest(), Words{});
}

TEST_P(ProcessTreeTest, GuardianKillsWhatIsStartedByARunWithin) {
  Folder folder;
  LeaseHand inner(folder / "inner");
  Words run = marked();
  run.insert(run.begin(), {rig_program(), folder / "inner", "--cgroup", "no"});
  run.emplace_back("--");
  Words command = puppet("daemon [ ignore 15 say up pause ] pause");
  command.insert(command.begin(), run.begin(), run.end());
  Rig rig(command, setup(marked()));
  inner.meet();
  inner.set(long_lease());
  ASSERT_TRUE(rig.lines().await("up"));
  kill_front_and_keeper(rig);
  EXPECT_EQ(rig.lines().rest(), Words{});
}

std::vector<pid_t> guardians_below(pid_t process) {
  std::vector<pid_t> found;
  for (const pid_t child : PinnedProcess(process).children()) {
    if (text_of_file("/proc/" + std::to_string(child) + "/comm") == "lease-guardian\n") found.push_back(child);
    const std::vector<pid_t> below = guardians_below(child);
    found.insert(found.end(), below.begin(), below.end());
  }
  return found;
}

// It has work to do when the outer run's guardian ends the rest.
TEST_P(ProcessTreeTest, GuardianOfARunWithinCarriesNoMark) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may read what guardians carry";
  Folder folder;
  LeaseHand inner(folder / "inner");
  Words command = marked();
  command.insert(command.begin(), {rig_program(), folder / "inner", "--cgroup", "no"});
  command.emplace_back("--");
  const Words last = puppet("say up pause");
  command.insert(command.end(), last.begin(), last.end());
  const Words outer = marked();
  Rig rig(command, setup(outer));
  inner.meet();
  inner.set(long_lease());
  ASSERT_TRUE(rig.lines().await("up"));
  std::vector<pid_t> guardians;
  await([&] { return (guardians = guardians_below(rig.front())).size() == 2; });
  for (const pid_t guardian : guardians)
    EXPECT_EQ(text_of_file("/proc/" + std::to_string(guardian) + "/environ").find(outer.at(1)), std::string::npos);
  kill_front_and_keeper(rig);
  EXPECT_EQ(rig.lines().rest(), Words{});
}

TEST_P(ProcessTreeTest, GuardianLeavesNoControlGroup) {
  const std::string cgroup = GetParam();
  Rig rig(puppet("daemon [ say up pause ] pause"), setup(marked()));
  ASSERT_TRUE(rig.lines().await("up"));
  EXPECT_EQ(std::filesystem::exists(cgroup_of(rig.front())), cgroup == "yes");
  kill_front_and_keeper(rig);
  EXPECT_EQ(rig.lines().rest(), Words{});
  await([&] { return !std::filesystem::exists(cgroup_of(rig.front())); });
}

TEST_P(ProcessTreeTest, StoppedFrontGoesOnWhenItsKeeperIsKilled) {
  Rig rig(puppet("daemon [ ignore 15 say up pause ] pause"), setup(marked()));
  ASSERT_TRUE(rig.lines().await("up"));
  rig.signal(SIGSTOP);
  await([&] { return state_of(rig.front()) == 'T'; });
  ::kill(rig.keeper(), SIGKILL);
  EXPECT_EQ(told(rig.await_end()), exited(79));
  EXPECT_TRUE(rig.lines().ended_now());
}

/// What is executed next finds nothing in /proc, and no control group.
void hide_proc() {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
    ::_exit(250);
}

TEST(ZkrWithoutProc, StartsNothing) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer itself needs /proc";
#endif
  if (::geteuid() != 0) GTEST_SKIP() << "only root may hide it";
  const Folder folder;
  LeaseHand nobody_asks(folder / "lease");
  const std::string program = rig_program();
  const std::string lease = folder / "lease";
  const pid_t process = ::fork();
  if (process == 0) {
    hide_proc();
    ::execl(program.c_str(), program.c_str(), lease.c_str(), "--", "/bin/true", nullptr);
    ::_exit(251);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  EXPECT_EQ(told(status), exited(71));
}

TEST_P(ProcessTreeTest, Z42ThreadsOfTheKeeperComeAndGo) {
  Rig rig(puppet("say up read exit 8"), setup({"--threads", "yes"}));
  ASSERT_TRUE(rig.lines().await("up"));
  for (int i = 0; i < 100; ++i)
    rig.hand().set(long_lease());
  rig.type("go\n");
  expect_end(rig, exited(8));
}

TEST_P(ProcessTreeTest, Z53FrontEndsWhileTheKeeperStillGivesBack) {
  Rig rig(puppet("exit 3"), setup());
  EXPECT_TRUE(rig.hand().await_release());  // And no server answers.
  EXPECT_EQ(told(rig.await_end()), exited(3));
  EXPECT_NE(state_of(rig.keeper()), 'X');
  EXPECT_TRUE(rig.lines().ended_now());
  rig.hand().confirm_release();
  await([&] { return state_of(rig.keeper()) == 'X' || state_of(rig.keeper()) == 'Z'; });
}

// ---- Deadlines ---------------------------------------------------------------------------------------------------

constexpr Duration margin = 4s;  // Of the lease beyond the kill: as long as a busy machine may need.
const Words with_margin{"--kill-margin", "4000"};

/// The lease is to end soon. Returns its end, when the page says so.
Instant end_soon(Rig& rig, Duration doubt = Duration::zero()) {
  const Lease lease = lease_to_kill_at(BootClock::now() + 1s, margin, doubt);
  rig.hand().set(lease);
  await([&] { return valid_until_on_page(rig.front()) == lease.valid_until; });
  return lease.valid_until;
}

// ---- The command may end its work -----------------------------------------------------------------------------------

TEST_P(ProcessTreeTest, CommandMayEndItsWorkWhenWeAreToldToEnd) {
  Rig rig(puppet("signals say up read exit 3"), setup({"--drain", "100000"}));
  rig.lines().await("up");
  rig.signal(SIGTERM);
  await_signals_taken(rig.front());
  rig.type("go on\n");
  EXPECT_EQ(rig.lines().rest(), Words{"line go on"}) << "and no signal before";
  expect_end(rig, killed_by(SIGTERM));
}

TEST_P(ProcessTreeTest, SecondSignalIsForTheCommandThatEndsItsWork) {
  Rig rig(puppet("say up pause"), setup({"--drain", "100000"}));
  rig.lines().await("up");
  rig.signal(SIGTERM);
  await_signals_taken(rig.front());
  rig.signal(SIGINT);
  expect_end(rig, killed_by(SIGTERM));
}

TEST_P(ProcessTreeTest, CommandThatDoesNotEndItsWorkIsEnded) {
  Rig rig(puppet("signals say up pause"), setup({"--drain", "10", "--grace", "2000"}));
  rig.lines().await("up");
  rig.signal(SIGINT);
  EXPECT_TRUE(rig.lines().await("signal 15"));
  expect_end(rig, killed_by(SIGINT));
}

TEST_P(ProcessTreeTest, NothingIsStartedWhenWeAreToldToEnd) {
  Rig rig(puppet("say up"), setup({"--drain", "100000"}, false));
  rig.signal(SIGTERM);
  EXPECT_TRUE(rig.hand().await_release());
  rig.hand().confirm_release();
  EXPECT_EQ(told(rig.await_end()), killed_by(SIGTERM));
  EXPECT_TRUE(rig.lines().rest().empty());
}

/// Stops them before the lease's end makes them kill the command. False, and they go on: this test was late.
bool stopped_in_time(const std::vector<pid_t>& processes, Instant end_of_lease) {
  for (const pid_t process : processes)
    ::kill(process, SIGSTOP);
  for (const pid_t process : processes)
    await([process] { return state_of(process) == 'T'; });
  if (BootClock::now() < end_of_lease - margin) return true;
  for (const pid_t process : processes)
    ::kill(process, SIGCONT);
  return false;
}

/// Its instants are the puppet's own, and those of the page.
void expect_stopped_in_time(Rig& rig, Instant valid_until) {
  rig.lines().rest();
  EXPECT_GT(rig.lines().last_tick(), Instant{});
  EXPECT_LT(rig.lines().last_tick(), valid_until);
}

TEST_P(ProcessTreeTest, NothingRunsWhenTheLeaseEnds) {
  Rig rig(puppet(stubborn_tree), setup(with_margin));
  await_tree(rig);
  const Instant end = end_soon(rig, 500ms);
  expect_end(rig, exited(79));
  expect_stopped_in_time(rig, end);
}

TEST_P(ProcessTreeTest, StoppedKeeperDoesNotHinderTheDeadline) {
  bool stopped = false;
  for (int attempt = 0; attempt < 10 && !stopped; ++attempt) {
    Rig rig(puppet(stubborn_tree), setup(with_margin));
    await_tree(rig);
    const Instant end = end_soon(rig);
    stopped = stopped_in_time({rig.keeper()}, end);
    if (!stopped) {
      expect_end(rig, exited(79));
      continue;
    }
    expect_stopped_in_time(rig, end);
    EXPECT_EQ(told(rig.await_end()), exited(79));
  }
  EXPECT_TRUE(stopped);
}

TEST_P(ProcessTreeTest, StoppedFrontDoesNotHinderTheDeadline) {
  Rig rig(puppet(stubborn_tree), setup(with_margin));
  await_tree(rig);
  rig.signal(SIGSTOP);
  await([&] { return state_of(rig.front()) == 'T'; });
  const Instant end = end_soon(rig);
  rig.expect_release_of_empty_tree();
  expect_stopped_in_time(rig, end);
  rig.signal(SIGCONT);
  EXPECT_EQ(told(rig.await_end()), exited(79));
}

// What it looks like to a machine that was suspended: the end of the lease lies in the past all at once.
TEST_P(ProcessTreeTest, MachineThatWasSuspendedKillsAtOnce) {
  Rig rig(puppet("fork [ setsid signals pause ] signals say up pause"), setup({"--grace", "30000"}));
  ASSERT_TRUE(rig.lines().await("up"));
  rig.hand().set(lease_to_kill_at(BootClock::now() - 1h, 1s, 30s));
  EXPECT_EQ(rig.lines().rest(), Words{}) << "there was no time for TERM";
  if (rig.hand().await_release()) rig.hand().confirm_release();  // The front may have killed the keeper, too.
  EXPECT_EQ(told(rig.await_end()), exited(79));
}

TEST_P(ProcessTreeTest, Z81HostThatStoodStillIsNamed) {
  bool stood_still = false;
  for (int attempt = 0; attempt < 10 && !stood_still; ++attempt) {
    PipeEnds errors;
    RigSetup heard = setup(with_margin);
    heard.before_exec = [&errors] { ::dup2(errors.in.get(), STDERR_FILENO); };
    Rig rig(puppet("close 2 say up pause"), heard);
    ASSERT_TRUE(rig.lines().await("up"));
    errors.in.close();
    const Instant end = end_soon(rig);
    await([&rig] { return state_of(rig.keeper()) == 'S'; });  // It waits for the end.
    stood_still = stopped_in_time({rig.front(), rig.keeper()}, end);
    if (!stood_still) {
      expect_end(rig, exited(79));
      continue;
    }
    await([end] { return BootClock::now() > end - margin + 1s; });
    ::kill(rig.keeper(), SIGCONT);
    rig.expect_release_of_empty_tree();
    rig.signal(SIGCONT);
    EXPECT_EQ(told(rig.await_end()), exited(79));
    const std::string text = rest_of(errors.out);
    EXPECT_NE(text.find("and the command is ended; this host was late by "), std::string::npos) << text;
  }
  EXPECT_TRUE(stood_still);
}

TEST_P(ProcessTreeTest, Z14CommandThatIgnoresTermIsKilledAfterItsGrace) {
  Rig rig(puppet("signals say up pause"), setup({"--grace", "2000"}));
  ASSERT_TRUE(rig.lines().await("up"));
  Lease wanted = long_lease();
  wanted.revoke_asked = true;
  const Instant asked = BootClock::now();
  rig.hand().set(wanted);
  EXPECT_TRUE(rig.lines().await("signal 15"));
  expect_end(rig, exited(80));
  EXPECT_GE(BootClock::now() - asked, 2s);
}

TEST_P(ProcessTreeTest, ProofInTimeCostsNothing) {
  Rig rig(puppet("signals say up read exit 0"), setup());
  ASSERT_TRUE(rig.lines().await("up"));
  for (int i = 0; i < 50; ++i)
    rig.hand().set(long_lease());
  rig.type("go\n");
  EXPECT_EQ(rig.lines().rest(), Words{"line go"});
  expect_end(rig, exited(0));
}

bool is_frozen(pid_t process, const std::string& cgroup, pid_t front) {
  if (cgroup == "no") return state_of(process) == 'T';
  const std::string events = text_of_file(cgroup_of(front) + "/cgroup.events");
  return events.find("frozen 1") != std::string::npos;
}

TEST_P(ProcessTreeTest, DoubtFreezesAndAProofThaws) {
  Rig rig(puppet("signals pid read exit 5"), setup({"--on-doubt", "freeze", "--grace", "30000"}));
  const auto line = rig.lines().await("pid");
  ASSERT_TRUE(line);
  rig.hand().set(lease_to_kill_at(BootClock::now() + 30s, 1s, 30s));
  await([&] { return is_frozen(number_in(*line), GetParam(), rig.front()); });
  rig.hand().set(long_lease());
  await([&] { return !is_frozen(number_in(*line), GetParam(), rig.front()); });
  rig.type("go\n");
  expect_end(rig, exited(5));
}

TEST_P(ProcessTreeTest, FrozenTreeIsKilledInTheEnd) {
  Rig rig(puppet(stubborn_tree), setup({"--on-doubt", "freeze", "--kill-margin", "4000"}));
  await_tree(rig);
  const Instant end = end_soon(rig, 800ms);
  expect_end(rig, exited(79));
  expect_stopped_in_time(rig, end);
}

TEST_P(ProcessTreeTest, RunAfterOneThatWasKilledFrozenIsNotFrozen) {
  Rig rig(puppet("say up read exit 0"), setup({"--on-doubt", "freeze", "--kill-margin", "4000", "--again", "yes"}));
  ASSERT_TRUE(rig.lines().await("up"));
  end_soon(rig, 800ms);
  ASSERT_TRUE(rig.hand().await_release());
  rig.hand().confirm_release();
  rig.next_run();
  ASSERT_TRUE(rig.lines().await("up"));
  expect_end_of_runs(rig);
}

TEST_P(ProcessTreeTest, WaitOfTheLastRunIsReported) {
  const Folder folder;
  Rig rig(puppet("say up read exit 0"), setup({"--again", "yes", "--waited", folder / "waited"}));
  ASSERT_TRUE(rig.lines().await("up"));
  rig.type("go\n");
  ASSERT_TRUE(rig.hand().await_release());
  const Instant second_run = BootClock::now();
  rig.hand().confirm_release();
  rig.next_run(false);
  const Lease lease = long_lease();
  rig.hand().set(lease);
  ASSERT_TRUE(rig.lines().await("up"));
  expect_end_of_runs(rig);
  const Duration waited(std::stoll(text_of_file(folder / "waited")));
  EXPECT_GE(waited, Duration::zero());
  EXPECT_LT(waited, lease.granted_at - second_run);
}

TEST(ZkrGuardian, ServersThatAreNamedAgainAreNoMore) {
  guardian::Orders orders;
  for (const char* line : {"server 2181 a", "server 2181 b", "server 2181 a"})
    guardian::obey(line, orders);
  EXPECT_EQ(orders.servers.size(), 2U);
}

TEST_P(ProcessTreeTest, HeldTooLongIsEnded) {
  Rig rig(puppet("say up pause"), setup({"--max-hold", "100"}));
  expect_end(rig, exited(81));
}

TEST_P(ProcessTreeTest, RevokedCommandMayCleanUp) {
  Rig rig(puppet("signals say up read say clean exit 0"), setup({"--grace", "9000"}));
  ASSERT_TRUE(rig.lines().await("up"));
  Lease wanted = long_lease();
  wanted.revoke_asked = true;
  rig.hand().set(wanted);
  ASSERT_TRUE(rig.lines().await("signal 15"));
  rig.type("go\n");
  EXPECT_TRUE(rig.lines().await("clean"));
  expect_end(rig, exited(80));
}

TEST_P(ProcessTreeTest, LeaseThatIsNotAcquiredStartsNothing) {
  Rig rig(puppet("say up"), setup({}, false));
  Lease failed;
  failed.state = LeaseState::failed;
  failed.failure = 75;
  rig.hand().set(failed);
  EXPECT_EQ(told(rig.await_end()), exited(75));
  EXPECT_EQ(rig.lines().rest(), Words{});
}

}  // namespace
}  // namespace zkr
