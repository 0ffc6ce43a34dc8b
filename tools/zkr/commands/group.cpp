// group ls: who is there.

#include "tools/zkr/commands/group_layout.hpp"

#include <string>

#include <fmt/format.h>

#include <zkrecipes/group.hpp>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/group_join.hpp"

namespace zkr {
namespace {

struct GroupPlace {
  std::string path;
  std::string layout = "curator";
};

json::object member_json(const zkrecipes::Member& member) {
  json::object object{{"id", printable(member.id)},
                      {"since", utc_text(member.since)},
                      {"session", session_text(member.session_id)},
                      {"token", member.incarnation.value}};
  add_data(object, member.payload);
  return object;
}

// Those that could be read are listed; a script must not take them for all.
[[noreturn]] void fail_incomplete(const zkrecipes::Group& group) {
  if (const auto problem = group.problem()) throw zkclient::Error(*problem);
  throw Failure(exit_refused, "not all members could be read");
}

int run_group_list(const Context& context, const GroupPlace& options) {
  const zkclient::Path path(options.path);
  const zkrecipes::Group group(connect_to_look(context, path, "group ls"), path,
                               {.layout = group_layout(options.layout)});
  std::vector<std::vector<std::string>> rows = {{"MEMBER", "SINCE", "SESSION", "PAYLOAD"}};
  const zkrecipes::GroupSnapshot now = group.members();
  for (const zkrecipes::Member& member : now.members) {
    if (context.json) write_line(member_json(member));
    rows.push_back(
        {printable(member.id), utc_text(member.since), session_text(member.session_id), printable(member.payload)});
  }
  if (!context.json && rows.size() > 1) write_bytes(table(rows));
  if (!now.complete) fail_incomplete(group);
  return exit_success;
}

}  // namespace

void add_group_layout(CLI::App& command, std::string& word) {
  command.add_option("--layout", word, "Whose names its members have; curator")
      ->check(CLI::IsMember({"curator", "kazoo", "kazoo-shallow"}));
}

zkrecipes::GroupLayout group_layout(const std::string& word) {
  if (word == "kazoo") return zkrecipes::GroupLayout::kazoo_party();
  if (word == "kazoo-shallow") return zkrecipes::GroupLayout::kazoo_shallow();
  return zkrecipes::GroupLayout::curator();
}

void add_group(CLI::App& app, Context& context) {
  CLI::App* group = app.add_subcommand("group", "Members of a group: ls, join");
  group->require_subcommand(1);
  const auto list = add_subcommand(*group, context, "ls", "List the members that are there", run_group_list);
  list->add_option("PATH", list.options->path, "The group")->required();
  add_group_layout(*list.app, list.options->layout);
  add_group_join(*group, context);
}

}  // namespace zkr
