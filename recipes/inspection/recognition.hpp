#pragma once

#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/inspect.hpp>
#include <zkrecipes/queue_layout.hpp>

#include "recipes/kernel/wait_order.hpp"

namespace zkrecipes::detail {

/// What the names of a node's children tell.
struct Recognition {
  RecipeKind kind = RecipeKind::unknown;
  NodeNaming naming = NodeNaming::none;
  std::optional<QueueLayout::Style> queue = {};  ///< Of the two kinds of queues.

  friend bool operator==(const Recognition&, const Recognition&) = default;
};

/// The names of all contenders that queue up, whichever of the recipes it is: a path belongs to one of them.
const ContenderNames& contending_names();

/// Contenders count most: where there is one, the other children are its neighbours, not a recipe's own. A folder's name
/// alone is a guess: what is in it tells (the other folders of a queue go while they are empty).
Recognition recognise(const std::vector<std::string>& children);

/// Of a standard queue, whose folder of items tells it: whether these are the items of a PriorityQueue.
bool have_priorities(const std::vector<std::string>& items);

/// Whether Barrier::raise() of this library has written `data` to say who has raised it.
bool describes_raiser(std::string_view data);

}  // namespace zkrecipes::detail
