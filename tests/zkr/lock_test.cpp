// `zkr lock` on a real server: what goes wrong, row by row, and what users of such programs have complained about.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <zkclient/client.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>
#include <zktesting/environment.hpp>
#include <zktesting/proxy.hpp>

#include "tests/support/testkit.hpp"
#include "tests/zkr/expiry.hpp"
#include "tests/zkr/zkr_process.hpp"
#include "tools/zkr/hold/contest.hpp"
#include "tools/zkr/hold/unix_address.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using testkit::eventually;

const bool nothing_stays = (end_what_tests_leave(), true);

/// Of a session that must end soon, and must not end before; with a tick of 2 s leases of 4 s live.
constexpr const char* short_session = "4s";

int paths = 0;

/// The same, of those whose command must be gone before: by as much as a busy machine may be late.
const Words session_with_margin{"--session-timeout", "10s", "--kill-margin", "2s"};

class ZkrLock : public testing::Test {
 protected:
  // Another one each time: a keeper of the time before may still hold it, since its proxy is gone.
  ZkrLock()
      : path_(std::string("/zkr/") + testing::UnitTest::GetInstance()->current_test_info()->name() + "-" +
              std::to_string(++paths)) {}

  /// zkr OPTIONS... lock PATH: through the proxy.
  Words lock(const Words& options = {}) const { return with({"lock", path_}, options); }
  Words with(Words words, const Words& options) const {
    words.insert(words.end(), {"--server", proxy_.connect_string()});
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    return words;
  }
  static Words operator_words(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// zkr lock OPTIONS... PATH -- puppet SCRIPT...
  ZkrProcess& start(const std::string& script, const Words& options = {}) {
    processes_.push_back(std::make_unique<ZkrProcess>(operator_words(lock(options), puppet(script))));
    return *processes_.back();
  }
  /// The same, when its command says "up".
  ZkrProcess& hold(const std::string& script, const Words& options = {}) {
    ZkrProcess& zkr = start(script, options);
    EXPECT_TRUE(zkr.lines().await("up"));
    return zkr;
  }
  /// With a network of its own.
  ZkrProcess& hold_from_elsewhere() {
    const Words words{"lock", path_, "--server", zktesting::SharedServer::instance().connect_string(), "--"};
    processes_.push_back(std::make_unique<ZkrProcess>(operator_words(words, puppet("say up read exit 0"))));
    EXPECT_TRUE(processes_.back()->lines().await("up"));
    return *processes_.back();
  }
  static void await_or_end(ZkrProcess& zkr, const std::function<bool()>& condition) {
    EXPECT_TRUE(eventually([&] { return zkr.ended_now() || condition(); }));
  }
  std::size_t contenders() {
    std::error_code none_yet;
    return client_.children(path_, {}, none_yet).names.size();
  }
  /// The lock is free at once, not when a session has timed out.
  void expect_free() {
    EXPECT_TRUE(eventually([this] { return contenders() == 0; }));
  }
  /// Before the session of its holder has timed out.
  void expect_freed_before_expiry(const std::string& session) {
    expect_free();
    EXPECT_FALSE(has_expired(session));
  }
  std::string holders_node() {
    std::string node;
    EXPECT_TRUE(eventually([&] {
      const auto all = zkrecipes::Mutex(client_, path_).contenders();
      if (!all.empty()) node = path_ + "/" + all[0].node;
      return !all.empty();
    }));
    return node;
  }
  bool queued(std::size_t count) {
    return eventually([&] { return contenders() == count; });
  }

  const std::string path_;
  zktesting::Proxy proxy_{zktesting::SharedServer::instance().connect_string()};
  zkclient::Client client_{zktesting::SharedServer::instance().connect_string()};
  std::vector<std::unique_ptr<ZkrProcess>> processes_;
};

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// A line of standard error that has this in it.
bool says(ZkrProcess& zkr, const std::string& part) {
  while (const auto line = zkr.errors().await("")) {
    if (line->find(part) != std::string::npos) return true;
  }
  return false;
}

// ---- Exit status, words, environment -----------------------------------------------------------------------------

TEST_F(ZkrLock, Z5CodesAndSignalsOfTheCommandArePassedOn) {
  for (const int code : {0, 1, 127, 255})
    EXPECT_EQ(start("exit " + std::to_string(code)).end(), exited(code));
  for (const int signal : {SIGTERM, SIGKILL, SIGSEGV})
    EXPECT_EQ(start("die " + std::to_string(signal)).end(), killed_by(signal));
  expect_free();
}

TEST_F(ZkrLock, SignalsOfARevocationHaveTheirNames) {
  EXPECT_EQ(start("exit 3", {"--on-revoke", "SIGUSR1"}).end(), exited(3));
  ZkrProcess& zkr = start("exit 3", {"--on-revoke", "SIGNIFICANT"});
  EXPECT_TRUE(says(zkr, "HUP, INT, KILL, QUIT, TERM, USR1, USR2, ignore, term"));
  EXPECT_EQ(zkr.end(), exited(64));
}

TEST_F(ZkrLock, Z22CodesOfOurOwn) {
  EXPECT_EQ(ZkrProcess({}).end(), exited(64));
  EXPECT_EQ(ZkrProcess({"lock", "--", "true"}).end(), exited(64));
  EXPECT_EQ(ZkrProcess({"lock", "no-slash", "--", "true"}).end(), exited(64));
  EXPECT_EQ(ZkrProcess({"lock", "/a", "--timeout", "soon", "--", "true"}).end(), exited(64));
  EXPECT_EQ(ZkrProcess({"lock", "/a", "-s", "--writer", "--server", "x", "--", "true"}).end(), exited(64));
  EXPECT_EQ(ZkrProcess(lock()).end(), exited(64));
  EXPECT_EQ(ZkrProcess(operator_words(lock(), {"/nowhere/at-all"})).end(), exited(127));
  EXPECT_EQ(ZkrProcess(operator_words(lock(), {"/etc/passwd"})).end(), exited(126));
  expect_free();
}

TEST_F(ZkrLock, Z22NodeThatSaysHowManyMustBeThere) {
  const std::string limit = path_ + "-limit";
  ZkrProcess& none = start("say started", {"--slots-node", limit});
  EXPECT_EQ(none.end(), exited(66));
  EXPECT_EQ(none.lines().rest(), Words{});
  hold("say up pause", {"--slots", "1", "--slots-node", limit});  // It is made then.
  EXPECT_EQ(start("say started", {"--slots-node", limit, "--try"}).end(), exited(75));
}

TEST_F(ZkrLock, Z61NoServerNamesEachAndItsError) {
  std::string line;
  for (const char* time : {"200ms", "20s"}) {  // A busy machine may not even try them all in so short a time.
    ZkrProcess zkr({"lock", "/a", "--server", "127.0.0.1:1,127.0.0.2:1", "--connect-timeout", time, "--", "true"});
    line = zkr.errors().await("zkr: no server answers").value_or("");
    EXPECT_EQ(zkr.end(), exited(69));
    if (line.find("127.0.0.1:1 refused") != std::string::npos) break;
  }
  EXPECT_NE(line.find("127.0.0.1:1 refused"), std::string::npos) << line;
}

TEST_F(ZkrLock, Z25EnvironmentSaysWhatIsHeld) {
  ZkrProcess& zkr = start("env ZKR_PATH env ZKR_MODE env ZKR_TOKEN env ZKR_NODE env ZKR_SESSION");
  const Words lines = zkr.lines().rest();
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "ZKR_PATH=" + path_);
  EXPECT_EQ(lines[1], "ZKR_MODE=exclusive");
  EXPECT_GT(std::stoll(lines[2].substr(lines[2].find('=') + 1)), 0);
  EXPECT_TRUE(lines[3].starts_with("ZKR_NODE=" + path_ + "/_c_")) << lines[3];
  EXPECT_TRUE(lines[4].starts_with("ZKR_SESSION=0x")) << lines[4];
}

TEST_F(ZkrLock, Z25InnerLockReplacesTheOutersEnvironment) {
  const Words inner = with({ZKR, "lock", path_ + "/inner", "--shared"}, {});
  const Words outer = operator_words(lock(), inner);
  ZkrProcess zkr(operator_words(outer, puppet("env ZKR_MODE env ZKR_TOKEN")));
  EXPECT_EQ(zkr.lines().rest(), (Words{"ZKR_MODE=shared", "ZKR_TOKEN=(none)"}));
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrLock, LockWithinItselfIsRefused) {
  const Words twice = operator_words(operator_words(lock(), {ZKR}), lock());
  ZkrProcess zkr(operator_words(twice, puppet("say up")));
  EXPECT_TRUE(says(zkr, "it would wait for itself"));
  EXPECT_EQ(zkr.end(), exited(64));
  const Words again = operator_words(operator_words(lock(), {ZKR}), lock({"--reentrant"}));
  ZkrProcess reentrant(operator_words(again, puppet("exit 3")));
  EXPECT_EQ(reentrant.end(), exited(3));
}

