// What a node tells by its own data, its owner, and its neighbours.

#include <algorithm>
#include <chrono>
#include <utility>

#include "recipes/inspection/look.hpp"
#include "recipes/inspection/recognition.hpp"
#include "recipes/kernel/sequence.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/values/latch_decider.hpp"

namespace zkrecipes::detail {
namespace {

// In a folder with more kept nodes, no witness is searched for: each of them is read, and a tool that looks at all nodes of
// the folder would read the square of their number.
constexpr std::int32_t most_witnesses = 20;
constexpr std::size_t uuid_size = 36;

/// What stands behind the id in the name of a protected node; "": it has no id.
std::string_view behind_id(std::string_view name) {
  const std::size_t head = holding_prefix.size() + uuid_size;
  if (name.size() <= head + 1 || !name.starts_with(holding_prefix) || name[head] != '-') return {};
  return name.substr(head + 1);
}

/// The node of one who contends for something, or an item: another recipe's, whatever it says. Not so a node that is called
/// as folders of other recipes are.
bool is_part_of_a_recipe(const std::string& name) {
  const NodeNames own = {name};
  const RecipeKind kind = recognise(own).kind;
  const bool is_folders_name = kind == RecipeKind::periodic_job || kind == RecipeKind::persistent_ttl_node;
  return (kind != RecipeKind::unknown && !is_folders_name) || sequence_of(name, {"lease-"}).has_value();
}

/// Its name, data and owner, as the only one who holds.
Inspection held_by(RecipeKind kind, NodeNaming naming, std::string name, Reply node) {
  Inspection found;
  found.kind = kind;
  found.naming = naming;
  Contender owner = to_contender(std::move(name), std::move(node));
  owner.holds = true;
  if (!is_ephemeral({.ephemeral_owner = owner.session_id})) owner.session_id = 0;
  found.contenders.push_back(std::move(owner));
  return found;
}

// The node that a holder makes beside the one that all want has the czxid of that one.
Awaitable<Result<bool>> is_second_node(LookPtr look, std::int64_t czxid, std::string_view wanted) {
  const std::string beside = zk::child_path(zk::parent_of(look->full), wanted);
  const PendingReply reading = look->launch(OpType::exists, beside);
  const Reply seen = co_await reading.get();
  if (!seen.ok() && !seen.failed(Errc::no_node)) co_return look->error(seen);
  co_return seen.ok() && seen.stat.czxid == czxid;
}

// A kept node's witness was made in one transaction with it, so both have one czxid.
Awaitable<Result<bool>> has_witness(LookPtr look, std::int64_t czxid) {
  const std::string folder = zk::parent_of(look->full) + "-presence";
  const PendingReply counting = look->launch(OpType::exists, folder);
  const Reply counted = co_await counting.get();
  if (counted.failed(Errc::no_node)) co_return false;
  if (!counted.ok()) co_return look->error(counted);
  if (counted.stat.children_count > most_witnesses) co_return false;
  Result<NodeNames> names = co_await list_folder(look, folder);
  if (names.code() == Errc::no_auth) co_return false;
  if (!names) co_return names.error();
  if (names->size() > std::size_t{most_witnesses}) co_return false;  // Others have come since they were counted.
  NodeNames nodes;
  for (const std::string& name : *names)
    nodes.push_back(zk::child_path(folder, name));
  Result<std::vector<Reply>> witnesses = co_await read_replies(std::move(look), OpType::exists, std::move(nodes));
  if (!witnesses) co_return witnesses.error();
  co_return std::any_of(witnesses->begin(), witnesses->end(),
                        [czxid](const Reply& one) { return one.ok() && one.stat.czxid == czxid; });
}

Awaitable<Result<Inspection>> find_kept_node(LookPtr look, std::string name, Reply node) {
  Inspection nothing;
  nothing.kind = RecipeKind::unknown;
  const std::string_view protected_name = behind_id(name);
  const bool ephemeral = is_ephemeral(node.stat);
  if (ephemeral && !protected_name.empty()) {
    const Result<bool> second = co_await is_second_node(look, node.stat.czxid, protected_name);
    if (!second) co_return second.error();
    if (*second) co_return nothing;
  }
  bool kept = !protected_name.empty();
  if (!kept && ephemeral) {
    const Result<bool> witnessed = co_await has_witness(look, node.stat.czxid);
    if (!witnessed) co_return witnessed.error();
    kept = *witnessed;
  }
  if (!kept) co_return nothing;
  const NodeNaming naming = protected_name.empty() ? NodeNaming::own : NodeNaming::curator;
  co_return held_by(RecipeKind::persistent_node, naming, std::move(name), std::move(node));
}

}  // namespace

// Only what one of our own recipes has written: any node may be a barrier to those who know that it is one.
Awaitable<Result<Inspection>> find_by_node(LookPtr look) {
  const PendingReply reading = look->launch(OpType::get, look->full);
  Reply node = co_await reading.get();
  Inspection found;
  if (node.failed(Errc::no_node)) co_return found;  // Gone since it was listed.
  if (!node.ok()) co_return look->error(node);
  found.kind = RecipeKind::unknown;
  std::string name(zk::name_of(look->full));
  if (name.empty() || is_part_of_a_recipe(name)) co_return found;
  if (describes_raiser(node.data)) co_return held_by(RecipeKind::barrier, NodeNaming::own, name, std::move(node));
  const auto latch = node.data.empty() ? std::nullopt : decode_latch(node.data);
  if (!latch) co_return co_await find_kept_node(std::move(look), std::move(name), std::move(node));
  found.kind = RecipeKind::latch;
  found.naming = NodeNaming::own;
  found.latch = {latch->generation, latch->count, latch->left};
  co_return found;
}

Awaitable<Result<Inspection>> find_ttl_node(LookPtr look) {
  Inspection found;
  found.kind = RecipeKind::unknown;
  const PendingReply reading = look->launch(OpType::get, look->full);
  const PendingReply touching = look->launch(OpType::get, look->child("touch"));
  Reply node = co_await reading.get();
  const Reply touch = co_await touching.get();
  if (!node.ok() && !node.failed(Errc::no_node)) co_return look->error(node);
  if (!touch.ok() && !touch.failed(Errc::no_node)) co_return look->error(touch);
  if (!node.ok() || !touch.ok() || !touch.data.empty()) co_return found;
  std::string name(zk::name_of(look->full));
  found = held_by(RecipeKind::persistent_ttl_node, NodeNaming::curator, std::move(name), std::move(node));
  found.touched = std::chrono::system_clock::time_point(std::chrono::milliseconds(touch.stat.mtime_ms));
  co_return found;
}

}  // namespace zkrecipes::detail
