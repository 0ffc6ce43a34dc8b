#include "recipes/barriers/round_decider.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include <fmt/format.h>

#include "tests/support/memory.hpp"

namespace zkrecipes::detail {
namespace {

using Kind = RoundStep::Kind;
using Names = std::vector<std::string>;

std::string member(int sequence) { return fmt::format("_c_{}-member-{:010}", 9 - sequence % 10, sequence); }
Names members(std::initializer_list<int> sequences) {
  Names names;
  for (const int sequence : sequences)
    names.push_back(member(sequence));
  return names;
}

TEST(RoundDecider, TooFewWait) {
  EXPECT_EQ(decide_round(members({1}), {}, member(1), 2).kind, Kind::too_few);
  EXPECT_EQ(decide_round(members({1, 2}), {}, member(2), 3).kind, Kind::too_few);
}

TEST(RoundDecider, FirstNBegin) {
  const RoundStep begin{Kind::begin, members({1, 2})};
  EXPECT_EQ(decide_round(members({2, 1}), {}, member(2), 2), begin);
  EXPECT_EQ(decide_round(members({3, 2, 1}), {}, member(1), 2), begin);
  EXPECT_EQ(decide_round(members({3, 2, 1}), {}, member(3), 2).kind, Kind::extra);
  EXPECT_EQ(decide_round(members({7}), {}, member(7), 1), (RoundStep{Kind::begin, members({7})}));
}

TEST(RoundDecider, WhoStandsInTheRosterIsIn) {
  EXPECT_EQ(decide_round(members({1, 2}), members({1, 2}), member(1), 2).kind, Kind::entered);
  EXPECT_EQ(decide_round(members({1}), members({1, 2}), member(1), 2).kind, Kind::entered) << "the other one crashed";
}

TEST(RoundDecider, NoRoundWhileOneGoesOn) {
  EXPECT_EQ(decide_round(members({2, 3, 4}), members({1, 2}), member(3), 2).kind, Kind::extra);
  EXPECT_FALSE(decide_round(members({2, 3, 4}), members({1, 2}), member(3), 2).refusable) << "a place is free again";
  EXPECT_TRUE(decide_round(members({2, 3, 4}), members({1, 2}), member(4), 2).refusable);
  EXPECT_TRUE(decide_round(members({1, 2, 3}), members({1, 2}), member(3), 2).refusable) << "all are inside";
  EXPECT_EQ(decide_round(members({3, 4}), members({1, 2}), member(3), 2).kind, Kind::begin) << "a roster of the past";
}

TEST(RoundDecider, OwnNodeGone) {
  EXPECT_EQ(decide_round({}, {}, member(1), 1).kind, Kind::vanished);
  EXPECT_EQ(decide_round(members({2}), members({1, 2}), member(1), 2).kind, Kind::vanished);
}

// `ready` is never counted, and neither is anything else.
TEST(RoundDecider, ForeignChildrenDoNotCount) {
  Names children = members({1});
  for (const char* name : {"ready", "member", "0123", "_c_1-lock-0000000001", "_c_1-member-1"})
    children.emplace_back(name);
  EXPECT_EQ(decide_round(children, {}, member(1), 2).kind, Kind::too_few);
}

TEST(RoundDecider, OrderOfArrivalAcrossTheWrap) {
  const Names children = {"_c_a-member--2147483648", "_c_b-member-2147483647", "_c_c-member--2147483647"};
  EXPECT_EQ(decide_round(children, {}, children[0], 2).roster, (Names{children[1], children[0]}));
}

TEST(Roster, RoundTrip) {
  const Names names = members({4, 1, 9});
  EXPECT_EQ(decode_roster(encode_roster(names)), names);
  EXPECT_EQ(decode_roster(encode_roster({})), Names());
  for (const char* foreign :
       {"", "ready", "zkrecipes round", "zkrecipes round\nx\n", "zkrecipes round\n_c_1-member-00"})
    EXPECT_EQ(decode_roster(foreign), Names()) << foreign;
}

// Members come, go and die at random. Each one reads the roster, then the list, and decides on what it has read,
// however old that is by then; it wakes up only for what its last decision told it to watch.
class RoundModel {
 public:
  RoundModel(unsigned seed, std::size_t count) : random_(seed), count_(count) {}

  void step() {
    const auto action = random_() % 16;
    if (action < 3 && crew_.size() < 2 * count_ + 2) {
      join();
    } else if (action == 3 && !crew_.empty()) {
      leave(random_() % crew_.size());
    } else if (!crew_.empty()) {
      go_on(crew_[random_() % crew_.size()]);
    }
  }

