// acl get, set: who may do what with a node.

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "tools/zkr/cli/acl_text.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

using zkclient::NodeAcl;
using zkclient::Path;

struct AclGetOptions {
  std::string path;
};

struct AclSetOptions {
  std::string path;
  std::vector<std::string> entries;
  std::optional<std::int32_t> version;
  bool without_admin = false;
};

int run_acl_get(const Context& context, const AclGetOptions& options) {
  const Path path(options.path);
  const NodeAcl node = connect_to_look(context).get_acl(path);
  if (context.json) {
    write_line(json::object{{"path", path.str()}, {"acl", json_of(node.acl)}, {"stat", json_of(node.stat)}});
    return exit_success;
  }
  for (const zkclient::Acl& entry : node.acl)
    write_line(acl_text(entry));
  return exit_success;
}

// The list that was replaced, exactly: if another client is quicker, the new list is read and replaced.
NodeAcl replace_acl(const zkclient::Client& client, const Path& path, const zkclient::AclList& acl,
                    const std::optional<std::int32_t>& version) {
  for (;;) {
    const NodeAcl former = client.get_acl(path);
    try {
      client.set_acl(path, acl, version.value_or(former.stat.acl_version));
      return former;
    } catch (const zkclient::Error& error) {
      if (error.errc() != zkclient::Errc::bad_version || version) throw;
    }
  }
}

// Nobody could ever undo such a list but the servers' superuser.
void require_admin(const zkclient::AclList& acl) {
  const bool any = std::any_of(acl.begin(), acl.end(), [](const zkclient::Acl& entry) {
    return (entry.permissions & zkclient::Acl::admin) != 0;
  });
  if (!any) throw Failure(exit_usage, "no entry has an \"a\": nobody could change the list again (--without-admin)");
}

int run_acl_set(const Context& context, const AclSetOptions& options) {
  const Path path(options.path);
  const zkclient::AclList acl = parse_acl_texts(options.entries);
  if (!options.without_admin) require_admin(acl);
  const NodeAcl former = replace_acl(connect_to_look(context), path, acl, options.version);
  if (context.verbose) {
    std::vector<std::string> texts;
    for (const zkclient::Acl& entry : former.acl)
      texts.push_back(acl_text(entry));
    say(fmt::format("{} was {}, version {}", path.str(), fmt::join(texts, " "), former.stat.acl_version));
  }
  if (context.json) {
    json::object before{{"acl_version", former.stat.acl_version}, {"acl", json_of(former.acl)}};
    write_line(json::object{{"path", path.str()}, {"former", std::move(before)}});
  }
  return exit_success;
}

}  // namespace

void add_acl(CLI::App& app, Context& context) {
  CLI::App* acl = app.add_subcommand("acl", "Who may do what with a node: get, set");
  acl->require_subcommand(1);
  const auto get = add_subcommand(*acl, context, "get", "The entries, one a line: scheme:id:cdrwa", run_acl_get);
  get->add_option("PATH", get.options->path, "The node")->required();
  const auto set = add_subcommand(*acl, context, "set", "Replace the whole list by these entries", run_acl_set);
  set->add_option("PATH", set.options->path, "The node")->required();
  set->add_option("ENTRY", set.options->entries, "scheme:id:cdrwa; auth::cdrwa is who calls")->required();
  set->add_option("--version", set.options->version, "Only if the list has this version (acl_version)")->type_name("N");
  set->add_flag("--without-admin", set.options->without_admin, "Also a list that nobody may change again");
}

}  // namespace zkr
