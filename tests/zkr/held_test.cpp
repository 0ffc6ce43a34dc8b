// What a call makes of what its callers hold, whom it asks, and which locks share a path; without a server.

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/hold/contest.hpp"
#include "tools/zkr/hold/control.hpp"
#include "tools/zkr/hold/held_paths.hpp"
#include "tools/zkr/hold/waiting_text.hpp"

namespace zkr {
namespace {

// --- Callers ------------------------------------------------------------------------------------------------------

HeldPath held_as(const std::string& mode, const std::string& place, const std::string& socket = "0") {
  return {.mode = mode, .socket = socket, .place = place};
}

/// Keepers say what was held at first, unless the socket's name says what they say.
Nesting nesting_of(const std::vector<HeldPath>& wanted, const std::vector<HeldPath>& held) {
  return nesting(wanted, held, [&held](const std::string& socket) -> std::optional<std::string> {
    if (socket == "dead") return std::nullopt;
    if (socket.starts_with("says ")) return socket.substr(5);
    return held.at(static_cast<std::size_t>(std::stoi(socket))).mode;
  });
}

TEST(ZkrHeldPaths, AreWrittenAndRead) {
  const std::vector<HeldPath> read = parse_held_paths({"slot zkr-7-1 host:1,other:2/a path", "host:1/a", ""});
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].mode, "slot");
  EXPECT_EQ(read[0].socket, "zkr-7-1");
  EXPECT_EQ(read[0].place, "host:1,other:2/a path");
  EXPECT_EQ(read[0].line(), "slot zkr-7-1 host:1,other:2/a path");
}

TEST(ZkrHeldPaths, CommandRunsWithinACallerThatHoldsAllOfThem) {
  const auto mutex = [](const std::string& place) { return held_as("exclusive", place); };
  EXPECT_EQ(nesting_of({mutex("/a")}, {}), Nesting::none);
  EXPECT_EQ(nesting_of({mutex("/a")}, {mutex("/b")}), Nesting::none);
  EXPECT_EQ(nesting_of({mutex("/a")}, {mutex("/b"), mutex("/a")}), Nesting::within);
  EXPECT_EQ(nesting_of({mutex("/a"), mutex("/b")}, {mutex("/b"), mutex("/a")}), Nesting::within);
  EXPECT_EQ(nesting_of({mutex("/a"), mutex("/b")}, {mutex("/a")}), Nesting::partly);
  EXPECT_EQ(nesting_of({mutex("/a"), mutex("/b")}, {mutex("/b")}), Nesting::partly);
}

TEST(ZkrHeldPaths, ModeOfTheCallerMustBeStrongEnough) {
  const std::vector<std::string> modes = {"exclusive",       "writer",       "shared",       "slot",        "leader",
                                          "kazoo-exclusive", "kazoo-writer", "kazoo-shared", "kazoo-leader"};
  for (const std::string& held : modes) {
    for (const std::string& wanted : modes) {
      const bool weaker =
          (held == "writer" && wanted == "shared") || (held == "kazoo-writer" && wanted == "kazoo-shared");
      EXPECT_EQ(nesting_of({held_as(wanted, "/a")}, {held_as(held, "/a")}),
                held == wanted || weaker ? Nesting::within : Nesting::partly)
          << wanted << " within " << held;
    }
  }
}

TEST(ZkrHeldPaths, LeaseThatIsOverCountsForNothing) {
  const HeldPath over = held_as("exclusive", "/a", "dead");
  EXPECT_EQ(nesting_of({held_as("exclusive", "/a")}, {over}), Nesting::none);
  EXPECT_EQ(
      nesting_of({held_as("exclusive", "/a"), held_as("exclusive", "/b")}, {over, held_as("exclusive", "/b", "1")}),
      Nesting::partly);
}

TEST(ZkrHeldPaths, WhatTheKeeperSaysCounts) {
  EXPECT_EQ(nesting_of({held_as("writer", "/a")}, {held_as("writer", "/a", "says shared")}), Nesting::partly);
  EXPECT_EQ(nesting_of({held_as("shared", "/a")}, {held_as("writer", "/a", "says shared")}), Nesting::within);
  EXPECT_EQ(nesting_of({held_as("shared", "/a")}, {held_as("shared", "/a", "says ")}), Nesting::partly);
}

// --- Asking -------------------------------------------------------------------------------------------------------

std::string own_name(const std::string& what) { return "zkr-test-" + what + "-" + std::to_string(::getpid()); }

