#include "recipes/coherent/coherent_decider.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace zkrecipes::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = ShardLease::TimePoint;

constexpr Time start{seconds(1000)};

Gate open_at(std::int32_t version, std::string id = "w0") { return Gate{true, version, std::move(id)}; }
Gate closed_at(std::int32_t version, std::string id = "w0") { return Gate{false, version, std::move(id)}; }

/// All combinations of what a read can know, with epochs 4 and 5.
void for_all_fills(const std::function<void(const FillFacts& facts)>& visit) {
  const std::vector<std::optional<std::int32_t>> fetches = {std::nullopt, 4, 5};
  const std::vector<std::optional<Gate>> gates = {std::nullopt, open_at(5), closed_at(5)};
  for (int flags = 0; flags < 16; ++flags) {
    for (const auto& fetch : fetches) {
      for (const auto& gate : gates) {
        FillFacts facts;
        facts.epoch = 5;
        facts.lease_valid = (flags & 1) != 0;
        facts.cached = (flags & 2) != 0;
        facts.grant_under_way = (flags & 4) != 0;
        facts.tried = (flags & 8) != 0;
        facts.fetch_epoch = fetch;
        facts.gate = gate;
        visit(facts);
      }
    }
  }
}

TEST(CoherentDecider, AnswersFromTheCacheOnlyUnderALease) {
  int hits = 0;
  for_all_fills([&](const FillFacts& facts) {
    const bool hit = decide_fill(facts) == FillStep::hit;
    EXPECT_EQ(hit, facts.lease_valid && facts.cached);
    if (hit) ++hits;
  });
  EXPECT_GT(hits, 0);
}

TEST(CoherentDecider, JoinsAFetchOnlyOfTheLeaseThatIsValidNow) {
  for_all_fills([](const FillFacts& facts) {
    const FillStep step = decide_fill(facts);
    if (step == FillStep::join) {
      EXPECT_TRUE(facts.lease_valid);
      EXPECT_EQ(facts.fetch_epoch, facts.epoch);
    }
    if (step == FillStep::fetch) {
      EXPECT_TRUE(facts.lease_valid && facts.fetch_epoch != facts.epoch);
    }
  });
}

TEST(CoherentDecider, RegistersOnlyAtAnOpenGateThatItHasRead) {
  for_all_fills([](const FillFacts& facts) {
    if (decide_fill(facts) == FillStep::enroll) {
      EXPECT_TRUE(facts.gate && facts.gate->open && !facts.tried);
    }
  });
}

TEST(CoherentDecider, AReadAtAClosedGateDoesNotWaitForTheWriter) {
  FillFacts facts;
  facts.gate = closed_at(5);
  EXPECT_EQ(decide_fill(facts), FillStep::uncached);
}

// Whatever comes of the steps: the facts that each one adds lead to the end.
TEST(CoherentDecider, EveryReadEndsAfterThreeStepsAtMost) {
  const auto ends = [](FillStep step) {
    return step == FillStep::hit || step == FillStep::join || step == FillStep::fetch || step == FillStep::uncached;
  };
  const std::function<int(FillFacts, int)> longest = [&](FillFacts facts, int taken) {
    const FillStep step = decide_fill(facts);
    if (ends(step) || taken > 10) return taken + 1;
    int most = 0;
    const auto after = [&](const FillFacts& next) { most = std::max(most, longest(next, taken + 1)); };
    if (step == FillStep::look) {
      for (const Gate& gate : {open_at(5), closed_at(5)}) {
        FillFacts next = facts;
        next.gate = gate;
        after(next);
      }
    }
    if (step == FillStep::enroll || step == FillStep::wait) {  // A registration that was granted ends the read.
      FillFacts next = facts;
      next.tried = true;
      after(next);
      next.lease_valid = true;
      after(next);
    }
    return most;
  };
  for_all_fills([&](const FillFacts& facts) { EXPECT_LE(longest(facts, 0), 3); });
}

