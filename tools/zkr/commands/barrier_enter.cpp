// zkr barrier enter -n N PATH -- COMMAND

#include "tools/zkr/commands/barrier_enter.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/command_options.hpp"

namespace zkr {
namespace {

struct EnterOptions {
  CommandOptions command;
  std::string path;
  int members = 0;
};

}  // namespace

void add_barrier_enter(CLI::App& barrier, Context& context) {
  const auto options = std::make_shared<EnterOptions>();
  CLI::App* enter = barrier.add_subcommand(
      "enter", "Run a command together with others: all begin when N are there, and end when all have ended");
  enter->add_option("PATH", options->path, "Where they meet")->required();
  enter->add_option("-n,--members", options->members, "How many begin and end together")
      ->required()
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  add_command_options(*enter, options->command, "--try");
  enter->callback([&context, options] {
    context.action = [&context, options]() -> int {
      if (options->command.kazoo) throw Failure(exit_usage, "double barriers are not shared with kazoo");
      options->command.run.ends_together = true;
      run_while_held(context, options->command,
                     Stake{.paths = {options->path}, .mode = Mode::member, .members = options->members});
    };
  });
}

}  // namespace zkr
