#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <mutex>
#include <random>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zkrecipes/mutex.hpp>

#include "tests/support/contention.hpp"
#include "tests/support/ensembles.hpp"
#include "tests/support/fault_server.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using testkit::FaultEnsemble;
using testkit::hold;
using testkit::Holder;
using testkit::Metronome;
using testkit::Observer;
using testkit::seed;
using testkit::since;
using testkit::told_in_time;
using zkclient::Runtime;
using zkrecipes::Lease;
using zkrecipes::LeaseState;
using zkrecipes::Mutex;
using zktesting::EnsembleOptions;
using zktesting::Isolation;

constexpr auto session_timeout = 2000ms;
constexpr auto lasting_timeout = 10'000ms;  // Of leases that have to outlive the stalls of a busy machine.

// One for each kind of fault; the others are simulated.
const testkit::OnRealServers lease_clocks_on_real_servers{
    "LeaseClockFaultsTest.LostFiresBeforeAPausedServerCanDeleteTheNode",
    "LeaseClockFaultsTest.AShortOutageCostsNoLease", "LeaseClockFaultsTest.ADeletedNodeIsALossAndTheSessionLivesOn",
    "Each/EnsembleLeaseTest.LostFiresBeforeTheNodeIsGone/FollowerIsNotHeard"};

// ---- One server -----------------------------------------------------------------------------------------------------

class LeaseClockFaultsTest : public testkit::FaultTest {
 protected:
  // Holds a lease for long enough that its clock runs in steady state.
  std::unique_ptr<Holder> hold(const Client& client, const Path& path = "/lock") {
    for (;;) {
      std::unique_ptr<Holder> holder;
      try {
        holder = std::make_unique<Holder>(Mutex(client, path).acquire({.deadline = testkit::soon()}));
      } catch (const zkclient::Error& error) {
        using enum zkclient::Errc;
        if (error.errc() != session_lost && error.errc() != in_doubt && error.errc() != connection_too_slow) throw;
        continue;  // A machine that is too busy.
      }
      const auto first = holder->valid_until();
      const auto steady = [&] { return holder->valid_until() > first + session_timeout / 2; };
      EXPECT_TRUE(eventually([&] { return steady() || !holder->lease().valid(); }));
      // Or it was lost before anything was broken: then it is taken again.
      if (holder->lease().valid()) return holder;
    }
  }
  // Told in time, that is before the promise of the clock ran out by more than it takes to tell.
  void expect_told(const Holder& holder) {
    EXPECT_TRUE(stopped(holder.lease().lost()));
    EXPECT_TRUE(eventually([&] { return holder.lost_at().has_value(); }));
    EXPECT_EQ(holder.lease().state(), LeaseState::lost);
    EXPECT_FALSE(holder.lease().valid());
    EXPECT_LT(holder.lease().valid_until(), BootClock::now());
  }

  Client lasting() {
    return Client(proxy.connect_string(), {.session_timeout = lasting_timeout, .server_tick = testkit::server_tick});
  }

  void await_pings(std::size_t count) {
    const std::size_t sent = proxy.request_count(zktesting::RequestType::ping);
    ASSERT_TRUE(proxy.wait_for_requests(zktesting::RequestType::ping, sent + count, testkit::patience));
  }

  const Client observer{server.connect_string(), {.session_timeout = 20s}};
};

TEST_F(LeaseClockFaultsTest, HeartbeatsKeepALeaseForLongerThanTheTimeout) {
  const Client client = lasting();
  const auto holder = hold(client);
  const auto begin = BootClock::now();
  EXPECT_TRUE(eventually([&] { return holder->valid_until() > begin + 2 * lasting_timeout; }, testkit::patience));
  EXPECT_GT(client.session().proven_at(), begin + lasting_timeout) << "each heartbeat is a proof";
  EXPECT_EQ(holder->lease().state(), LeaseState::held);
  EXPECT_GT(proxy.request_count(zktesting::RequestType::multi), 3u);
}

TEST_F(LeaseClockFaultsTest, HeartbeatsEndWithTheLastLease) {
  const Client client = proxied();
  { const auto holder = hold(client); }
  client.sync();
  const std::size_t before = proxy.request_count(zktesting::RequestType::multi);
  const std::size_t pings = proxy.request_count(zktesting::RequestType::ping);
  // The C client pings when nothing else is sent, every third of the timeout: time enough for two heartbeats.
  ASSERT_TRUE(proxy.wait_for_requests(zktesting::RequestType::ping, pings + 1, testkit::patience));
  EXPECT_EQ(proxy.request_count(zktesting::RequestType::multi), before);
}

