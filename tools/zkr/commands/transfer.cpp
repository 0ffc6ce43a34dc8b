// export, import, cp: whole trees.

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/node_tree.hpp"

namespace zkr {
namespace {

using zkclient::Path;

// An export: a line that says what it is, then one for each node, a parent before its children.
//
//   {"format":"zkr-export","version":1,"root":"/a"}
//   {"below":"","data":"words"}
//   {"below":"/b","data_base64":"/w==","acl":[{"scheme":"world","id":"anyone","permissions":"r"}]}
//
// Servers do not tell containers, and nodes with a time to live, from persistent nodes, which they become.
constexpr std::string_view export_format = "zkr-export";
constexpr int export_version = 1;

struct ExportOptions {
  std::string path = "/";
  bool no_acl = false;
};

struct ImportOptions {
  std::string path;
  bool overwrite = false;
};

struct CopyOptions {
  std::string from;
  std::string to;
  bool all = false;
  bool overwrite = false;
};

// Ephemeral nodes are a session's, and nobody can restore them. They have no children.
std::vector<TreeNode> lasting_nodes(const Context& context, const Path& root, std::vector<TreeNode> nodes) {
  const std::size_t before = nodes.size();
  if (is_ephemeral(nodes.front().stat)) throw Failure(exit_format, root.str() + " is ephemeral: it is a session's");
  std::erase_if(nodes, [](const TreeNode& node) { return is_ephemeral(node.stat); });
  const bool told = nodes.size() < before && !context.quiet;
  if (told) say(fmt::format("{} ephemeral nodes are left out", before - nodes.size()));
  return nodes;
}

// --- export -------------------------------------------------------------------------------------------------------

// Who may not administer a node does not get to see its digests, and an import of the mask would lock everybody out.
void require_whole_acl(const Path& node, const zkclient::AclList& acl) {
  for (const zkclient::Acl& entry : acl) {
    const std::string& scheme = entry.scheme;
    const std::string& id = entry.id;
    if (scheme == "digest" && id.ends_with(":x")) {
      throw Failure(exit_refused, node.str() +
                                      ": no right to see the digests of its access control list (admin); "
                                      "--no-acl leaves such lists out");
    }
  }
}

json::object line_of(const Path& root, const TreeNode& node) {
  json::object line;
  line["below"] = node.below;
  add_data(line, node.data ? zkclient::DataView(*node.data) : zkclient::DataView());
  if (!node.acl.empty() && node.acl != zkclient::open_acl()) {
    require_whole_acl(path_below(root, node.below), node.acl);
    line["acl"] = json_of(node.acl);
  }
  return line;
}

int run_export(const Context& context, const ExportOptions& options) {
  const Path root(options.path);
  const TreeQuestion question{.data = true, .acl = !options.no_acl};
  const auto nodes = lasting_nodes(context, root, read_tree(connect_to_look(context), root, question));
  std::string text = json_text(json::object{{"format", json::string_view(export_format.data(), export_format.size())},
                                            {"version", export_version},
                                            {"root", root.str()}});
  for (const TreeNode& node : nodes)
    text += "\n" + json_text(line_of(root, node));
  write_line(std::string_view(text));
  return exit_success;
}

// --- import -------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse_line(const std::string& where, const char* what) {
  throw Failure(exit_format, where + ": " + what);
}

const json::object& require_object(const json::value& value, const std::string& where) {
  if (!value.is_object()) refuse_line(where, "no JSON object");
  return value.get_object();
}

std::string text_member(const json::object& object, const char* name, const std::string& where) {
  const json::value* member = object.if_contains(name);
  if (member == nullptr || !member->is_string()) throw Failure(exit_format, where + " has no text \"" + name + "\"");
  return std::string(member->get_string());
}

zkclient::AclList parse_acl_member(const json::object& line, const std::string& where) {
  zkclient::AclList acl;
  const json::value* list = line.if_contains("acl");
  if (list == nullptr) return acl;
  if (!list->is_array()) refuse_line(where, "\"acl\" is no list");
  for (const json::value& one : list->get_array()) {
    const json::object& object = require_object(one, where);
    const auto permissions = parse_permissions(text_member(object, "permissions", where));
    if (!permissions) refuse_line(where, "permissions are letters of cdrwa");
    zkclient::Acl entry;
    entry.permissions = *permissions;
    entry.scheme = text_member(object, "scheme", where);
    entry.id = text_member(object, "id", where);
    acl.push_back(std::move(entry));
  }
  return acl;
}

TreeNode parse_line(const json::object& line, const std::string& where) {
  TreeNode node;
  node.below = text_member(line, "below", where);
  node.data = take_data(line, where);
  node.acl = parse_acl_member(line, where);
  try {
    if (!node.below.empty()) (void)Path(node.below);
  } catch (const zkclient::Error& error) {
    refuse_line(where, error.what());
  }
  return node;
}

struct Exported {
  Path root;
  std::vector<TreeNode> nodes;
};

Path parse_heading(const json::object& heading) {
  const json::value* version = heading.if_contains("version");
  const json::value* format = heading.if_contains("format");
  const bool ours = format != nullptr && format->is_string() && format->get_string() == export_format;
  if (!ours || version == nullptr) refuse_line("line 1", "this is no export of zkr's");
  if (*version != export_version) refuse_line("line 1", "an export of another version");
  return Path(text_member(heading, "root", "line 1"));
}

// All of it, before anything is written.
Exported parse_export(std::string_view text) {
  std::optional<Path> root;
  std::vector<TreeNode> nodes;
  for (int number = 1; !text.empty(); ++number) {
    const std::string where = fmt::format("line {}", number);
    const std::size_t end = std::min(text.find('\n'), text.size());
    const json::value value = parse_json(text.substr(0, end), where);
    const json::object& line = require_object(value, where);
    if (root) {
      nodes.push_back(parse_line(line, where));
    } else {
      root = parse_heading(line);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!root) refuse_line("line 1", "there is nothing to import");
  return {*root, std::move(nodes)};
}

int run_import(const Context& context, const ImportOptions& options) {
  const Exported exported = parse_export(read_input());
  const Path root = options.path.empty() ? exported.root : Path(options.path);
  std::vector<TreeNode> nodes = exported.nodes;
  if (root.is_root()) std::erase_if(nodes, [](const TreeNode& node) { return node.below.empty(); });
  const zkclient::Client client = connect(context);
  write_tree(client, root, nodes, {.overwrite = options.overwrite, .has_identity = !context.identities.empty()});
  if (context.verbose) say(fmt::format("{} nodes", nodes.size()));
  if (context.json) write_line(json::object{{"path", root.str()}, {"nodes", nodes.size()}});
  return exit_success;
}

// --- cp -----------------------------------------------------------------------------------------------------------

int run_copy(const Context& context, const CopyOptions& options) {
  const Path from(options.from);
  const Path to(options.to);
  if (to.starts_with(from) && options.all) throw Failure(exit_usage, to.str() + " lies below " + from.str());
  const zkclient::Client client = connect_to_look(context);
  TreeQuestion question{.data = true, .acl = true};
  if (!options.all) question.depth = 0;
  std::vector<TreeNode> nodes = read_tree(client, from, question);
  if (!options.all && nodes.front().stat.children_count > 0) say(from.str() + " has children; -r copies them, too");
  nodes = lasting_nodes(context, from, std::move(nodes));
  for (const TreeNode& node : nodes)
    require_whole_acl(path_below(from, node.below), node.acl);
  write_tree(client, to, nodes, {.overwrite = options.overwrite, .has_identity = !context.identities.empty()});
  if (context.json) write_line(json::object{{"path", to.str()}, {"nodes", nodes.size()}});
  return exit_success;
}

}  // namespace

void add_export(CLI::App& app, Context& context) {
  const auto command =
      add_subcommand(app, context, "export", "Write a node and all below it as lines of JSON", run_export);
  command->add_option("PATH", command.options->path, "The node; /");
  command->add_flag("--no-acl", command.options->no_acl, "Without access control lists");
}

void add_import(CLI::App& app, Context& context) {
  const auto command =
      add_subcommand(app, context, "import", "Create what an export on standard input has", run_import);
  command->add_option("PATH", command.options->path, "The node to be made; that of the export");
  command->add_flag("--overwrite", command.options->overwrite, "Write the data of nodes that exist");
}

void add_cp(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "cp", "Copy a node within the ensemble", run_copy);
  command->add_option("FROM", command.options->from, "The node")->required();
  command->add_option("TO", command.options->to, "The node to be made")->required();
  command->add_flag("-r,--recursive", command.options->all, "All below it as well");
  command->add_flag("--overwrite", command.options->overwrite, "Write the data of nodes that exist");
}

}  // namespace zkr
