#include "storm/simulated/draw.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "simulation/base/random.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Random = zktesting::simulated::Random;

constexpr std::size_t most_troubles = 80;
constexpr milliseconds longest_trouble(15'000);
constexpr std::uint64_t stops_leaders_one_in = 8;
constexpr std::uint64_t strands_servers_one_in = 8;  // Of the others.
constexpr int usual_troubles = troubles - 1;         // Without strand_server, which has worlds of its own.

// Each draw has a statement of its own, or an operator that says which operand comes first: else a seed were another world with
// each compiler.

template <typename Value, std::size_t size>
Value one_of(const Value (&values)[size], Random& random) {
  return values[random.below(size)];
}

milliseconds some_time_below(milliseconds end, Random& random) {
  return milliseconds(random.below(static_cast<std::uint64_t>(end.count()) + 1));
}

zktesting::SimulationOptions draw_world(Random& random) {
  zktesting::SimulationOptions world;
  world.seed = random.next();
  world.servers = one_of({1, 3, 3, 3, 5}, random);
  world.tick = one_of({500ms, 1000ms, 2000ms, 3000ms}, random);
  // An operator has lowered it, perhaps to less than leases can live on: then such sessions hold none.
  if (random.one_in(2)) world.least_session_timeout = world.tick * one_of({2, 3, 4, 5, 6, 7}, random) / 4;
  world.least_latency = std::chrono::microseconds(50 + random.below(200));
  world.most_latency = world.least_latency + std::chrono::microseconds(random.below(random.one_in(5) ? 50'000 : 2000));
  world.schedule = random.one_in(2) ? zktesting::Schedule::priorities : zktesting::Schedule::random;
  if (random.one_in(3)) world.stall_one_in = 200 + random.below(5000);
  return world;
}

/// What clients may ask for: a write and its answer cross six cables, and leases want an answer within a tenth of the
/// session.
milliseconds least_session_of(const zktesting::SimulationOptions& world) {
  const milliseconds granted = world.least_session_timeout == 0ms ? 2 * world.tick : world.least_session_timeout;
  const auto quick = std::chrono::duration_cast<milliseconds>(40 * world.most_latency);
  const milliseconds without_stalls = world.stall_one_in == 0 ? 1000ms : 2000ms;
  return std::max({granted, quick, without_stalls});
}

Habits draw_habits(const zktesting::SimulationOptions& world, Random& random) {
  Habits habits;
  habits.pause_quarters = one_of<std::uint64_t>({1, 2, 4, 8, 16}, random);
  const milliseconds least = least_session_of(world);
  const milliseconds spreads[] = {0ms, world.tick, 8000ms};
  habits.least_session = least;
  habits.most_session = std::max(least + one_of(spreads, random), world.tick * 5 / 4);
  if (least < world.tick) habits.most_session = std::max(habits.most_session, 2 * world.tick);
  habits.long_hold_one_in = one_of<std::uint64_t>({1, 2, 4, 20}, random);
  habits.read_attempts = one_of({1, 2, 10, 10}, random);
  habits.last_use_one_in = one_of<std::uint64_t>({0, 0, 2, 20}, random);
  return habits;
}

std::vector<Trouble> draw_troubles(Random& random) {
  std::vector<Trouble> chosen;
  if (random.one_in(20)) return chosen;
  if (random.one_in(2)) {  // A few kinds, each of which comes often.
    for (std::uint64_t few = 1 + random.below(3); few > 0; --few)
      chosen.push_back(static_cast<Trouble>(random.below(usual_troubles)));
  } else {
    for (int i = 0; i < usual_troubles; ++i) {
      if (random.one_in(2)) chosen.push_back(static_cast<Trouble>(i));
    }
  }
  return chosen;
}

/// What ends when a session does, or when somebody has lost patience.
milliseconds around_timeouts(const WorldDraw& drawn, Random& random) {
  const Habits& habits = drawn.habits;
  const milliseconds session =
      habits.least_session + some_time_below(habits.most_session - habits.least_session, random);
  const milliseconds tick = drawn.world.tick;
  const milliseconds known[] = {session / 6,     session / 3, session / 2,    session * 2 / 3, session,
                                session * 4 / 3, session * 2, session + tick, tick / 2,        tick,
                                tick * 5};
  const int percent = 80 + static_cast<int>(random.below(60));
  return one_of(known, random) * percent / 100;
}

milliseconds draw_length(const WorldDraw& drawn, Random& random) {
  milliseconds length{};
  switch (drawn.lengths) {
    case WorldDraw::Lengths::brief: length = some_time_below(1000ms, random); break;
    case WorldDraw::Lengths::around_timeouts: length = around_timeouts(drawn, random); break;
    case WorldDraw::Lengths::any:
      length = random.one_in(2) ? around_timeouts(drawn, random)
                                : some_time_below(random.one_in(2) ? 2000ms : longest_trouble, random);
      break;
  }
  return std::min(length, longest_trouble);
}

Random generator_of(std::uint64_t seed, int number) {
  return Random((seed ^ 0x74726F75626C6573u) * 0xD1342543DE82EF95u + static_cast<std::uint64_t>(number));
}

milliseconds draw_gap(const WorldDraw& drawn, bool burst, Random& random) {
  if (!burst) return 1ms + some_time_below(2 * drawn.mean_calm, random);
  return some_time_below(random.one_in(2) ? 100ms : drawn.habits.most_session, random);
}

Plan draw_plan(const WorldDraw& drawn, bool burst, int processes, Random& random) {
  Plan next;
  next.kind = drawn.troubles[random.below(drawn.troubles.size())];
  next.process = random.below(static_cast<std::uint64_t>(processes));
  next.server = static_cast<int>(random.below(static_cast<std::uint64_t>(drawn.world.servers)));
  const bool aimed = random.one_in(drawn.aimed_one_in);
  if (aimed) next.aim = one_of({Aim::same, Aim::holder, Aim::holder, Aim::leader}, random);
  if (aimed && burst && random.one_in(2)) next.aim = Aim::same;
  next.length = draw_length(drawn, random);
  next.at_a_step = random.one_in(3) && next.kind != Trouble::sleep_machine;  // The test waits for that one already.
  next.breaks = random.one_in(2);
  next.lag = std::chrono::microseconds(random.below(5000));
  next.drift = (static_cast<double>(random.below(2001)) - 1000) / 1e6;
  if (drawn.world.servers > 1)
    next.to_other = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(drawn.world.servers) - 1));
  using zktesting::Crash;
  next.crash = one_of({Crash::any, Crash::power, Crash::torn, Crash::process}, random);
  next.slowness = 1ms + some_time_below(random.one_in(2) ? 100ms : 1500ms, random);
  if (drawn.stops_leaders && next.kind == Trouble::pause_server) {
    next.aim = Aim::leader;
    next.length = drawn.habits.least_session / 2 + some_time_below(drawn.habits.most_session * 2, random);
  }
  if (next.kind == Trouble::strand_server) {
    next.aim = Aim::holder;
    next.deaf = some_time_below(drawn.habits.least_session / 2, random);
    next.length = drawn.habits.most_session + drawn.world.tick;  // Until its sessions are over.
  }
  return next;
}

/// Sessions of two ticks or less: they leave nothing to spare in the arithmetic of leases. With those of 3 s or more the
/// margin of the lease clock is longer than what a leader needs to end a list of sessions.
void shorten_sessions(WorldDraw& drawn, Random& random) {
  drawn.world.servers = one_of({3, 3, 5}, random);
  drawn.world.tick = one_of({3000ms, 4000ms}, random);
  drawn.world.least_session_timeout = drawn.world.tick * one_of({2, 3, 4, 4, 4, 5, 8}, random) / 4;
  drawn.world.most_latency = drawn.world.least_latency + std::chrono::microseconds(random.below(2000));
  drawn.world.stall_one_in = 0;
  const milliseconds least = drawn.world.least_session_timeout;
  // No lease lives on a session of less than a tick: some have to be longer.
  const bool all_the_same = least >= drawn.world.tick && !random.one_in(4);
  drawn.habits.least_session = least;
  drawn.habits.most_session = all_the_same ? least : std::max(least, drawn.world.tick * 5 / 4);
  drawn.habits.pause_quarters = one_of<std::uint64_t>({1, 2, 4}, random);
}

void trouble_with(WorldDraw& drawn, Trouble kind, Random& random) {
  drawn.troubles = {kind};
  if (random.one_in(3)) drawn.troubles.push_back(static_cast<Trouble>(random.below(usual_troubles)));
  drawn.mean_calm = drawn.habits.most_session + drawn.world.tick;
  drawn.burst_one_in = 10;
  drawn.troubled = 40s;
}

/// A leader that goes on ends the sessions that it takes for silent, one after the other, and serves the rest meanwhile:
/// for some milliseconds one session is over, and the next one, which is as old, seems to live.
void stop_leaders(WorldDraw& drawn, Random& random) {
  drawn.stops_leaders = true;
  shorten_sessions(drawn, random);
  trouble_with(drawn, Trouble::pause_server, random);
}

/// The worst that a server can do to a lease: it sends the leader a write, does not hear the leader's pings meanwhile, hears
/// that the write is committed, and is cut off before its answers to the pings are out. The leader has heard of the session
/// half a tick before the server fell deaf.
void strand_servers(WorldDraw& drawn, Random& random) {
  drawn.strands_servers = true;
  shorten_sessions(drawn, random);
  trouble_with(drawn, Trouble::strand_server, random);
  drawn.habits.long_hold_one_in = one_of<std::uint64_t>({1, 1, 2}, random);
}

}  // namespace

