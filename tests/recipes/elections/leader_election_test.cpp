#include <zkrecipes/leader_election.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <latch>
#include <mutex>
#include <semaphore>
#include <thread>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

using Seen = std::optional<Leader>;

static_assert(std::is_base_of_v<Lease, Leadership>);
static_assert(std::is_nothrow_move_constructible_v<Leadership> && !std::is_copy_constructible_v<Leadership>);
static_assert(std::is_move_constructible_v<LeaderElection> && !std::is_copy_constructible_v<LeaderElection>);

class LeaderElectionTest : public testkit::RecipeTest {
 protected:
  LeaderElectionTest() : RecipeTest("/election") {}

  LeaderElection candidate(const std::string& id) { return {client(), "/election", {.id = id}}; }
};

// --- Campaign and resign ------------------------------------------------------------------------------------------

TEST_F(LeaderElectionTest, TheOnlyCandidateLeads) {
  LeaderElection election = candidate("a");
  EXPECT_EQ(election.id(), "a");
  EXPECT_EQ(election.path(), Path("/election"));
  Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_TRUE(leadership.valid());
  EXPECT_GT(leadership.token().value, 0);
  const Seen leader = election.leader();
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->id, "a");
  EXPECT_EQ("/election/" + leader->node, leadership.node());
  EXPECT_EQ(leader->term, leadership.token());
  EXPECT_EQ(leader->session_id, client().session().id());
  EXPECT_FALSE(leader->ready);
  EXPECT_FALSE(leader->value);
  leadership.release();
  EXPECT_TRUE(names().empty());
}

TEST_F(LeaderElectionTest, TheDefaultIdIsHostAndProcess) {
  const LeaderElection election(client(), "/election");
  EXPECT_NE(election.id().find(":" + std::to_string(::getpid())), std::string::npos) << election.id();
}

TEST_F(LeaderElectionTest, LeadershipGoesRoundInTheOrderOfTheCampaigns) {
  constexpr std::size_t candidates = 5;
  std::vector<Client> clients;
  std::vector<LeaderElection> elections;
  for (std::size_t i = 0; i < candidates; ++i) {
    clients.push_back(make_client());
    elections.emplace_back(clients.back(), "/election", LeaderElectionOptions{.id = std::to_string(i)});
  }
  Box<std::pair<std::size_t, Result<Leadership>>> won;
  const auto campaign = [&](std::size_t i) {
    elections[i].async_campaign(
        [&won, i](Result<Leadership> result) {
          won.put({i, std::move(result)});
        },
        {.deadline = soon()});
  };
  for (std::size_t i = 0; i < candidates; ++i) {
    campaign(i);
    ASSERT_TRUE(remain(i + 1));
  }
  FencingToken last;
  for (std::size_t turn = 0; turn < 2 * candidates; ++turn) {
    auto [who, result] = won.take();
    EXPECT_EQ(who, turn % candidates);
    ASSERT_TRUE(result) << result.error().what();
    EXPECT_TRUE(won.empty()) << "one at a time";
    EXPECT_GT(result->token(), last) << "terms grow";
    last = result->token();
    const Seen leader = elections[0].leader();
    ASSERT_TRUE(leader);
    EXPECT_EQ(leader->id, std::to_string(who));
    EXPECT_EQ(leader->term, result->token());
    // Queue again behind the others, with the next campaign: resign first.
    elections[who].resign({.deadline = soon()});
    EXPECT_FALSE(result->valid());
    campaign(who);
    ASSERT_TRUE(remain(candidates));
  }
  for (auto& election : elections)
    election.resign({.deadline = soon()});
  for (std::size_t i = 0; i < candidates; ++i)
    won.take();  // Each campaign has ended, one way or the other.
  EXPECT_TRUE(remain(0));
}

