// barrier raise, lower, wait; revoke: what operators do to others.

#include <string>

#include <fmt/format.h>

#include <zkrecipes/barrier.hpp>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/barrier_enter.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/revocation.hpp"

namespace zkr {
namespace {

using zkclient::Path;
using zkrecipes::RevokeOutcome;

struct BarrierOptions {
  std::string path;
  std::string id;
  std::optional<std::chrono::nanoseconds> timeout;
};

struct RevokeOptions {
  std::string path;
  std::optional<std::chrono::nanoseconds> break_after;
};

int run_raise(const Context& context, const BarrierOptions& options) {
  zkrecipes::Barrier barrier(connect(context), options.path, {.id = options.id});
  const bool raised = barrier.raise();
  if (context.json) write_line(json::object{{"path", options.path}, {"raised", raised}});
  if (!raised && !context.quiet) say(options.path + ": it was up already");
  return exit_success;
}

int run_lower(const Context& context, const BarrierOptions& options) {
  zkrecipes::Barrier(connect(context), options.path).lower();
  return exit_success;
}

int run_wait(const Context& context, const BarrierOptions& options) {
  const zkclient::Client client = connect_to_look(context);
  zkclient::CallOptions call;
  if (options.timeout) call.deadline = *options.timeout;
  try {
    zkrecipes::Barrier(client, options.path).wait(call);
    return exit_success;
  } catch (const zkclient::Error& error) {
    fail_wait(client, error);
  }
}

// --- revoke -------------------------------------------------------------------------------------------------------

int run_revoke(const Context& context, const RevokeOptions& options) {
  const Path path(options.path);
  zkrecipes::RevokeOptions how;
  if (options.break_after) how.break_after = std::chrono::ceil<std::chrono::milliseconds>(*options.break_after);
  const RevokeOutcome outcome = revoke_any(connect_to_look(context), path, how);
  if (context.json) {
    write_line(json::object{{"path", path.str()}, {"outcome", zkrecipes::to_string(outcome)}});
  } else if (!context.quiet) {
    write_line(zkrecipes::to_string(outcome));
  }
  return exit_success;
}

}  // namespace

void add_barrier(CLI::App& app, Context& context) {
  CLI::App* barrier =
      app.add_subcommand("barrier", "A gate where others wait: raise, lower, wait; or a place to meet: enter");
  barrier->require_subcommand(1);
  const auto raise = add_subcommand(*barrier, context, "raise", "Put it up, until it is lowered", run_raise);
  raise->add_option("PATH", raise.options->path, "The barrier")->required();
  raise->add_option("--id", raise.options->id, "Shown to others as who has raised it")->type_name("NAME");
  const auto lower = add_subcommand(*barrier, context, "lower", "Take it down", run_lower);
  lower->add_option("PATH", lower.options->path, "The barrier")->required();
  const auto wait = add_subcommand(*barrier, context, "wait", "Wait until it is down", run_wait);
  wait->add_option("PATH", wait.options->path, "The barrier")->required();
  add_barrier_enter(*barrier, context);
  add_duration(*wait.app, "-w,--timeout", wait.options->timeout, "Do not wait longer than that");
}

void add_revoke(CLI::App& app, Context& context) {
  const auto revoke = add_subcommand(
      app, context, "revoke", "Ask holders to give way, or one contender: requested, released or broken", run_revoke);
  revoke->add_option("PATH", revoke.options->path, "The recipe's path, or a contender's node")->required();
  add_duration(*revoke.app, "--break-after", revoke.options->break_after,
               "Wait for so long, and then take it: whoever holds on is told that the lease is lost");
}

}  // namespace zkr