WorldDraw draw(std::uint64_t seed) {
  Random random(seed);
  WorldDraw drawn;
  drawn.world = draw_world(random);
  drawn.habits = draw_habits(drawn.world, random);
  drawn.troubles = draw_troubles(random);
  const milliseconds calm(100ull << random.below(6));
  drawn.mean_calm = calm + milliseconds(random.below(200));
  drawn.burst_one_in = one_of<std::uint64_t>({2, 3, 10}, random);
  drawn.aimed_one_in = one_of<std::uint64_t>({1, 2, 10}, random);
  drawn.lengths = one_of({WorldDraw::Lengths::any, WorldDraw::Lengths::any, WorldDraw::Lengths::brief,
                          WorldDraw::Lengths::around_timeouts, WorldDraw::Lengths::around_timeouts},
                         random);
  // A world of haste costs more.
  const std::uint64_t longest = drawn.habits.pause_quarters < 4 ? 16 : 36;
  drawn.troubled = std::chrono::seconds(5 + std::min(random.below(longest), random.below(longest)));
  // By a generator of its own: all other worlds are as they were without these.
  Random chooses = generator_of(seed, 0);
  if (chooses.one_in(stops_leaders_one_in))
    stop_leaders(drawn, chooses);
  else if (chooses.one_in(strands_servers_one_in))
    strand_servers(drawn, chooses);
  return drawn;
}

