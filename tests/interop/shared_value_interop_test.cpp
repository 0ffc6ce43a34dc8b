// SharedValue beside Apache Curator's SharedValue and SharedCount.

#include <zkrecipes/shared_value.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <zktesting/environment.hpp>

#include "tests/interop/peer.hpp"
#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using testkit::Box;
using testkit::CuratorProgram;
using testkit::Peer;
using testkit::soon;

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

// Its SharedCount: an integer of 32 bits, big-endian.
TEST_F(SharedValueBesideCurator, ASharedCountIsFourBytes) {
  SharedValue value(client(), path());
  value.set(std::string("\0\0\1\2", 4), patient());
  EXPECT_EQ(tell("add shared ", "1"), "259");
  EXPECT_EQ(value.get(patient()).data, std::string("\0\0\1\3", 4));
}

}  // namespace
}  // namespace zkrecipes
