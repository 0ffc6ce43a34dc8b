#include "recipes/partitions/partition_decider.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "recipes/kernel/slot_decider.hpp"

namespace zkrecipes::detail {
namespace {

using Names = std::set<std::string>;

constexpr FencingToken own_token{7};

Member member(const std::string& id, std::uint64_t set = 1, FencingToken incarnation = own_token,
              std::uint32_t weight = 1) {
  Member made{id};
  made.payload = share_text({weight, set});
  made.incarnation = incarnation;
  return made;
}

std::optional<Names> wanted(const std::vector<Member>& members, const std::string& id, bool name_taken = false,
                            FencingToken incarnation = own_token, std::uint64_t set = 1) {
  return decide_wanted({"p", "q", "r", "s"}, members, {id, incarnation, name_taken, set, 1.0});
}

TEST(PartitionDecider, EachPartitionIsWantedByOneMember) {
  const std::vector<Member> members = {member("a"), member("b"), member("c")};
  Names all;
  std::size_t count = 0;
  for (const char* id : {"a", "b", "c"}) {
    const auto mine = wanted(members, id);
    ASSERT_TRUE(mine.has_value());
    count += mine->size();
    all.insert(mine->begin(), mine->end());
  }
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(all, (Names{"p", "q", "r", "s"}));
}

// Row V99: the server lags behind, or shows a node of an earlier session.
TEST(PartitionDecider, AMemberThatIsNotSeenWaits) {
  EXPECT_EQ(wanted({member("b")}, "a"), std::nullopt);
  EXPECT_EQ(wanted({}, "a"), std::nullopt);
  EXPECT_EQ(wanted({member("a", 1, FencingToken{6}), member("b")}, "a"), std::nullopt);
}

// Row V100.
TEST(PartitionDecider, AMemberWhoseNameAnotherHasGetsNothing) {
  EXPECT_EQ(wanted({member("a", 1, FencingToken{9})}, "a", true), Names());
  EXPECT_EQ(wanted({member("a")}, "a", true)->size(), 4U) << "that is told later than what is seen";
}

// Its own node says nothing that can be read, so the others take it for no member.
TEST(PartitionDecider, AMemberThatSharesNothingGetsNothing) {
  Member foreign{"a"};
  foreign.payload = "what is this";
  foreign.incarnation = own_token;
  EXPECT_EQ(wanted({member("b"), foreign}, "a"), Names());
  EXPECT_EQ(wanted({foreign}, "a"), Names());
}

// Row V96.
TEST(PartitionDecider, MembersOfOtherSetsDoNotCount) {
  EXPECT_EQ(wanted({member("a"), member("b", 2)}, "a")->size(), 4U);
  Member foreign{"b"};
  foreign.payload = "what is this";
  EXPECT_EQ(wanted({member("a"), foreign}, "a")->size(), 4U);
  EXPECT_EQ(wanted({member("a", 1, own_token, 0), member("b")}, "a"), Names());
}

TEST(PartitionDecider, SharesAsText) {
  for (const MemberShare share : {MemberShare{1, 0}, MemberShare{0, 0x1234}, MemberShare{1'000'000, ~0ULL}})
    EXPECT_EQ(parse_share(share_text(share)), share);
  EXPECT_EQ(share_text({3, 0xab}), "weight=3 set=00000000000000ab");
  EXPECT_EQ(parse_share("weight=3 set=ab and=more"), (MemberShare{3, 0xab}));
  for (const char* text : {"", "weight=", "weight=x set=1", "weight=1", "weight=1 set=", "weight=1 set=g", "set=1",
                           "weight=1000001 set=1", "weight=-1 set=1", "weight=1 set=1x", "weight=99999999999 set=1"})
    EXPECT_EQ(parse_share(text), std::nullopt) << text;
}

TEST(PartitionDecider, SetsDifferByAllThatMembersMustAgreeOn) {
  const auto list = PartitionSource::list({"a", "b"});
  EXPECT_EQ(set_of(list, "", 1.0), set_of(PartitionSource::list({"b", "a"}), "", 1.0));
  EXPECT_NE(set_of(list, "", 1.0), set_of(list, "", 1.25));
  EXPECT_NE(set_of(list, "", 1.0), set_of(PartitionSource::list({"a", "c"}), "", 1.0));
  const auto children = PartitionSource::children_of("/x");
  EXPECT_NE(set_of(children, "/x", 1.0), set_of(children, "/y", 1.0));
}

TEST(PartitionDecider, OwnersAsText) {
  for (const char* data : {"", "host:1", "two\nlines"}) {
    const PartitionOwner owner = parse_owner(owner_text("a", data));
    EXPECT_EQ(owner.id, "a");
    EXPECT_EQ(owner.data, data);
  }
}

// In plain words, for all facts.
TEST(SlotDecider, AllCases) {
  for (const SlotHolder holder : {SlotHolder::unknown, SlotHolder::nobody, SlotHolder::another}) {
    EXPECT_EQ(decide_slot(true, true, holder), SlotStep::keep);
    EXPECT_EQ(decide_slot(false, true, holder), SlotStep::hand_over);
    EXPECT_EQ(decide_slot(false, false, holder), SlotStep::forget);
  }
  EXPECT_EQ(decide_slot(true, false, SlotHolder::unknown), SlotStep::look);
  EXPECT_EQ(decide_slot(true, false, SlotHolder::nobody), SlotStep::take);
  EXPECT_EQ(decide_slot(true, false, SlotHolder::another), SlotStep::wait);
}

}  // namespace
}  // namespace zkrecipes::detail
