#include "recipes/inspection/recognition.hpp"

#include <algorithm>
#include <string_view>

#include "recipes/kernel/sequence.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/queues/item_format.hpp"

namespace zkrecipes::detail {
namespace {

using Names = std::vector<std::string>;
using Style = QueueLayout::Style;

bool any_has(const Names& children, const std::vector<std::string_view>& infixes) {
  return std::any_of(children.begin(), children.end(),
                     [&](const std::string& name) { return sequence_of(name, infixes).has_value(); });
}

bool contains(const Names& children, std::string_view name) {
  return std::find(children.begin(), children.end(), name) != children.end();
}

bool any_holding(const Names& children, std::string_view of) {
  return std::any_of(children.begin(), children.end(), [&](const std::string& name) { return is_holding(name, of); });
}

bool any_item(const Names& children, Style style, QueueKind kind) {
  const ItemFormat format(style, kind);
  return std::any_of(children.begin(), children.end(),
                     [&](const std::string& name) { return format.parse(name).has_value(); });
}

NodeNaming naming_of_contenders(const Names& children) {
  const bool curator = any_has(children, {"lock-", "latch-", "__READ__", "__WRIT__"});
  const bool kazoo = any_has(children, {"__lock__", "__rlock__"});
  if (curator && kazoo) return NodeNaming::mixed;
  return kazoo ? NodeNaming::kazoo : NodeNaming::curator;
}

std::optional<RecipeKind> contended(const Names& children) {
  if (any_has(children, {"__READ__", "__WRIT__", "__rlock__"})) return RecipeKind::shared_mutex;
  if (any_has(children, {"latch-"})) return RecipeKind::election;
  if (any_has(children, {"lock-", "__lock__"})) return RecipeKind::mutex;
  return std::nullopt;
}

std::optional<Style> queue_style(const Names& children) {
  if (contains(children, "items")) return Style::standard;
  if (contains(children, "entries")) return Style::kazoo_locking;
  if (any_item(children, Style::zookeeper, QueueKind::plain)) return Style::zookeeper;
  if (any_item(children, Style::kazoo, QueueKind::prioritized)) return Style::kazoo;
  const bool curator = any_item(children, Style::curator, QueueKind::prioritized) ||
                       any_item(children, Style::curator, QueueKind::identified);
  return curator ? std::optional(Style::curator) : std::nullopt;
}

NodeNaming naming_of(Style style) {
  switch (style) {
    case Style::standard: return NodeNaming::own;
    case Style::zookeeper: return NodeNaming::zookeeper;
    case Style::curator: return NodeNaming::curator;
    case Style::kazoo:
    case Style::kazoo_locking: break;
  }
  return NodeNaming::kazoo;
}

Recognition recognise_queue(const Names& children, Style style) {
  const bool of_kazoo = style == Style::kazoo || style == Style::kazoo_locking;
  if (of_kazoo) return {RecipeKind::priority_queue, naming_of(style), style};
  return {style == Style::curator ? kind_of_items(children, style) : RecipeKind::queue, naming_of(style), style};
}

bool has_placement(const Names& children) {
  const bool placer = contains(children, "placer");
  const bool hosts = contains(children, "hosts");
  return (contains(children, "placement") && (placer || hosts || contains(children, "groups"))) || (placer && hosts);
}

}  // namespace

const ContenderNames& contending_names() {
  static const ContenderNames names = {{"lock-", "__lock__", "__WRIT__", "latch-"}, {"__READ__", "__rlock__"}};
  return names;
}

Recognition recognise(const Names& children) {
  if (const auto kind = contended(children)) return {*kind, naming_of_contenders(children)};
  if (any_holding(children, "lock")) return {RecipeKind::unfair_mutex, NodeNaming::own};
  if (any_holding(children, "leader")) return {RecipeKind::unfair_election, NodeNaming::own};
  if (any_has(children, {"-member-"})) return {RecipeKind::double_barrier, NodeNaming::own};
  if (contains(children, "leases")) return {RecipeKind::semaphore, NodeNaming::curator};
  if (const auto style = queue_style(children)) return recognise_queue(children, *style);
  if (any_holding(children, "runner") || contains(children, "state"))
    return {RecipeKind::periodic_job, NodeNaming::own};
  if (has_placement(children)) return {RecipeKind::placement, NodeNaming::own};
  if (std::any_of(children.begin(), children.end(), is_migration_record))
    return {RecipeKind::migrations, NodeNaming::curator};
  if (contains(children, "touch")) return {RecipeKind::persistent_ttl_node, NodeNaming::curator};
  return {};
}

bool is_migration_record(std::string_view name) {
  constexpr std::string_view prefix = "meta-";
  constexpr std::size_t digits = 10;
  return name.starts_with(prefix) && name.size() == prefix.size() + digits &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

RecipeKind kind_of_items(const Names& items, Style style) {
  if (any_item(items, style, QueueKind::prioritized)) return RecipeKind::priority_queue;
  const ItemFormat with_ids(style, QueueKind::identified);
  const ItemFormat with_times(style, QueueKind::delayed);
  RecipeKind kind = RecipeKind::queue;
  for (const std::string& name : items) {
    const std::string_view id = with_ids.id_of(name);
    if (id.empty() || !with_ids.parse(name)) continue;
    const auto time = with_times.parse(name);
    // An id may look as a time is written. Taken for a time, it only waits; a time taken for an id would come early.
    if (!time || with_times.name_due(time->due_ms) != with_ids.name_with_id(id)) return RecipeKind::id_queue;
    kind = RecipeKind::delay_queue;
  }
  return kind;
}

QueueKind queue_kind_of(RecipeKind kind) noexcept {
  switch (kind) {
    case RecipeKind::priority_queue: return QueueKind::prioritized;
    case RecipeKind::delay_queue: return QueueKind::delayed;
    case RecipeKind::id_queue: return QueueKind::identified;
    default: return QueueKind::plain;
  }
}

bool describes_raiser(std::string_view data) {
  const std::size_t host = data.find("host=");
  const std::size_t pid = data.find(" pid=");
  const std::size_t since = data.find(" since=");
  const bool begins_so = host == 0 || (data.starts_with("id=") && host != std::string_view::npos);
  const std::size_t raise = data.find(" raise=");
  return begins_so && host < pid && pid < since && since < raise && raise != std::string_view::npos;
}

}  // namespace zkrecipes::detail