TEST_F(LeaseClockFaultsTest, AShortLeaseSendsNoHeartbeat) {
  const auto short_and_silent = [&] {
    const auto begin = BootClock::now();  // What the connection proves is part of it.
    const Client client = proxied();
    const std::size_t before = proxy.request_count(zktesting::RequestType::multi);
    try {
      client.connect();
      Mutex mutex(client, "/lock");
      for (int i = 0; i < 2; ++i)
        mutex.acquire().release();
    } catch (const zkclient::Error&) {
      return false;  // A session this short may end on a busy machine.
    }
    if (BootClock::now() - begin > session_timeout / 8) return false;  // Not short: the machine is too busy.
    EXPECT_EQ(proxy.request_count(zktesting::RequestType::multi), before);
    return true;
  };
  EXPECT_TRUE(eventually(short_and_silent, testkit::patience));
}

TEST_F(LeaseClockFaultsTest, LostFiresBeforeAPausedServerCanDeleteTheNode) {
  const Client client = lasting();
  const auto holder = hold(client);
  server.pause();
  expect_told(*holder);
  EXPECT_NE(holder->session().state(), ConnectionState::lost);  // Nobody has said so.
  // The server stood still: whatever it does from now on comes later.
  server.resume();
  EXPECT_TRUE(eventually([&] {
    std::error_code error;  // Its container may be gone as well.
    return observer.children("/lock", {}, error).names.empty();
  }));
}

TEST_F(LeaseClockFaultsTest, NothingRevivesALeaseThatTheClockGaveUp) {
  const Client client = lasting();
  const auto holder = hold(client);
  server.pause();
  expect_told(*holder);
  server.resume();
  client.connect({.deadline = testkit::soon()});
  client.sync();
  EXPECT_EQ(holder->lease().state(), LeaseState::lost);
  // And the lock is free for its next holder, also in the same client, and in the same session if that lives on.
  const auto next = Mutex(client, "/lock").try_acquire_for(testkit::patience);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->valid());
  EXPECT_GT(next->token(), holder->lease().token());
  EXPECT_EQ(holder->lease().state(), LeaseState::lost);
}

// Pings that are answered prove that the follower has heard of the session all the time. A machine that stalls may cost
// one of them, and with it the proof.
TEST_F(LeaseClockFaultsTest, ASessionThatWasIdleNeedsNoFurtherProof) {
  constexpr std::size_t sessions = 8;
  std::vector<Client> clients;
  for (std::size_t i = 0; i < sessions; ++i) {
    observer.create("/lock" + std::to_string(i));
    clients.push_back(lasting());
    clients.back().connect();
  }
  await_pings(4 * sessions);  // Of the connections themselves nothing is left by then.
  const auto further_proofs = [&] {
    int proofs = 0;
    for (std::size_t i = 0; i < sessions; ++i) {
      const std::size_t before = proxy.request_count(zktesting::RequestType::multi);
      Lease lease = Mutex(clients[i], "/lock" + std::to_string(i)).acquire();  // Of its own: nobody waits there.
      if (proxy.request_count(zktesting::RequestType::multi) > before) ++proofs;
      lease.release();
    }
    return proofs;
  };
  // A longer stall costs all of them their pings, but not each time.
  int proofs = further_proofs();
  for (int round = 0; round < 8 && proofs > 2; ++round) {
    await_pings(3 * sessions);
    proofs = further_proofs();
  }
  EXPECT_LE(proofs, 2);
}

