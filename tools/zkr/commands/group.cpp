// group ls: who is there.

#include <string>

#include <fmt/format.h>

#include <zkrecipes/group.hpp>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

struct GroupPlace {
  std::string path;
  std::string layout = "curator";
};

zkrecipes::GroupLayout layout_of(const GroupPlace& place) {
  if (place.layout == "kazoo") return zkrecipes::GroupLayout::kazoo_party();
  if (place.layout == "kazoo-shallow") return zkrecipes::GroupLayout::kazoo_shallow();
  return zkrecipes::GroupLayout::curator();
}

json::object member_json(const zkrecipes::Member& member) {
  json::object object{{"id", printable(member.id)},
                      {"since", utc_text(member.since)},
                      {"session", session_text(member.session_id)},
                      {"token", member.incarnation.value}};
  add_data(object, member.payload);
  return object;
}

int run_group_list(const Context& context, const GroupPlace& options) {
  const zkclient::Path path(options.path);
  const zkrecipes::Group group(connect_to_look(context, path, "group ls"), path, {.layout = layout_of(options)});
  std::vector<std::vector<std::string>> rows = {{"MEMBER", "SINCE", "SESSION", "PAYLOAD"}};
  for (const zkrecipes::Member& member : group.members().members) {
    if (context.json) write_line(member_json(member));
    rows.push_back(
        {printable(member.id), utc_text(member.since), session_text(member.session_id), printable(member.payload)});
  }
  if (!context.json && rows.size() > 1) write_bytes(table(rows));
  return exit_success;
}

}  // namespace

void add_group(CLI::App& app, Context& context) {
  CLI::App* group = app.add_subcommand("group", "Members of a group: ls");
  group->require_subcommand(1);
  const auto list = add_subcommand(*group, context, "ls", "List the members that are there", run_group_list);
  list->add_option("PATH", list.options->path, "The group")->required();
  list->add_option("--layout", list.options->layout, "Whose names its members have; curator")
      ->check(CLI::IsMember({"curator", "kazoo", "kazoo-shallow"}));
}

}  // namespace zkr
