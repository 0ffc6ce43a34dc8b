#include <algorithm>
#include <chrono>
#include <utility>

#include "recipes/inspection/look.hpp"
#include "recipes/inspection/recognition.hpp"

namespace zkrecipes::detail {
namespace {

constexpr std::size_t bytes_of_digest = 32;
// A folder with more children is not taken for one of migration sets: each of them would have to be listed.
constexpr std::size_t most_sets = 64;
constexpr std::string_view nodes_of_recipes = "_c_";

// In the order of their names, as migrate() reads them: for Curator, whatever stands there counts for a record.
Awaitable<Result<InspectedMigrationSet>> read_set(LookPtr look, std::string folder, NodeNames records) {
  InspectedMigrationSet set;
  set.name = zk::name_of(folder);
  Result<Contenders> nodes = co_await read_nodes(std::move(look), std::move(folder), std::move(records));
  if (!nodes) co_return nodes.error();
  for (Contender& node : *nodes) {
    InspectedStep step;
    step.foreign = !is_migration_record(node.node) || node.data.size() != bytes_of_digest;
    step.node = std::move(node.node);
    step.digest = std::move(node.data);
    step.applied = node.since;
    set.steps.push_back(std::move(step));
  }
  co_return set;
}

/// True: these are the records of a set.
bool are_records(const NodeNames& names) { return std::any_of(names.begin(), names.end(), is_migration_record); }

Inspection migrations_found(std::vector<InspectedMigrationSet> sets) {
  Inspection found;
  found.kind = RecipeKind::migrations;
  found.naming = NodeNaming::curator;
  found.migrations = std::move(sets);
  return found;
}

}  // namespace

Awaitable<Result<Inspection>> find_migration_set(LookPtr look) {
  Result<NodeNames> records = co_await list_folder(look, look->full);
  if (!records) co_return records.error();
  Result<InspectedMigrationSet> set = co_await read_set(look, look->full, std::move(*records));
  if (!set) co_return set.error();
  std::vector<InspectedMigrationSet> sets;
  sets.push_back(std::move(*set));
  co_return migrations_found(std::move(sets));
}

// Each of its children is a set, or is empty as one is of which no step was applied; and one of them is a set.
Awaitable<Result<Inspection>> find_migrations(LookPtr look, NodeNames children) {
  Inspection nothing;
  nothing.kind = RecipeKind::unknown;
  std::erase_if(children, [](const std::string& name) { return name.starts_with(nodes_of_recipes); });
  if (children.size() > most_sets) co_return nothing;
  std::sort(children.begin(), children.end());
  NodeNames folders;
  for (const std::string& name : children)
    folders.push_back(look->child(name));
  Result<std::vector<Reply>> lists = co_await read_replies(look, OpType::children, folders);
  if (lists.code() == Errc::no_auth) co_return nothing;
  if (!lists) co_return lists.error();
  const auto records_of = [](const Reply& list) { return list.ok() && are_records(list.names); };
  const auto is_set = [&](const Reply& list) { return list.names.empty() || records_of(list); };
  if (std::none_of(lists->begin(), lists->end(), records_of)) co_return nothing;
  if (!std::all_of(lists->begin(), lists->end(), is_set)) co_return nothing;
  std::vector<InspectedMigrationSet> sets;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (!(*lists)[i].ok()) continue;
    std::sort((*lists)[i].names.begin(), (*lists)[i].names.end());
    Result<InspectedMigrationSet> set = co_await read_set(look, folders[i], std::move((*lists)[i].names));
    if (!set) co_return set.error();
    sets.push_back(std::move(*set));
  }
  co_return migrations_found(std::move(sets));
}

}  // namespace zkrecipes::detail
