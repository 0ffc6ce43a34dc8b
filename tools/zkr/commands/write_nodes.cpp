// set, create, rm: changes of single nodes, and the end of whole trees.

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include <fmt/format.h>

#include "tools/zkr/cli/acl_text.hpp"
#include "tools/zkr/cli/data_option.hpp"
#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/node_tree.hpp"

namespace zkr {
namespace {

using zkclient::Client;
using zkclient::Path;
using zkclient::Stat;

struct SetOptions {
  std::string path;
  DataOption data;
  std::optional<std::int32_t> version;
};

struct CreateOptions {
  std::string path;
  DataOption data;
  std::vector<std::string> acl;
  std::optional<std::chrono::nanoseconds> ttl;
  bool parents = false;
  bool sequential = false;
  bool container = false;
};

struct RemoveOptions {
  std::vector<std::string> paths;
  std::optional<std::int32_t> version;
  bool all = false;
  bool yes = false;
};

// What was there before, for those who want it back: its version, and its identity.
std::string former_text(const Stat& stat) { return fmt::format("version {}, czxid {}", stat.version, stat.czxid); }
json::object former_json(const Stat& stat) { return {{"version", stat.version}, {"czxid", stat.czxid}}; }

void add_version(CLI::App* command, std::optional<std::int32_t>& version) {
  command->add_option("--version", version, "Only if the node has this version")->type_name("N");
}

int run_set(const Context& context, const SetOptions& options) {
  const Path path(options.path);
  const std::string bytes = options.data.required_bytes(context.words);
  const Stat stat = connect(context).set(path, bytes, options.version.value_or(zkclient::any_version));
  Stat former = stat;
  former.version = static_cast<std::int32_t>(static_cast<std::uint32_t>(stat.version) - 1);
  if (context.verbose) say(fmt::format("{} was {}", path.str(), former_text(former)));
  if (context.json) {
    write_line(json::object{{"path", path.str()}, {"stat", json_of(stat)}, {"former", former_json(former)}});
  }
  return exit_success;
}

// --- create -------------------------------------------------------------------------------------------------------

zkclient::CreateMode mode_for(const CreateOptions& options) {
  using zkclient::CreateMode;
  if (options.container) return CreateMode::container;
  if (options.ttl) return options.sequential ? CreateMode::persistent_sequential_ttl : CreateMode::persistent_ttl;
  return options.sequential ? CreateMode::persistent_sequential : CreateMode::persistent;
}

int run_create(const Context& context, const CreateOptions& options) {
  const Path path(options.path);
  if (options.container && (options.sequential || options.ttl)) {
    throw Failure(exit_usage, "a container is neither sequential nor does it have a time to live");
  }
  const std::string bytes = options.data.bytes(context.words);
  zkclient::CreateOptions how;
  how.mode = mode_for(options);
  how.parents = options.parents;
  if (options.ttl) how.ttl = std::chrono::ceil<std::chrono::milliseconds>(*options.ttl);
  if (!options.acl.empty()) how.acl = parse_acl_texts(options.acl);
  const zkclient::Created created = connect(context).create(path, bytes, how);
  if (context.json) {
    write_line(json::object{{"path", created.path}, {"stat", json_of(created.stat)}});
  } else if (options.sequential) {
    write_line(created.path);  // Only the server knew it.
  }
  return exit_success;
}

// --- rm -----------------------------------------------------------------------------------------------------------

// Without a terminal nobody can answer, and nobody is asked.
bool confirmed(const Client& client, const Path& path) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) return true;
  const std::size_t count = read_tree(client, path, {}).size();
  if (count == 1) return true;
  fmt::print(stderr, "zkr: remove {} and {} nodes below it? [y/N] ", path.str(), count - 1);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

// Exactly the one that is shown: if another client is quicker, it is looked at again.
Stat remove_one(const Client& client, const Path& path, const std::optional<std::int32_t>& version) {
  for (;;) {
    const auto stat = client.exists(path);
    if (!stat) throw zkclient::Error(zkclient::Errc::no_node, "rm", path.str());
    try {
      client.remove(path, version.value_or(stat->version));
      return *stat;
    } catch (const zkclient::Error& error) {
      if (error.errc() != zkclient::Errc::bad_version || version) throw;
    }
  }
}

Stat remove_all(const Client& client, const Path& path, bool yes) {
  const auto stat = client.exists(path);
  if (!stat) throw zkclient::Error(zkclient::Errc::no_node, "rm", path.str());
  if (!yes && !confirmed(client, path)) throw Failure(exit_not_acquired, "nothing was removed");
  client.remove_tree(path);
  return *stat;
}

int run_remove(const Context& context, const RemoveOptions& options) {
  if (options.all && options.version) throw Failure(exit_usage, "--version is for a single node, -r for many");
  std::vector<Path> paths(options.paths.begin(), options.paths.end());
  const Client client = connect_to_look(context);
  for (const Path& path : paths) {
    const Stat stat = options.all ? remove_all(client, path, options.yes) : remove_one(client, path, options.version);
    if (context.verbose) say(fmt::format("{} was {}", path.str(), former_text(stat)));
    if (context.json) write_line(json::object{{"path", path.str()}, {"former", former_json(stat)}});
  }
  return exit_success;
}

}  // namespace

void add_set(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "set", "Write a node's data", run_set, true);
  command->add_option("PATH", command.options->path, "The node")->required();
  command->add_option("VALUE", command.options->data.word, "The data; - reads standard input");
  add_version(command.app, command.options->version);
}

void add_create(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "create", "Create a node", run_create, true);
  CreateOptions& options = *command.options;
  command->add_option("PATH", options.path, "The node")->required();
  command->add_option("VALUE", options.data.word, "The data; - reads standard input; none: empty");
  command->add_flag("-p,--parents", options.parents, "Missing parents as well, as containers");
  command->add_flag("-s,--sequential", options.sequential, "The server appends a number; the whole path is written");
  command->add_flag("--container", options.container, "The server removes it some time after its last child");
  add_duration(*command.app, "--ttl", options.ttl, "The server removes it when it was not changed for so long");
  command->add_option("--acl", options.acl, "Who may do what: scheme:id:cdrwa; may be given several times")
      ->allow_extra_args(false)
      ->type_name("ENTRY");
}

void add_rm(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "rm", "Remove nodes", run_remove);
  RemoveOptions& options = *command.options;
  command->add_option("PATH", options.paths, "The nodes")->required();
  add_version(command.app, options.version);
  command->add_flag("-r,--recursive", options.all, "All below them as well; asks first, on a terminal alone");
  command->add_flag("-y,--yes", options.yes, "Do not ask");
}

}  // namespace zkr
