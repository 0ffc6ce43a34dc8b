// who: which recipe stands at a path, who holds, and who waits.

#include <string>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/inspection_text.hpp"

namespace zkr {
namespace {

struct WhoOptions {
  std::string path;
};

int run_who(const Context& context, const WhoOptions& options) {
  const zkclient::Path path(options.path);
  const zkrecipes::Inspection found = zkrecipes::inspect(connect(context), path);
  if (found.kind == zkrecipes::RecipeKind::nothing) throw Failure(exit_no_node, path.str() + ": there is no such node");
  if (context.json) {
    write_line(inspection_json(path.str(), found));
  } else {
    write_bytes(inspection_text(path.str(), found));
  }
  return exit_success;
}

}  // namespace

void add_who(CLI::App& app, Context& context) {
  const auto command = add_subcommand(
      app, context, "who", "Who holds and who waits, of any recipe: locks, elections, barriers, queues", run_who);
  command->add_option("PATH", command.options->path, "The recipe's path")->required();
}

}  // namespace zkr
