#include "recipes/replication/replica_decider.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <variant>

#include "recipes/replication/read_lease.hpp"

namespace zkrecipes::detail {
namespace {

using std::chrono::milliseconds;
using Ids = std::vector<std::string>;

ReplicaMember replica(const std::string& id, std::uint64_t version = 0, const std::string& storage = "disk") {
  return {id, storage, milliseconds(1000), version, ""};
}

ReplicaState state_of(const Ids& ids) {
  ReplicaState state;
  state.epoch = 3;
  state.primary = "a";
  for (const std::string& id : ids)
    state.in_sync.push_back({id, "disk", milliseconds(1000)});
  return state;
}

Ids ids_of(const std::vector<InSyncReplica>& replicas) {
  Ids ids;
  for (const InSyncReplica& one : replicas)
    ids.push_back(one.id);
  return ids;
}

TEST(ReplicaDecider, ChoosesAmongThoseInSyncTheHighestVersionFirst) {
  const ReplicaState state = state_of({"a", "b", "c"});
  const std::vector<ReplicaMember> all = {replica("a", 5), replica("b", 9), replica("c", 9), replica("d", 99)};
  EXPECT_EQ(choose(state, all), (Ids{"b", "c", "a"}));
  EXPECT_EQ(choose(state_of({}), all), Ids());
  EXPECT_EQ(choose(state, {}), Ids());
}

TEST(ReplicaDecider, AnEmptiedDiskIsNotInSync) {
  const ReplicaState state = state_of({"a", "b"});
  const std::vector<ReplicaMember> all = {replica("a", 5), replica("b", 9, "another disk")};
  EXPECT_EQ(choose(state, all), Ids{"a"});
}

TEST(ReplicaDecider, TheOrderOfTheMembersDoesNotMatter) {
  const ReplicaState state = state_of({"a", "b", "c"});
  std::vector<ReplicaMember> all = {replica("a", 1), replica("b", 2), replica("c", 1)};
  const Ids chosen = choose(state, all);
  do {
    EXPECT_EQ(choose(state, all), chosen);
  } while (std::next_permutation(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; }));
}

// All that one member can know, in a group of three.
void for_all_replica_facts(const std::function<void(const ReplicaMember& self, const ReplicaFacts& facts)>& visit) {
  const ReplicaMember self = replica("b", 4);
  for (int flags = 0; flags < 128; ++flags) {
    for (int in_sync = 0; in_sync < 8; ++in_sync) {
      for (const std::optional<std::int64_t> term : {std::optional<std::int64_t>(), {2}, {3}, {4}}) {
        ReplicaFacts facts;
        facts.present = (flags & 1) != 0;
        facts.founded = (flags & 2) != 0;
        facts.owned = (flags & 4) != 0;
        facts.term = term;
        Ids ids;
        for (int i = 0; i < 3; ++i) {
          if (((in_sync >> i) & 1) != 0) ids.emplace_back(1, static_cast<char>('a' + i));
          if (((flags >> (4 + i)) & 1) != 0)
            facts.members.push_back(replica(std::string(1, static_cast<char>('a' + i)), 4));
        }
        if ((flags & 8) != 0) facts.state = state_of(ids);
        visit(self, facts);
      }
    }
  }
}

TEST(ReplicaDecider, TakesOverOnlyInSyncPresentAndFree) {
  int taken = 0;
  for_all_replica_facts([&](const ReplicaMember& self, const ReplicaFacts& facts) {
    const ReplicaDecision decision = decide_replica(self, facts);
    const bool takes = decision.step == ReplicaStep::take_over || decision.step == ReplicaStep::stand_by;
    if (!takes) return;
    ++taken;
    EXPECT_TRUE(facts.present && !facts.owned && !facts.term);
    ASSERT_TRUE(facts.state);
    EXPECT_NE(facts.state->find(self.id), nullptr);
    const Ids chosen = choose(*facts.state, facts.members);
    ASSERT_LT(decision.rank, chosen.size());
    EXPECT_EQ(chosen[decision.rank], self.id);
    EXPECT_EQ(decision.rank == 0, decision.step == ReplicaStep::take_over);
  });
  EXPECT_GT(taken, 0);
}

TEST(ReplicaDecider, LeadsUntilTheStateHasALaterEpoch) {
  for_all_replica_facts([](const ReplicaMember& self, const ReplicaFacts& facts) {
    const ReplicaStep step = decide_replica(self, facts).step;
    EXPECT_EQ(step == ReplicaStep::lead, facts.term && facts.state && facts.state->epoch <= *facts.term);
    EXPECT_EQ(step == ReplicaStep::step_down, facts.term && !(facts.state && facts.state->epoch <= *facts.term));
  });
}

TEST(ReplicaDecider, MakesTheFirstStateOnlyIfThereNeverWasOne) {
  for_all_replica_facts([](const ReplicaMember& self, const ReplicaFacts& facts) {
    const ReplicaStep step = decide_replica(self, facts).step;
    const bool none = !facts.term && !facts.state;
    EXPECT_EQ(step == ReplicaStep::found, none && facts.present && !facts.founded);
    EXPECT_EQ(step == ReplicaStep::give_up, none && facts.founded);
  });
}

TEST(ReplicaDecider, FollowsWhoeverHasThePrimarysNode) {
  ReplicaFacts facts;
  facts.present = true;
  facts.owned = true;
  facts.state = state_of({"a", "b"});
  EXPECT_EQ(decide_replica(replica("b"), facts).step, ReplicaStep::follow);
  EXPECT_EQ(decide_replica(replica("c"), facts).step, ReplicaStep::catch_up);
  EXPECT_EQ(decide_replica(replica("b", 0, "new disk"), facts).step, ReplicaStep::catch_up);
  EXPECT_EQ(decide_replica(replica("a"), facts).step, ReplicaStep::join);  // Its former term is not over.
}

TEST(ReplicaDecider, WithoutAnyInSyncItIsUnavailable) {
  ReplicaFacts facts;
  facts.present = true;
  facts.state = state_of({"a", "b"});
  facts.members = {replica("c"), replica("b", 0, "new disk")};
  EXPECT_EQ(decide_replica(replica("c"), facts).step, ReplicaStep::unavailable);
  EXPECT_EQ(decide_replica(replica("b", 0, "new disk"), facts).step, ReplicaStep::unavailable);
  facts.members.push_back(replica("a"));
  EXPECT_EQ(decide_replica(replica("c"), facts).step, ReplicaStep::wait);
  EXPECT_EQ(decide_replica(replica("a"), facts), (ReplicaDecision{ReplicaStep::take_over, 0}));
}

TEST(ReplicaDecider, EachPrimaryHasAnEpochOfItsOwn) {
  const ReplicaState before = state_of({"a", "b"});
  const ReplicaState after = taken_over(before, "b");
  EXPECT_EQ(after.epoch, before.epoch + 1);
  EXPECT_EQ(after.primary, "b");
  EXPECT_EQ(after.in_sync, before.in_sync);
}

TEST(ReplicaDecider, WhoIsTakenOutMayServeReadsForATerm) {
  ReplicaState state = state_of({"a", "b", "c"});
  state.in_sync[1].term = milliseconds(3000);
  const ReplicaState less = shrunk(state, Ids{"b", "c", "z"});
  EXPECT_EQ(ids_of(less.in_sync), Ids{"a"});
  EXPECT_EQ(less.leaving, milliseconds(3000));
  EXPECT_EQ(shrunk(state, Ids{"z"}), state);
}

TEST(ReplicaDecider, TakesAMemberInAtItsPlace) {
  const ReplicaState state = state_of({"a", "c"});
  const InSyncReplica b{"b", "disk", milliseconds(1)};
  const ReplicaState more = expanded(state, b);
  EXPECT_EQ(ids_of(more.in_sync), (Ids{"a", "b", "c"}));
  EXPECT_EQ(more.leaving, milliseconds(0));
  EXPECT_EQ(expanded(more, b), more);
  const ReplicaState other = expanded(more, {"b", "another disk", milliseconds(1)});
  EXPECT_EQ(ids_of(other.in_sync), (Ids{"a", "b", "c"}));
  EXPECT_EQ(other.find("b")->storage, "another disk");
  EXPECT_EQ(other.leaving, milliseconds(1));
}

TEST(ReplicaDecider, AForcedStateSaysSo) {
  const ReplicaState state = forced(state_of({"a", "b"}), replica("c"));
  EXPECT_EQ(ids_of(state.in_sync), Ids{"c"});
  EXPECT_EQ(state.epoch, 4);
  EXPECT_EQ(state.forced, 4);
  EXPECT_EQ(state.primary, "");
  EXPECT_EQ(state.leaving, milliseconds(1000));
}

TEST(ReplicaDecider, CountsWhoIsTakenInFromTheSendingAndWhoIsTakenOutUntilItIsSettled) {
  ReplicaTerm term(state_of({"a", "b"}));
  const ReplicaState more = expanded(term.state(), {"c", "disk", milliseconds(1)});
  term.sending(more);
  EXPECT_EQ(ids_of(term.counted()), (Ids{"a", "b", "c"}));
  EXPECT_EQ(ids_of(term.state().in_sync), (Ids{"a", "b"}));
  term.committed(more);
  term.settle();
  EXPECT_EQ(ids_of(term.counted()), (Ids{"a", "b", "c"}));

  const ReplicaState less = shrunk(term.state(), Ids{"b"});
  term.sending(less);
  EXPECT_EQ(ids_of(term.counted()), (Ids{"a", "b", "c"}));
  term.committed(less);
  EXPECT_EQ(ids_of(term.counted()), (Ids{"a", "b", "c"}));
  term.settle();
  EXPECT_EQ(ids_of(term.counted()), (Ids{"a", "c"}));

  term.sending(expanded(term.state(), {"d", "disk", milliseconds(1)}));
  term.settle();  // It was refused.
  EXPECT_EQ(ids_of(term.counted()), (Ids{"a", "c"}));
}

TEST(ReplicaState, ItsVersionNeverStandsForAny) {
  constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t highest = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t version : {lowest, -3, -2, 0, 1, highest - 1, highest}) {
    std::int32_t at_the_server = version;
    for (const auto& operation : setting_state("/g/state", "text", version)) {
      const auto& set = std::get<zkclient::Transaction::Set>(operation);
      EXPECT_TRUE(set.version == at_the_server || at_the_server == zkclient::any_version) << version;
      EXPECT_EQ(set.data, "text");
      at_the_server = at_the_server == highest ? lowest : at_the_server + 1;
    }
    EXPECT_EQ(state_version_after(version), at_the_server);
    EXPECT_NE(at_the_server, zkclient::any_version);
  }
}

