// completion, man-page: what shells and manuals know of the program, made of its own commands and options.

#include <CLI/CLI.hpp>

#include "tools/zkr/cli/describe.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

struct ShellOption {
  const CLI::App* program = nullptr;
  std::string shell;
};

int run_completion(const Context&, const ShellOption& options) {
  write_bytes(completion(describe(*options.program), options.shell));
  return exit_success;
}

int run_man_page(const Context&, const ShellOption& options) {
  write_bytes(manual_page(describe(*options.program), ZKR_VERSION));
  return exit_success;
}

}  // namespace

void add_completion(CLI::App& app, Context& context) {
  const auto command =
      add_subcommand(app, context, "completion", "Completions for a shell: bash, zsh, fish", run_completion);
  command.options->program = &app;
  command->add_option("SHELL", command.options->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

void add_man_page(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "man-page", "The manual page", run_man_page);
  command.options->program = &app;
  command->group("");  // For the build.
}

}  // namespace zkr
