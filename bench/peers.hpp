#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "child.hpp"
#include "contender.hpp"

namespace bench {

/// Starts the programs in bench/peers, which use other libraries.
class Peers {
 public:
  /// `none`: as if none of them was installed.
  explicit Peers(bool none = false);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// nullptr: the library is not installed; `notes` gets a line about it, once.
  std::unique_ptr<Contender> curator(const std::vector<std::string>& arguments);
  std::unique_ptr<Child> kazoo(const std::vector<std::string>& arguments);
  std::vector<std::string> notes;

 private:
  std::string folder_;     // With the compiled class.
  std::string classpath_;  // "": not installed.
  std::string python_;     // "": not installed.
};

/// What the benchmarks of queues, barriers and views are told on the command line.
struct RunOptions {
  int rounds = 7;
  std::chrono::milliseconds slice{2000};
  std::chrono::milliseconds warmup{4000};
  int pairs = 1;
  int backlog = 10;
  int nodes = 200;
  bool alone = false;  ///< Without the other libraries.
  std::string json_file;
  bool help = false;
};
RunOptions parse_run_options(const std::vector<std::string>& arguments);
/// The options common to all, for the usage text.
extern const char* const run_options_usage;

}  // namespace bench
