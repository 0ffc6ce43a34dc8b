#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "storm/simulated/apart.hpp"
#include "storm/simulated/seeds.hpp"

namespace storm {

/// In how many worlds a kind of trouble came, and how often.
struct TroubleCount {
  std::uint64_t worlds = 0;
  std::uint64_t times = 0;
  friend bool operator==(const TroubleCount&, const TroubleCount&) = default;
};

/// What was played of one workload.
struct Tally {
  SeedSet seeds;
  SeedSet failed;
  std::uint64_t milliseconds = 0;  ///< Of processor time.
  std::map<std::string, TroubleCount> troubles;

  void add(std::uint64_t seed, const WorldResult& result);
  friend bool operator==(const Tally&, const Tally&) = default;
};

/// What a run has done. It goes on from there.
struct State {
  /// The program, and how long it makes trouble: worlds of another one are other worlds.
  std::string program;
  int seconds = 0;
  std::map<std::string, Tally> workloads;
  friend bool operator==(const State&, const State&) = default;
};

/// A state file that cannot be used. what() is a sentence.
class StateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string to_text(const State& state);
/// Throws StateError: it is not a whole state.
State parse_state(const std::string& text);

/// What the file says, while a run may be writing it. Nothing: there is no such file. Throws StateError: it cannot be read,
/// or is not a whole state.
std::optional<State> load_state(const std::string& path);

/// The hash of this program's own executable.
std::string identity_of_this_program();

/// A file that always holds a whole state, of this run alone.
class StateFile {
 public:
  /// Takes the file for this run. Throws StateError: another run has it.
  explicit StateFile(std::string path);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  /// As load_state(); a new one if there is none. Throws StateError, too, if it is of another program or of other seconds.
  [[nodiscard]] State load_for(const std::string& program, int seconds) const;
  /// The file is the old or the new one, whatever happens meanwhile. Throws StateError.
  void save(const State& state) const;

 private:
  const std::string path_;
  int lock_ = -1;
};

}  // namespace storm
