#pragma once

namespace CLI {
class App;
}

namespace zkr {

struct Context;

/// All commands of `zkr`, in the order in which --help lists them.
void add_commands(CLI::App& app, Context& context);

// Each adds a subcommand, whose callback sets Context::action. `context` must live as long as `app`.
void add_lock(CLI::App& app, Context& context);

}  // namespace zkr
