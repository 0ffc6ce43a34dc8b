// Counter beside Apache Curator's DistributedAtomicLong, DistributedAtomicInteger and SharedCount, and beside kazoo's
// Counter: all count at once, and the sum is exact, also while our side loses replies.

#include <zkrecipes/counter.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <zktesting/environment.hpp>

#include "tests/interop/lossy_line.hpp"
#include "tests/interop/peer.hpp"
#include "tests/support/recipe_test.hpp"

namespace zkrecipes {
namespace {

using testkit::CuratorProgram;
using testkit::in_thread;
using testkit::LossyLine;
using testkit::Peer;
using testkit::result_of;
using testkit::soon;
using zktesting::RequestType;
using Strings = std::vector<std::string>;

constexpr int each = 100;
constexpr int losses = 5;  ///< Of each client of ours.

/// A program of another library that counts, and the kind of number that it is told to count.
struct Peers {
  std::vector<Peer*> programs;
  std::string kind;
};

/// Counts down when a thread of ours ends, whatever became of it.
class CountedOut {
 public:
  explicit CountedOut(std::atomic<int>& counting) : counting_(counting) {}
  ~CountedOut() { --counting_; }
  CountedOut(const CountedOut&) = delete;
  CountedOut& operator=(const CountedOut&) = delete;

 private:
  std::atomic<int>& counting_;
};

class CounterBesideOthers : public testkit::RecipeTest {
 protected:
  CounterBesideOthers() : RecipeTest("/numbers/one") {}
  static void SetUpTestSuite() {
    const std::string& hosts = zktesting::SharedServer::instance().connect_string();
    if (CuratorProgram::installed("curator-recipes")) {
      program_ = std::make_unique<CuratorProgram>(ZKR_INTEROP_SOURCES "/CuratorNumbers.java");
      for (std::unique_ptr<Peer>& peer : curators_)
        peer = std::make_unique<Peer>(program_->command({hosts}));
    }
    // The system's Python has the system's packages, whichever is first in the path.
    for (const std::string python : {"python3", "/usr/bin/python3"}) {
      const std::string packages = "PYTHONPATH=" ZKR_INTEROP_PYTHON;
      if (std::system(("env " + packages + " " + python + " -c 'import kazoo' 2>/dev/null").c_str()) != 0) continue;
      for (std::unique_ptr<Peer>& peer : kazoos_) {
        peer = std::make_unique<Peer>(Strings{"env", packages, python, ZKR_INTEROP_SOURCES "/kazoo_numbers.py", hosts});
      }
      return;
    }
  }
  static void TearDownTestSuite() {
    for (std::unique_ptr<Peer>& peer : curators_)
      peer.reset();
    for (std::unique_ptr<Peer>& peer : kazoos_)
      peer.reset();
    program_.reset();
  }
  static Peers curators(const std::string& kind) { return {{curators_[0].get(), curators_[1].get()}, kind}; }
  static Peers kazoos(const std::string& kind) { return {{kazoos_[0].get(), kazoos_[1].get()}, kind}; }
  static bool has_curator() { return curators_[0] != nullptr; }
  static bool has_kazoo() { return kazoos_[0] != nullptr; }

  std::string full() const { return prefix().str() + path().str(); }
  Strings add(Peer& peer, const std::string& kind, int times) const {
    return peer.tell("add " + kind + full() + " " + std::to_string(times));
  }
  Strings get(Peer& peer, const std::string& kind) const { return peer.tell("get " + kind + full()); }
  void adds(Peer& peer, const std::string& kind, int times) const {
    const Strings last = add(peer, kind, times);
    ASSERT_EQ(last.size(), 1u);
    EXPECT_EQ(last.front().find_first_not_of("0123456789"), std::string::npos) << last.front();
  }

  /// The peers and two clients of ours count at once. Afterwards `get` of a peer tells the same number as ours.
  void count_together(CounterEncoding encoding, const Peers& peers) {
    std::vector<std::future<void>> all;
    for (Peer* peer : peers.programs)
      all.push_back(in_thread([this, peer, &peers] { adds(*peer, peers.kind, each); }));
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
    const std::int64_t sum = each * static_cast<std::int64_t>(peers.programs.size() + 2);
    Peer& peer = *peers.programs.front();
    Counter counter(client(), path(), {.encoding = encoding});
    EXPECT_EQ(counter.add(0, {.deadline = soon()}).after, sum);
    EXPECT_EQ(get(peer, peers.kind), Strings{std::to_string(sum)});
    counter.set(-3, {.deadline = soon()});
    EXPECT_EQ(get(peer, peers.kind), Strings{"-3"});
    EXPECT_EQ(add(peer, peers.kind, 1), Strings{"-2"});
    EXPECT_EQ(counter.add(1, {.deadline = soon()}), (CounterChange{-2, -1}));
  }

