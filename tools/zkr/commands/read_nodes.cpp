// get, ls, stat, tree: what is in the nodes.

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/node_tree.hpp"
#include "tools/zkr/commands/session_addresses.hpp"

namespace zkr {
namespace {

using zkclient::Path;

struct PathOption {
  std::string path;
};

struct StatOptions {
  std::string path;
  bool address = false;
};

struct ListOptions {
  std::string path;
  bool all = false;
};

struct TreeOptions {
  std::string path = "/";
  int depth = -1;
};

zkclient::DataView view(const zkclient::NodeData& node) {
  return node.is_null ? zkclient::DataView() : zkclient::DataView(node.data);
}

int run_get(const Context& context, const PathOption& options) {
  const Path path(options.path);
  const zkclient::NodeData node = connect_to_look(context).get(path);
  if (!context.json) {
    write_bytes(node.data);
    return exit_success;
  }
  json::object object;
  object["path"] = path.str();
  add_data(object, view(node));
  object["stat"] = json_of(node.stat);
  write_line(std::move(object));
  return exit_success;
}

// A line for people.
std::vector<std::string> row_of(const TreeNode& child) {
  const std::string owner = is_ephemeral(child.stat) ? "session " + session_text(child.stat.ephemeral_owner) : "";
  const auto changed = std::chrono::system_clock::time_point(std::chrono::milliseconds(child.stat.mtime_ms));
  return {child.below.substr(1),
          fmt::format("v{}", child.stat.version),
          fmt::format("{} B", child.stat.data_length),
          fmt::format("{} children", child.stat.children_count),
          utc_text(changed),
          owner};
}

int list_all(const Context& context, const Path& path) {
  const zkclient::Client client = connect_to_look(context);
  const std::vector<TreeNode> nodes = read_tree(client, path, {.depth = 1});
  json::array children;
  std::vector<std::vector<std::string>> rows;
  for (const TreeNode& node : nodes) {
    if (node.below.empty()) continue;
    rows.push_back(row_of(node));
    json::object child;
    child["name"] = node.below.substr(1);
    child["stat"] = json_of(node.stat);
    children.push_back(std::move(child));
  }
  if (context.json) {
    write_line(json::object{{"path", path.str()}, {"children", std::move(children)}});
  } else {
    write_bytes(table(rows));
  }
  return exit_success;
}

int run_list(const Context& context, const ListOptions& options) {
  const Path path(options.path);
  if (options.all) return list_all(context, path);
  std::vector<std::string> names = connect_to_look(context).children(path).names;
  std::sort(names.begin(), names.end());
  if (context.json) {
    json::array children(names.begin(), names.end());
    write_line(json::object{{"path", path.str()}, {"children", std::move(children)}});
    return exit_success;
  }
  std::string text;
  for (const std::string& name : names)
    text += name + "\n";
  write_bytes(text);
  return exit_success;
}

// Where the client of an ephemeral node's session is connected from.
json::value address_of(const Context& context, const zkclient::Stat& stat, const Connection& connection) {
  if (!is_ephemeral(stat)) return nullptr;
  const SessionAddresses addresses(connection);
  json::value address = addresses.json_of(stat.ephemeral_owner);
  if (address.is_null() && !context.quiet) say(addresses.why_missing());
  return address;
}

int run_stat(const Context& context, const StatOptions& options) {
  const Path path(options.path);
  const Connection connection = connection_of(context.connection);
  const zkclient::Client client = connect(context, connection);
  client.sync();
  const zkclient::Stat stat = client.children(path).stat;
  json::object object = json_of(stat);
  if (options.address) object["address"] = address_of(context, stat, connection);
  if (context.json) {
    write_line(json::object{{"path", path.str()}, {"stat", std::move(object)}});
    return exit_success;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& member : object) {
    const json::value& value = member.value();
    rows.push_back({member.key(), value.is_string() ? std::string(value.get_string()) : json_text(value)});
  }
  write_bytes(table(rows));
  return exit_success;
}

int run_tree(const Context& context, const TreeOptions& options) {
  const Path path(options.path);
  TreeQuestion question;
  if (options.depth >= 0) question.depth = options.depth;
  const std::vector<TreeNode> nodes = read_tree(connect_to_look(context), path, question);
  std::string text;
  for (const TreeNode& node : nodes) {
    if (context.json) {
      text +=
          json_text(json::object{{"path", path_below(path, node.below).str()}, {"stat", json_of(node.stat)}}) + "\n";
      continue;
    }
    const auto level = static_cast<std::size_t>(std::count(node.below.begin(), node.below.end(), '/'));
    const std::string name = level == 0 ? path.str() : node.below.substr(node.below.rfind('/') + 1);
    text += std::string(2 * level, ' ') + name;
    if (is_ephemeral(node.stat)) text += "  (ephemeral)";
    text += "\n";
  }
  write_bytes(text);
  return exit_success;
}

}  // namespace

void add_get(CLI::App& app, Context& context) {
  const auto command =
      add_subcommand(app, context, "get", "Write a node's data to standard output, byte for byte", run_get);
  command->add_option("PATH", command.options->path, "The node")->required();
}

void add_ls(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "ls", "List a node's children, one a line", run_list);
  command->add_option("PATH", command.options->path, "The node")->required();
  command->add_flag("-l,--long", command.options->all, "Version, size and kind of each");
}

void add_stat(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "stat", "Show a node's versions, times, size and owner", run_stat);
  command->add_option("PATH", command.options->path, "The node")->required();
  command->add_flag("--address", command.options->address, "Also where an ephemeral node's client is connected from");
}

void add_tree(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "tree", "Show a node and all below it", run_tree);
  command->add_option("PATH", command.options->path, "The node; /");
  command->add_option("--depth", command.options->depth, "No deeper than so many levels")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
}

}  // namespace zkr
