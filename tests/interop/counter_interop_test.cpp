// Counter beside Apache Curator's DistributedAtomicLong, DistributedAtomicInteger and SharedCount, and beside kazoo's
// Counter: all count at once, and the sum is exact. No number is of Curator and of kazoo: they write it differently.

#include <zkrecipes/counter.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <zktesting/environment.hpp>

#include "tests/interop/peer.hpp"
#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using testkit::CuratorProgram;
using testkit::in_thread;
using testkit::Peer;
using testkit::result_of;
using testkit::soon;
using Strings = std::vector<std::string>;

constexpr int each = 100;

class CounterBesideOthers : public testkit::RecipeTest {
 protected:
  CounterBesideOthers() : RecipeTest("/numbers/one") {}
  std::string full() const { return prefix().str() + path().str(); }

  /// The peers and two clients of ours count at once. Afterwards `get` of a peer tells the same number as ours.
  void count_together(CounterEncoding encoding, const std::vector<Peer*>& peers, const std::string& kind) {
    std::vector<std::future<void>> all;
    for (Peer* peer : peers) {
      all.push_back(in_thread([this, peer, &kind] {
        const Strings last = peer->tell("add " + kind + full() + " " + std::to_string(each));
        ASSERT_EQ(last.size(), 1u);
        EXPECT_EQ(last.front().find_first_not_of("0123456789"), std::string::npos) << last.front();
      }));
    }
    for (int i = 0; i < 2; ++i) {
      all.push_back(in_thread([this, encoding] {
        const zkclient::Client own = make_client();
        Counter counter(own, path(), {.encoding = encoding});
        for (int k = 0; k < each; ++k)
          counter.add(1, {.deadline = soon()});
      }));
    }
    for (auto& one : all)
      result_of(one);
    const std::int64_t sum = each * static_cast<std::int64_t>(peers.size() + 2);
    Counter counter(client(), path(), {.encoding = encoding});
    EXPECT_EQ(counter.add(0, {.deadline = soon()}).after, sum);
    EXPECT_EQ(peers.front()->tell("get " + kind + full()), Strings{std::to_string(sum)});
    counter.set(-3, {.deadline = soon()});
    EXPECT_EQ(peers.front()->tell("get " + kind + full()), Strings{"-3"});
    EXPECT_EQ(peers.front()->tell("add " + kind + full() + " 1"), Strings{"-2"});
    EXPECT_EQ(counter.add(1, {.deadline = soon()}), (CounterChange{-2, -1}));
  }
};

class CounterBesideCurator : public CounterBesideOthers {
 protected:
  static void SetUpTestSuite() {
    if (!CuratorProgram::installed("curator-recipes")) return;
    program_ = std::make_unique<CuratorProgram>(ZKR_INTEROP_SOURCES "/CuratorNumbers.java");
    for (std::unique_ptr<Peer>& peer : peers_)
      peer = std::make_unique<Peer>(program_->command({zktesting::SharedServer::instance().connect_string()}));
  }
  static void TearDownTestSuite() {
    for (std::unique_ptr<Peer>& peer : peers_)
      peer.reset();
    program_.reset();
  }
  void SetUp() override {
    RecipeTest::SetUp();
    if (peers_[0] == nullptr) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless";
  }
  static std::vector<Peer*> peers() { return {peers_[0].get(), peers_[1].get()}; }

 private:
  static inline std::unique_ptr<CuratorProgram> program_;
  static inline std::unique_ptr<Peer> peers_[2];
};

TEST_F(CounterBesideCurator, ALongIsCountedByBoth) { count_together(CounterEncoding::curator_int64, peers(), "long "); }

TEST_F(CounterBesideCurator, AnIntegerIsCountedByBoth) {
  count_together(CounterEncoding::curator_int32, peers(), "integer ");
}

// A SharedCount that is made first writes 0; one that is made later leaves the number as it is.
TEST_F(CounterBesideCurator, ASharedCountIsCountedByBoth) {
  Counter counter(client(), path(), {.encoding = CounterEncoding::curator_int32});
  EXPECT_EQ(peers()[0]->tell("add shared " + full() + " 2"), Strings{"2"});
  EXPECT_EQ(counter.add(5, {.deadline = soon()}), (CounterChange{2, 7}));
  EXPECT_EQ(peers()[0]->tell("add shared " + full() + " 1"), Strings{"8"});
  EXPECT_EQ(counter.get({.deadline = soon()}), 8);
}

class CounterBesideKazoo : public CounterBesideOthers {
 protected:
  static void SetUpTestSuite() {
    // The system's Python has the system's packages, whichever is first in the path.
    for (const std::string python : {"python3", "/usr/bin/python3"}) {
      const std::string packages = "PYTHONPATH=" ZKR_INTEROP_PYTHON;
      if (std::system(("env " + packages + " " + python + " -c 'import kazoo' 2>/dev/null").c_str()) != 0) continue;
      for (std::unique_ptr<Peer>& peer : peers_) {
        peer = std::make_unique<Peer>(Strings{"env", packages, python, ZKR_INTEROP_SOURCES "/kazoo_numbers.py",
                                              zktesting::SharedServer::instance().connect_string()});
      }
      return;
    }
  }
  static void TearDownTestSuite() {
    for (std::unique_ptr<Peer>& peer : peers_)
      peer.reset();
  }
  void SetUp() override {
    RecipeTest::SetUp();
    if (peers_[0] == nullptr) GTEST_SKIP() << "not installed: python3-kazoo";
  }
  static std::vector<Peer*> peers() { return {peers_[0].get(), peers_[1].get()}; }

 private:
  static inline std::unique_ptr<Peer> peers_[2];
};

TEST_F(CounterBesideKazoo, ANumberIsCountedByBoth) { count_together(CounterEncoding::kazoo, peers(), ""); }

}  // namespace
}  // namespace zkrecipes
