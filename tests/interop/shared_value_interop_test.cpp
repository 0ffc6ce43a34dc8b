// SharedValue beside Apache Curator's SharedValue and SharedCount, also while our side loses replies.

#include <zkrecipes/shared_value.hpp>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <zktesting/environment.hpp>

#include "tests/interop/lossy_line.hpp"
#include "tests/interop/peer.hpp"
#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using testkit::Box;
using testkit::CuratorProgram;
using testkit::in_thread;
using testkit::LossyLine;
using testkit::patience;
using testkit::Peer;
using testkit::result_of;
using testkit::soon;
using zktesting::RequestType;

class SharedValueBesideCurator : public testkit::RecipeTest {
 protected:
  SharedValueBesideCurator() : RecipeTest("/values/one") {}
  static void SetUpTestSuite() {
    if (!CuratorProgram::installed("curator-recipes")) return;
    program_ = std::make_unique<CuratorProgram>(ZKR_INTEROP_SOURCES "/CuratorNumbers.java");
    peer_ = std::make_unique<Peer>(program_->command({zktesting::SharedServer::instance().connect_string()}));
  }
  static void TearDownTestSuite() {
    peer_.reset();
    program_.reset();
  }
  void SetUp() override {
    RecipeTest::SetUp();
    if (peer_ == nullptr) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  }
  static zkclient::CallOptions patient() { return {.deadline = soon()}; }
  /// Appends "<word>0 ", "<word>1 ", ... and loses the reply to each.
  void append_while_replies_are_lost(const std::string& word, int times) {
    LossyLine line(prefix());
    SharedValue value(line.client(), path());
    for (int i = 0; i < times; ++i) {
      line.lose_reply(RequestType::multi, [&] {
        const std::string one = word + std::to_string(i) + " ";
        value.update([&](const VersionedValue& now) { return now.data + one; }, patient());
      });
    }
  }
  std::string tell(const std::string& command, const std::string& arguments = "") {
    const std::vector<std::string> told =
        peer_->tell(command + prefix().str() + path().str() + (arguments.empty() ? "" : " " + arguments));
    return told.size() == 1 ? told.front() : "no answer";
  }

 private:
  static inline std::unique_ptr<CuratorProgram> program_;
  static inline std::unique_ptr<Peer> peer_;
};

TEST_F(SharedValueBesideCurator, EachReadsWhatTheOtherWrites) {
  SharedValue value(client(), path());
  EXPECT_EQ(tell("value get "), "0 seed") << "it makes the node, with the version that counts as the first";
  EXPECT_EQ(value.get(patient()).data, "seed");
  EXPECT_FALSE(value.compare_set({}, "our seed", patient()));
  value.set("ours", patient());
  EXPECT_EQ(tell("value get "), "1 ours");
  EXPECT_EQ(tell("value set ", "theirs"), "set");
  const VersionedValue seen = value.get(patient());
  EXPECT_EQ(seen.data, "theirs");
  EXPECT_EQ(seen.version.version, 2);
}

TEST_F(SharedValueBesideCurator, NoneOverwritesTheOtherUnseen) {
  SharedValue value(client(), path());
  value.set("0", patient());
  const ValueVersion before = value.get(patient()).version;
  EXPECT_EQ(tell("value try ", "theirs"), "true");
  EXPECT_FALSE(value.compare_set(before, "ours", patient()));
  EXPECT_TRUE(value.compare_set(value.get(patient()).version, "ours", patient()));
  EXPECT_EQ(tell("value race ", "theirs between"), "false");
  EXPECT_EQ(value.get(patient()).data, "between");
  Box<std::string> heard;
  const zkclient::Subscription subscription = value.on_change([&](const VersionedValue& now) { heard.put(now.data); });
  EXPECT_EQ(heard.take(), "between");
  EXPECT_EQ(tell("value set ", "last"), "set");
  EXPECT_EQ(heard.take(), "last");
}

// All append at once, and our side loses the reply to each of its writes: each word is there once, in its writer's order.
TEST_F(SharedValueBesideCurator, EachWriteIsThereOnceWhileRepliesAreLost) {
  constexpr int ours = 5;
  constexpr int theirs = 100;
  SharedValue value(client(), path());
  value.set("", patient());
  std::vector<std::future<void>> all;
  for (const char* word : {"a", "b"})
    all.push_back(in_thread([this, word] { append_while_replies_are_lost(word, ours); }));
  EXPECT_EQ(tell("value append ", "c " + std::to_string(theirs)), "appended");
  for (auto& one : all)
    result_of(one);
  EXPECT_EQ(tell("value append ", "d 1"), "appended");

  const VersionedValue last = value.get(patient());
  std::istringstream words(last.data);
  std::map<char, int> next;
  for (std::string word; words >> word;)
    EXPECT_EQ(word.substr(1), std::to_string(next[word.front()]++)) << word;
  EXPECT_EQ(next, (std::map<char, int>{{'a', ours}, {'b', ours}, {'c', theirs}, {'d', 1}}));
  EXPECT_EQ(tell("value get "), std::to_string(last.version.version) + " " + last.data);
}

TEST_F(SharedValueBesideCurator, NoneOverwritesTheOtherWhileRepliesAreLost) {
  LossyLine line(prefix());
  SharedValue value(line.client(), path());
  EXPECT_TRUE(line.lose_reply(RequestType::multi, [&] { return value.compare_set({}, "0", patient()); }));
  EXPECT_EQ(tell("value try ", "theirs"), "true");
  VersionedValue seen = line.lose_reply(RequestType::get_data, [&] { return value.get(patient()); });
  EXPECT_EQ(seen.data, "theirs");
  EXPECT_TRUE(line.lose_reply(RequestType::multi, [&] { return value.compare_set(seen.version, "ours", patient()); }));
  EXPECT_EQ(tell("value try ", "theirs-again"), "true");
  EXPECT_FALSE(line.lose_reply(RequestType::multi, [&] { return value.compare_set(seen.version, "ours", patient()); }));
  EXPECT_EQ(value.get(patient()).data, "theirs-again");
}

TEST_F(SharedValueBesideCurator, ListenersHearOfTheOtherWhileRepliesAndEventsAreLost) {
  LossyLine line(prefix());
  SharedValue value(line.client(), path());
  value.set("0", patient());
  EXPECT_EQ(tell("value watch "), "0");
  line.lose_reply(RequestType::multi, [&] { value.set("ours", patient()); });
  EXPECT_EQ(tell("value heard ", "ours"), "ours");

  Box<std::string> heard;
  const zkclient::Subscription subscription = value.on_change([&](const VersionedValue& now) { heard.put(now.data); });
  EXPECT_EQ(heard.take(), "ours");
  const zktesting::Fault lost = line.lose_event();
  EXPECT_EQ(tell("value set ", "theirs"), "set");
  EXPECT_TRUE(lost.wait(patience));
  EXPECT_EQ(heard.take(), "theirs");
}

// Its SharedCount: an integer of 32 bits, big-endian.
TEST_F(SharedValueBesideCurator, ASharedCountIsFourBytes) {
  SharedValue value(client(), path());
  value.set(std::string("\0\0\1\2", 4), patient());
  EXPECT_EQ(tell("add shared ", "1"), "259");
  EXPECT_EQ(value.get(patient()).data, std::string("\0\0\1\3", 4));
}

}  // namespace
}  // namespace zkrecipes