TEST_F(ZkrLock, ReentrantCommandRunsOnlyUnderAllThatItWants) {
  const auto inner = [this](const Words& outer_options, const Words& words) {
    const Words all = operator_words(operator_words(lock(outer_options), {ZKR}), with(words, {"--reentrant"}));
    return ZkrProcess(operator_words(all, puppet("exit 3"))).end();
  };
  EXPECT_EQ(inner({}, {"lock", path_, path_ + "-other"}), exited(64));
  EXPECT_EQ(inner({"--shared"}, {"lock", path_, "--writer"}), exited(64));
  EXPECT_EQ(inner({"--shared"}, {"lock", path_}), exited(64));
  EXPECT_EQ(inner({"--writer"}, {"lock", path_, "--shared"}), exited(3));
  EXPECT_EQ(inner({}, {"lock", path_ + "-other"}), exited(3)) << "it takes the lock of its own";
}

TEST_F(ZkrLock, WhatHasOutlivedItsLeaseTakesTheLockItself) {
  const Folder folder;
  const std::string again = ZKR " lock --reentrant --try --server " + proxy_.connect_string() + " " + path_ + " -- ";
  // What is left behind goes on when the lock is another's.
  ZkrProcess first(operator_words(
      lock({"--descendants", "leave"}),
      {"sh", "-c", "exec 3<&0; (while read line <&3; do " + again + "true; echo code $?; done) & echo up"}));
  ASSERT_TRUE(first.lines().await("up"));
  EXPECT_EQ(first.end(), exited(0));
  expect_free();
  ZkrProcess& other = hold("say up read exit 0");
  first.type("go\n");
  EXPECT_EQ(first.lines().await("code"), "code 75");
  other.type("go\n");
  EXPECT_EQ(other.end(), exited(0));
  expect_free();
  first.type("go\n");
  EXPECT_EQ(first.lines().await("code"), "code 0");
}

TEST_F(ZkrLock, Z37DeadlinesAreToldIfAskedFor) {
  ZkrProcess& zkr = start("exit 0", {"-v"});
  EXPECT_TRUE(says(zkr, "without an answer of a server: TERM after "));
}

TEST_F(ZkrLock, Z9LineIsForTheShellOnlyIfAskedFor) {
  EXPECT_EQ(ZkrProcess({"lock", path_, "--server", proxy_.connect_string(), "-c", "exit $((2+3))"}).end(), exited(5));
  EXPECT_EQ(ZkrProcess(operator_words(lock({"-c", "true"}), {"true"})).end(), exited(64));
}

// ---- Waiting -----------------------------------------------------------------------------------------------------

TEST_F(ZkrLock, Z68TryNamesTheHolder) {
  const std::string keeper = std::to_string(hold("say up pause", {"--id", "ci"}).keeper());
  const auto is_told = [&](const Words& how) {
    ZkrProcess& zkr = start("say started", how);
    const bool told = says(zkr, path_ + ": held by ci (" + host_name() + ", pid " + keeper + "), which came ");
    EXPECT_EQ(zkr.lines().rest(), Words{});
    return zkr.end() == exited(75) && told;
  };
  // Again, if the server was too slow: to answer in that time, or to say within a second who holds.
  for (const Words& how : {Words{"--try"}, Words{"--timeout", "100ms"}})
    EXPECT_TRUE(eventually([&] { return is_told(how); }));
  EXPECT_EQ(start("exit 0", {"-n", "-E", "5"}).end(), exited(5));
}

TEST_F(ZkrLock, WaiterIsToldWhoHolds) {
  ZkrProcess& first = hold("say up read exit 0", {"--id", "ci"});
  ZkrProcess& second = start("exit 4");
  EXPECT_TRUE(says(second, path_ + ": waiting behind 1; held by ci ("));
  first.type("go\n");
  EXPECT_EQ(second.end(), exited(4));
}

TEST_F(ZkrLock, Z12SignalWhileWaitingWithdrawsAndKills) {
  hold("say up pause");
  ZkrProcess& waiter = start("say started");
  ASSERT_TRUE(queued(2));
  waiter.signal(SIGINT);
  EXPECT_EQ(waiter.end(), killed_by(SIGINT));
  EXPECT_TRUE(queued(1));
  EXPECT_EQ(waiter.lines().rest(), Words{});
}

TEST_F(ZkrLock, Z18SessionLostWhileWaitingQueuesAgain) {
  ZkrProcess& first = hold("say up read exit 0");
  ZkrProcess& second = start("exit 4", {"--session-timeout", short_session});
  ASSERT_TRUE(queued(2));
  proxy_.refuse(true);
  proxy_.cut();
  ASSERT_TRUE(queued(1));  // The holder's session lasts longer.
  proxy_.refuse(false);
  EXPECT_TRUE(says(second, "lost the place in the queue"));
  ASSERT_TRUE(queued(2));
  first.type("go\n");
  EXPECT_EQ(second.end(), exited(4));
}

// It is as long as it was asked for whatever happens meanwhile: who began to count anew would never give up here.
TEST_F(ZkrLock, Z11TimeToWaitGoesOnThroughCutsAndLostSessions) {
  constexpr Duration time = 6s;
  hold_from_elsewhere();
  const Instant begun = BootClock::now();
  ZkrProcess& waiter = start("say started", {"--timeout", "6s", "--session-timeout", "2s"});
  EXPECT_TRUE(eventually([&] {
    const std::size_t before = proxy_.accepted_connections();
    proxy_.cut();
    await_or_end(waiter, [&] { return proxy_.accepted_connections() > before && contenders() == 2; });
    proxy_.refuse(true);
    proxy_.cut();
    await_or_end(waiter, [&] { return contenders() == 1; });
    proxy_.refuse(false);
    return waiter.ended_now();
  }));
  EXPECT_GE(BootClock::now() - begun, time);
  const std::string how = waiter.end();
  EXPECT_TRUE(how == exited(75) || how == exited(69)) << how << ": 69 if it was cut off in the end";
  EXPECT_EQ(waiter.lines().rest(), Words{});
}

// Nobody hears that it is over, and nobody has to.
TEST_F(ZkrLock, Z11TimeToWaitIsOverThoughNoServerAnswers) {
  hold_from_elsewhere();
  ZkrProcess& waiter = start("say started", {"--timeout", "2s", "--session-timeout", "60s"});
  await_or_end(waiter, [&] { return contenders() == 2; });
  proxy_.stall(zktesting::Direction::both);
  const std::string how = waiter.end();
  EXPECT_TRUE(how == exited(75) || how == exited(69)) << how;
  EXPECT_EQ(waiter.lines().rest(), Words{});
  proxy_.unstall(zktesting::Direction::both);
  EXPECT_TRUE(queued(1)) << "its keeper withdraws then";
}

// The time that it may take to connect has nothing to do with the wait for the lock.
TEST_F(ZkrLock, Z11WithoutATimeItWaitsThroughCutsAndLostSessions) {
  ZkrProcess& holder = hold_from_elsewhere();
  constexpr auto time_to_connect = 10s;  // It bounds the first start as well, on whatever machine.
  ZkrProcess& waiter = start("exit 4", {"--session-timeout", "2s", "--connect-timeout", "10s"});
  for (const auto more : {0s, time_to_connect}) {
    ASSERT_TRUE(queued(2));
    const std::size_t before = proxy_.accepted_connections();
    proxy_.cut();
    EXPECT_TRUE(eventually([&] { return proxy_.accepted_connections() > before; }));
    proxy_.refuse(true);
    proxy_.cut();
    ASSERT_TRUE(queued(1));
    testkit::let_age(more);  // Longer than the time to connect, once.
    proxy_.refuse(false);
  }
  ASSERT_TRUE(queued(2));
  EXPECT_FALSE(waiter.ended_now());
  holder.type("go\n");
  EXPECT_EQ(waiter.end(), exited(4));
}

TEST_F(ZkrLock, KindsOfLocksThatDoNotSeeEachOtherAreRefused) {
  hold("say up pause");
  ZkrProcess& other = start("say started", {"--shared"});
  EXPECT_TRUE(says(other, "another kind of lock"));
  EXPECT_EQ(other.end(), exited(65));
  EXPECT_EQ(other.lines().rest(), Words{});
}

TEST_F(ZkrLock, NamesOfCuratorAndOfKazooAreNotMixed) {
  ZkrProcess& first = hold("say up read exit 0");
  EXPECT_EQ(start("say started", {"--kazoo"}).end(), exited(65));
  first.type("go\n");
  EXPECT_EQ(first.end(), exited(0));
  hold("say up pause", {"--kazoo"});
  EXPECT_EQ(start("say started").end(), exited(65));
  EXPECT_EQ(start("exit 0", {"--slots", "2", "--kazoo"}).end(), exited(64));
}

TEST_F(ZkrLock, SharersShareAndWritersDoNot) {
  hold("say up pause", {"--shared"});
  ZkrProcess& second = hold("say up read exit 0", {"--shared"});
  EXPECT_EQ(start("exit 0", {"--writer", "--try"}).end(), exited(75));
  second.type("go\n");
  EXPECT_EQ(second.end(), exited(0));
}