// What the server sends of its own accord does not.
TEST_F(LeaseClockFaultsTest, EventsOfWatchesProveNothing) {
  const Client client = lasting();
  constexpr int events = 50;  // For half of the session's time: longer than what needs no further proof.
  std::vector<zkclient::Watch> watches;
  for (int i = 0; i < events; ++i) {
    const std::string path = "/event" + std::to_string(i);
    auto watched = client.exists_and_watch(path, [](const zkclient::WatchEvent&) {});
    watches.push_back(std::move(watched).watch());
  }
  Mutex mutex(client, "/lock");
  await_pings(3);
  const auto pinged = testkit::SteadyClock::now();
  proxy.stall(Direction::to_server);
  for (int i = 0; i < events; ++i) {
    observer.create("/event" + std::to_string(i), "");
    std::this_thread::sleep_until(pinged + (i + 1) * 100ms);
  }
  proxy.unstall(Direction::to_server);
  const std::size_t before = proxy.request_count(zktesting::RequestType::multi);
  const Lease lease = mutex.acquire();
  EXPECT_GT(proxy.request_count(zktesting::RequestType::multi), before);
}

// Its other work goes on: watches, ephemeral nodes, calls.
TEST_F(LeaseClockFaultsTest, ALeaseThatCannotBeKeptDoesNotCostTheSession) {
  const Client client = lasting();
  const auto holder = hold(client);
  const std::string node = holder->lease().node();
  client.create("/work", "", {.mode = zkclient::CreateMode::ephemeral});
  // Nothing but the answers to heartbeats is late: everything else is as well, but does not mind.
  auto held = proxy.hold_next_reply(zktesting::RequestType::multi);
  ASSERT_TRUE(held.wait(testkit::patience));
  // At once: less than a second later the connection would be given up as well.
  const std::stop_callback told(holder->lease().lost(), [&] { held.release(); });
  EXPECT_TRUE(stopped(holder->lease().lost()));
  EXPECT_TRUE(eventually([&] { return !observer.exists(node); }));  // Removed by its own session.
  EXPECT_EQ(client.connect({.deadline = testkit::soon()}), holder->session());
  EXPECT_EQ(client.exists("/work")->ephemeral_owner, holder->session().id());
}

TEST_F(LeaseClockFaultsTest, LostFiresBeforeTheNodeGoesWhateverTheLinkDoes) {
  enum How : std::size_t { no_requests, no_replies, silent, cut, ways };
  std::vector<zktesting::Proxy> links;
  std::vector<Client> clients;
  std::vector<std::unique_ptr<Holder>> holders;
  std::vector<std::string> nodes;
  for (std::size_t i = 0; i < ways; ++i) {
    links.emplace_back(server.connect_string());
    clients.emplace_back(links[i].connect_string(), zkclient::ClientOptions{.session_timeout = lasting_timeout,
                                                                            .server_tick = testkit::server_tick});
    holders.push_back(hold(clients[i], "/lock" + std::to_string(i)));
    nodes.push_back(holders[i]->lease().node());
  }
  const testkit::Stalls stalls;
  const Observer watcher(server.connect_string(), nodes);
  links[no_requests].stall(Direction::to_server);
  links[no_replies].stall(Direction::to_client);
  links[silent].stall(Direction::both);
  links[cut].refuse(true);
  links[cut].cut();
  // The server goes on and will expire the sessions by itself.
  EXPECT_TRUE(eventually([&] { return watcher.all_gone(); }, testkit::patience));
  for (std::size_t i = 0; i < ways; ++i) {
    SCOPED_TRACE(i);
    const auto gone = watcher.gone(i);
    ASSERT_TRUE(gone);
    EXPECT_TRUE(told_in_time(*holders[i], *gone, stalls)) << "the node was gone and the holder was not told";
    EXPECT_LT(holders[i]->valid_until(), *gone);
    EXPECT_EQ(holders[i]->lease().state(), LeaseState::lost);
    links[i].unstall(Direction::both);
    links[i].refuse(false);
  }
}

TEST_F(LeaseClockFaultsTest, AShortOutageCostsNoLease) {
  const Client client = lasting();
  const auto holder = hold(client);
  for (int i = 0; i < 5; ++i) {
    const auto before = holder->valid_until();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return holder->valid_until() > before; }));
  }
  EXPECT_TRUE(holder->lease().valid());
  EXPECT_FALSE(holder->lost_at());
}

TEST_F(LeaseClockFaultsTest, ALeaseWithoutAConnectionIsUncertainUntilItIsLost) {
  const Client client = proxied();
  const auto holder = hold(client);
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return holder->lease().state() != LeaseState::held; }));
  const LeaseState state = holder->lease().state();
  EXPECT_TRUE(state == LeaseState::uncertain || BootClock::now() >= holder->valid_until());
  expect_told(*holder);
}

