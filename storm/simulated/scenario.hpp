#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storm/workloads/workloads.hpp"

namespace storm {

/// What may go wrong in a scenario. A seed draws which of them do.
enum class Trouble {
  kill_process,
  pause_process,
  cut_off_process,
  lose_requests,
  lose_replies,
  break_connections,
  sleep_machine,
  kill_server,
  pause_server,
  isolate_server,
  drift,
  slow_link,          ///< Of a process and the servers.
  stall_connections,  ///< Of a process.
  cut_link,           ///< One server does not hear another one.
  slow_peer_link,     ///< Of two servers, in one direction.
  slow_disk,          ///< Of a server, as those below.
  stall_disk,
  refuse_fsync,
  wipe_disk,  ///< Only when nothing that was acknowledged hangs on it.
  /// A server behind which a lease is held hears nothing of the others, then all of it at once; then it is cut off.
  strand_server,
};
constexpr int troubles = 20;
const char* to_string(Trouble trouble);

struct ScenarioOptions {
  std::uint64_t seed = 1;
  /// Virtual seconds in which troubles come; 0: as the seed has drawn.
  int seconds = 0;
  /// For shrinking: these never happen. What else happens is as it was, at the same times.
  std::vector<Trouble> without;
  /// The same, by their running numbers in this seed's world.
  std::vector<int> left_out;
  /// How many of the workload's processes there are, the first ones; 0: all.
  int processes = 0;
  /// Another course of the same troubles: what is left to chance besides them (latencies, turns, what the workload draws)
  /// is drawn anew for each number.
  std::uint64_t course = 0;
  /// The story tells what the servers do, too. The world is the same.
  bool with_servers = false;
};

/// A trouble of a seed's world.
struct MadeTrouble {
  int number = 0;  ///< From 1.
  Trouble kind = Trouble::kill_process;
};

struct Outcome {
  Faults faults;                   ///< Empty: all is well.
  std::string world;               ///< What the seed has drawn, in a line.
  std::vector<std::string> story;  ///< What has happened, line by line.
  std::uint64_t trace = 0;
  std::uint64_t turns = 0;
  std::vector<MadeTrouble> made;  ///< In the order in which they came.
};

/// How long troubles come in a seed's world, if nobody says otherwise.
int drawn_seconds(std::uint64_t seed);

/// Lets the workload run in a world that follows from the seed, and judges it.
Outcome run_scenario(const Workload& workload, const ScenarioOptions& options);

struct WorldDraw;
/// In a world that the seed has not drawn. When its troubles come, and what they are, follows from the seed.
Outcome run_drawn_scenario(const Workload& workload, const ScenarioOptions& options, WorldDraw drawn);

}  // namespace storm