// ---- From writer to reader ---------------------------------------------------------------------------------------

TEST_F(ZkrLock, WriterBecomesAReaderAndLetsNoOtherWriterIn) {
  ZkrProcess first(operator_words(
      lock({"--writer"}), {"sh", "-c", "echo up; read line; " ZKR " downgrade; echo code $?; read line; exit 0"}));
  ASSERT_TRUE(first.lines().await("up"));
  const std::string node = holders_node();
  ZkrProcess& reader = start("say up read exit 0", {"--shared"});
  ASSERT_TRUE(queued(2));
  ZkrProcess& writer = start("say up exit 0", {"--writer"});
  ASSERT_TRUE(queued(3));
  first.type("go\n");
  const std::string now = first.lines().await("").value_or("");
  EXPECT_NE(now, node);
  EXPECT_TRUE(client_.exists(now).has_value()) << now;
  EXPECT_EQ(first.lines().await("code"), "code 0");
  ASSERT_TRUE(reader.lines().await("up"));
  reader.type("go\n");
  EXPECT_EQ(reader.end(), exited(0));
  ASSERT_TRUE(queued(2));
  EXPECT_FALSE(writer.ended_now());
  first.type("go\n");
  EXPECT_EQ(first.end(), exited(0));
  EXPECT_EQ(writer.lines().rest(), Words{"up"});
  EXPECT_EQ(writer.end(), exited(0));
  expect_free();
}

TEST_F(ZkrLock, SeveralPathsAreDowngradedTogether) {
  Words words = with({"lock", path_, path_ + "-other"}, {"--writer"});
  ZkrProcess zkr(operator_words(std::move(words), {"sh", "-c", ZKR " downgrade && " ZKR " downgrade; read line"}));
  std::set<std::string> nodes;
  for (int i = 0; i < 4; ++i)
    nodes.insert(zkr.lines().await("").value_or(""));
  EXPECT_EQ(nodes.size(), 2U) << "who asks again is told the same";
  for (const std::string& path : {path_, path_ + "-other"}) {
    EXPECT_EQ(ZkrProcess(operator_words(with({"lock", path}, {"--shared", "--try"}), {"true"})).end(), exited(0));
    EXPECT_EQ(ZkrProcess(operator_words(with({"lock", path}, {"--writer", "--try"}), {"true"})).end(), exited(75));
  }
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(0));
  expect_free();
}

TEST_F(ZkrLock, FormerWriterIsNoneForWhatItStarts) {
  const std::string inner = ZKR " lock --reentrant --server " + proxy_.connect_string() + " " + path_;
  const std::string write = inner + " --writer -- echo writes; echo code $?; ";
  const std::string read = inner + " --shared -- echo reads; ";
  ZkrProcess zkr(
      operator_words(lock({"--writer"}), {"sh", "-c", write + read + ZKR " downgrade >&2; " + write + read}));
  EXPECT_EQ(zkr.lines().rest(), (Words{"writes", "code 0", "reads", "code 64", "reads"}));
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrLock, OnlyAWriterBecomesAReader) {
  const auto code = [this](const Words& options) {
    return ZkrProcess(operator_words(lock(options), {ZKR, "downgrade"})).end();
  };
  EXPECT_EQ(code({}), exited(64));
  EXPECT_EQ(code({"--shared"}), exited(0)) << "it is one already";
  EXPECT_EQ(code({"--kazoo", "--writer"}), exited(0));
  EXPECT_EQ(code({"--slots", "2"}), exited(64));
  EXPECT_EQ(ZkrProcess({"downgrade"}).end(), exited(64));
}

TEST_F(ZkrLock, OutageWhileAWriterBecomesAReaderIsWaitedFor) {
  ZkrProcess zkr(operator_words(
      lock({"--writer"}), {"sh", "-c",
                           "exec 3<&0; echo up; read line; (" ZKR " downgrade >&2; echo code $?) & read line <&3; " ZKR
                           " held; wait; exit 0"}));
  ASSERT_TRUE(zkr.lines().await("up"));
  auto held_back = proxy_.hold_next_reply(zktesting::RequestType::multi);
  zkr.type("go\n");
  ASSERT_TRUE(held_back.wait(testkit::patience));
  zkr.type("go\n");
  const std::string left = zkr.lines().await("").value_or("0");
  EXPECT_GT(std::atoi(left.c_str()), 0) << left;
  proxy_.cut();  // Whether it was done nobody has heard.
  EXPECT_EQ(zkr.lines().await("code"), "code 0");
  EXPECT_EQ(zkr.end(), exited(0));
  expect_free();
}

TEST_F(ZkrLock, CommandThatEndsBeforeItIsAReaderLeavesNothing) {
  ZkrProcess zkr(operator_words(
      lock({"--writer"}), {"sh", "-c", "exec 3<&0; echo up; read line; " ZKR " downgrade & read line <&3; exit 3"}));
  ASSERT_TRUE(zkr.lines().await("up"));
  const pid_t keeper = zkr.keeper();
  auto held_back = proxy_.hold_next_reply(zktesting::RequestType::multi);
  zkr.type("go\n");
  ASSERT_TRUE(held_back.wait(testkit::patience));
  zkr.type("go\n");
  EXPECT_TRUE(eventually([keeper] { return PinnedProcess(keeper).children().empty(); }));
  held_back.release();
  EXPECT_EQ(zkr.end(), exited(3));
  expect_free();
}

/// The lease to write has ended, and that to read is not yet in its place.
TEST_F(ZkrLock, LeaseIsHeldBetweenWriterAndReader) {
  const Stake stake{.paths = {path_}, .mode = Mode::writer};
  const auto contest = make_contest(client_, stake);
  Prize prize = contest->win(testkit::patient());
  const std::vector<std::string> before = prize.nodes();
  zkrecipes::Lease reader = contest->downgrade(prize, 0, testkit::patient());
  ASSERT_EQ(prize.lease(0).state(), zkrecipes::LeaseState::released);
  EXPECT_TRUE(prize.valid());
  EXPECT_GT(prize.valid_until(), zkclient::BootClock::now());
  prize.replace(0, std::move(reader));
  EXPECT_TRUE(prize.valid());
  EXPECT_GT(prize.valid_until(), zkclient::BootClock::now());
  EXPECT_NE(prize.nodes(), before);
  prize.release();
  expect_free();
}

TEST_F(ZkrLock, SlotsAreHeldBySoMany) {
  hold("say up pause", {"--slots", "2"});
  hold("say up pause", {"--slots", "2"});
  EXPECT_EQ(start("exit 0", {"--slots", "2", "--try"}).end(), exited(75));
}

TEST_F(ZkrLock, NamesAreThoseOfCuratorOrKazoo) {
  ZkrProcess& curator = hold("say up read exit 0");
  EXPECT_NE(holders_node().find("-lock-"), std::string::npos);
  curator.type("go\n");
  EXPECT_EQ(curator.end(), exited(0));
  hold("say up pause", {"--kazoo"});
  EXPECT_NE(client_.children(path_).names.at(0).find("__lock__"), std::string::npos);
  EXPECT_EQ(start("exit 0", {"--kazoo", "--try"}).end(), exited(75));
}

TEST_F(ZkrLock, DescriptorsOfTheCommandAreTheCallers) {
  (void)client_.connect();  // The C client opens its socket as one that is inherited.
  std::string callers = "descriptors 0 1 2";
  for (int number = 3; number < 256; ++number) {
    const int flags = ::fcntl(number, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) callers += " " + std::to_string(number);
  }
  EXPECT_EQ(start("descriptors").lines().rest(), Words{callers});
}

TEST_F(ZkrLock, CredentialsAreNotInherited) {
  const Folder folder;
  const std::string file = folder / "auth";
  std::ofstream(file) << "digest ci:secret\n";
  ZkrProcess zkr(operator_words(lock({"--auth-fd", "7"}), {"sh", "-c", "cat <&7"}), [&file] {
    const int opened = ::open(file.c_str(), O_RDONLY);
    ::dup2(opened, 7);
    if (opened != 7) ::close(opened);
  });
  EXPECT_EQ(zkr.lines().rest(), Words{});
  EXPECT_NE(zkr.end(), exited(0)) << "there is no descriptor 7";
}

TEST_F(ZkrLock, SeveralPathsAreHeldTogether) {
  ZkrProcess& other = hold("say up read exit 0");
  ZkrProcess both(operator_words(with({"lock", path_ + "-b", path_}, {}), puppet("env ZKR_PATH exit 6")));
  ASSERT_TRUE(queued(2));
  other.type("go\n");
  EXPECT_EQ(both.lines().rest(), (Words{"ZKR_PATH=" + path_ + "-b", path_}));
  EXPECT_EQ(both.end(), exited(6));
  expect_free();
}