TEST(ZkrControl, SlowAnswerHoldsUpNoOther) {
  std::mutex mutex;
  std::vector<ControlReply> slow;
  const std::string name = own_name("slow");
  const auto server = ControlServer::open(name, [&](const std::string& request, const ControlReply& reply) {
    if (request == "quick") return reply({.code = 0, .text = "now"});
    const std::lock_guard lock(mutex);
    slow.push_back(reply);
  });
  ASSERT_TRUE(server);
  std::optional<ControlAnswer> late;
  std::thread asker([&] { late = ask_control(name, "slow"); });
  for (bool asked = false; !asked;) {
    std::this_thread::yield();
    const std::lock_guard lock(mutex);
    asked = !slow.empty();
  }
  const auto quick = ask_control(name, "quick");
  EXPECT_EQ(quick ? quick->text : "no answer", "now");
  slow[0]({.code = 79, .text = "then"});
  asker.join();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->code, 79);
  EXPECT_EQ(late->text, "then");
}

/// Answers nothing until it is told to.
class HoldingServer {
 public:
  explicit HoldingServer(std::string name)
      : server_(ControlServer::open(name, [this](const std::string&, const ControlReply& reply) {
          const std::lock_guard lock(mutex_);
          held_.push_back(reply);
        })) {}
  void await_requests(std::size_t count) {
    for (bool asked = false; !asked;) {
      std::this_thread::yield();
      const std::lock_guard lock(mutex_);
      asked = held_.size() == count;
    }
  }
  /// To the one that came last.
  void reply(const ControlAnswer& answer) {
    const std::lock_guard lock(mutex_);
    held_.back()(answer);
  }

 private:
  std::mutex mutex_;
  std::vector<ControlReply> held_;
  std::unique_ptr<ControlServer> server_;
};

TEST(ZkrControl, AnswerIsWaitedForAsLongAsTheCallerLikes) {
  const std::string name = own_name("patience");
  HoldingServer server(name);
  EXPECT_THROW((void)ask_control(name, "first", std::chrono::milliseconds(1)), Failure);
  std::optional<ControlAnswer> late;
  std::thread asker([&] { late = ask_control(name, "second", std::nullopt); });
  server.await_requests(2);
  server.reply({.code = 0, .text = "then"});
  asker.join();
  EXPECT_EQ(late ? late->text : "no answer", "then");
}

bool sleeps(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  return text.find(") S ") != std::string::npos;
}

