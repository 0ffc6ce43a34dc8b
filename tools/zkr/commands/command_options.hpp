#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/exit_code.hpp"
#include "tools/zkr/cli/metrics_file.hpp"
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
  std::string metrics_file;
  std::optional<int> lost_descriptor;
  Ready ready = Ready::none;
  /// Without a command: hold until standard input is at its end.
  bool hold = false;
  /// As RunRequest::run_again.
  std::function<std::optional<Duration>(const Ending& ending, Cause cause, Duration ran)> run_again;
};

/// All of them. `options` must live as long as `app`. `try_names`: of the option that waits for nobody.
void add_command_options(CLI::App& app, CommandOptions& options, const std::string& try_names = "-n,--try,--nonblock");
/// Those that make sense without a lease as well: the command, the waiting for others, what is told of it.
void add_waiting_options(CLI::App& app, CommandOptions& options, const std::string& try_names = "-n,--try,--nonblock");

/// The words behind "--", or those that run the shell line. Errors: Failure, if it is not one of both.
std::vector<std::string> command_words(const Context& context, const std::optional<std::string>& shell_line);

/// Errors: Failure, if the margin is shorter than any machine is punctual.
void require_least_margin(const RunOptions& options);

/// Has what the run's holders do counted into the file, by its keeper. Called before it is forked. Empty: into none. Errors:
/// as write_metrics().
void count_run_into(const std::string& file, Connection& connection, RunRequest& run);

/// This process's name, another one for each: what was killed is another candidate, or member, than that which follows it.
std::string process_name();

/// Not to be guessed, and the same for all that belong to one run.
std::string random_id();

/// Runs the words behind "--", or the shell line, while the stake is held. Errors: Failure.
[[noreturn]] void run_while_held(const Context& context, const CommandOptions& options, Stake stake);

}  // namespace zkr