TEST_F(ZkrLock, OutageBeforeTheCommandEndsATryWithTheServersTrouble) {
  auto list = proxy_.hold_next_reply(zktesting::RequestType::get_children2);
  ZkrProcess& zkr = start("say started", {"--try", "--connect-timeout", "8s", "--session-timeout", "60s"});
  ASSERT_TRUE(list.wait(testkit::patience));
  proxy_.refuse(true);
  proxy_.cut();
  EXPECT_TRUE(says(zkr, "no server answers: " + proxy_.connect_string() + " refused"));
  EXPECT_EQ(zkr.end(), exited(69));
  EXPECT_EQ(zkr.lines().rest(), Words{});
}

// ---- Signals and ends --------------------------------------------------------------------------------------------

TEST_F(ZkrLock, Z1TermReachesTheCommandThenTheLockIsFree) {
  ZkrProcess& zkr = hold("signals fork [ signals pause ] say up read exit 3");
  zkr.signal(SIGTERM);
  ASSERT_TRUE(zkr.lines().await("signal 15"));
  EXPECT_EQ(contenders(), 1U);
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(3));
  EXPECT_TRUE(zkr.lines().ended_now());
  expect_free();
}

TEST_F(ZkrLock, NodeDeletedByHandKillsTheCommand) {
  ZkrProcess& zkr = hold("ignore 15 daemon [ ignore 15 pause ] say up pause");
  client_.remove(holders_node());
  EXPECT_EQ(zkr.end(), exited(79));
  EXPECT_TRUE(zkr.lines().ended_now());
  EXPECT_TRUE(says(zkr, "its node was deleted"));
}

constexpr uid_t nobody = 65534;

/// Whether nobody may run these, and become root by one of them.
bool nobody_can_run(const std::string& setuid_program) {
  struct statvfs mount {};
  if (::geteuid() != 0 || ::statvfs(setuid_program.c_str(), &mount) != 0 || (mount.f_flag & ST_NOSUID) != 0)
    return false;
  if (::seteuid(nobody) != 0) return false;
  const bool can = ::faccessat(AT_FDCWD, ZKR, X_OK, AT_EACCESS) == 0 &&
                   ::faccessat(AT_FDCWD, setuid_program.c_str(), X_OK, AT_EACCESS) == 0;
  return ::seteuid(0) == 0 && can;
}

TEST_F(ZkrLock, Z59ProcessThatMayNotBeKilledIsNamedAndTheLockIsKept) {
  const Folder folder;
  const std::string sudo = folder / "puppet";  // Becomes root, as sudo does.
  std::filesystem::copy_file(PUPPET, sudo);
  ::chmod((folder / "").c_str(), 0755);
  ::chmod(sudo.c_str(), 04755);
  if (!nobody_can_run(sudo)) GTEST_SKIP() << "only root may make the program";
  ZkrProcess zkr(operator_words(lock({"--grace", "100ms"}), {sudo, "as-root", "pid", "say", "up", "read", "exit", "3"}),
                 [] {
                   if (::setresgid(nobody, nobody, nobody) != 0 || ::setresuid(nobody, nobody, nobody) != 0) ::_exit(1);
                 });
  const auto command = zkr.lines().await("pid");
  ASSERT_TRUE(command);
  ASSERT_TRUE(zkr.lines().await("up"));
  zkrecipes::revoke_holders(client_, path_);
  EXPECT_TRUE(says(zkr, "may not be killed by us: " + std::to_string(number_in(*command))));
  EXPECT_EQ(contenders(), 1U);
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(80));
  expect_free();
}

TEST_F(ZkrLock, LostExitCodeIsOurs) {
  ZkrProcess& zkr = hold("say up pause", {"--lost-exit-code", "9"});
  client_.remove(holders_node());
  EXPECT_EQ(zkr.end(), exited(9));
}

TEST_F(ZkrLock, RevokedCommandMayCleanUp) {
  ZkrProcess& zkr = hold("signals say up read say clean exit 0");
  zkrecipes::revoke_holders(client_, path_);
  ASSERT_TRUE(zkr.lines().await("signal 15"));
  zkr.type("go\n");
  EXPECT_TRUE(zkr.lines().await("clean"));
  EXPECT_EQ(zkr.end(), exited(80));
  expect_free();
}

TEST_F(ZkrLock, HeldTooLongIsEnded) {
  EXPECT_EQ(start("say up pause", {"--max-hold", "100ms"}).end(), exited(81));
  expect_free();
}

TEST_F(ZkrLock, Z39DescendantsAreWaitedForOrLeft) {
  ZkrProcess& wait = hold("daemon [ say up read ] exit 9", {"--descendants", "wait"});
  EXPECT_EQ(contenders(), 1U);
  wait.type("go\n");
  EXPECT_EQ(wait.end(), exited(9));
  ZkrProcess& leave = hold("daemon [ say up read ] exit 9", {"--descendants", "leave"});
  EXPECT_EQ(leave.end(), exited(9));
  EXPECT_FALSE(leave.lines().ended_now());
  leave.close_input();
  leave.lines().rest();
}

// ---- Connections -------------------------------------------------------------------------------------------------

TEST_F(ZkrLock, Z15ConnectionThatIsBackInTimeCostsNothing) {
  ZkrProcess& zkr = hold("signals say up read exit 0");
  for (int i = 0; i < 5; ++i) {
    const std::size_t before = proxy_.accepted_connections();
    proxy_.cut();
    ASSERT_TRUE(eventually([&] { return proxy_.accepted_connections() > before; }));
  }
  zkr.type("go\n");
  EXPECT_EQ(zkr.lines().rest(), Words{"line go"});
  EXPECT_EQ(zkr.end(), exited(0));
}

/// The command has stopped, all of it, while its node was still there.
void expect_stopped_before_deletion(ZkrProcess& zkr, const std::function<std::size_t()>& contenders) {
  Instant seen{};
  while (true) {
    const Instant now = BootClock::now();
    if (contenders() == 0) break;
    seen = now;
  }
  EXPECT_EQ(zkr.end(), exited(79));
  zkr.lines().rest();
  EXPECT_GT(zkr.lines().last_tick(), Instant{});
  EXPECT_LT(zkr.lines().last_tick(), seen);
}

TEST_F(ZkrLock, Z6CommandIsGoneBeforeAServerThatIsCutOffGivesTheLockAway) {
  ZkrProcess& zkr = hold("ignore 15 fork [ setsid ignore 15 say up pause ] say up tick", session_with_margin);
  proxy_.stall(zktesting::Direction::both);
  expect_stopped_before_deletion(zkr, [this] { return contenders(); });
}

TEST_F(ZkrLock, Z32AnswersThatNeverComeEndTheCommandInTime) {
  ZkrProcess& zkr = hold("ignore 15 say up tick", {"--session-timeout", "10s"});
  proxy_.stall(zktesting::Direction::to_client);
  // The server hears of it, and gives nothing away.
  EXPECT_EQ(zkr.end(), exited(79));
  EXPECT_TRUE(zkr.lines().ended_now());
  EXPECT_TRUE(says(zkr, "no server has confirmed the lease for"));
}

TEST_F(ZkrLock, MarginOfTheKillIsWithinBounds) {
  ZkrProcess& none = start("say started", {"--kill-margin", "0"});
  EXPECT_TRUE(says(none, "too short"));
  EXPECT_EQ(none.end(), exited(64));
  ZkrProcess& all = start("say started", {"--session-timeout", "30s", "--kill-margin", "40s"});
  EXPECT_TRUE(says(all, "too long: 7.5 s is the most for a session timeout of 30 s"));
  EXPECT_EQ(all.end(), exited(64));
}

// ---- Without a command; what scripts ask for ------------------------------------------------------------------------

TEST_F(ZkrLock, Z20HoldEndsWithItsInput) {
  const Words words{"lock", path_, "--server", proxy_.connect_string(), "--hold"};
  ZkrProcess by_end(words);
  EXPECT_TRUE(by_end.lines().await("held "));
  EXPECT_EQ(contenders(), 1U);
  by_end.close_input();
  EXPECT_EQ(by_end.end(), exited(0));
  expect_free();

  ZkrProcess by_signal(words);
  EXPECT_TRUE(by_signal.lines().await("held "));
  by_signal.signal(SIGHUP);
  EXPECT_EQ(by_signal.end(), killed_by(SIGHUP));
  expect_free();

  ZkrProcess lost(words);
  EXPECT_TRUE(lost.lines().await("held "));
  client_.remove(holders_node());
  EXPECT_EQ(lost.end(), exited(79));
}

