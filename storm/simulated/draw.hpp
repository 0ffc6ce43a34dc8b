#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <zktesting/simulation.hpp>

#include "storm/place.hpp"
#include "storm/simulated/scenario.hpp"

namespace storm {

/// What a seed draws before its world begins. Worlds differ: some have one kind of trouble only, some have all of them;
/// some have a trouble each ten seconds, some have ten at once.
struct WorldDraw {
  zktesting::SimulationOptions world;
  Habits habits;
  std::vector<Trouble> troubles;
  std::chrono::milliseconds mean_calm{};  ///< Between two troubles.
  std::uint64_t burst_one_in = 1;         ///< One of so many comes right after the one before it.
  std::uint64_t aimed_one_in = 1;         ///< One of so many hits somebody in particular.
  enum class Lengths : std::uint8_t { any, brief, around_timeouts } lengths = Lengths::any;
  std::chrono::seconds troubled{};  ///< For how long troubles come.
  bool stops_leaders = false;       ///< For about as long as sessions last, which is about a tick.
  bool strands_servers = false;     ///< Behind which a lease is held, while sessions last about a tick.
};

WorldDraw draw(std::uint64_t seed);
/// In a line.
std::string describe(const WorldDraw& drawn);

/// Whom a trouble hits. What is said of a process means the server that it is connected to, if servers are hit, and what
/// is said of a server means a process that is connected to it, if processes are hit.
enum class Aim : std::uint8_t {
  anybody,
  same,    ///< Whom the last trouble has hit.
  holder,  ///< The process that was granted something last.
  leader,  ///< The server that leads.
};

/// One trouble, before it comes.
struct Plan {
  int number = 0;  ///< From 1.
  Trouble kind = Trouble::kill_process;
  std::chrono::nanoseconds at{};
  Aim aim = Aim::anybody;
  std::size_t process = 0;  ///< Whom it hits, if the aim does not say it.
  int server = 0;           ///< The same of servers.
  std::chrono::milliseconds length{};
  bool at_a_step = false;           ///< It waits until its process writes something down: it does something next.
  bool breaks = false;              ///< Connections break at its end, or what is on its way is lost.
  std::chrono::microseconds lag{};  ///< Between the loss of replies and the end of the connections.
  double drift = 0;
  int to_other = 0;  ///< The other end of a link between servers is so many servers further on; 0: there is none.
  zktesting::Crash crash = zktesting::Crash::any;
  std::chrono::milliseconds slowness{};  ///< Of a link, or a disk.
  std::chrono::milliseconds deaf{};      ///< A server is, before it hears all of it.
};

/// All troubles of a world. Each has a generator of its own, so that leaving one out does not change the others.
std::vector<Plan> plan(const WorldDraw& drawn, std::uint64_t seed, int processes, std::chrono::nanoseconds end);

bool hits_process(Trouble kind);

}  // namespace storm
