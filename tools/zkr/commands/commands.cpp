#include "tools/zkr/commands/commands.hpp"

#include "tools/zkr/cli/context.hpp"

namespace zkr {

void add_commands(CLI::App& app, Context& context) { add_lock(app, context); }

}  // namespace zkr
