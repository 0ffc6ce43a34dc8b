#pragma once

#include <filesystem>
#include <string>

namespace tour {

/// Where the workers of one tour meet, below the prefix of the tour.
inline constexpr const char* lock_node = "lock";
inline constexpr const char* election_node = "leader";

struct WorkerOptions {
  std::string name;
  std::string connect_string;
  std::string prefix;  ///< Of all znodes of the tour.
  std::filesystem::path ledger;
  int director = 0;  ///< The process that started us.
};

/// One of the processes of the tour: campaigns for the leadership and takes turns under the lock, as
/// its standard input tells it (Command), and reports to its standard output (Event). Returns the
/// exit code when it was told to leave; does not return when the director is gone.
int run_worker(const WorkerOptions& options);

/// The files of the players' stage, a folder that all of them see.
inline constexpr const char* lines_file = "lines";
inline constexpr const char* ledger_file = "ledger";

struct PlayerOptions {
  std::string name;
  std::string connect_string;
  std::string prefix;           ///< Of all znodes of the players.
  std::filesystem::path stage;  ///< Its files are made by the first player that needs them.
};

/// A worker in a container, where nobody writes to its input: it works from the beginning. SIGUSR1 stands for
/// Command::dwell, SIGUSR2 for `write`, SIGTERM and SIGINT for `leave`. It appends each report, after its name, to the
/// lines of all players. Returns the exit code.
int run_player(const PlayerOptions& options);

}  // namespace tour
