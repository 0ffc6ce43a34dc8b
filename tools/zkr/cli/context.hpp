#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <zkclient/metrics.hpp>

#include "tools/zkr/cli/connection_options.hpp"
#include "tools/zkr/cli/words.hpp"

namespace zkr {

/// What all commands have in common. It lives until the program ends.
struct Context {
  CallWords words;
  ConnectionOptions connection;
  /// Those that the client has proved, as servers name them; no secrets.
  mutable std::vector<std::string> identities;
  /// What the clients that connect() makes count into; null: nothing.
  mutable std::shared_ptr<zkclient::Metrics> metrics;
  bool quiet = false;
  bool verbose = false;
  bool json = false;  // What is written to standard output is JSON.
  /// What the chosen command does; its result is the exit code. Its subcommand's callback sets it, so that nothing
  /// happens before all words have been read.
  std::function<int()> action;
};

}  // namespace zkr