TEST(ZkrControl, WhoWasStoppedWhileWaitingWaitsOn) {
  const std::string name = own_name("stopped");
  HoldingServer server(name);
  const pid_t asker = ::fork();
  if (asker == 0) {
    const auto answer = ask_control(name, "held", std::chrono::minutes(1));
    ::_exit(answer ? answer->code : 1);
  }
  server.await_requests(1);
  while (!sleeps(asker))
    std::this_thread::yield();
  int status = -1;
  ::kill(asker, SIGSTOP);
  EXPECT_EQ(::waitpid(asker, &status, WUNTRACED), asker);
  ::kill(asker, SIGCONT);
  EXPECT_EQ(::waitpid(asker, &status, WCONTINUED), asker);
  server.reply({.code = 7, .text = ""});
  EXPECT_EQ(::waitpid(asker, &status, 0), asker);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(ZkrControl, WhoeverIsNotAnsweredHearsOfIt) {
  const std::string name = own_name("mute");
  const auto server = ControlServer::open(name, [](const std::string&, const ControlReply&) {});
  ASSERT_TRUE(server);
  EXPECT_FALSE(ask_control(name, "held"));
}

/// Takes the name, as nobody; says so by the pipe, and waits until that is closed.
[[noreturn]] void answer_as_nobody(const std::string& name, int ready, int end) {
  if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
  const auto server = ControlServer::open(name, [](const std::string&, const ControlReply& reply) { reply({}); });
  char byte = 0;
  const bool told = server && ::write(ready, "1", 1) == 1;
  ::close(ready);
  ::_exit(told && ::read(end, &byte, 1) == 0 ? 0 : 1);
}

TEST(ZkrControl, AnotherUserIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may be somebody else";
  const std::string name = own_name("nobody");
  std::array<int, 2> ready{};
  std::array<int, 2> end{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  ASSERT_EQ(::pipe(end.data()), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    ::close(end[1]);
    answer_as_nobody(name, ready[1], end[0]);
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(ask_control(name, "held"));
  ::close(end[1]);
  int status = -1;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(ready[0]);
  ::close(end[0]);
}

TEST(ZkrControl, RootsKeeperThatMayNotBeAskedIsNotTakenForGone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may be somebody else";
  const std::string name = own_name("root");
  const auto server = ControlServer::open(name, [](const std::string&, const ControlReply& reply) { reply({}); });
  ASSERT_TRUE(server);
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    try {
      (void)ask_control(name, "held");
    } catch (const Failure& failure) {
      ::_exit(failure.code());
    }
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), exit_system);
}

// --- Locks on one path --------------------------------------------------------------------------------------------

TEST(ZkrKinds, NodesOfAnotherKindAreInTheWay) {
  const std::string mutex = "_c_7-lock-0000000001";
  const std::string reader = "_c_7-__READ__0000000001";
  const std::string writer = "_c_7-__WRIT__0000000001";
  const std::string candidate = "_c_7-latch-0000000001";
  const std::string slots = "leases";
  const std::string kazoo = "0123456789abcdef__lock__0000000001";
  const std::string kazoo_reader = "0123456789abcdef__rlock__0000000001";
  const std::vector<std::string> all = {mutex, reader, writer, candidate, slots, kazoo, kazoo_reader};
  const auto in_the_way = [&](Mode mode, bool kazoos) {
    std::vector<std::string> names;
    for (const std::string& name : all)
      if (node_of_another_kind({"foreign", name}, {.paths = {"/a"}, .mode = mode, .kazoo = kazoos}))
        names.push_back(name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(in_the_way(Mode::exclusive, false), (Names{reader, writer, candidate, slots, kazoo, kazoo_reader}));
  EXPECT_EQ(in_the_way(Mode::shared, false), (Names{mutex, candidate, slots, kazoo, kazoo_reader}));
  EXPECT_EQ(in_the_way(Mode::writer, false), (Names{mutex, candidate, slots, kazoo, kazoo_reader}));
  EXPECT_EQ(in_the_way(Mode::slot, false), (Names{mutex, reader, writer, candidate, kazoo, kazoo_reader}));
  EXPECT_EQ(in_the_way(Mode::leader, false), (Names{mutex, reader, writer, slots, kazoo, kazoo_reader}));
  EXPECT_EQ(in_the_way(Mode::exclusive, true), (Names{mutex, reader, writer, candidate, slots, kazoo_reader}));
  EXPECT_EQ(in_the_way(Mode::leader, true), (Names{mutex, reader, writer, candidate, slots, kazoo_reader}));
  EXPECT_EQ(in_the_way(Mode::shared, true), (Names{mutex, reader, writer, candidate, slots}));
  EXPECT_EQ(in_the_way(Mode::writer, true), (Names{mutex, reader, writer, candidate, slots}));
}

// --- Who is in the way --------------------------------------------------------------------------------------------

zkrecipes::Contender contender(const std::string& data, std::int64_t session) {
  zkrecipes::Contender made;
  made.node = "lock-0000000001";
  made.data = data;
  made.session_id = session;
  made.since = std::chrono::system_clock::now();
  return made;
}

TEST(ZkrWaiting, WhoHoldsIsNamedAsOneWordForTheTerminal) {
  const std::vector<zkrecipes::Contender> held{contender("id=a\x1b]0;b\a host=c\x1b[2J pid=7 since=1", 1)};
  const std::string text = waiting_text(held, 2);
  EXPECT_TRUE(text.starts_with("held by a\\x1B]0;b\\x07 (c\\x1B[2J, pid 7), which came ")) << text;
  EXPECT_TRUE(waiting_text({contender("\x1b[2J", 1)}, 2).starts_with("held by \\x1B[2J, "));
  EXPECT_EQ(waiting_text(held, 1), "") << "it is ours";
}

TEST(ZkrWaiting, WhoHoldsIsNamedForScripts) {
  const std::string known = holder_json({contender("id=ci host=web-1 pid=4711 since=1", 1)}, 2);
  EXPECT_TRUE(known.starts_with(R"({"who":"ci","host":"web-1","pid":4711,"since":"20)")) << known;
  const std::string foreign = holder_json({contender("\x1b\xff", 1)}, 2);
  EXPECT_TRUE(foreign.starts_with(R"({"who":"\\x1B\\xFF","host":null,"pid":null,"since":"20)")) << foreign;
  EXPECT_EQ(holder_json({}, 2), "");
}

}  // namespace
}  // namespace zkr
