// who: which recipe stands at a path, who holds, and who waits.

#include <algorithm>
#include <optional>
#include <string>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/inspection_text.hpp"
#include "tools/zkr/commands/session_addresses.hpp"

namespace zkr {
namespace {

struct WhoOptions {
  std::string path;
  bool address = false;
};

/// Some contender has a session that no server that tells is connected to.
bool lacks_address(const zkrecipes::Inspection& found, const SessionAddresses& addresses) {
  return std::any_of(found.contenders.begin(), found.contenders.end(), [&](const zkrecipes::Contender& one) {
    return one.session_id != 0 && !addresses.of(one.session_id);
  });
}

int run_who(const Context& context, const WhoOptions& options) {
  const zkclient::Path path(options.path);
  const Connection connection = connection_of(context.connection);
  const zkrecipes::Inspection found = zkrecipes::inspect(connect(context, connection), path);
  if (found.kind == zkrecipes::RecipeKind::nothing) throw Failure(exit_no_node, path.str() + ": there is no such node");
  std::optional<SessionAddresses> addresses;
  if (options.address) addresses.emplace(connection);
  const SessionAddresses* shown = addresses ? &*addresses : nullptr;
  if (context.json) {
    write_line(inspection_json(path.str(), found, shown));
  } else {
    write_bytes(inspection_text(path.str(), found, shown));
  }
  if (addresses && !context.quiet && lacks_address(found, *addresses)) say(addresses->why_missing());
  return exit_success;
}

}  // namespace

void add_who(CLI::App& app, Context& context) {
  const auto command =
      add_subcommand(app, context, "who",
                     "Who holds and who waits, of any recipe: locks, elections, barriers, queues, jobs, ...", run_who);
  command->add_option("PATH", command.options->path, "The recipe's path")->required();
  command->add_flag("--address", command.options->address, "Also where the clients are connected from");
}

}  // namespace zkr
