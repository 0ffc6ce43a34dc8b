// What `zkr` makes of its words, without a server.

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/describe.hpp"
#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/json.hpp"
#include "tools/zkr/cli/program.hpp"
#include "tools/zkr/cli/utc_time.hpp"
#include "tools/zkr/cli/words.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

CallWords split(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  return split_words(static_cast<int>(argv.size()), argv.data());
}

TEST(ZkrWords, Z8WhatFollowsTheFirstDashesIsTheCommands) {
  const CallWords words = split({"zkr", "lock", "/a", "--", "cmd", "--help", "--", "", "-v", "\xff"});
  EXPECT_EQ(words.own, (std::vector<std::string>{"lock", "/a"}));
  EXPECT_EQ(words.command, (std::vector<std::string>{"cmd", "--help", "--", "", "-v", "\xff"}));
  EXPECT_TRUE(words.divided);
}

TEST(ZkrWords, WithoutDashesAllWordsAreOurs) {
  const CallWords words = split({"zkr", "ls", "/"});
  EXPECT_EQ(words.own, (std::vector<std::string>{"ls", "/"}));
  EXPECT_FALSE(words.divided);
  EXPECT_TRUE(split({"zkr", "lock", "/a", "--"}).divided);
}

TEST(ZkrDuration, IsRead) {
  EXPECT_EQ(parse_duration("1500ms"), 1500ms);
  EXPECT_EQ(parse_duration("2"), 2s);
  EXPECT_EQ(parse_duration("2.5m"), 150s);
  EXPECT_EQ(parse_duration("1h"), 1h);
  EXPECT_EQ(parse_duration("0s"), 0s);
  for (const char* wrong : {"", "s", "1x", "-1s", "1 s", "nan", "inf", "1e99d", "5sm", "99999999d"})
    EXPECT_EQ(parse_duration(wrong), std::nullopt) << wrong;
}

TEST(ZkrDuration, IsWritten) {
  EXPECT_EQ(to_text(350ms), "350ms");
  EXPECT_EQ(to_text(59s), "59s");
  EXPECT_EQ(to_text(252s), "4m12s");
  EXPECT_EQ(to_text(3900s), "1h05m");
  EXPECT_EQ(to_text(50h), "2d02h");
}

TEST(ZkrTime, IsRead) {
  using std::chrono::sys_days;
  const auto time = sys_days(std::chrono::year(2026) / 1 / 31) + 12h + 3min + 4s;
  EXPECT_EQ(parse_utc("2026-01-31T12:03:04Z"), time);
  EXPECT_EQ(parse_utc("2026-01-31T12:03:04.5Z"), time + 500ms);
  EXPECT_EQ(parse_utc(utc_text(time + 7ms)), time + 7ms);
  for (const char* text :
       {"", "2026-01-31", "2026-01-31T12:03:04", "2026-02-30T12:03:04Z", "2026-01-31T24:03:04Z", "2026-01-31T12:60:04Z",
        "2026-01-31T12:03:60Z", "2026-01-31T12:03:04.Z", "2026-1-31T12:03:04Z", "2026-01-31T12:03:04Zx",
        "2026-01-31T12:03:04.1234567890Z", "9999-01-31T12:03:04Z", "2026-01-31T-1:03:04Z", "2026-01-31T12:03:04.5+Z"})
    EXPECT_FALSE(parse_utc(text)) << text;
}

// A command that writes data for scripts has a shape there; the others are named here.
TEST(ZkrGuide, HasAShapeForEachCommand) {
  const std::set<std::string> others = {"lock",         "lead",          "held",       "alive",
                                        "downgrade",    "ready",         "proclaim",   "barrier lower",
                                        "barrier wait", "barrier enter", "queue push", "queue work",
                                        "completion",   "metrics",       "export",     "commit participate",
                                        "group join"};
  std::ifstream file(DOCS "/zkr_look.md");
  const std::string guide{std::istreambuf_iterator<char>(file), {}};
  Context context;
  CLI::App app("", "zkr");
  set_up_program(app, context);
  for (const CommandDescription& command : describe(app).commands) {
    std::vector<std::string> names;
    for (const CommandDescription& below : command.commands)
      names.push_back(command.name + " " + below.name);
    if (names.empty()) names.push_back(command.name);
    for (const std::string& name : names) {
      EXPECT_NE(others.contains(name), guide.find("\n  \"" + name + "\": {") != std::string::npos) << name;
    }
  }
}

/// All names of an option that are not in the text; "": one is.
std::string missing_option(const OptionDescription& option, const std::string& text) {
  std::string all;
  for (const std::string& name : option.names) {
    // As a word of its own: "--all" is not there because "--all-to-all" is.
    for (const char* end : {"`", " ", "=", ",", ")"}) {
      for (const char* begin : {"`", " "}) {
        if (text.find(begin + name + end) != std::string::npos) return "";
      }
    }
    all += (all.empty() ? "" : ", ") + name;
  }
  return all;
}

void expect_options_in(const std::string& guides, const std::string& name, const CommandDescription& command) {
  for (const OptionDescription& option : command.options) {
    const bool help = option.names.back() == "--help";  // CLI11's, of each command.
    if (option.positional || help) continue;
    EXPECT_EQ(missing_option(option, guides), "") << name;
  }
  for (const CommandDescription& below : command.commands)
    expect_options_in(guides, name + " " + below.name, below);
}

TEST(ZkrGuide, NamesEachOption) {
  std::string guides;
  for (const char* guide : {"/zkr.md", "/zkr_look.md"}) {
    std::ifstream file(DOCS + std::string(guide));
    guides += std::string{std::istreambuf_iterator<char>(file), {}};
  }
  Context context;
  CLI::App app("", "zkr");
  set_up_program(app, context);
  expect_options_in(guides, "zkr", describe(app));
}

}  // namespace
}  // namespace zkr