TEST_F(ZkrLock, ReportSaysHowItEnded) {
  const Folder folder;
  const std::string file = folder / "report";
  EXPECT_EQ(start("exit 3", {"--report", file}).end(), exited(3));
  std::string text;
  std::getline(std::ifstream(file), text);
  EXPECT_TRUE(text.starts_with(R"({"reason":"ended","code":3,"signal":null,"waited_ms":)")) << text;
  EXPECT_NE(text.find(R"("token":)"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(R"("paths":[")" + path_ + R"("]})")) << text;
}

TEST_F(ZkrLock, Z68ReportNamesTheHolder) {
  const Folder folder;
  const std::string file = folder / "report";
  const std::string keeper = std::to_string(hold("say up pause", {"--id", "c\"i"}).keeper());
  std::string text;
  EXPECT_TRUE(eventually([&] {  // Again, if the server was too slow to say within a second who holds.
    EXPECT_EQ(start("exit 3", {"--report", file, "--try"}).end(), exited(75));
    std::getline(std::ifstream(file), text);
    return text.find(R"("holder":{)") != std::string::npos;
  }));
  EXPECT_TRUE(text.starts_with(R"({"reason":"not acquired","code":75,"signal":null,"waited_ms":null,"token":null,)" +
                               std::string(R"("holder":{"who":"c\"i","host":")") + host_name() + R"(","pid":)" +
                               keeper + R"(,"since":"20)"))
      << text;
  EXPECT_TRUE(text.ends_with(R"(Z"},"paths":[")" + path_ + R"("]})")) << text;
}

TEST_F(ZkrLock, ReportGoesToADescriptorOfOurCaller) {
  ZkrProcess& zkr = start("say from-the-command exit 3", {"--report", "/dev/stdout"});
  EXPECT_TRUE(zkr.lines().await("from-the-command"));
  EXPECT_TRUE(zkr.lines().await(R"({"reason":"ended","code":3,)"));
  EXPECT_EQ(zkr.end(), exited(3));
  EXPECT_EQ(start("say started", {"--report", "/dev/fd/987"}).end(), exited(64));
}

TEST_F(ZkrLock, Z65RefusalNamesTheRightAndWhoAsks) {
  client_.create(path_, "", {.acl = zkclient::read_only_acl(), .parents = true});
  for (const Words& command : {Words{"lock"}, Words{"lead"}, Words{"barrier", "enter", "-n", "1"}}) {
    ZkrProcess zkr(operator_words(with(operator_words(command, {path_}), {}), {"true"}));
    EXPECT_TRUE(says(zkr, "it takes the rights to read, create and delete, at the path; this call has no identity"))
        << command[0];
    EXPECT_EQ(zkr.end(), exited(77)) << command[0];
  }
}

TEST_F(ZkrLock, Z35ReportThatCannotBeWrittenHindersNothing) {
  ZkrProcess& zkr = start("exit 3", {"--report", "/nowhere/at-all"});
  EXPECT_TRUE(says(zkr, "/nowhere/at-all"));
  EXPECT_EQ(zkr.end(), exited(3));
  expect_free();
}

TEST_F(ZkrLock, LostDescriptorIsAtItsEndOnceTheLeaseIsLost) {
  const Words words = lock({"--lost-fd", "7", "--grace", "9s", "--session-timeout", "60s"});
  ZkrProcess zkr(operator_words(words, {"sh", "-c", "trap '' TERM; echo up; read line <&7; echo lost $ZKR_LOST_FD"}));
  ASSERT_TRUE(zkr.lines().await("up"));
  EXPECT_FALSE(zkr.lines().ended_now());
  zkrecipes::revoke_holders(client_, path_);
  EXPECT_EQ(zkr.lines().await("lost"), "lost 7");
  EXPECT_EQ(zkr.end(), exited(80));
}

TEST_F(ZkrLock, CommandAsksForItsLease) {
  // No server is asked.
  ZkrProcess zkr(operator_words(
      lock(), {"sh", "-c", "echo up; read line; " ZKR " held; echo code $?; " ZKR " ready; echo code $?"}));
  ASSERT_TRUE(zkr.lines().await("up"));
  proxy_.stall(zktesting::Direction::both);
  zkr.type("go\n");
  const std::string left = zkr.lines().await("").value_or("");
  EXPECT_GT(std::stoi(left), 0);
  EXPECT_LT(std::stoi(left), 30'000);
  EXPECT_EQ(zkr.lines().await(""), "code 0");
  EXPECT_EQ(zkr.lines().await(""), "code 64");  // It is no leadership.
  proxy_.unstall(zktesting::Direction::both);
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrLock, CommandIsToldThatItsLeaseIsOver) {
  const Words words = lock({"--grace", "9s", "--session-timeout", "60s", "--descendants", "leave"});
  // What is left behind asks when the keeper has given the lease back.
  ZkrProcess zkr(
      operator_words(words, {"sh", "-c", "exec 3<&0; (read line <&3; " ZKR " held; echo code $?) & echo up; exit 0"}));
  ASSERT_TRUE(zkr.lines().await("up"));
  EXPECT_EQ(zkr.end(), exited(0));
  expect_free();
  zkr.type("go\n");
  EXPECT_EQ(zkr.lines().await(""), "code 79");
  EXPECT_EQ(ZkrProcess({"held"}).end(), exited(64));
}

// ---- Leading -----------------------------------------------------------------------------------------------------

class ZkrLead : public ZkrLock {
 protected:
  ZkrProcess& lead(const std::string& script, const Words& options = {}) {
    processes_.push_back(std::make_unique<ZkrProcess>(operator_words(with({"lead", path_}, options), puppet(script))));
    return *processes_.back();
  }
  bool is_ready() {
    const auto leader = zkrecipes::LeaderElection(client_, path_).leader();
    return leader && leader->ready;
  }
  std::string leaders_node() {
    std::string node;
    EXPECT_TRUE(eventually([&] {
      const auto leader = zkrecipes::LeaderElection(client_, path_).leader();
      if (leader) node = path_ + "/" + leader->node;
      return leader.has_value();
    }));
    return node;
  }
};

TEST_F(ZkrLead, CodeOfTheCommandIsOursByDefault) {
  EXPECT_EQ(lead("env ZKR_MODE exit 3").end(), exited(3));
  EXPECT_EQ(processes_.back()->lines().rest(), Words{"ZKR_MODE=leader"});
  expect_free();
}

TEST_F(ZkrLead, LeaderIsReadyAndShowsAText) {
  ZkrProcess zkr(
      operator_words(with({"lead", path_}, {}),
                     {"sh", "-c", ZKR " ready && " ZKR " proclaim 'host 7:80' && echo up; read line; exit 0"}));
  ASSERT_TRUE(zkr.lines().await("up"));
  const auto leader = zkrecipes::LeaderElection(client_, path_).leader();
  ASSERT_TRUE(leader);
  EXPECT_TRUE(leader->ready);
  EXPECT_EQ(leader->value, "host 7:80");
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrLead, Z22ChangeWhoseAnswerIsLostIsInDoubt) {
  ZkrProcess zkr(operator_words(
      with({"lead", path_}, {"--session-timeout", "60s"}),
      {"sh", "-c", "echo up; while read words; do " ZKR " $words </dev/null >&2; echo code $?; done; exit 0"}));
  ASSERT_TRUE(zkr.lines().await("up"));
  for (const char* words : {"ready\n", "proclaim text\n"}) {
    std::string code;
    do {
      const auto lost = proxy_.drop_next_reply(zktesting::RequestType::multi);
      zkr.type(words);
      code = zkr.lines().await("code").value_or("none");
      EXPECT_TRUE(lost.happened());
    } while (code == "code 0");  // The answer to a heartbeat was lost, which is one of these, too.
    EXPECT_EQ(code, "code 74") << words;
  }
  zkr.close_input();
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrLead, LeaseIsToldWhileATextIsOnItsWay) {
  ZkrProcess zkr(operator_words(
      with({"lead", path_}, {}),
      {"sh", "-c",
       "echo up; read line; " ZKR " proclaim text & read line; " ZKR " held >&2; echo code $?; wait; exit 0"}));
  ASSERT_TRUE(zkr.lines().await("up"));
  auto held_back = proxy_.hold_next_reply(zktesting::RequestType::any);
  zkr.type("go\n");
  ASSERT_TRUE(held_back.wait(testkit::patience));
  zkr.type("go\n");
  EXPECT_EQ(zkr.lines().await("code"), "code 0");
  EXPECT_FALSE(zkr.lines().ended_now());
  held_back.release();
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrLead, LeftoverOfATermIsNotToldOfTheNextOne) {
  const std::string script =
      "if [ -e go ]; then echo >go; read line; else mkfifo go; "
      "(timeout 600 sh -c 'read line <go'; " ZKR " held; echo code $?) & fi; exit 0";
  const Folder folder;
  ZkrProcess zkr(operator_words(with({"lead", path_}, {"--descendants", "leave", "--restart", "always"}),
                                {"sh", "-c", "cd " + (folder / "") + "; " + script}));
  EXPECT_EQ(zkr.lines().await("code"), "code 79");
  zkr.signal(SIGTERM);
  zkr.end();
}

TEST_F(ZkrLead, OutageWhileItLooksForOtherKindsIsWaitedFor) {
  auto list = proxy_.hold_next_reply(zktesting::RequestType::get_children2);
  ZkrProcess& zkr = lead("say up read exit 3", {"--connect-timeout", "8s", "--session-timeout", "60s"});
  ASSERT_TRUE(list.wait(testkit::patience));
  proxy_.refuse(true);
  proxy_.cut();
  EXPECT_TRUE(says(zkr, "no server answers: waiting for one"));
  proxy_.refuse(false);
  EXPECT_TRUE(zkr.lines().await("up"));
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(3));
}