TEST(CoherentDecider, CachesWhatWasFetchedUnderThisLeaseOnly) {
  EXPECT_TRUE(may_cache(5, 5, true));
  EXPECT_FALSE(may_cache(4, 5, true));
  EXPECT_FALSE(may_cache(5, 5, false));
}

TEST(CoherentDecider, ChangesWhatFitsTheWrite) {
  using zkclient::Errc;
  const auto change = [](ItemWrite::Kind kind, std::int64_t expected, std::int64_t revision) {
    return decide_change(ItemWrite{kind, "a", "b", expected}, revision).kind;
  };
  const auto why = [](ItemWrite::Kind kind, std::int64_t expected, std::int64_t revision) {
    const ItemChange refused = decide_change(ItemWrite{kind, "a", "b", expected}, revision);
    EXPECT_EQ(refused.kind, ItemChange::refuse);
    return refused.why;
  };
  EXPECT_EQ(change(ItemWrite::put, 0, 0), ItemChange::make);
  EXPECT_EQ(change(ItemWrite::put, 0, 7), ItemChange::set);
  EXPECT_EQ(change(ItemWrite::create, 0, 0), ItemChange::make);
  EXPECT_EQ(why(ItemWrite::create, 0, 7), Errc::node_exists);
  EXPECT_EQ(change(ItemWrite::compare_put, 0, 0), ItemChange::make);
  EXPECT_EQ(change(ItemWrite::compare_put, 7, 7), ItemChange::set);
  EXPECT_EQ(why(ItemWrite::compare_put, 6, 7), Errc::bad_version);
  EXPECT_EQ(why(ItemWrite::compare_put, 0, 7), Errc::bad_version);
  EXPECT_EQ(why(ItemWrite::compare_put, 7, 0), Errc::bad_version);
  EXPECT_EQ(change(ItemWrite::remove, 0, 7), ItemChange::remove);
  EXPECT_EQ(why(ItemWrite::remove, 0, 0), Errc::no_node);
  EXPECT_EQ(change(ItemWrite::compare_remove, 7, 7), ItemChange::remove);
  EXPECT_EQ(why(ItemWrite::compare_remove, 6, 7), Errc::bad_version);
  EXPECT_EQ(why(ItemWrite::compare_remove, 0, 0), Errc::no_node);
}

/// All combinations of what a writer can know; times from before the closing to far behind the longest term.
void for_all_writes(const std::function<void(const WriteFacts& facts)>& visit) {
  const std::vector<Registration> none;
  const std::vector<Registration> quick = {{"a", milliseconds(100)}};
  const std::vector<Registration> both = {{"a", milliseconds(100)}, {"b", milliseconds(2000)}};
  const std::vector<std::optional<std::int32_t>> closings = {std::nullopt, 4, 5};
  for (const Gate& gate : {open_at(5), closed_at(5), closed_at(6, "w1")}) {
    for (const bool alive : {false, true}) {
      for (const bool there : {false, true}) {
        for (const auto& closing : closings) {
          for (const auto& registered : {none, quick, both}) {
            for (int ms = 0; ms < 2200; ms += 50) {
              WriteFacts facts;
              facts.gate = gate;
              facts.closer_alive = alive;
              facts.readers_there = there;
              facts.closed_version = closing;
              facts.closed_at = start;
              facts.registered = registered;
              facts.now = start + milliseconds(ms);
              visit(facts);
            }
          }
        }
      }
    }
  }
}

TEST(CoherentDecider, CommitsOnlyBehindItsOwnClosing) {
  for_all_writes([](const WriteFacts& facts) {
    if (decide_write(facts).kind != WriteStep::commit) return;
    EXPECT_FALSE(facts.gate.open);
    EXPECT_EQ(facts.closed_version, facts.gate.version);
  });
}