TEST_F(LeaseClockFaultsTest, WithoutAConnectionNothingIsProven) {
  const Client client = proxied();
  const auto holder = hold(client);
  const Session session = client.session();
  proxy.stall(zktesting::Direction::both);
  const auto stalled = BootClock::now();
  ASSERT_TRUE(eventually([&] { return holder->lease().state() == LeaseState::lost; }, testkit::patience));
  EXPECT_LE(session.proven_at(), stalled);
  EXPECT_GT(session.proven_at(), BootClock::time_point());
  EXPECT_GT(holder->valid_until(), session.proven_at());
  EXPECT_LT(holder->valid_until(), session.proven_at() + session.timeout());
}

// The answers never contradict each other, at whatever instant one asks.
TEST_F(LeaseClockFaultsTest, StateAndClockAgreeAtEveryInstant) {
  const Client client = proxied();
  const auto holder = hold(client);
  std::atomic<bool> ended{false};
  std::thread asker([&] {
    while (!ended) {
      const auto before = BootClock::now();
      const auto until = holder->valid_until();  // First: once the session is lost there is none.
      const bool valid = holder->lease().valid();
      if (valid && before >= until) ADD_FAILURE() << "valid " << since(until, before) << " ms after its end";
    }
  });
  server.pause();
  expect_told(*holder);
  ended = true;
  asker.join();
  server.resume();
}

TEST_F(LeaseClockFaultsTest, ADeletedNodeIsALossAndTheSessionLivesOn) {
  const Client client = lasting();
  const auto holder = hold(client);
  observer.remove(Path(holder->lease().node()));
  expect_told(*holder);
  EXPECT_EQ(client.session(), holder->session());
  EXPECT_EQ(holder->session().state(), ConnectionState::connected);
}

// More leases than one heartbeat checks.
TEST_F(LeaseClockFaultsTest, VeryManyLeasesAreAllLookedAfter) {
  constexpr int count = 600;
  const Client client(proxy.connect_string(), {.session_timeout = 30s});
  std::vector<Lease> leases;
  client.create("/many");
  for (int i = 0; i < count; ++i)
    leases.push_back(Mutex(client, Path("/many/" + std::to_string(i))).acquire({.deadline = testkit::soon()}));
  const auto until = leases.front().valid_until();
  EXPECT_TRUE(eventually([&] { return leases.front().valid_until() > until + session_timeout; }));
  for (const Lease& lease : leases)
    ASSERT_TRUE(lease.valid());
  observer.remove(Path(leases[321].node()));
  EXPECT_TRUE(stopped(leases[321].lost()));
  for (int i = 0; i < count; ++i) {
    if (i == 321) continue;
    ASSERT_TRUE(leases[static_cast<std::size_t>(i)].valid()) << i;
  }
}

// ---- Three servers --------------------------------------------------------------------------------------------------

struct EnsembleFault {
  const char* name;
  std::chrono::milliseconds tick;
  std::function<void(FaultEnsemble&, std::size_t leader, std::size_t follower)> strike;
  std::function<void(FaultEnsemble&, std::size_t leader, std::size_t follower)> heal;
};

void isolate(FaultEnsemble& ensemble, std::size_t follower, Isolation how) { ensemble.isolate(follower, how); }

class EnsembleLeaseTest : public ::testing::TestWithParam<EnsembleFault> {};