TEST_F(ZkrLead, Z30LostLeadershipIsStoodForAgain) {
  ZkrProcess& zkr = lead("say up pause");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(zkr.lines().await("up"));
    client_.remove(leaders_node());
  }
  ASSERT_TRUE(zkr.lines().await("up"));
  zkr.signal(SIGTERM);
  EXPECT_EQ(zkr.end(), killed_by(SIGTERM));
  expect_free();
}

TEST_F(ZkrLead, CandidateThatStandsAgainProvesWhoItIs) {
  const Folder folder;
  const std::string file = folder / "auth";
  std::ofstream(file) << "digest ci:secret\n";
  ::chmod(file.c_str(), 0600);
  client_.add_auth("digest", "ci:secret");
  client_.create(path_, "", {.acl = zkclient::creator_all_acl(), .parents = true});
  ::setenv("ZKR_AUTH_FILE", file.c_str(), 1);
  ZkrProcess& zkr = lead("say up pause");
  ::unsetenv("ZKR_AUTH_FILE");
  ASSERT_TRUE(zkr.lines().await("up"));
  client_.remove(leaders_node());
  EXPECT_TRUE(zkr.lines().await("up"));
}

TEST_F(ZkrLead, Z36LeaderThatIsStartedAnewDoesNotWaitForItsGhost) {
  const Words long_session{"--session-timeout", "60s"};
  ZkrProcess& before = lead("env ZKR_SESSION pause", long_session);
  const std::string session = session_of(before);
  const pid_t keeper = before.keeper();
  before.signal(SIGKILL);
  ::kill(keeper, SIGKILL);
  EXPECT_TRUE(lead("say up pause", long_session).lines().await("up"));
  EXPECT_FALSE(has_expired(session));
}

TEST_F(ZkrLead, Z30OnceEndsWithTheLoss) {
  ZkrProcess& zkr = lead("say up pause", {"--once"});
  ASSERT_TRUE(zkr.lines().await("up"));
  client_.remove(leaders_node());
  EXPECT_EQ(zkr.end(), exited(79));
}

/// What a service manager does with the unit that is installed.
class Unit {
 public:
  Unit() {
    std::ifstream file(UNIT);
    for (std::string line; std::getline(file, line);) {
      const std::size_t equals = line.find('=');
      if (equals != std::string::npos && line[0] != '#') settings_[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }

  /// Behind the program's name.
  Words words(const Words& options, const std::string& path, const Words& command) const {
    std::istringstream source(settings_.at("ExecStart"));
    Words all;
    std::string word;
    source >> word;
    EXPECT_EQ(word, "zkr");
    while (source >> word) {
      if (word == "$LEAD_OPTIONS") {
        all.insert(all.end(), options.begin(), options.end());
      } else if (word == "$LEAD_COMMAND") {
        all.insert(all.end(), command.begin(), command.end());
      } else {
        all.push_back(word == "${LEAD_PATH}" ? path : word);
      }
    }
    return all;
  }
  /// As systemd.service(5) says it of Restart= and RestartPreventExitStatus=.
  bool starts_again(const std::string& ending) const {
    EXPECT_EQ(settings_.at("Restart"), "on-failure");
    const std::set<std::string> clean{exited(0), killed_by(SIGHUP), killed_by(SIGINT), killed_by(SIGTERM),
                                      killed_by(SIGPIPE)};
    std::istringstream prevented(settings_.at("RestartPreventExitStatus"));
    for (int code = 0; prevented >> code;) {
      if (ending == exited(code)) return false;
    }
    return !clean.contains(ending);
  }

 private:
  std::map<std::string, std::string> settings_;
};

TEST_F(ZkrLead, Z38UnitIsStartedAgainIfTheExitStatusIsThatOfALossOrAFailure) {
  const Unit unit;
  const auto serve = [&](const std::string& script, const Words& more) -> ZkrProcess& {
    const Words options = operator_words({"--server", proxy_.connect_string(), "--once"}, more);
    processes_.push_back(std::make_unique<ZkrProcess>(unit.words(options, path_, puppet(script))));
    return *processes_.back();
  };
  ZkrProcess& lost = serve("say up pause", {});
  ASSERT_TRUE(lost.lines().await("up"));
  client_.remove(leaders_node());
  EXPECT_EQ(lost.end(), exited(79));
  EXPECT_TRUE(unit.starts_again(exited(79)));
  ZkrProcess& revoked = serve("say up pause", {});  // It leads again, without a wait for anything of the one before.
  ASSERT_TRUE(revoked.lines().await("up"));
  zkrecipes::revoke_holders(client_, path_);
  EXPECT_EQ(revoked.end(), exited(80));
  EXPECT_TRUE(unit.starts_again(exited(80)));
  EXPECT_EQ(serve("pause", {"--max-hold", "100ms"}).end(), exited(81));
  EXPECT_TRUE(unit.starts_again(exited(81)));
  EXPECT_EQ(serve("exit 3", {}).end(), exited(3));
  EXPECT_TRUE(unit.starts_again(exited(3)));
  ZkrProcess& killed = serve("say up pause", {});
  ASSERT_TRUE(killed.lines().await("up"));
  killed.signal(SIGKILL);
  EXPECT_TRUE(unit.starts_again(killed.end()));

  EXPECT_FALSE(unit.starts_again(serve("exit 0", {}).end()));
  ZkrProcess& stopped = serve("say up pause", {});
  ASSERT_TRUE(stopped.lines().await("up"));
  stopped.signal(SIGTERM);
  EXPECT_FALSE(unit.starts_again(stopped.end()));
  EXPECT_EQ(serve("exit 0", {"--nonsense"}).end(), exited(64));
  EXPECT_FALSE(unit.starts_again(exited(64)));
  EXPECT_EQ(serve("exit 0", {"--profile", "nowhere"}).end(), exited(78));
  EXPECT_FALSE(unit.starts_again(exited(78)));
}

TEST_F(ZkrLead, Z31CommandThatFailsGivesOthersTheirTurn) {
  ZkrProcess& failing = lead("say up read exit 1", {"--restart", "on-failure"});
  ASSERT_TRUE(failing.lines().await("up"));
  ZkrProcess& other = lead("say up read exit 0", {"--restart", "on-failure"});
  ASSERT_TRUE(queued(2));
  failing.type("go\n");
  ASSERT_TRUE(other.lines().await("up"));
  ASSERT_TRUE(queued(2));  // It stands again.
  other.type("go\n");
  EXPECT_EQ(other.end(), exited(0));
  ASSERT_TRUE(failing.lines().await("up"));
  failing.signal(SIGTERM);
  EXPECT_EQ(failing.end(), killed_by(SIGTERM));
}

TEST_F(ZkrLead, SignalBetweenTwoRunsEndsIt) {
  ZkrProcess& other = lead("say up pause");
  ASSERT_TRUE(other.lines().await("up"));
  ZkrProcess& zkr = lead("say up pause");
  ASSERT_TRUE(queued(2));
  client_.remove(leaders_node());
  ASSERT_TRUE(zkr.lines().await("up"));
  ASSERT_TRUE(queued(2));  // The first one waits for its second run.
  other.signal(SIGTERM);
  EXPECT_EQ(other.end(), killed_by(SIGTERM));
  EXPECT_TRUE(queued(1));
}

TEST_F(ZkrLead, Z29LeadershipIsGivenUpWhenNothingRunsAnyMore) {
  ZkrProcess& zkr = lead("signals fork [ signals pause ] say up read exit 3");
  ASSERT_TRUE(zkr.lines().await("up"));
  zkr.signal(SIGTERM);
  ASSERT_TRUE(zkr.lines().await("signal 15"));
  EXPECT_EQ(contenders(), 1U);
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(3));
  EXPECT_TRUE(zkr.lines().ended_now());
  expect_free();
}

// ---- How the command is ------------------------------------------------------------------------------------------

/// Where services say how they are.
class ServiceManager {
 public:
  ServiceManager() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const UnixAddress address = abstract_address(name_);
    EXPECT_EQ(::bind(socket_.get(), address.get(), address.size), 0);
  }
  /// What is started by that is a service of this manager.
  template <typename Start>
  ZkrProcess& start(const Start& service) const {
    ::setenv("NOTIFY_SOCKET", ("@" + name_).c_str(), 1);
    ZkrProcess& started = service();
    ::unsetenv("NOTIFY_SOCKET");
    return started;
  }
  /// Waits for the next message.
  std::string next() const {
    std::array<char, 4096> text{};
    const ssize_t size = ::recv(socket_.get(), text.data(), text.size(), 0);
    return {text.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
  }

 private:
  std::string name_ = "zkr-test-manager-" + std::to_string(::getpid());
  Descriptor socket_;
};

TEST_F(ZkrLead, LeaderIsReadyOnceItsCommandRuns) {
  lead("say up pause", {"--ready", "start"});
  EXPECT_TRUE(eventually([this] { return is_ready(); }));
  EXPECT_TRUE(processes_.back()->lines().await("up"));
}

TEST_F(ZkrLead, LeaderIsReadyWhenItsCommandSaysSo) {
  const ServiceManager manager;
  ZkrProcess& zkr = manager.start([this]() -> ZkrProcess& {
    return lead("say up read notify MAINPID=7,READY=1,STATUS=works read exit 0", {"--ready", "notify"});
  });
  ASSERT_TRUE(zkr.lines().await("up"));
  EXPECT_FALSE(is_ready());
  zkr.type("go\n");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=works\n");
  EXPECT_TRUE(eventually([this] { return is_ready(); }));
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrLead, ReadinessThatNoServerHasHeardOfIsToldAgain) {
  ZkrProcess& zkr = lead("say up read notify READY=1 say told read exit 0", {"--ready", "notify"});
  ASSERT_TRUE(zkr.lines().await("up"));
  const auto lost = proxy_.drop_next_request(zktesting::RequestType::multi);
  zkr.type("go\n");
  ASSERT_TRUE(zkr.lines().await("told"));
  EXPECT_TRUE(eventually([this] { return is_ready(); }));
  EXPECT_TRUE(lost.happened());
}

/// The socket for notifications of the keeper.
std::string notify_socket_of(pid_t keeper) {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(keeper) + "/fd")) {
    std::error_code gone;
    own.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  }
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream words(line);
    std::string word;
    std::string inode;
    std::string name;
    words >> word >> word >> word >> word >> word >> word >> inode >> name;
    if (own.contains("socket:[" + inode + "]") && name.ends_with("-notify")) return name.substr(1);
  }
  return "";
}