std::string describe(const WorldDraw& drawn) {
  std::string text = fmt::format(
      "{} server(s), tick {} ms, least timeout {} ms, latency {} to {} us, {}, stalls 1/{}; sessions {} to {} ms, "
      "pauses "
      "{}/4, {} attempts, last uses 1/{}; {} s with mean calm {} ms, bursts 1/{}, aimed 1/{}:",
      drawn.world.servers, drawn.world.tick.count(), drawn.world.least_session_timeout.count(),
      drawn.world.least_latency.count(), drawn.world.most_latency.count(),
      drawn.world.schedule == zktesting::Schedule::priorities ? "priorities" : "random turns", drawn.world.stall_one_in,
      drawn.habits.least_session.count(), drawn.habits.most_session.count(), drawn.habits.pause_quarters,
      drawn.habits.read_attempts, drawn.habits.last_use_one_in, drawn.troubled.count(), drawn.mean_calm.count(),
      drawn.burst_one_in, drawn.aimed_one_in);
  for (const Trouble trouble : drawn.troubles)
    text += fmt::format(" {}", to_string(trouble));
  return text;
}

std::vector<Plan> plan(const WorldDraw& drawn, std::uint64_t seed, int processes, std::chrono::nanoseconds end) {
  std::vector<Plan> all;
  if (drawn.troubles.empty()) return all;
  std::chrono::nanoseconds at{};
  while (all.size() < most_troubles) {
    const int number = static_cast<int>(all.size()) + 1;
    Random random = generator_of(seed, number);
    const bool burst = !all.empty() && random.one_in(drawn.burst_one_in);
    at += draw_gap(drawn, burst, random);
    if (at >= end) break;
    Plan next = draw_plan(drawn, burst, processes, random);
    next.number = number;
    next.at = at;
    if (next.kind == Trouble::sleep_machine) at += next.length;  // The test waits so long.
    all.push_back(next);
  }
  return all;
}

bool hits_process(Trouble kind) {
  switch (kind) {
    case Trouble::kill_server:
    case Trouble::pause_server:
    case Trouble::isolate_server:
    case Trouble::cut_link:
    case Trouble::slow_peer_link:
    case Trouble::slow_disk:
    case Trouble::stall_disk:
    case Trouble::refuse_fsync:
    case Trouble::wipe_disk:
    case Trouble::strand_server: return false;
    default: return true;
  }
}

}  // namespace storm