TEST_F(LeaderElectionTest, DroppedLeadershipResigns) {
  LeaderElection first = candidate("a");
  LeaderElection second = candidate("b");
  std::optional<Leadership> leadership = first.campaign({.deadline = soon()});
  auto waiting = in_thread([&] { return second.campaign({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  leadership.reset();
  EXPECT_TRUE(result_of(waiting).valid());
}

TEST_F(LeaderElectionTest, ResignCancelsTheCampaignsOfItsObjectOnly) {
  LeaderElection first = candidate("a");
  LeaderElection second = candidate("b");
  LeaderElection third = candidate("c");
  Leadership leadership = first.campaign({.deadline = soon()});
  auto campaigning = in_thread([&] { return error_of([&] { (void)second.campaign({.deadline = soon()}); }); });
  ASSERT_TRUE(remain(2));
  auto other = in_thread([&] { return third.campaign({.deadline = soon()}); });
  ASSERT_TRUE(remain(3));
  second.resign({.deadline = soon()});
  EXPECT_EQ(result_of(campaigning), Errc::cancelled);
  EXPECT_TRUE(remain(2));
  EXPECT_TRUE(leadership.valid());
  leadership.release();
  EXPECT_TRUE(result_of(other).valid());
}

TEST_F(LeaderElectionTest, CampaigningAgainAfterResigning) {
  LeaderElection election = candidate("a");
  FencingToken last;
  for (int i = 0; i < 4; ++i) {
    Leadership leadership = election.campaign({.deadline = soon()});
    EXPECT_GT(leadership.token(), last);
    last = leadership.token();
    election.resign({.deadline = soon()});
    EXPECT_FALSE(leadership.valid());
    EXPECT_FALSE(leadership.lost().stop_requested()) << "given up, not lost";
    EXPECT_TRUE(names().empty()) << "it waited until the node was gone";
    EXPECT_FALSE(election.leader());
  }
}

TEST_F(LeaderElectionTest, ResignWithNothingToResign) {
  LeaderElection election = candidate("a");
  election.resign();
  election.resign();
  Leadership leadership = election.campaign({.deadline = soon()});
  leadership.release();
  election.resign();
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
}

// Once resign() has returned, nothing of this object leads or comes to lead by a campaign from before.
TEST_F(LeaderElectionTest, ResignRacesWithTheVictory) {
  LeaderElection election = candidate("a");
  for (int i = 0; i < 80; ++i) {
    Box<Result<Leadership>> box;
    election.async_campaign([&](Result<Leadership> result) { box.put(std::move(result)); }, {.deadline = soon()});
    auto blocking = in_thread([&]() -> std::optional<Leadership> {
      try {
        return election.campaign({.deadline = soon()});
      } catch (const zkclient::Error& error) {
        EXPECT_EQ(error.errc(), Errc::cancelled) << error.what();
        return std::nullopt;
      }
    });
    const auto moment = testkit::SteadyClock::now() + std::chrono::microseconds(37 * i);
    while (testkit::SteadyClock::now() < moment)
      std::this_thread::yield();
    election.resign({.deadline = soon()});
    // The thread may have joined only after the resignation: that campaign stands. It is ended the same way.
    const Result<Leadership> result = box.take();
    if (result) {
      EXPECT_FALSE(result->valid());
    } else {
      EXPECT_EQ(result.code(), Errc::cancelled) << result.error().what();
    }
    while (blocking.wait_for(1ms) != std::future_status::ready)
      election.resign({.deadline = soon()});
    (void)blocking.get();
  }
  EXPECT_TRUE(remain(0));
}

TEST_F(LeaderElectionTest, DeadlineAndStopRequest) {
  LeaderElection first = candidate("a");
  LeaderElection second = candidate("b");
  const Leadership leadership = first.campaign({.deadline = soon()});
  EXPECT_EQ(error_of([&] { (void)second.campaign({.deadline = testkit::SteadyClock::now() + 30ms}); }),
            Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { (void)second.campaign({.stop = stop.get_token()}); }); });
  ASSERT_TRUE(eventually([&] { return names().size() == 2; }));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_EQ(error_of([&] { (void)second.campaign({.stop = stop.get_token()}); }), Errc::cancelled);
  EXPECT_TRUE(remain(1));
  EXPECT_TRUE(leadership.valid());
}

TEST_F(LeaderElectionTest, AsyncCampaign) {
  LeaderElection first = candidate("a");
  LeaderElection second = candidate("b");
  Box<Result<Leadership>> box;
  const auto handler = [&](Result<Leadership> result) { box.put(std::move(result)); };
  first.async_campaign(handler, {.deadline = soon()});
  Result<Leadership> leadership = box.take();
  ASSERT_TRUE(leadership);
  second.async_campaign(handler, {.deadline = soon()});
  ASSERT_TRUE(remain(2));
  EXPECT_TRUE(box.empty());
  leadership->release();
  EXPECT_TRUE(box.take().value().valid());
  std::stop_source stop;
  stop.request_stop();
  first.async_campaign(handler, {.stop = stop.get_token()});
  EXPECT_EQ(box.take().code(), Errc::cancelled);
}

TEST_F(LeaderElectionTest, ACampaignOutlivesItsElection) {
  Box<Result<Leadership>> box;
  {
    LeaderElection election = candidate("a");
    election.async_campaign([&](Result<Leadership> result) { box.put(std::move(result)); }, {.deadline = soon()});
  }
  EXPECT_TRUE(box.take().value().valid());
}

TEST_F(LeaderElectionTest, TwoElectionsOnOneClient) {
  LeaderElection one(client(), "/election", {.id = "one"});
  LeaderElection two(client(), "/other", {.id = "two"});
  const Leadership first = one.campaign({.deadline = soon()});
  const Leadership second = two.campaign({.deadline = soon()});
  EXPECT_TRUE(first.valid());
  EXPECT_TRUE(second.valid());
  EXPECT_EQ(one.leader()->id, "one");
  EXPECT_EQ(two.leader()->id, "two");
  one.resign({.deadline = soon()});
  EXPECT_FALSE(first.valid());
  EXPECT_TRUE(second.valid());
}

// Two campaigns of one object are two candidates.
TEST_F(LeaderElectionTest, TwoCampaignsOfOneObject) {
  LeaderElection election = candidate("a");
  Leadership first = election.campaign({.deadline = soon()});
  auto waiting = in_thread([&] { return election.campaign({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  first.release();
  const Leadership second = result_of(waiting);
  EXPECT_TRUE(second.valid());
  EXPECT_GT(second.token(), first.token());
}

// --- What a leader says -------------------------------------------------------------------------------------------

TEST_F(LeaderElectionTest, ProclaimAndReady) {
  LeaderElection election = candidate("a");
  Leadership leadership = election.campaign({.deadline = soon()});
  const auto seen = [&] { return election.leader().value(); };
  EXPECT_FALSE(seen().ready);
  leadership.proclaim("one");
  EXPECT_EQ(seen().value, "one");
  EXPECT_FALSE(seen().ready);
  leadership.ready();
  EXPECT_EQ(seen().value, "one");
  EXPECT_TRUE(seen().ready);
  leadership.ready();
  leadership.proclaim("");
  EXPECT_EQ(seen().value, "");
  EXPECT_TRUE(seen().ready);
  const std::string binary("\0\n\xff leader/1 1 1 1\n", 19);
  leadership.proclaim(binary);
  EXPECT_EQ(seen().value, binary);
  const std::string large(1'000'000, 'x');
  leadership.proclaim(large);
  EXPECT_EQ(seen().value, large);
  EXPECT_EQ(error_of([&] { leadership.proclaim(std::string(1'100'000, 'x')); }), Errc::too_large);
  leadership.ready();
  EXPECT_EQ(seen().value, large) << "what was refused is not repeated";
  EXPECT_TRUE(leadership.valid());
}

TEST_F(LeaderElectionTest, OnlyTheLeaderSpeaks) {
  LeaderElection election = candidate("a");
  Leadership leadership = election.campaign({.deadline = soon()});
  leadership.proclaim("mine");
  leadership.release();
  EXPECT_EQ(error_of([&] { leadership.proclaim("late"); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { leadership.ready(); }), Errc::not_held);
  Leadership empty;
  EXPECT_EQ(error_of([&] { empty.proclaim("x"); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { empty.ready(); }), Errc::not_held);
}

// What a leader said is bound to its term.
TEST_F(LeaderElectionTest, AStaleRecordIsNotAttributedToTheNextLeader) {
  LeaderElection first = candidate("a");
  LeaderElection second = candidate("b");
  Leadership leadership = first.campaign({.deadline = soon()});
  leadership.proclaim("of a");
  leadership.ready();
  leadership.release();
  EXPECT_FALSE(first.leader()) << "nobody leads, whatever the record says";
  const Leadership next = second.campaign({.deadline = soon()});
  const Seen leader = first.leader();
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->id, "b");
  EXPECT_FALSE(leader->ready);
  EXPECT_FALSE(leader->value);
}

TEST_F(LeaderElectionTest, AForeignRecordIsIgnored) {
  LeaderElection election = candidate("a");
  Leadership leadership = election.campaign({.deadline = soon()});
  for (const char* garbage : {"", "garbage", "leader/1 1 1 1\nof nobody", "leader/1"}) {
    client().set("/election", garbage);
    const Seen leader = election.leader();
    ASSERT_TRUE(leader);
    EXPECT_FALSE(leader->ready);
    EXPECT_FALSE(leader->value);
  }
  leadership.proclaim("mine");
  EXPECT_EQ(election.leader()->value, "mine");
}

// --- Who leads, who waits -----------------------------------------------------------------------------------------

TEST_F(LeaderElectionTest, Nobody) {
  LeaderElection election = candidate("a");
  EXPECT_FALSE(election.leader()) << "there is no such node";
  EXPECT_TRUE(election.candidates().empty());
  client().create("/election", "");
  EXPECT_FALSE(election.leader());
  client().create("/election/ready", "");
  client().create("/election/nodash", "");
  EXPECT_FALSE(election.leader()) << "a foreign child leads nothing";
  EXPECT_TRUE(election.candidates().empty());
}

TEST_F(LeaderElectionTest, CandidatesFirstToLast) {
  LeaderElection first = candidate("a");
  LeaderElection second = candidate("b");
  const Leadership leadership = first.campaign({.deadline = soon()});
  auto waiting = in_thread([&] { return error_of([&] { (void)second.campaign(); }); });
  ASSERT_TRUE(remain(2));
  const std::vector<Contender> candidates = second.candidates();
  ASSERT_EQ(candidates.size(), 2u);
  EXPECT_EQ(candidates[0].data, "a") << "the data is the bare id, as Curator's LeaderLatch has it";
  EXPECT_EQ(candidates[1].data, "b");
  EXPECT_TRUE(candidates[0].holds);
  EXPECT_FALSE(candidates[1].holds);
  EXPECT_EQ(candidates[0].token, leadership.token());
  second.resign({.deadline = soon()});
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
}

TEST_F(LeaderElectionTest, NodesAreNamedAsCuratorsOrKazoos) {
  {
    const Leadership leadership = candidate("a").campaign({.deadline = soon()});
    EXPECT_TRUE(leadership.node().starts_with("/election/_c_")) << leadership.node();
    EXPECT_TRUE(leadership.node().ends_with("-latch-0000000000")) << leadership.node();
  }
  LeaderElection kazoo(client(), "/kazoo", {.layout = Layout::kazoo(), .id = "k"});
  const Leadership leadership = kazoo.campaign({.deadline = soon()});
  EXPECT_TRUE(leadership.node().ends_with("__lock__0000000000")) << leadership.node();
  EXPECT_EQ(kazoo.leader()->id, "k");
}

TEST_F(LeaderElectionTest, BadInputIsRefused) {
  EXPECT_EQ(error_of([&] { LeaderElection(client(), "/election", {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { LeaderElection(client(), "relative"); }), Errc::invalid_path);
  EXPECT_EQ(error_of([&] { (void)candidate("a").observe({}); }), Errc::invalid_argument);
  client().create("/election", "", {.mode = CreateMode::ephemeral});
  EXPECT_EQ(error_of([&] { (void)candidate("a").campaign({.deadline = soon()}); }), Errc::no_children_for_ephemerals);
}

TEST_F(LeaderElectionTest, TheGuardStopsALateLeader) {
  LeaderElection election = candidate("a");
  client().create("/data", "0");
  Leadership leadership = election.campaign({.deadline = soon()});
  client().commit(Transaction().check(leadership.guard()).set("/data", "1"));
  leadership.release();
  EXPECT_EQ(error_of([&] { client().commit(Transaction().check(leadership.guard()).set("/data", "2")); }),
            Errc::transaction_failed);
  EXPECT_EQ(client().get("/data").data, "1");
}

// The client that is handed in is shared, as each copy of a Client is.
TEST_F(LeaderElectionTest, AnElectionKeepsItsClientOpen) {
  LeaderElection election(make_client(), "/election");
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
}

// --- Observing ----------------------------------------------------------------------------------------------------

TEST_F(LeaderElectionTest, ObserverSeesEveryStepInOrder) {
  LeaderElection first = candidate("a");
  LeaderElection second = candidate("b");
  Box<Seen> seen;
  const auto subscription = second.observe([&](const Seen& leader) { seen.put(leader); });
  EXPECT_EQ(seen.take(), std::nullopt) << "the present state comes first";
  Leadership leadership = first.campaign({.deadline = soon()});
  Seen leader = seen.take();
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->id, "a");
  EXPECT_EQ(leader->term, leadership.token());
  EXPECT_FALSE(leader->ready);
  leadership.proclaim("here");
  leader = seen.take();
  EXPECT_EQ(leader->value, "here");
  EXPECT_FALSE(leader->ready);
  leadership.ready();
  EXPECT_TRUE(seen.take()->ready);

  auto waiting = in_thread([&] { return second.campaign({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  leadership.release();
  const Leadership next = result_of(waiting);
  leader = seen.take();
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->id, "b");
  EXPECT_EQ(leader->term, next.token());
  EXPECT_FALSE(leader->ready);
  EXPECT_FALSE(leader->value);
  second.resign({.deadline = soon()});
  EXPECT_EQ(seen.take(), std::nullopt);
  std::error_code gone_already;  // An empty container: the server may have been quicker.
  client().remove("/election", zkclient::any_version, {}, gone_already);
  Leadership again = first.campaign({.deadline = soon()});
  leader = seen.take_until([](const Seen& any) { return any.has_value(); });
  EXPECT_EQ(leader->term, again.token()) << "also after the election's node was gone";
  EXPECT_TRUE(seen.empty());
}

TEST_F(LeaderElectionTest, ObserverOfARunningElection) {
  LeaderElection election = candidate("a");
  Leadership leadership = election.campaign({.deadline = soon()});
  leadership.proclaim("x");
  leadership.ready();
  Box<Seen> seen;
  const auto subscription = election.observe([&](const Seen& leader) { seen.put(leader); });
  const Seen leader = seen.take();
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->value, "x");
  EXPECT_TRUE(leader->ready);
}

TEST_F(LeaderElectionTest, ObserverIsNotToldTheSameTwice) {
  LeaderElection election = candidate("a");
  Leadership leadership = election.campaign({.deadline = soon()});
  Box<Seen> seen;
  const auto subscription = election.observe([&](const Seen& leader) { seen.put(leader); });
  (void)seen.take();
  leadership.proclaim("same");
  leadership.proclaim("same");
  client().set(leadership.node(), "a");
  client().create("/election/foreign", "");
  leadership.proclaim("other");
  EXPECT_EQ(seen.take()->value, "same");
  EXPECT_EQ(seen.take()->value, "other");
  EXPECT_TRUE(seen.empty());
}

TEST_F(LeaderElectionTest, ObserverKeepsOneLeaderApartFromTheNext) {
  LeaderElection election = candidate("a");
  std::mutex mutex;
  std::vector<Seen> all;
  Box<FencingToken> terms;
  auto subscription = election.observe([&](const Seen& leader) {
    const std::lock_guard lock(mutex);
    all.push_back(leader);
    if (leader) terms.put(leader->term);
  });
  FencingToken last;
  for (int i = 0; i < 20; ++i) {
    Leadership leadership = election.campaign({.deadline = soon()});
    leadership.proclaim(std::to_string(i));
    last = leadership.token();
    if (i == 19) terms.take_until([&](const FencingToken& term) { return term == last; });
    leadership.release();
  }
  subscription = {};
  FencingToken newest;
  for (const Seen& leader : all) {
    if (!leader) continue;
    EXPECT_GE(leader->term, newest) << "terms never go back";
    newest = leader->term;
  }
  EXPECT_EQ(newest, last);
}

TEST_F(LeaderElectionTest, ADroppedObserverIsNotCalledAgain) {
  LeaderElection election = candidate("a");
  std::atomic<int> calls{0};
  for (int i = 0; i < 20; ++i) {
    Box<Seen> seen;
    auto subscription = election.observe([&](const Seen& leader) {
      ++calls;
      seen.put(leader);
    });
    if (i % 2 == 0) (void)seen.take();
    Leadership leadership = election.campaign({.deadline = soon()});
    subscription = {};
    const int before = calls;
    leadership.ready();
    leadership.release();
    EXPECT_EQ(calls, before);
  }
  if (!has_control()) return;
  EXPECT_TRUE(eventually([] { return server().watch_count() == 0; })) << server().four_letter_word("wchp");
}

TEST_F(LeaderElectionTest, AnObserverMayDropItselfInItsOwnCall) {
  LeaderElection election = candidate("a");
  std::mutex mutex;
  std::optional<zkclient::Subscription> subscription;
  std::atomic<int> calls{0};
  Box<int> called;
  {
    const std::lock_guard lock(mutex);
    subscription = election.observe([&](const Seen&) {
      {
        const std::lock_guard own(mutex);
        subscription.reset();
      }
      called.put(++calls);  // The last thing: the test may be over then.
    });
  }
  EXPECT_EQ(called.take(), 1);
  Leadership leadership = election.campaign({.deadline = soon()});
  leadership.ready();
  EXPECT_EQ(calls, 1);
}

// The listener owns the last copy of the client; the event loop, which lets go of it, must not wait for itself.
TEST_F(LeaderElectionTest, AnObserverMayOwnItsClient) {
  const std::size_t threads = testkit::thread_count();
  for (int i = 0; i < 5; ++i) {
    Box<bool> told;
    auto election = std::make_shared<LeaderElection>(make_client(), Path("/election"));
    auto subscription = election->observe([election, &told](const Seen&) { told.put(true); });
    EXPECT_TRUE(told.take());
    election.reset();
  }
  EXPECT_TRUE(eventually([&] { return testkit::thread_count() <= threads; }));
}

TEST_F(LeaderElectionTest, AnObserverMayBlock) {
  LeaderElection election = candidate("a");
  std::latch inside(1);
  std::binary_semaphore go_on(0);
  Box<Seen> seen;
  const auto slow = election.observe([&](const Seen&) {
    inside.count_down();
    go_on.acquire();
    go_on.release();
  });
  inside.wait();
  const auto quick = election.observe([&](const Seen& leader) { seen.put(leader); });
  EXPECT_EQ(seen.take(), std::nullopt);
  const Leadership leadership = election.campaign({.deadline = soon()});
  EXPECT_EQ(seen.take()->term, leadership.token());
  go_on.release();
}

// A listener that is slow is told later, but all and in order.
TEST_F(LeaderElectionTest, ASlowObserverIsToldEverythingInOrder) {
  LeaderElection election = candidate("a");
  Leadership leadership = election.campaign({.deadline = soon()});
  Box<Seen> quick;
  const auto pace = election.observe([&](const Seen& leader) { quick.put(leader); });
  EXPECT_EQ(quick.take()->term, leadership.token());
  std::binary_semaphore go_on(0);
  std::latch inside(1);
  Box<Seen> seen;
  const auto slow = election.observe([&](const Seen& leader) {
    if (!leader->value) {
      inside.count_down();
      go_on.acquire();
    }
    seen.put(leader);
  });
  inside.wait();
  constexpr int values = 20;
  for (int i = 0; i < values; ++i) {
    leadership.proclaim(std::to_string(i));
    (void)quick.take();
  }
  // What follows is seen by the slow one as well once it has been seen by another one of the same client, and later.
  EXPECT_TRUE(seen.empty());
  go_on.release();
  EXPECT_EQ(seen.take()->value, std::nullopt);
  int last = -1;
  while (last < values - 1) {
    const int next = std::stoi(*seen.take()->value);
    EXPECT_EQ(next, last + 1) << "nothing left out, nothing twice";
    last = next;
  }
}

TEST_F(LeaderElectionTest, AnObserverMayCampaign) {
  LeaderElection election = candidate("a");
  Box<FencingToken> won;
  const auto subscription = election.observe([&](const Seen& leader) {
    if (leader || !won.empty()) return;
    Leadership leadership = election.campaign({.deadline = soon()});
    won.put(leadership.token());
    leadership.release();
  });
  EXPECT_GT(won.take().value, 0);
}

// All callbacks share one thread by default; whatever one of them waits for must not need it.
TEST_F(LeaderElectionTest, CallbacksMayResign) {
  LeaderElection election = candidate("a");
  Box<int> done;
  election.async_campaign([&](Result<Leadership> result) {
    ASSERT_TRUE(result);
    election.resign({.deadline = soon()});
    EXPECT_FALSE(result->valid());
    done.put(1);
  });
  EXPECT_EQ(done.take(), 1) << "in the handler of the campaign";
  EXPECT_TRUE(remain(0));

  const auto subscription = election.observe([&](const Seen& leader) {
    if (!leader) return;
    election.resign({.deadline = soon()});
    done.put(2);
  });
  Box<Result<Leadership>> kept;
  election.async_campaign([&](Result<Leadership> result) { kept.put(std::move(result)); });
  EXPECT_EQ(done.take(), 2) << "in an observer";
  (void)kept.take();  // Won, or cancelled because the observer was quicker.
  EXPECT_TRUE(remain(0));
}

TEST_F(LeaderElectionTest, TheCallbackOfALossMayResignAndDropTheLeadership) {
  LeaderElection election = candidate("a");
  std::optional<Leadership> leadership = election.campaign({.deadline = soon()});
  std::optional<LeaderElection> dropped = candidate("b");
  Box<bool> done;
  const std::stop_callback lost(leadership->lost(), [&] {
    election.resign({.deadline = soon()});
    leadership.reset();
    dropped.reset();
    done.put(true);
  });
  Client other = make_client();
  other.remove(leadership->node());
  EXPECT_TRUE(done.take());
  EXPECT_TRUE(election.campaign({.deadline = soon()}).valid());
}

// Two who resign at once, while a campaign comes to its end.
TEST_F(LeaderElectionTest, ResignFromManyThreads) {
  const std::size_t threads = testkit::thread_count();
  {
    LeaderElection election = candidate("a");
    std::vector<std::jthread> crew;
    for (int i = 0; i < 3; ++i) {
      crew.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          try {
            const Leadership leadership = election.campaign({.deadline = soon()});
          } catch (const zkclient::Error& error) {
            EXPECT_EQ(error.errc(), Errc::cancelled) << error.what();
          }
        }
      });
    }
    for (int i = 0; i < 2; ++i) {
      crew.emplace_back([&] {
        for (int turn = 0; turn < 50; ++turn)
          election.resign({.deadline = soon()});
      });
    }
    for (std::size_t i = 3; i < crew.size(); ++i)
      crew[i].join();
    for (std::size_t i = 0; i < 3; ++i)
      crew[i].request_stop();
    election.resign({.deadline = soon()});
  }
  EXPECT_TRUE(remain(0));
  EXPECT_TRUE(eventually([&] { return testkit::thread_count() <= threads; }));
}

TEST_F(LeaderElectionTest, ObserverSurvivesAReconnect) {
  NEEDS_CONTROL();
  zktesting::Proxy proxy(hosts());
  Client own(proxy.connect_string(), {.session_timeout = 60s, .prefix = prefix()});
  LeaderElection observed(own, "/election");
  Box<Seen> seen;
  const auto subscription = observed.observe([&](const Seen& leader) { seen.put(leader); });
  EXPECT_EQ(seen.take(), std::nullopt);
  LeaderElection election = candidate("a");
  for (int i = 0; i < 3; ++i) {
    proxy.cut();
    proxy.refuse(true);
    Leadership leadership = election.campaign({.deadline = soon()});
    proxy.refuse(false);
    EXPECT_EQ(seen.take()->term, leadership.token());
    proxy.cut();
    leadership.release();
    EXPECT_EQ(seen.take(), std::nullopt);
  }
}

TEST_F(LeaderElectionTest, ObserverSurvivesTheLossOfItsSession) {
  NEEDS_CONTROL();
  Client own = make_client();
  LeaderElection observed(own, "/election");
  Box<Seen> seen;
  const auto subscription = observed.observe([&](const Seen& leader) { seen.put(leader); });
  EXPECT_EQ(seen.take(), std::nullopt);
  LeaderElection election = candidate("a");
  for (int i = 0; i < 3; ++i) {
    const auto session = own.connect({.deadline = soon()});
    zktesting::expire(server().connect_string(), session.id(), session.credentials().password);
    const Leadership leadership = election.campaign({.deadline = soon()});
    EXPECT_EQ(seen.take()->term, leadership.token());
    election.resign({.deadline = soon()});
    EXPECT_EQ(seen.take(), std::nullopt);
  }
}

// --- Waiting for a leader -----------------------------------------------------------------------------------------

TEST_F(LeaderElectionTest, WaitForALeaderThatIsReady) {
  LeaderElection follower = candidate("b");
  auto waiting = in_thread([&] { return follower.wait_for_leader({}, {.deadline = soon()}); });
  LeaderElection election = candidate("a");
  Leadership leadership = election.campaign({.deadline = soon()});
  leadership.proclaim("here");
  EXPECT_EQ(follower.wait_for_leader({.ready = false}, {.deadline = soon()}).term, leadership.token());
  EXPECT_NE(waiting.wait_for(0ms), std::future_status::ready) << "it has not said so";
  leadership.ready();
  const Leader leader = result_of(waiting);
  EXPECT_TRUE(leader.ready);
  EXPECT_EQ(leader.value, "here");
  EXPECT_EQ(leader.term, leadership.token());
  EXPECT_EQ(follower.wait_for_leader(), leader) << "at once, when there is one";
}

TEST_F(LeaderElectionTest, WaitForTheNextLeader) {
  LeaderElection first = candidate("a");
  LeaderElection second = candidate("b");
  Leadership leadership = first.campaign({.deadline = soon()});
  leadership.ready();
  Box<Result<Leader>> box;
  first.async_wait_for_leader({.after = leadership.token()},
                              [&](Result<Leader> result) { box.put(std::move(result)); });
  auto campaigning = in_thread([&] { return second.campaign({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  EXPECT_TRUE(box.empty());
  leadership.release();
  Leadership next = result_of(campaigning);
  next.ready();
  EXPECT_EQ(box.take().value().term, next.token());
}

// An epoch is the program's own: no leader's term has one.
TEST_F(LeaderElectionTest, WaitForTheNextLeaderByATokenWithAnEpoch) {
  LeaderElection election = candidate("a");
  zkrecipes::FencingToken former;
  {
    const Leadership leadership = election.campaign({.deadline = soon()});
    former = leadership.token();
    former.epoch = 3;
    EXPECT_EQ(error_of([&] {
                (void)election.wait_for_leader({.ready = false, .after = former},
                                               {.deadline = testkit::SteadyClock::now() + 30ms});
              }),
              Errc::deadline_exceeded)
        << "it is the same term";
  }
  const Leadership next = election.campaign({.deadline = soon()});
  EXPECT_EQ(election.wait_for_leader({.ready = false, .after = former}, {.deadline = soon()}).term, next.token());
}

TEST_F(LeaderElectionTest, WaitForALeaderEnds) {
  LeaderElection election = candidate("a");
  EXPECT_EQ(error_of([&] { (void)election.wait_for_leader({}, {.deadline = testkit::SteadyClock::now() + 30ms}); }),
            Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting =
      in_thread([&] { return error_of([&] { (void)election.wait_for_leader({}, {.stop = stop.get_token()}); }); });
  EXPECT_NE(waiting.wait_for(20ms), std::future_status::ready);
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_EQ(error_of([&] { (void)election.wait_for_leader({}, {.stop = stop.get_token()}); }), Errc::cancelled);

  Client own = make_client();
  LeaderElection closed(own, "/election");
  Box<Result<Leader>> box;
  closed.async_wait_for_leader({}, [&](Result<Leader> result) { box.put(std::move(result)); });
  auto blocking = in_thread([&] { return error_of([&] { (void)closed.wait_for_leader(); }); });
  EXPECT_NE(blocking.wait_for(20ms), std::future_status::ready);
  own.close();
  ASSERT_EQ(box.size(), 1u) << "the handler was called before close() returned";
  EXPECT_EQ(box.take().code(), Errc::closed);
  EXPECT_EQ(result_of(blocking), Errc::closed);
}

// --- Nothing stays behind -----------------------------------------------------------------------------------------

TEST_F(LeaderElectionTest, CloseWhileCampaigningAndObserving) {
  LeaderElection first = candidate("a");
  const Leadership leadership = first.campaign({.deadline = soon()});
  std::atomic<int> calls{0};
  {
    Client own = make_client();
    LeaderElection second(own, "/election", {.id = "b"});
    Box<Seen> seen;
    const auto subscription = second.observe([&](const Seen& leader) {
      ++calls;
      seen.put(leader);
    });
    (void)seen.take();
    auto blocking = in_thread([&] { return error_of([&] { (void)second.campaign(); }); });
    Box<Result<Leadership>> box;
    second.async_campaign([&](Result<Leadership> result) { box.put(std::move(result)); });
    ASSERT_TRUE(remain(3));
    own.close();
    EXPECT_EQ(result_of(blocking), Errc::closed);
    ASSERT_EQ(box.size(), 1u) << "the handler was called before close() returned";
    EXPECT_EQ(box.take().code(), Errc::closed);
    EXPECT_EQ(error_of([&] { (void)second.campaign(); }), Errc::closed);
    EXPECT_EQ(error_of([&] { (void)second.leader(); }), Errc::closed);
    second.resign();
    const int before = calls;
    client().set("/election", "leader/1 1 1 1\nx");
    EXPECT_EQ(calls, before) << "nobody is called after close()";
  }
  EXPECT_TRUE(remain(1));
  EXPECT_TRUE(leadership.valid());
}

TEST_F(LeaderElectionTest, CloseWhileLeading) {
  Client own = make_client();
  LeaderElection election(own, "/election", {.id = "b"});
  Leadership leadership = election.campaign({.deadline = soon()});
  LeaderElection other = candidate("a");
  auto waiting = in_thread([&] { return other.campaign({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  own.close();
  EXPECT_TRUE(leadership.lost().stop_requested());
  EXPECT_EQ(leadership.state(), LeaseState::lost);
  EXPECT_TRUE(result_of(waiting).valid()) << "the session was closed at the server, and did not have to time out";
  EXPECT_EQ(error_of([&] { leadership.proclaim("late"); }), Errc::not_held);
}

TEST_F(LeaderElectionTest, EachCandidateWatchesItsPredecessorOnly) {
  NEEDS_CONTROL();
  ASSERT_TRUE(eventually([] { return server().watch_count() == 0; }));
  constexpr std::size_t waiting = 4;
  LeaderElection election = candidate("a");
  Leadership leadership = election.campaign({.deadline = soon()});
  Client own = make_client();
  LeaderElection others(own, "/election", {.id = "b"});
  Box<Result<Leadership>> box;
  for (std::size_t i = 0; i < waiting; ++i) {
    others.async_campaign([&](Result<Leadership> result) { box.put(std::move(result)); });
    ASSERT_TRUE(remain(i + 2));
  }
  const std::vector<Contender> queue = election.candidates();
  ASSERT_EQ(queue.size(), waiting + 1);
  const auto path = [&](std::size_t i) { return Path(prefix().str() + "/election/" + queue[i].node); };
  for (std::size_t i = 0; i < waiting; ++i)
    ASSERT_TRUE(testkit::watch_appears(server(), own.session().id(), path(i)));
  ASSERT_TRUE(testkit::watch_appears(server(), client().session().id(), path(0))) << "the leader, on its own node";
  EXPECT_EQ(testkit::watches_at(server()).size(), waiting + 1);
  others.resign({.deadline = soon()});
  for (std::size_t i = 0; i < waiting; ++i)
    EXPECT_EQ(box.take().code(), Errc::cancelled);
  election.resign({.deadline = soon()});
  EXPECT_TRUE(eventually([] { return server().watch_count() == 0; })) << server().four_letter_word("wchp");
  EXPECT_TRUE(remain(0));
}

}  // namespace
}  // namespace zkrecipes
