// zkr held, zkr alive, zkr downgrade, zkr ready, zkr proclaim: what a command asks about its own lease. Its keeper answers.

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/hold/control.hpp"

namespace zkr {
namespace {

using Patience = std::optional<std::chrono::milliseconds>;

int ask(const std::string& request, Patience patience = control_patience) {
  const char* name = std::getenv("ZKR_SOCKET");
  if (name == nullptr) throw Failure(exit_usage, "to be called by what zkr runs: there is no ZKR_SOCKET");
  const auto answer = ask_control(name, request, patience);
  // Whoever held it does not any more, or cannot say so.
  if (!answer) throw Failure(exit_lost, "the lease is over: nobody answers for it");
  if (answer->code != exit_success) throw Failure(static_cast<ExitCode>(answer->code), answer->text);
  if (!answer->text.empty()) std::printf("%s\n", answer->text.c_str());
  return exit_success;
}

}  // namespace

void add_held(CLI::App& app, Context& context) {
  CLI::App* held = app.add_subcommand(
      "held", "For a command that zkr runs: prints how many milliseconds the lease lasts at least, or ends with 79");
  held->callback([&context] { context.action = [] { return ask("held"); }; });
}

void add_alive(CLI::App& app, Context& context) {
  CLI::App* alive = app.add_subcommand(
      "alive", "For a command that zkr lead --watchdog runs: says that it is alive, or ends with 79");
  alive->callback([&context] { context.action = [] { return ask("alive"); }; });
}

void add_downgrade(CLI::App& app, Context& context) {
  CLI::App* downgrade = app.add_subcommand("downgrade",
                                           "For a command that zkr lock --writer runs: it goes on as with --shared, "
                                           "and prints the nodes that stand for it now");
  // Until it is done, or the keeper gone: after a failure readers could come in beside a command that writes still.
  downgrade->callback([&context] { context.action = [] { return ask("downgrade", std::nullopt); }; });
}

void add_ready(CLI::App& app, Context& context) {
  CLI::App* ready =
      app.add_subcommand("ready", "For a command that zkr lead runs: tells others that it has taken over");
  ready->callback([&context] { context.action = [] { return ask("ready"); }; });
}

void add_proclaim(CLI::App& app, Context& context) {
  const auto value = std::make_shared<std::string>();
  CLI::App* proclaim =
      app.add_subcommand("proclaim", "For a command that zkr lead runs: shows a text to others, such as its address");
  proclaim->add_option("TEXT", *value, "What is shown")->required();
  proclaim->callback([&context, value] { context.action = [value] { return ask("proclaim " + *value); }; });
}

}  // namespace zkr
