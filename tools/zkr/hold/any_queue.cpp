#include "tools/zkr/hold/any_queue.hpp"

#include <map>
#include <utility>

#include <zkrecipes/inspect.hpp>

#include "tools/zkr/cli/failure.hpp"

namespace zkr {
namespace {

using zkclient::Path;
using zkrecipes::QueueLayout;
using Style = QueueLayout::Style;

const std::map<std::string, QueueLayout> layouts{
    {"standard", QueueLayout::standard()},
    {"zookeeper", QueueLayout::zookeeper()},
    {"curator", QueueLayout::curator()},
    {"kazoo", QueueLayout::kazoo()},
    {"kazoo-locking", QueueLayout::kazoo_locking()},
};

/// What was chosen, else what the items there tell.
std::string layout_word(const zkclient::Client& client, const QueueChoice& choice, const zkrecipes::Inspection& found,
                        const zkclient::CallOptions& call) {
  using zkrecipes::NodeNaming;
  if (!choice.layout.empty()) return choice.layout;
  if (found.naming == NodeNaming::zookeeper) return "zookeeper";
  if (found.naming == NodeNaming::curator) return "curator";
  if (found.naming != NodeNaming::kazoo) return "standard";
  const bool locking = client.exists(Path(choice.path) / "entries", call).has_value();
  return locking ? "kazoo-locking" : "kazoo";
}

}  // namespace

AnyQueue::AnyQueue(const zkclient::Client& client, const QueueChoice& choice, const zkclient::CallOptions& call)
    : usual_dead_letters_(choice.path) {
  const Path path(choice.path);
  const zkrecipes::Inspection found = zkrecipes::inspect(client, path, call);
  if (choice.prioritized && found.kind == zkrecipes::RecipeKind::queue && found.items > 0)
    throw Failure(exit_usage, path.str() + " has items without priorities");
  layout_ = layout_word(client, choice, found, call);
  const bool is_of_kazoo = layout_.starts_with("kazoo");
  zkrecipes::QueueOptions options = choice.options;
  options.layout = layouts.at(layout_);
  const Style style = options.layout->style();
  knows_claims_ = style == Style::standard || style == Style::kazoo_locking;
  usual_dead_letters_ = style == Style::standard ? path / "dead" : Path(path.str() + "-dead");
  certain_ = found.items > 0 || is_of_kazoo || choice.prioritized;
  if (choice.prioritized || found.kind == zkrecipes::RecipeKind::priority_queue || is_of_kazoo) {
    sorted_.emplace(client, path, std::move(options));
  } else {
    plain_.emplace(client, path, std::move(options));
  }
}

void AnyQueue::push(std::string_view item, std::int32_t priority) {
  if (sorted_) return sorted_->push(item, priority);
  plain_->push(item);
}

}  // namespace zkr