TEST(CoherentDecider, CommitsWhenNoneIsRegisteredOrTheLongestTermHasPassed) {
  int early = 0;
  int late = 0;
  for_all_writes([&](const WriteFacts& facts) {
    if (facts.gate.open || facts.closed_version != facts.gate.version) return;
    milliseconds longest{0};
    for (const Registration& one : facts.registered)
      longest = std::max(longest, one.term);
    const bool passed = facts.now - facts.closed_at >= patience_for(longest);
    const WriteStep step = decide_write(facts);
    EXPECT_EQ(step.kind == WriteStep::commit, facts.registered.empty() || passed);
    if (step.kind == WriteStep::commit) {
      ++(passed ? late : early);
    } else {
      EXPECT_EQ(step.kind, WriteStep::wait_readers);
      EXPECT_EQ(step.until, start + patience_for(longest));
      EXPECT_GT(step.until, facts.now);
    }
  });
  EXPECT_GT(early, 0);
  EXPECT_GT(late, 0);
}

// A reader that has seen an earlier closing could not renew since: each one's own time counts.
TEST(CoherentDecider, WaitsFromTheFirstClosingThatAReaderHasSeen) {
  WriteFacts facts;
  facts.gate = closed_at(5);
  facts.closed_version = 5;
  facts.closed_at = start + milliseconds(1000);
  facts.now = facts.closed_at;
  facts.registered = {{"old", milliseconds(2000)}};
  facts.barred = {{"old", start}};
  EXPECT_EQ(decide_write(facts).until, start + patience_for(milliseconds(2000)));
  facts.registered.push_back({"new", milliseconds(1500)});
  EXPECT_EQ(decide_write(facts).until, facts.closed_at + patience_for(milliseconds(1500)));
  facts.registered = {{"old", milliseconds(900)}};
  EXPECT_EQ(decide_write(facts).kind, WriteStep::commit);
}

TEST(CoherentDecider, NeverTouchesTheGateOfAWriterThatIsAlive) {
  for_all_writes([](const WriteFacts& facts) {
    const bool others = !facts.gate.open && facts.closed_version != facts.gate.version;
    if (!others) return;
    EXPECT_EQ(decide_write(facts).kind, facts.closer_alive ? WriteStep::wait_writer : WriteStep::reopen);
  });
}

TEST(CoherentDecider, ClosesTheGateOnlyForReaders) {
  for_all_writes([](const WriteFacts& facts) {
    if (!facts.gate.open) return;
    EXPECT_EQ(decide_write(facts).kind, facts.readers_there ? WriteStep::close : WriteStep::write);
  });
}

TEST(CoherentDecider, AWriteWhoseRecordIsThereWasApplied) {
  EXPECT_EQ(decide_verdict(open_at(6, "mine"), "mine", 5), Verdict::applied);
}

TEST(CoherentDecider, AWriteWhoseGateIsUntouchedWasNot) {
  EXPECT_EQ(decide_verdict(closed_at(5), "mine", 5), Verdict::not_applied);
  EXPECT_EQ(decide_verdict(open_at(5), "mine", 5), Verdict::not_applied);
}

TEST(CoherentDecider, AWriteInWhosePlaceAnotherChangedTheGateWasNot) {
  EXPECT_EQ(decide_verdict(open_at(6, ""), "mine", 5), Verdict::not_applied);
  EXPECT_EQ(decide_verdict(open_at(6, "other"), "mine", 5), Verdict::not_applied);
  EXPECT_EQ(decide_verdict(closed_at(6, "mine"), "mine", 5), Verdict::not_applied);
}

TEST(CoherentDecider, NothingIsKnownOfAWriteOnceOthersWentOn) {
  EXPECT_EQ(decide_verdict(open_at(7, "other"), "mine", 5), Verdict::unknown);
  EXPECT_EQ(decide_verdict(closed_at(7, "other"), "mine", 5), Verdict::unknown);
}

TEST(CoherentDecider, VersionsWrapAround) {
  constexpr std::int32_t last = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t first = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(decide_verdict(open_at(first, "other"), "mine", last), Verdict::not_applied);
  EXPECT_EQ(decide_verdict(open_at(first + 1, "other"), "mine", last), Verdict::unknown);
  EXPECT_EQ(decide_verdict(open_at(0, "other"), "mine", -2), Verdict::not_applied);  // -1 is left out.
}

}  // namespace
}  // namespace zkrecipes::detail
