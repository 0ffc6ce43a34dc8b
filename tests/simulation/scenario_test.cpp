// How worlds of the storm begin, and what they are like when the troubles are over.

#include <gtest/gtest.h>

#include <algorithm>

#include <zkclient/client.hpp>

#include "storm/simulated/draw.hpp"
#include "storm/simulated/scenario.hpp"
#include "storm/workloads/sessions.hpp"

namespace {

using namespace std::chrono_literals;
using storm::Entry;
using storm::Faults;
using storm::History;
using storm::Place;
using storm::Trouble;
using storm::WorldDraw;

/// What was noted after the calm, and is not `wanted`.
template <typename Wanted>
Faults unwanted_after_the_calm(const History& history, Wanted wanted) {
  Faults faults;
  bool calm = false;
  for (const Entry& entry : history.entries()) {
    if (calm && !wanted(entry)) faults.push_back(to_string(entry));
    calm = calm || entry.what == "calm";
  }
  if (!calm) faults.push_back("no calm");
  return faults;
}

void look_at_nothing(Place&) {}

const storm::Workload sessions_alone{"sessions", 1,
                                     [](Place& place) {
                                       while (!place.stopped()) {
                                         const std::chrono::milliseconds least = place.habits().least_session;
                                         place.note("session", least < place.tick() ? 1 : 0);
                                         place.pause(1000);
                                       }
                                     },
                                     look_at_nothing,
                                     [](const History& history) {
                                       return unwanted_after_the_calm(history,
                                                                      [](const Entry& entry) { return entry.a == 0; });
                                     }};

// Else nobody who is unlucky enough goes on.
TEST(StormScenario, AfterTheCalmEachSessionIsLongEnoughForALease) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    WorldDraw drawn = storm::draw(seed);
    drawn.habits.least_session = drawn.world.tick / 2;
    EXPECT_EQ(run_drawn_scenario(sessions_alone, {.seed = seed, .without = {}, .left_out = {}}, drawn).faults,
              Faults());
  }
}

void come_late(Place& place) {
  while (!place.stopped())
    place.pause(1000);
  try {
    zkclient::Client(place.servers(), {.session_timeout = 10s}).connect(storm::within(5s));
  } catch (const zkclient::Error& error) {
    place.note("not served", 1, 0, error.what());
  }
}

const storm::Workload latecomer{"latecomer", 1, come_late, look_at_nothing, [](const History& history) {
                                  return unwanted_after_the_calm(
                                      history, [](const Entry& entry) { return entry.what != "not served"; });
                                }};

// Servers that have elected one of them in vain, with a follower whose disk refused, find together much later.
TEST(StormScenario, ProcessesGoOnForAWhileAfterTheServersHaveFoundTogether) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    WorldDraw drawn = storm::draw(seed);
    drawn.world.servers = 5;
    drawn.world.tick = 3s;
    drawn.world.init_limit = 20;
    drawn.troubles = {Trouble::refuse_fsync, Trouble::kill_server, Trouble::cut_link};
    drawn.mean_calm = 300ms;
    drawn.troubled = 20s;
    EXPECT_EQ(run_drawn_scenario(latecomer, {.seed = seed, .without = {}, .left_out = {}}, drawn).faults, Faults())
        << seed;
  }
}

// Its lease is lost before it is healed, or given back before.
TEST(StormScenario, AServerIsStrandedBehindWhichALeaseIsHeld) {
  const storm::Workload& mutex = *storm::find_workload("mutex");
  int stranded = 0;
  int lost = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const WorldDraw drawn = storm::draw(seed);
    if (!drawn.strands_servers) continue;
    const storm::Outcome outcome = run_drawn_scenario(mutex, {.seed = seed, .without = {}, .left_out = {}}, drawn);
    EXPECT_EQ(outcome.faults, Faults()) << seed;
    bool is_stranded = false;
    for (const std::string& line : outcome.story) {
      const auto tells = [&](const char* what) { return line.find(what) != std::string::npos; };
      if (tells(" deaf #")) {
        is_stranded = true;
        ++stranded;
      } else if (is_stranded && tells(" lost ")) {
        ++lost;
      }
      if (tells(" lost ") || tells(" healed #")) is_stranded = false;
    }
  }
  EXPECT_GT(stranded, 20);
  EXPECT_GT(lost, stranded / 8);
}

TEST(StormScenario, WorldsOfTheirOwnTroubleShortSessions) {
  constexpr std::uint64_t seeds = 2000;
  int stopping = 0;
  int stranding = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const WorldDraw drawn = storm::draw(seed);
    const bool strands = std::count(drawn.troubles.begin(), drawn.troubles.end(), Trouble::strand_server) > 0;
    EXPECT_EQ(strands, drawn.strands_servers) << seed;
    stopping += drawn.stops_leaders ? 1 : 0;
    stranding += drawn.strands_servers ? 1 : 0;
    if (!drawn.stops_leaders && !drawn.strands_servers) continue;
    EXPECT_NE(drawn.stops_leaders, drawn.strands_servers) << seed;
    // Some are long enough for a lease, and the margin of its clock is longer than what a leader needs to end sessions.
    EXPECT_GE(drawn.habits.most_session, std::max(drawn.world.tick, 3000ms)) << seed;
    for (const storm::Plan& one : plan(drawn, seed, 3, drawn.troubled)) {
      if (drawn.stops_leaders && one.kind == Trouble::pause_server) {
        EXPECT_EQ(one.aim, storm::Aim::leader);
        EXPECT_GE(one.length, drawn.habits.least_session / 2);
      }
      if (one.kind == Trouble::strand_server) {
        EXPECT_GT(one.length, one.deaf + drawn.habits.most_session / 2);
      }
    }
  }
  EXPECT_NEAR(stopping, 250, 60);   // An eighth.
  EXPECT_NEAR(stranding, 219, 60);  // An eighth of the rest.
}

}  // namespace
