// What `zkr doctor` makes of what it sees, and what completions and the manual page are made of, without a server.

#include <gtest/gtest.h>

#include <set>

#include <CLI/CLI.hpp>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/describe.hpp"
#include "tools/zkr/cli/program.hpp"
#include "tools/zkr/doctor/host_checks.hpp"
#include "tools/zkr/doctor/server_probe.hpp"
#include "tools/zkr/doctor/server_state.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

// As servers of 3.8 answer.
constexpr const char* srvr =
    "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2022-11-14 14:00 UTC\n"
    "Latency min/avg/max: 0/1.2531/17\nReceived: 140\nSent: 139\nConnections: 3\nOutstanding: 2\nZxid: 0x500000a1c\n"
    "Mode: follower\nNode count: 5\n";

TEST(ZkrDoctor, FourLettersAreUnderstood) {
  const auto state = parse_srvr(srvr);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->mode, "follower");
  EXPECT_EQ(state->zxid, 0x500000a1cU);
  EXPECT_DOUBLE_EQ(state->latency_ms, 1.2531);
  EXPECT_DOUBLE_EQ(state->worst_latency_ms, 17);
  EXPECT_EQ(state->outstanding, 2);
  EXPECT_EQ(state->connections, 3);
  EXPECT_EQ(why_closed(srvr), "");
}

TEST(ZkrDoctor, ClosedServersAreToldHowToOpen) {
  EXPECT_NE(why_closed("srvr is not executed because it is not in the whitelist.\n").find("4lw.commands.whitelist"),
            std::string::npos);
  EXPECT_NE(why_closed("This ZooKeeper instance is not currently serving requests\n").find("no quorum"),
            std::string::npos);
  EXPECT_NE(why_closed(""), "");
  EXPECT_NE(why_closed("HTTP/1.1 400 Bad Request"), "");
  EXPECT_FALSE(parse_srvr("Mode\nMode:\nxMode: leader"));
}

TEST(ZkrDoctor, AdminServerIsAskedAndUnderstood) {
  EXPECT_EQ(question_for_admin_server({"zk1", 8080}), "GET /commands/stats HTTP/1.0\r\nHost: zk1:8080\r\n\r\n");
  EXPECT_EQ(question_for_admin_server({"::1", 8080}), "GET /commands/stats HTTP/1.0\r\nHost: [::1]:8080\r\n\r\n");
  const auto state =
      parse_stats(R"({"version":"3.8.0","server_stats":{"packets_sent":5,"max_latency":9,"avg_latency":0.5,
    "outstanding_requests":1,"server_state":"leader","num_alive_client_connections":4,"last_processed_zxid":4294967299}})");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->mode, "leader");
  EXPECT_EQ(state->zxid, 4294967299U);
  EXPECT_EQ(state->connections, 4);
  for (const char* wrong : {"", "{", "[]", "{}", R"({"server_stats":7})", R"({"server_stats":{}})"})
    EXPECT_FALSE(parse_stats(wrong)) << wrong;
}

Gravity worst_of(const std::vector<Finding>& findings) {
  Gravity worst = Gravity::good;
  for (const Finding& finding : findings)
    worst = std::max(worst, finding.gravity);
  return worst;
}

TEST(ZkrDoctor, OneLeader) {
  const ServerState leader{.mode = "leader", .zxid = 5000};
  const ServerState follower{.mode = "follower", .zxid = 4500};
  const ServerState behind{.mode = "follower", .zxid = 3000};
  EXPECT_EQ(worst_of(judge_ensemble(3, {leader, follower, follower})), Gravity::good);
  EXPECT_EQ(worst_of(judge_ensemble(1, {{.mode = "standalone"}})), Gravity::good);
  EXPECT_EQ(worst_of(judge_ensemble(3, {follower, follower})), Gravity::note);
  EXPECT_EQ(worst_of(judge_ensemble(2, {follower, follower})), Gravity::warning);
  EXPECT_EQ(worst_of(judge_ensemble(3, {leader, follower, behind})), Gravity::warning);
  EXPECT_EQ(worst_of(judge_ensemble(2, {leader, leader})), Gravity::failure);
  EXPECT_EQ(worst_of(judge_ensemble(2, {})), Gravity::note);
}

// The table of docs/zkr.md.
TEST(ZkrDoctor, OutageThatCostsNothing) {
  const auto tenths = [](std::chrono::nanoseconds time) { return (time + 50ms) / 100ms; };
  const auto check = [&](std::chrono::seconds timeout, long least, long most) {
    const LeaseTimes lease(timeout);
    EXPECT_EQ(tenths(lease.term - lease.proof_interval), least);
    EXPECT_EQ(tenths(lease.term), most);
  };
  check(10s, 12, 28);
  check(30s, 35, 85);
  check(40s, 47, 113);
}

TEST(ZkrDoctor, CommandsMustBeFoundByTheirControlGroupOrByProc) {
  EXPECT_EQ(judge_processes(true, true).gravity, Gravity::good);
  EXPECT_EQ(judge_processes(true, false).gravity, Gravity::good);
  EXPECT_EQ(judge_processes(false, true).gravity, Gravity::good);
  EXPECT_EQ(judge_processes(false, false).gravity, Gravity::failure);
}

