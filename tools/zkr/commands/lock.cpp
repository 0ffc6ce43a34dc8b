// zkr lock PATH... -- COMMAND

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/command_options.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

struct LockOptions {
  CommandOptions command;
  std::vector<std::string> paths;
  bool exclusive = false;
  bool shared = false;
  bool writer = false;
  int slots = 0;
  std::string slots_node;
};

Stake stake_of(const LockOptions& options) {
  const bool slot = options.slots > 0 || !options.slots_node.empty();
  if (options.exclusive + options.shared + options.writer + slot > 1)
    throw Failure(exit_usage, "one of --exclusive, --shared, --writer and --slots");
  if (slot && options.command.kazoo) throw Failure(exit_usage, "--slots are not shared with kazoo");
  Stake stake{.paths = options.paths, .slots = options.slots, .slots_node = options.slots_node};
  if (options.shared) stake.mode = Mode::shared;
  if (options.writer) stake.mode = Mode::writer;
  if (slot) stake.mode = Mode::slot;
  return stake;
}

}  // namespace

void add_lock(CLI::App& app, Context& context) {
  const auto options = std::make_shared<LockOptions>();
  CLI::App* lock = app.add_subcommand("lock", "Run a command while a lock is held: zkr lock PATH... -- COMMAND");
  lock->add_option("PATH", options->paths, "What to lock; several: all or none")->required();
  lock->add_flag("-x,--exclusive", options->exclusive, "Nobody else holds it (the default)");
  lock->add_flag("-s,--shared", options->shared, "Others with --shared may hold it as well");
  lock->add_flag("--writer", options->writer, "Nobody else holds it; for paths that others take with --shared");
  lock->add_option("--slots", options->slots, "So many may hold it at a time")->check(CLI::Range(1, 1'000'000));
  lock->add_option("--slots-node", options->slots_node, "The node that says how many may hold it at a time");
  lock->add_flag("--hold", options->command.hold,
                 "No command: print a line when it is held, and hold it until standard input is at its end");
  add_command_options(*lock, options->command);
  lock->callback([&context, options] {
    context.action = [&context, options]() -> int { run_while_held(context, options->command, stake_of(*options)); };
  });
}

}  // namespace zkr