TEST_F(ZkrLead, ReadinessThatIsSaidTooEarlyHindersNothing) {
  ZkrProcess& other = lead("say up read exit 0");
  ASSERT_TRUE(other.lines().await("up"));
  const ServiceManager manager;
  ZkrProcess& zkr = manager.start([this]() -> ZkrProcess& { return lead("say up pause", {"--ready", "notify"}); });
  ASSERT_TRUE(queued(2));
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UnixAddress address = abstract_address(notify_socket_of(zkr.keeper()));
  constexpr std::string_view ready = "READY=1";
  ASSERT_EQ(::sendto(socket.get(), ready.data(), ready.size(), 0, address.get(), address.size), 7);
  EXPECT_EQ(manager.next(), "READY=1\n");  // It was heard by then.
  other.type("go\n");
  ASSERT_TRUE(zkr.lines().await("up"));
  EXPECT_FALSE(is_ready());
  zkr.signal(SIGTERM);
  EXPECT_EQ(zkr.end(), killed_by(SIGTERM));
}

TEST_F(ZkrLead, CommandThatIsSilentForTooLongIsEnded) {
  const Folder folder;
  const std::string file = folder / "report";
  EXPECT_EQ(lead("say up pause", {"--watchdog", "200ms", "--report", file}).end(), exited(81));
  std::string text;
  std::getline(std::ifstream(file), text);
  EXPECT_TRUE(text.starts_with(R"({"reason":"hung","code":81,)")) << text;
  expect_free();
  EXPECT_EQ(lead("say up pause", {"--watchdog", "0"}).end(), exited(64));
}

TEST_F(ZkrLead, CommandSaysThatItIsAlive) {
  const ServiceManager manager;
  ZkrProcess& by_notification = manager.start([this]() -> ZkrProcess& {
    return lead("env WATCHDOG_USEC env WATCHDOG_PID notify WATCHDOG=1 read exit 0", {"--watchdog", "600s"});
  });
  EXPECT_EQ(by_notification.lines().await("WATCHDOG_USEC"), "WATCHDOG_USEC=600000000");
  EXPECT_EQ(by_notification.lines().await("WATCHDOG_PID"), "WATCHDOG_PID=(none)");
  EXPECT_EQ(manager.next(), "WATCHDOG=1\n");
  by_notification.type("go\n");
  EXPECT_EQ(by_notification.end(), exited(0));
  ZkrProcess by_call(operator_words(with({"lead", path_}, {"--watchdog", "600s"}),
                                    {"sh", "-c", ZKR " alive; echo code $?; ZKR_SOCKET=none " ZKR " alive; exit $?"}));
  EXPECT_EQ(by_call.lines().await("code"), "code 0");
  EXPECT_EQ(by_call.end(), exited(79));
}

/// How long a command went on that has said "at INSTANT" right before it said that it is alive.
Duration time_left_after_sign_of_life(ZkrProcess& zkr) {
  const std::string at = zkr.lines().await("at").value_or("at 0").substr(3);
  const bool in_time = zkr.lines().await("told").has_value();
  EXPECT_EQ(zkr.end(), exited(81));
  const Instant said(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::stod(at))));
  return in_time ? BootClock::now() - said : Duration::max();  // On a machine that is too slow it was ended before.
}

TEST_F(ZkrLead, SignOfLifeGivesTheCommandItsTimeAgain) {
  const auto start = [this](const std::string& sign_of_life) -> ZkrProcess& {
    const std::string line = "sleep 1; echo at $(cut -d ' ' -f 1 /proc/uptime); " + sign_of_life + "; echo told; cat";
    const Words words = with({"lead", path_ + "-" + std::to_string(++paths)}, {"--watchdog", "4s"});
    processes_.push_back(std::make_unique<ZkrProcess>(operator_words(words, {"sh", "-c", line})));
    return *processes_.back();
  };
  ZkrProcess& by_call = start(ZKR " alive");
  ZkrProcess& by_notification = start(PUPPET " notify WATCHDOG=1");
  EXPECT_GE(time_left_after_sign_of_life(by_call), 4s);
  EXPECT_GE(time_left_after_sign_of_life(by_notification), 4s);
}

// ---- Beginning and ending together ---------------------------------------------------------------------------------

class ZkrBarrier : public ZkrLock {
 protected:
  ZkrProcess& enter(const std::string& script, const Words& options = {}) {
    Words words = with({"barrier", "enter", "-n", "2", path_}, options);
    processes_.push_back(std::make_unique<ZkrProcess>(operator_words(words, puppet(script))));
    return *processes_.back();
  }
};

TEST_F(ZkrBarrier, CommandsBeginAndEndTogether) {
  ZkrProcess& first = enter("env ZKR_MODE env ZKR_TOKEN read exit 3");
  ASSERT_TRUE(queued(1));
  ZkrProcess& second = enter("say up read exit 4");
  EXPECT_EQ(first.lines().await(""), "ZKR_MODE=member");
  EXPECT_EQ(first.lines().await(""), "ZKR_TOKEN=(none)");
  ASSERT_TRUE(second.lines().await("up"));
  first.type("go\n");
  ASSERT_TRUE(queued(1));           // It is out,
  EXPECT_FALSE(first.ended_now());  // and waits for the other one.
  second.type("go\n");
  EXPECT_EQ(second.end(), exited(4));
  EXPECT_EQ(first.end(), exited(3));
  expect_free();
}

TEST_F(ZkrBarrier, OneWhoWaitsForTheOthersEndCanBeEnded) {
  ZkrProcess& first = enter("say up read exit 3");
  ZkrProcess& second = enter("say up pause");
  ASSERT_TRUE(first.lines().await("up"));
  ASSERT_TRUE(second.lines().await("up"));
  first.type("go\n");
  ASSERT_TRUE(queued(1));
  first.signal(SIGTERM);
  EXPECT_EQ(first.end(), exited(3));
}

TEST_F(ZkrBarrier, OneWhoWasToldToEndWaitsForNobody) {
  ZkrProcess& first = enter("signals say up read exit 3");
  ZkrProcess& second = enter("say up pause");
  ASSERT_TRUE(first.lines().await("up"));
  ASSERT_TRUE(second.lines().await("up"));
  first.signal(SIGTERM);
  ASSERT_TRUE(first.lines().await("signal 15"));
  first.type("go\n");
  EXPECT_EQ(first.end(), exited(3));
  EXPECT_FALSE(second.ended_now());
}

TEST_F(ZkrBarrier, DeadMemberIsNotWaitedFor) {
  ZkrProcess& first = enter("say up read exit 3", {"--session-timeout", "60s"});
  ZkrProcess& second = enter("say up pause", {"--session-timeout", "60s"});
  ASSERT_TRUE(first.lines().await("up"));
  ASSERT_TRUE(second.lines().await("up"));
  const pid_t keeper = second.keeper();
  second.signal(SIGKILL);
  ::kill(keeper, SIGKILL);
  first.type("go\n");
  EXPECT_EQ(first.end(), exited(3));
}