// A follower that is cut off from its leader goes on answering reads and pings. Whoever trusted those would hold on to
// what the leader has long given to another client.
TEST_P(EnsembleLeaseTest, LostFiresBeforeTheNodeIsGone) {
  constexpr std::size_t holders = 8;
  const EnsembleFault& fault = GetParam();
  const unsigned used = seed();
  RecordProperty("seed", std::to_string(used));
  std::cout << "ZKRECIPES_SEED=" << used << "\n";
  std::mt19937 random(used);

  EnsembleOptions options;
  options.server.tick = fault.tick;
  options.sync_limit = 10;
  const auto made = testkit::make_ensemble(options);
  FaultEnsemble& ensemble = *made;
  const auto [leader, follower, other] = testkit::roles_of(ensemble);
  {
    const Client setup(ensemble.connect_string(leader));
    setup.create("/locks");
    setup.sync();
  }

  // Each holder talks to the follower only, and came at a time of its own, so that heartbeats and ticks are mixed.
  Runtime runtime;
  std::vector<Client> clients;
  std::vector<std::unique_ptr<Holder>> held;
  for (std::size_t i = 0; i < holders; ++i) {
    clients.emplace_back(runtime, ensemble.connect_string(follower),
                         zkclient::ClientOptions{.session_timeout = session_timeout, .server_tick = fault.tick});
    held.push_back(hold(clients[i], i));
    const auto phase = std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 120)(random));
    std::this_thread::sleep_for(phase);  // Part of the experiment, not a way to wait for something.
  }
  // A machine that is too busy may lose one before anything was broken: that one is taken again.
  std::vector<std::string> nodes;
  for (std::size_t i = 0; i < holders; ++i) {
    while (!held[i]->lease().valid())
      held[i] = hold(clients[i], i);
    nodes.push_back(held[i]->lease().node());
  }
  for (const auto& holder : held)
    nodes.push_back(holder->session_node());
  const Metronome metronome;
  const testkit::Stalls stalls;  // Before the observer: one that ends a session may come at any time.
  const Observer observer(ensemble.connect_string(other), nodes);
  std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 400)(random)));

  const auto struck = BootClock::now();
  fault.strike(ensemble, leader, follower);
  const auto strike_done = BootClock::now();
  // Whatever is broken, two servers are left, whose leader ends the sessions (which they may have to elect first).
  const auto all_gone = [&] {
    testkit::restart_who_has_died(ensemble);
    return observer.all_gone();
  };
  EXPECT_TRUE(eventually(all_gone, testkit::patience));
  std::size_t judged = 0;
  for (std::size_t i = 0; i < holders; ++i) {
    const auto gone = observer.gone(i);
    const auto session_gone = observer.gone(holders + i);
    if (!gone || !session_gone) continue;
    ++judged;
    const bool in_time = told_in_time(*held[i], *gone, stalls);
    const auto told = held[i]->lost_at();
    // All there is to know, in ms after the strike.
    std::ostringstream account;
    account << fault.name << ", seed " << used << ", holder " << i << ", " << nodes[i] << ": valid until "
            << since(struck, held[i]->valid_until()) << ", told "
            << (told ? std::to_string(since(struck, *told)) : "never") << ", node last seen "
            << since(struck, observer.last_there(i)) << ", gone " << since(struck, *gone) << ", session gone "
            << since(struck, *session_gone) << ", strike took " << since(struck, strike_done) << ", session 0x"
            << std::hex << held[i]->session().id() << std::dec << ", worst delay of this process "
            << metronome.worst_ms();
    SCOPED_TRACE(account.str());
    ASSERT_TRUE(told) << "holder " << i << ": its node was gone after " << since(struck, *gone)
                      << " ms and nobody told it; valid until " << since(struck, held[i]->valid_until());
    EXPECT_TRUE(in_time) << "holder " << i << ": told " << since(*gone, *told) << " ms too late";
    EXPECT_LT(held[i]->valid_until(), *session_gone)
        << "holder " << i << ": claims " << since(*session_gone, held[i]->valid_until()) << " ms too much";
    EXPECT_EQ(held[i]->lease().state(), LeaseState::lost);
  }
  EXPECT_EQ(judged, holders);
  fault.heal(ensemble, leader, follower);
}

const EnsembleFault faults[] = {
    {"FrozenBothWays", 1000ms, [](FaultEnsemble& e, std::size_t, std::size_t f) { isolate(e, f, Isolation::freeze); },
     [](FaultEnsemble& e, std::size_t, std::size_t f) { e.heal(f); }},
    {"FollowerHearsNothing", 500ms,
     [](FaultEnsemble& e, std::size_t, std::size_t f) { isolate(e, f, Isolation::deaf); },
     [](FaultEnsemble& e, std::size_t, std::size_t f) { e.heal(f); }},
    {"FollowerIsNotHeard", 1000ms, [](FaultEnsemble& e, std::size_t, std::size_t f) { isolate(e, f, Isolation::mute); },
     [](FaultEnsemble& e, std::size_t, std::size_t f) { e.heal(f); }},
    {"Severed", 500ms, [](FaultEnsemble& e, std::size_t, std::size_t f) { isolate(e, f, Isolation::sever); },
     [](FaultEnsemble& e, std::size_t, std::size_t f) { e.heal(f); }},
    {"LeaderPaused", 500ms, [](FaultEnsemble& e, std::size_t l, std::size_t) { e.pause(l); },
     [](FaultEnsemble& e, std::size_t l, std::size_t) { e.resume(l); }},
    {"FollowerPaused", 1000ms, [](FaultEnsemble& e, std::size_t, std::size_t f) { e.pause(f); },
     [](FaultEnsemble& e, std::size_t, std::size_t f) { e.resume(f); }},
};

