// partition ls: who owns which partition.

#include <string>

#include <fmt/format.h>

#include <zkrecipes/partition_map.hpp>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

struct PartitionPlace {
  std::string path;
};

auto read_owners(const zkclient::Client& client, const zkclient::Path& path) {
  const zkrecipes::PartitionMap map(client, path);
  try {
    return map.wait_ready({.deadline = 15s});
  } catch (const zkclient::Error& error) {
    fail_wait(client, error);
  }
}

int run_partition_list(const Context& context, const PartitionPlace& options) {
  const zkclient::Path path(options.path);
  const zkclient::Client client = connect_to_look(context, path, "partition ls");
  std::vector<std::vector<std::string>> rows = {{"PARTITION", "OWNER", "TOKEN", "SESSION", "DATA"}};
  for (const auto& [partition, owner] : read_owners(client, path)) {
    const std::string session = session_text(owner.session_id);
    if (context.json) {
      json::object object{
          {"partition", partition}, {"owner", printable(owner.id)}, {"token", owner.token.value}, {"session", session}};
      add_data(object, owner.data);
      write_line(std::move(object));
    }
    rows.push_back(
        {partition, printable(owner.id), fmt::format("{}", owner.token.value), session, printable(owner.data)});
  }
  if (!context.json && rows.size() > 1) write_bytes(table(rows));
  return exit_success;
}

}  // namespace

void add_partition(CLI::App& app, Context& context) {
  CLI::App* partition = app.add_subcommand("partition", "Partitions that processes share: ls");
  partition->require_subcommand(1);
  const auto list = add_subcommand(*partition, context, "ls", "List the partitions that have an owner, and who it is",
                                   run_partition_list);
  list->add_option("PATH", list.options->path, "The partitioner's path")->required();
}

}  // namespace zkr