  /// The peers count for as long as two clients of ours do, of which each loses the replies to all its changes. Each of
  /// our changes is there once, with its own number.
  void count_while_replies_are_lost(CounterEncoding encoding, const std::vector<Peers>& libraries) {
    std::atomic<int> counting{2};
    std::vector<std::future<int>> theirs;
    for (const Peers& peers : libraries) {
      for (Peer* peer : peers.programs)
        theirs.push_back(
            in_thread([this, peer, &peers, &counting] { return adds_during(counting, *peer, peers.kind); }));
    }
    std::vector<std::future<std::vector<CounterChange>>> ours;
    for (int i = 0; i < 2; ++i) {
      ours.push_back(in_thread([this, encoding, &counting] {
        const CountedOut ended(counting);
        return lossy_changes(encoding);
      }));
    }
    std::set<std::int64_t> made;
    for (auto& one : ours) {
      for (const CounterChange& change : result_of(one)) {
        EXPECT_EQ(change.after, change.before + 1);
        EXPECT_TRUE(made.insert(change.after).second) << "two changes made it " << change.after;
      }
    }
    std::int64_t sum = std::int64_t{2} * losses;
    for (auto& one : theirs)
      sum += result_of(one);
    for (const Peers& peers : libraries) {
      EXPECT_EQ(get(*peers.programs.front(), peers.kind), Strings{std::to_string(sum)});
      set_while_replies_are_lost(encoding, *peers.programs.front(), peers.kind);
      sum = 8;
    }
  }

 private:
  /// How often it has added 1.
  int adds_during(const std::atomic<int>& counting, Peer& peer, const std::string& kind) const {
    constexpr int chunk = 10;
    int count = 0;
    for (; counting > 0; count += chunk)
      adds(peer, kind, chunk);
    return count;
  }
  std::vector<CounterChange> lossy_changes(CounterEncoding encoding) const {
    LossyLine line(prefix());
    Counter counter(line.client(), path(), {.encoding = encoding});
    std::vector<CounterChange> changes;
    for (int i = 0; i < losses; ++i) {
      changes.push_back(line.lose_reply(RequestType::multi, [&] { return counter.add(1, {.deadline = soon()}); }));
    }
    return changes;
  }
  /// One side's number is the other one's, change by change.
  void set_while_replies_are_lost(CounterEncoding encoding, Peer& peer, const std::string& kind) const {
    LossyLine line(prefix());
    Counter counter(line.client(), path(), {.encoding = encoding});
    line.lose_reply(RequestType::multi, [&] { counter.set(-3, {.deadline = soon()}); });
    EXPECT_EQ(add(peer, kind, 1), Strings{"-2"});
    EXPECT_TRUE(line.lose_reply(RequestType::multi, [&] { return counter.compare_set(-2, 7, {.deadline = soon()}); }));
    EXPECT_EQ(get(peer, kind), Strings{"7"});
    EXPECT_EQ(add(peer, kind, 1), Strings{"8"});
    EXPECT_EQ(line.lose_reply(RequestType::get_data, [&] { return counter.get({.deadline = soon()}); }), 8);
  }

  static inline std::unique_ptr<CuratorProgram> program_;
  static inline std::unique_ptr<Peer> curators_[2];
  static inline std::unique_ptr<Peer> kazoos_[2];
};

#define NEEDS_CURATOR() \
  if (!has_curator()) GTEST_SKIP() << "not installed: libcurator-recipes-java, default-jdk-headless"
#define NEEDS_KAZOO() \
  if (!has_kazoo()) GTEST_SKIP() << "not installed: python3-kazoo"

TEST_F(CounterBesideOthers, ALongIsCountedByBoth) {
  NEEDS_CURATOR();
  count_together(CounterEncoding::curator_int64, curators("long "));
}

TEST_F(CounterBesideOthers, AnIntegerIsCountedByBoth) {
  NEEDS_CURATOR();
  count_together(CounterEncoding::curator_int32, curators("integer "));
}

TEST_F(CounterBesideOthers, KazoosNumberIsCountedByBoth) {
  NEEDS_KAZOO();
  count_together(CounterEncoding::kazoo, kazoos(""));
}

TEST_F(CounterBesideOthers, ALongIsCountedOnceWhileRepliesAreLost) {
  NEEDS_CURATOR();
  count_while_replies_are_lost(CounterEncoding::curator_int64, {curators("long ")});
}

TEST_F(CounterBesideOthers, KazoosNumberIsCountedOnceWhileRepliesAreLost) {
  NEEDS_KAZOO();
  count_while_replies_are_lost(CounterEncoding::kazoo, {kazoos("")});
}

// kazoo's Counter with support_curator, Curator's SharedCount and DistributedAtomicInteger write the same four bytes.
TEST_F(CounterBesideOthers, OneNumberIsOfCuratorAndOfKazooWhileRepliesAreLost) {
  NEEDS_CURATOR();
  NEEDS_KAZOO();
  // A SharedCount cannot read the empty node that kazoo makes.
  Counter(client(), path(), {.encoding = CounterEncoding::curator_int32}).set(0, {.deadline = soon()});
  count_while_replies_are_lost(CounterEncoding::curator_int32, {{{curators("").programs[0]}, "integer "},
                                                                {{curators("").programs[1]}, "shared "},
                                                                {{kazoos("").programs[0]}, "curator "}});
}

// A SharedCount that is made first writes 0; one that is made later leaves the number as it is.
TEST_F(CounterBesideOthers, ASharedCountIsCountedByBoth) {
  NEEDS_CURATOR();
  Counter counter(client(), path(), {.encoding = CounterEncoding::curator_int32});
  Peer& peer = *curators("").programs.front();
  EXPECT_EQ(add(peer, "shared ", 2), Strings{"2"});
  EXPECT_EQ(counter.add(5, {.deadline = soon()}), (CounterChange{2, 7}));
  EXPECT_EQ(add(peer, "shared ", 1), Strings{"8"});
  EXPECT_EQ(counter.get({.deadline = soon()}), 8);
}

}  // namespace
}  // namespace zkrecipes