INSTANTIATE_TEST_SUITE_P(Each, EnsembleLeaseTest, ::testing::ValuesIn(faults),
                         [](const auto& param) { return std::string(param.param.name); });

// A leader that dies is replaced: leases go on where a new leader comes in time, and end in time where it does not.
TEST(EnsembleLease, LeaderKilledNobodyHoldsWhatIsGone) {
  constexpr std::size_t servers = 3;
  constexpr std::size_t holders = 2 * servers;  // Two on each server, so also on the one that dies.
  const auto made = testkit::make_ensemble();
  FaultEnsemble& ensemble = *made;
  const testkit::Roles roles = testkit::roles_of(ensemble);
  const std::size_t leader = roles.leader;
  Runtime runtime;
  std::vector<Client> clients;
  std::vector<std::unique_ptr<Holder>> held;
  std::vector<std::string> nodes;
  for (std::size_t i = 0; i < holders; ++i) {
    clients.emplace_back(runtime, ensemble.connect_string(i % servers),
                         zkclient::ClientOptions{.session_timeout = session_timeout, .server_tick = 500ms});
    held.push_back(hold(clients[i], i));
    nodes.push_back(held.back()->lease().node());
  }
  for (const auto& holder : held)
    nodes.push_back(holder->session_node());
  const testkit::Stalls stalls;
  const Observer observer(ensemble.connect_string(roles.follower), nodes);
  ensemble.kill(leader);
  const auto killed = BootClock::now();
  // Either it survived, and is proven again, or it is lost, and was lost before anybody saw the node gone.
  for (std::size_t i = 0; i < holders; ++i) {
    SCOPED_TRACE("holder " + std::to_string(i) + (i % servers == leader ? ", at the leader" : ""));
    const auto survived = [&] {
      return held[i]->valid_until() > killed + session_timeout && observer.last_there(i) > killed;
    };
    const auto decided = [&] {
      testkit::restart_who_has_died(ensemble, leader);
      return observer.gone(i) || survived();
    };
    ASSERT_TRUE(eventually(decided, testkit::patience));
    const auto gone = observer.gone(i);
    if (!gone) continue;
    EXPECT_TRUE(told_in_time(*held[i], *gone, stalls)) << "the node was gone and the lease was held";
    // Only a session that has ended says how long it lived.
    const auto session_gone = observer.gone(holders + i);
    EXPECT_TRUE(!session_gone || held[i]->valid_until() < *session_gone);
  }
  // Those at the leader have no server to go to.
  EXPECT_TRUE(observer.gone(leader) && observer.gone(leader + servers));
}

// The holder cannot get at the lock any more, the others can: they get it after the holder was told, not before.
TEST(EnsembleLease, TheNextHolderComesAfterThePreviousOneWasTold) {
  EnsembleOptions options;
  options.server.tick = 500ms;
  options.sync_limit = 10;
  const auto made = testkit::make_ensemble(options);
  FaultEnsemble& ensemble = *made;
  const auto [leader, follower, other] = testkit::roles_of(ensemble);
  const Client first(ensemble.connect_string(follower), {.session_timeout = testkit::contended_session});
  const Client second(ensemble.connect_string(leader), {.session_timeout = testkit::contended_session});
  Mutex mine(first, "/lock");
  const testkit::StallWatch stalls;
  Holder holder(mine.acquire({.deadline = testkit::soon()}));
  ensemble.isolate(follower, Isolation::freeze);
  Mutex theirs(second, "/lock");
  const Lease next = theirs.acquire({.deadline = testkit::soon()});
  const auto taken = BootClock::now();
  EXPECT_FALSE(holder.lease().valid()) << "two holders";
  const auto told = holder.lost_at();
  EXPECT_TRUE((told && *told < taken) || stalls.seen());
  EXPECT_TRUE(stopped(holder.lease().lost()));
  EXPECT_GT(next.token(), holder.lease().token());
  // The isolated follower still shows the first holder's node to those that ask it, and it must not be believed.
  EXPECT_EQ(holder.lease().state(), LeaseState::lost);
  ensemble.heal(follower);
}

