#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/exit_code.hpp"
#include "tools/zkr/hold/zookeeper_holder.hpp"
#include "tools/zkr/run/run.hpp"

namespace CLI {
class App;
}

namespace zkr {

/// What the commands that run another one have in common.
struct CommandOptions {
  std::optional<std::string> shell_line;
  bool try_once = false;
  std::optional<Duration> timeout;
  int not_acquired_code = exit_not_acquired;
  std::string id;
  RunOptions run;
  bool kazoo = false;
  bool reentrant = false;
  std::string report;
  std::optional<int> lost_descriptor;
  /// Without a command: hold until standard input is at its end.
  bool hold = false;
  /// As RunRequest::run_again.
  std::function<std::optional<Duration>(const Ending& ending, Cause cause, Duration ran)> run_again;
};

/// `options` must live as long as `app`.
void add_command_options(CLI::App& app, CommandOptions& options);

/// Runs the words behind "--", or the shell line, while the stake is held. Errors: Failure.
[[noreturn]] void run_while_held(const Context& context, const CommandOptions& options, Stake stake);

}  // namespace zkr
