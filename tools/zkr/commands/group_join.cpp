// zkr group join PATH -- COMMAND

#include "tools/zkr/commands/group_join.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/commands/command_options.hpp"
#include "tools/zkr/commands/group_layout.hpp"

namespace zkr {
namespace {

struct JoinOptions {
  CommandOptions command;
  std::string path;
  std::string payload;
  std::string layout = "curator";
};

}  // namespace

void add_group_join(CLI::App& group, Context& context) {
  const auto options = std::make_shared<JoinOptions>();
  CLI::App* join =
      group.add_subcommand("join", "Be a member for as long as a command runs: zkr group join PATH -- COMMAND");
  join->add_option("PATH", options->path, "The group")->required();
  join->add_option("--payload", options->payload, "What the member shows to others, such as its address")
      ->type_name("TEXT");
  add_group_layout(*join, options->layout);
  join->add_flag("--hold", options->command.hold,
                 "No command: print a line when it has joined, and stay until standard input is at its end");
  add_waiting_options(*join, options->command);
  join->callback([&context, options] {
    context.action = [&context, options]() -> int {
      if (options->command.id.empty()) options->command.id = process_name();
      Stake stake{.paths = {options->path}, .mode = Mode::joined};
      stake.group_layout = group_layout(options->layout);
      stake.payload = options->payload;
      run_while_held(context, options->command, std::move(stake));
    };
  });
}

}  // namespace zkr