constexpr ReadLease::TimePoint start{std::chrono::seconds(1000)};

TEST(ReadLease, LastsATermFromTheSendingOfACheckOfTheNewestState) {
  ReadLease lease;
  EXPECT_FALSE(lease.wanted());
  EXPECT_FALSE(lease.valid(start));
  lease.in_sync(4, milliseconds(100));
  EXPECT_TRUE(lease.wanted());
  EXPECT_FALSE(lease.valid(start));
  lease.acknowledged(3, start);  // Of a state that is older.
  EXPECT_FALSE(lease.valid(start));
  lease.acknowledged(4, start);
  EXPECT_TRUE(lease.valid(start + milliseconds(99)));
  EXPECT_FALSE(lease.valid(start + milliseconds(100)));
  lease.acknowledged(4, start - milliseconds(50));  // It shortens nothing.
  EXPECT_TRUE(lease.valid(start + milliseconds(99)));
}

TEST(ReadLease, RunsOnWhenTheStateChangesAndEndsWhenTheMemberIsTakenOut) {
  ReadLease lease;
  lease.in_sync(4, milliseconds(100));
  lease.acknowledged(4, start);
  lease.in_sync(5, milliseconds(100));
  EXPECT_TRUE(lease.valid(start + milliseconds(99)));
  lease.acknowledged(4, start + milliseconds(50));  // Answered late: it may have been refused by now.
  EXPECT_FALSE(lease.valid(start + milliseconds(120)));
  lease.revoke();
  EXPECT_FALSE(lease.valid(start));
  lease.acknowledged(5, start);
  EXPECT_FALSE(lease.valid(start));
}

TEST(ReadLease, ThePrimaryWaitsForLongerThanATerm) {
  EXPECT_EQ(patience_with_readers(std::chrono::seconds(4)), milliseconds(4014));
}

}  // namespace
}  // namespace zkrecipes::detail
