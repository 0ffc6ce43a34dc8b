#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/inspect.hpp>
#include <zkrecipes/queue_layout.hpp>

#include "recipes/kernel/wait_order.hpp"
#include "recipes/queues/item_format.hpp"

namespace zkrecipes::detail {

/// What the names of a node's children tell.
struct Recognition {
  RecipeKind kind = RecipeKind::unknown;
  NodeNaming naming = NodeNaming::none;
  std::optional<QueueLayout::Style> queue = {};  ///< Of all kinds of queues.

  friend bool operator==(const Recognition&, const Recognition&) = default;
};

/// The names of all contenders that queue up, whichever of the recipes it is: a path belongs to one of them.
const ContenderNames& contending_names();

/// Contenders count most: where there is one, the other children are its neighbours, not a recipe's own. A folder's name
/// alone is a guess: what is in it tells (the other folders of a queue go while they are empty).
Recognition recognise(const std::vector<std::string>& children);

/// Whether it is the name that Migrations gives to the record of a step.
bool is_migration_record(std::string_view name);

/// Of a queue in its own or in Curator's layout: which of the kinds of queues has such items. Times look like ids: names
/// of which each could have a time, however long ago, are those of a DelayQueue.
RecipeKind kind_of_items(const std::vector<std::string>& items, QueueLayout::Style style);

/// The names of such a recipe's items.
QueueKind queue_kind_of(RecipeKind kind) noexcept;

/// Whether Barrier::raise() of this library has written `data` to say who has raised it.
bool describes_raiser(std::string_view data);

}  // namespace zkrecipes::detail
