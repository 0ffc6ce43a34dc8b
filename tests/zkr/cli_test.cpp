// What `zkr` makes of its words, without a server.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tools/zkr/cli/duration.hpp"
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

}  // namespace
}  // namespace zkr