  bool is_stuck() const {
    const bool going_on = !still_inside(children_, roster_).empty();
    const bool anybody_awake = std::any_of(crew_.begin(), crew_.end(),
                                           [](const Member& one) { return one.next != Next::sleep && !one.inside; });
    return !going_on && children_.size() >= count_ && !anybody_awake;
  }
  int rounds() const { return rounds_; }
  int stale_decisions() const { return stale_decisions_; }

 private:
  enum class Next { read_roster, read_list, decide, write, sleep };
  struct Member {
    std::string name;
    Next next = Next::read_roster;
    Names roster = {};  // As it was read; likewise:
    int version = 0;
    Names children = {};
    Names proposal = {};
    bool watches_children = false;
    bool inside = false;
  };

  void join() {
    crew_.push_back({member(next_name_++)});
    children_.push_back(crew_.back().name);
    children_changed();
  }
  void leave(std::size_t index) {  // It gives up, leaves or dies.
    std::erase(children_, crew_[index].name);
    crew_.erase(crew_.begin() + static_cast<std::ptrdiff_t>(index));
    children_changed();
  }
  void children_changed() {
    for (Member& one : crew_) {
      if (one.next == Next::sleep && one.watches_children) one.next = Next::read_roster;
    }
  }
  void roster_changed() {
    ++version_;
    for (Member& one : crew_) {
      if (one.next == Next::sleep) one.next = Next::read_roster;
    }
  }

  void go_on(Member& one) {
    switch (one.next) {
      case Next::read_roster:
        one.roster = roster_;
        one.version = version_;
        one.next = Next::read_list;
        break;
      case Next::read_list:
        one.children = children_;
        one.next = Next::decide;
        break;
      case Next::decide: decide(one); break;
      case Next::write: write(one); break;
      case Next::sleep: break;
    }
  }

  void decide(Member& one) {
    RoundStep decision = decide_round(one.children, one.roster, one.name, count_);
    if (one.version != version_ || one.children != children_) ++stale_decisions_;
    ASSERT_NE(decision.kind, Kind::vanished);
    one.watches_children = decision.kind == Kind::extra;
    one.inside = decision.kind == Kind::entered;
    ASSERT_TRUE(!one.inside || members_of_rounds_.contains(one.name));
    if (decision.kind == Kind::begin) {
      one.proposal = std::move(decision.roster);
      one.next = Next::write;
      return;
    }
    // A watch that was armed with a read fires for what has changed since.
    const bool fired = one.version != version_ || (one.watches_children && one.children != children_);
    one.next = fired && !one.inside ? Next::read_roster : Next::sleep;
  }

  // One transaction: it is refused unless the roster is as it was read, and all of the new one are there.
  void write(Member& one) {
    one.next = Next::read_roster;
    const auto is_there = [&](const std::string& name) {
      return std::find(children_.begin(), children_.end(), name) != children_.end();
    };
    if (one.version != version_ || !std::all_of(one.proposal.begin(), one.proposal.end(), is_there)) return;
    ASSERT_EQ(one.proposal.size(), count_);
    ASSERT_TRUE(still_inside(children_, roster_).empty()) << "the round before goes on";
    for (const std::string& name : one.proposal)
      ASSERT_TRUE(members_of_rounds_.insert(name).second) << name << " is in two rounds";
    roster_ = std::move(one.proposal);
    ++rounds_;
    roster_changed();
  }

  std::mt19937 random_;
  const std::size_t count_;
  Names children_;
  Names roster_;
  int version_ = 0;
  std::vector<Member> crew_;
  std::set<std::string> members_of_rounds_;
  int next_name_ = 0;
  int rounds_ = 0;
  int stale_decisions_ = 0;
};

// Rounds must have exactly N members, no member may be in two, and as long as N wait and none is inside, one is awake.
TEST(RoundDecider, RandomMembersNeverGetStuck) {
  const unsigned seeds = testkit::sanitized ? 30 : 300;
  int stale_decisions = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    RoundModel model(seed, 1 + seed % 4);
    for (int step = 0; step < 1200 && !testing::Test::HasFatalFailure(); ++step) {
      model.step();
      ASSERT_FALSE(model.is_stuck()) << "seed " << seed << ", step " << step;
    }
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    EXPECT_GT(model.rounds(), 0) << seed;
    stale_decisions += model.stale_decisions();
  }
  EXPECT_GT(stale_decisions, static_cast<int>(3 * seeds));
}

}  // namespace
}  // namespace zkrecipes::detail