TEST_F(ZkrBarrier, MemberThatIsLostIsKilled) {
  ZkrProcess& first = enter("say up pause");
  ASSERT_TRUE(queued(1));
  const std::string node = path_ + "/" + client_.children(path_).names.at(0);
  enter("say up pause");
  ASSERT_TRUE(first.lines().await("up"));
  client_.remove(node);
  EXPECT_EQ(first.end(), exited(79));
}

TEST_F(ZkrBarrier, MemberThatIsAloneIsNotAcquired) {
  ZkrProcess& alone = enter("say started", {"--try"});
  EXPECT_TRUE(says(alone, path_ + ": the others have not come"));
  EXPECT_EQ(alone.end(), exited(75));
  // 69: the server was too slow to answer in that time.
  std::string how;
  EXPECT_TRUE(eventually([&] { return (how = enter("say started", {"--timeout", "100ms"}).end()) != exited(69); }));
  EXPECT_EQ(how, exited(75));
  expect_free();
  ZkrProcess& waits = enter("say started");
  ASSERT_TRUE(queued(1));
  EXPECT_EQ(start("say started", {"--try"}).end(), exited(65)) << "a lock is something else";
  waits.signal(SIGINT);
  EXPECT_EQ(waits.end(), killed_by(SIGINT));
  EXPECT_EQ(waits.lines().rest(), Words{});
}

// ---- Deaths of our own -------------------------------------------------------------------------------------------

TEST_F(ZkrLock, Z21DeadFrontFreesTheLockWhenAllIsGone) {
  ZkrProcess& zkr = hold("daemon [ ignore 15 pause ] say up pause");
  zkr.signal(SIGKILL);
  expect_free();
  EXPECT_TRUE(zkr.lines().ended_now());
  EXPECT_EQ(zkr.end(), killed_by(SIGKILL));
}

TEST_F(ZkrLock, DeadKeeperEndsTheCommand) {
  ZkrProcess& zkr = hold("daemon [ ignore 15 pause ] say up pause");
  ::kill(zkr.keeper(), SIGKILL);
  EXPECT_EQ(zkr.end(), exited(79));
  EXPECT_TRUE(zkr.lines().ended_now());
}

TEST_F(ZkrLock, SessionThatHasTimedOutIsKnownAsSuch) {
  zktesting::Proxy proxy(zktesting::SharedServer::instance().connect_string());
  const zkclient::Client client(proxy.connect_string(), {.session_timeout = 2s});
  const std::string session = fmt::format("{:#x}", client.connect(testkit::patient()).id());
  EXPECT_FALSE(has_expired(session));
  proxy.refuse(true);
  proxy.cut();
  if (zktesting::SharedServer::instance().has_control()) await([&] { return has_expired(session); });
}

TEST_F(ZkrLock, Z21DeadKeeperFreesTheLockAtOnce) {
  ZkrProcess& zkr = start("env ZKR_SESSION pause", {"--session-timeout", "60s"});
  const std::string session = session_of(zkr);
  ::kill(zkr.keeper(), SIGKILL);
  EXPECT_EQ(zkr.end(), exited(79));
  expect_freed_before_expiry(session);
}

TEST_F(ZkrLock, Z58FrontAndKeeperKilledTogetherLeaveNothing) {
  ZkrProcess& zkr =
      start("env ZKR_SESSION daemon [ ignore 15 say up pause ] fork [ setsid ignore 15 pause ] say up pause",
            {"--session-timeout", "60s"});
  const std::string session = session_of(zkr);
  ASSERT_TRUE(zkr.lines().await("up"));
  const pid_t keeper = zkr.keeper();
  ::kill(keeper, SIGSTOP);
  await([&] { return state_of(keeper) == 'T'; });
  zkr.signal(SIGKILL);
  ::kill(keeper, SIGKILL);
  expect_freed_before_expiry(session);
  EXPECT_TRUE(zkr.lines().ended_now()) << "something of the command runs after the lock was given away";
  EXPECT_EQ(zkr.end(), killed_by(SIGKILL));
}

/// One of those who wait for a lock, with a network of its own.
struct Contender {
  zktesting::Proxy proxy{zktesting::SharedServer::instance().connect_string()};
  std::unique_ptr<ZkrProcess> zkr;
  std::int64_t token = 0;
  Instant first_tick{};
};

Instant tick_in(const std::string& line) { return Instant(Duration(std::stoll(line.substr(2)))); }

TEST_F(ZkrLock, NeverTwoWhicheverOfUsDies) {
  using Fault = std::function<void(Contender&)>;
  const std::vector<Fault> faults{
      [](Contender& it) { it.zkr->signal(SIGKILL); },
      [](Contender& it) { ::kill(it.zkr->keeper(), SIGKILL); },
      [](Contender& it) {
        const pid_t keeper = it.zkr->keeper();
        it.zkr->signal(SIGKILL);
        ::kill(keeper, SIGKILL);
      },
      [](Contender& it) { ::kill(it.zkr->keeper(), SIGSTOP); },
      [](Contender& it) { it.proxy.stall(zktesting::Direction::both); },
      [](Contender&) {},
  };
  std::vector<Contender> all(faults.size());
  for (Contender& it : all) {
    Words words = operator_words({"lock", path_, "--server", it.proxy.connect_string()}, session_with_margin);
    words.emplace_back("--");
    it.zkr = std::make_unique<ZkrProcess>(
        operator_words(words, puppet("ignore 15 env ZKR_TOKEN daemon [ ignore 15 tick ] tick")));
    ASSERT_TRUE(queued(static_cast<std::size_t>(&it - all.data()) + 1));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    Contender& it = all[i];
    it.token = std::stoll(it.zkr->lines().await("ZKR_TOKEN=").value().substr(10));
    it.first_tick = tick_in(it.zkr->lines().await("t ").value());
    faults[i](it);
  }
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    all[i].zkr->lines().rest();
    EXPECT_LT(all[i].zkr->lines().last_tick(), all[i + 1].first_tick) << "after fault " << i;
    EXPECT_LT(all[i].token, all[i + 1].token);
  }
}

TEST_F(ZkrLock, DeadGuardianCostsNothing) {
  ZkrProcess& zkr = hold("say up read exit 3");
  ::kill(zkr.child("lease-guardian"), SIGKILL);
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(3));
  expect_free();
}

TEST_F(ZkrLock, NothingOfOursStaysWhenAllIsDone) {
  ZkrProcess& zkr = hold("say up read exit 0");
  const pid_t guardian = zkr.child("lease-guardian");
  const pid_t keeper = zkr.keeper();
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(0));
  await([&] { return std::string("XZ").find(state_of(guardian)) != std::string::npos; });
  await([&] { return std::string("XZ").find(state_of(keeper)) != std::string::npos; });
}

TEST_F(ZkrLock, StoppedKeeperEndsTheCommandAtItsDeadline) {
  ZkrProcess& zkr = hold("ignore 15 say up tick", session_with_margin);
  ::kill(zkr.keeper(), SIGSTOP);
  expect_stopped_before_deletion(zkr, [this] { return contenders(); });
}

TEST_F(ZkrLock, StoppedFrontCostsNothing) {
  ZkrProcess& zkr = hold("signals say up read exit 0");
  zkr.signal(SIGSTOP);
  await([&] { return state_of(zkr.front()) == 'T'; });
  zkr.type("go\n");
  expect_free();
  zkr.signal(SIGCONT);
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrLock, StoppedCommandKeepsTheLock) {
  ZkrProcess& zkr = hold("pid say up die 19 exit 2");
  await([&] { return state_of(zkr.front()) == 'T'; });
  EXPECT_EQ(contenders(), 1U);
  zkr.signal(SIGCONT);
  EXPECT_EQ(zkr.end(), exited(2));
}

TEST_F(ZkrLock, Z53FrontEndsWhileNoServerAnswers) {
  ZkrProcess& zkr = hold("say up read exit 3", {"--session-timeout", "40s"});
  proxy_.stall(zktesting::Direction::both);
  zkr.type("go\n");
  EXPECT_EQ(zkr.end(), exited(3));
  EXPECT_TRUE(zkr.lines().ended_now());
  EXPECT_TRUE(zkr.errors().ended_now());
}

TEST_F(ZkrLock, Z53SubstitutionOfAShellReturnsWhileNoServerAnswers) {
  const std::string inner = ZKR " lock " + path_ + "/inner --server " + proxy_.connect_string() +
                            " -- sh -c 'echo up >&2; read line; echo out'";
  ZkrProcess shell({"lock", path_, "--server", zktesting::SharedServer::instance().connect_string(), "-c",
                    "x=$(" + inner + "); echo got $x; read line"});
  ASSERT_TRUE(shell.errors().await("up"));
  proxy_.stall(zktesting::Direction::both);
  shell.type("go\n");
  EXPECT_EQ(shell.lines().await("got"), "got out");
  proxy_.unstall(zktesting::Direction::both);
  shell.type("go\n");
  EXPECT_EQ(shell.end(), exited(0));
}

}  // namespace
}  // namespace zkr