TEST(ZkrDoctor, ClockIsComparedWithTheServers) {
  const std::chrono::system_clock::time_point before(1'000s);
  const auto after = before + 10ms;
  EXPECT_EQ(judge_clock(before + 5ms, before, after).text, "as the server's");
  EXPECT_EQ(judge_clock(after + 2s, before, after).text, "the server's is 2000 ms ahead, by which no lease goes");
  EXPECT_EQ(judge_clock(before - 30ms, before, after).text, "the server's is 30 ms behind, by which no lease goes");
  EXPECT_EQ(judge_clock(before - 1h, before, after).gravity, Gravity::good);
}

TEST(ZkrDoctor, RoundTripsAndTimersAreJudgedByTheTimeout) {
  const auto judge = [](std::chrono::nanoseconds slowest) {
    std::vector<std::chrono::nanoseconds> taken(100, 1ms);
    taken[98] = taken[99] = slowest;
    return worst_of(judge_round_trips(taken, 24s));
  };
  EXPECT_EQ(judge(900ms), Gravity::good);
  EXPECT_EQ(judge(1100ms), Gravity::warning);
  EXPECT_EQ(judge(4100ms), Gravity::failure);
  EXPECT_TRUE(judge_round_trips({}, 24s).empty());
  EXPECT_EQ(judge_lateness(100ms, 10s).gravity, Gravity::good);
  EXPECT_EQ(judge_lateness(130ms, 10s).gravity, Gravity::warning);
  EXPECT_EQ(judge_lateness(260ms, 10s).gravity, Gravity::failure);
  EXPECT_GE(measure_lateness(5ms), 0ns);
}

// --- Completions and the manual page ------------------------------------------------------------------------------

class ZkrDescription : public testing::Test {
 protected:
  ZkrDescription() { set_up_program(app_, context_); }

  /// Calls `check` with each word that the program understands.
  template <typename Check>
  static void for_each_word(const CommandDescription& command, const Check& check) {
    for (const OptionDescription& option : command.options) {
      if (option.positional) continue;
      for (const std::string& name : option.names)
        check(name);
    }
    for (const CommandDescription& below : command.commands) {
      check(below.name);
      for_each_word(below, check);
    }
  }

  Context context_;
  CLI::App app_{"Coordination on Apache ZooKeeper", "zkr"};
};

TEST_F(ZkrDescription, KnowsTheProgram) {
  const CommandDescription program = describe(app_);
  EXPECT_EQ(program.name, "zkr");
  std::set<std::string> words;
  for_each_word(program, [&](const std::string& word) { words.insert(word); });
  for (const char* word : {"lock", "get", "push", "--json", "--server", "-r", "--break-after", "completion"})
    EXPECT_TRUE(words.contains(word)) << word;
  EXPECT_FALSE(words.contains("man-page"));
}

TEST_F(ZkrDescription, CompletionsHaveEveryWord) {
  const CommandDescription program = describe(app_);
  for (const char* shell : {"bash", "zsh"}) {
    const std::string text = completion(program, shell);
    for_each_word(program, [&](const std::string& word) {
      EXPECT_TRUE(text.find(" " + word + " ") != std::string::npos ||
                  text.find("'" + word + " ") != std::string::npos ||
                  text.find(" " + word + "'") != std::string::npos || text.find("'" + word + "'") != std::string::npos)
          << shell << " " << word;
    });
  }
  const std::string fish = completion(program, "fish");
  for_each_word(program, [&](const std::string& word) {
    const std::string form = word.starts_with("--")  ? " -l " + word.substr(2) + " "
                             : word.starts_with("-") ? " -s " + word.substr(1) + " "
                                                     : " -a " + word + " ";
    EXPECT_NE(fish.find(form), std::string::npos) << word;
  });
}

TEST_F(ZkrDescription, Z37ManualPageSaysFirstWhatHappensToTheCommand) {
  const std::string page = manual_page(describe(app_), "1.2.3");
  std::size_t end = 0;
  for (int line = 0; line < 24; ++line)
    end = page.find('\n', end) + 1;
  const std::string first = page.substr(0, end);
  for (const char* words : {"Nothing that the command has started runs once the lock can belong to another client",
                            "If servers stop to confirm the lease", "gets TERM, and KILL"})
    EXPECT_NE(first.find(words), std::string::npos) << words << "\n" << first;
  EXPECT_NE(page.find("\\fBzkr lock\\fR [\\fIoption\\fR ...] \\fIPATH\\fR ...\n"), std::string::npos);
}

TEST_F(ZkrDescription, Z14GraceIsExplainedWhereACommandIsRun) {
  const std::string page = manual_page(describe(app_), "1.2.3");
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"lock"}, {"lead"}, {"barrier", "enter"}, {"queue", "work"}}) {
    const CLI::App* command = &app_;
    std::string section = ".SS";
    for (const std::string& name : names) {
      command = command->get_subcommand(name);
      section += " " + name;
    }
    const std::size_t begin = page.find(section + "\n");
    ASSERT_NE(begin, std::string::npos) << section;
    const std::string in_the_page = page.substr(begin, page.find(".SS", begin + 1) - begin);
    for (const std::string& text : {command->help(), in_the_page}) {
      const std::size_t option = text.find("grace");
      ASSERT_NE(option, std::string::npos) << section;
      for (const char* words : {"From TERM to KILL", "a quarter of the session timeout"})
        EXPECT_NE(text.find(words, option), std::string::npos) << text;
    }
  }
}

TEST_F(ZkrDescription, ManualPageHasEveryWord) {
  const CommandDescription program = describe(app_);
  const std::string page = manual_page(program, "1.2.3");
  EXPECT_TRUE(page.starts_with(".TH ZKR 1 \"\" \"zkrecipes 1.2.3\""));
  for_each_word(program, [&](std::string word) {
    std::string escaped;
    for (const char c : word)
      escaped += c == '-' ? std::string("\\-") : std::string(1, c);
    EXPECT_NE(page.find(escaped), std::string::npos) << word;
  });
}

}  // namespace
}  // namespace zkr
