#include "recipes/barriers/round_decider.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <fmt/format.h>

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

// Members come, go and die at random, and see what they see late; each one watches only what it is told to. Rounds
// must have exactly N members, nobody may be in two, and as long as N wait and none is inside, somebody must be awake.
TEST(RoundDecider, RandomMembersNeverGetStuck) {
  struct Model {
    Names children;
    Names roster;
    int version = 0;
  };
  struct Member {
    std::string name;
    bool awake = true;
    bool watches_children = false;
    bool inside = false;
  };
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::size_t count = 1 + random() % 4;
    Model model;
    std::vector<Member> crew;
    int next = 0;
    int rounds = 0;
    const auto changed = [&](bool children) {
      for (Member& one : crew)
        one.awake = one.awake || !children || one.watches_children;
    };
    for (int step = 0; step < 400; ++step) {
      const auto action = random() % 10;
      if (action < 3 && crew.size() < 2 * count + 2) {
        crew.push_back({member(next++)});
        model.children.push_back(crew.back().name);
        changed(true);
      } else if (action == 3 && !crew.empty()) {  // One gives up, leaves or dies.
        const std::size_t gone = random() % crew.size();
        std::erase(model.children, crew[gone].name);
        crew.erase(crew.begin() + static_cast<std::ptrdiff_t>(gone));
        changed(true);
      } else if (!crew.empty()) {
        Member& one = crew[random() % crew.size()];
        if (!one.awake || one.inside) continue;
        RoundStep decision = decide_round(model.children, model.roster, one.name, count);
        one.awake = decision.kind == Kind::begin;
        one.watches_children = decision.kind == Kind::extra;
        one.inside = decision.kind == Kind::entered;
        ASSERT_NE(decision.kind, Kind::vanished);
        if (decision.kind != Kind::begin || random() % 4 == 0) continue;  // It may be slow, or die before it writes.
        ASSERT_EQ(decision.roster.size(), count);
        ASSERT_TRUE(still_inside(model.children, model.roster).empty());
        model.roster = std::move(decision.roster);
        ++rounds;
        changed(false);
      }
      const bool going_on = !still_inside(model.children, model.roster).empty();
      const bool anybody = std::any_of(crew.begin(), crew.end(), [](const Member& one) { return one.awake; });
      ASSERT_TRUE(going_on || model.children.size() < count || anybody) << "stuck, seed " << seed;
    }
    EXPECT_GT(rounds, 0) << seed;
  }
}

}  // namespace
}  // namespace zkrecipes::detail