// Several faults in a row, with short spells in between in which something gets through: the sequence that breaks
// clocks that are not final. One round by default; ZKRECIPES_SOAK=seconds goes on for that long.
TEST(EnsembleLease, FaultsInARowNobodyHoldsWhatIsGone) {
  constexpr std::size_t holders = 8;
  const unsigned used = seed();
  std::cout << "ZKRECIPES_SEED=" << used << "\n";
  std::mt19937 random(used);
  const auto between = [&](int from, int to) {
    return std::chrono::milliseconds(std::uniform_int_distribution<int>(from, to)(random));
  };
  EnsembleOptions options;
  options.server.tick = 500ms;
  options.sync_limit = 10;
  const auto made = testkit::make_ensemble(options);
  FaultEnsemble& ensemble = *made;
  { Client(ensemble.connect_string()).create("/locks"); }
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  const auto end = testkit::SteadyClock::now() + std::chrono::seconds(soak != nullptr ? std::stol(soak) : 0);
  const Metronome metronome;
  const testkit::Stalls stalls;
  int judged = 0;
  int rounds = 0;
  do {
    const auto [leader, follower, other] = testkit::roles_of(ensemble);
    Runtime runtime;
    std::vector<Client> clients;
    std::vector<std::unique_ptr<Holder>> held;
    std::vector<std::string> nodes;
    for (std::size_t i = 0; i < holders; ++i) {
      clients.emplace_back(runtime, ensemble.connect_string(follower),
                           zkclient::ClientOptions{.session_timeout = session_timeout, .server_tick = 500ms});
      held.push_back(hold(clients[i], i));
      nodes.push_back(held.back()->lease().node());
      std::this_thread::sleep_for(between(0, 60));  // Part of the experiment, as the others below.
    }
    for (const auto& holder : held)
      nodes.push_back(holder->session_node());
    const Observer observer(ensemble.connect_string(other), nodes);
    std::this_thread::sleep_for(between(0, 400));
    const auto struck = BootClock::now();
    constexpr Isolation ways[] = {Isolation::freeze, Isolation::deaf, Isolation::mute, Isolation::sever};
    for (int fault = 0; fault < 3; ++fault) {
      if (random() % 3 == 0) {
        ensemble.pause(leader);
        std::this_thread::sleep_for(between(200, 1200));
        ensemble.resume(leader);
      } else {
        ensemble.isolate(follower, ways[random() % 4]);
        std::this_thread::sleep_for(between(200, 1200));
        ensemble.heal(follower);
      }
      std::this_thread::sleep_for(between(0, 50));
    }
    ensemble.isolate(follower, Isolation::freeze);  // And for good.
    const auto all_gone = [&] {
      testkit::restart_who_has_died(ensemble);
      return observer.all_gone();
    };
    EXPECT_TRUE(eventually(all_gone, testkit::patience));
    for (std::size_t i = 0; i < holders; ++i) {
      const auto gone = observer.gone(i);
      const auto session_gone = observer.gone(holders + i);
      if (!gone || !session_gone) continue;
      ++judged;
      const bool in_time = told_in_time(*held[i], *gone, stalls) && held[i]->valid_until() < *session_gone;
      const auto told = held[i]->lost_at();
      EXPECT_TRUE(in_time) << "seed " << used << ", round " << rounds << ", holder " << i << ", in ms: valid until "
                           << since(struck, held[i]->valid_until()) << ", told "
                           << (told ? std::to_string(since(struck, *told)) : "never") << ", node last seen "
                           << since(struck, observer.last_there(i)) << ", gone " << since(struck, *gone)
                           << ", session gone " << since(struck, *session_gone) << ", worst delay of this process "
                           << metronome.worst_ms();
    }
    ensemble.heal(follower);
    ++rounds;
  } while (testkit::SteadyClock::now() < end);
  std::cout << rounds << " rounds, " << judged << " leases judged, worst delay " << metronome.worst_ms() << " ms\n";
}

}  // namespace
