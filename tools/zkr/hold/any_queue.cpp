#include "tools/zkr/hold/any_queue.hpp"

#include <map>
#include <string_view>
#include <utility>

#include "tools/zkr/cli/failure.hpp"

namespace zkr {
namespace {

using zkclient::Path;
using zkrecipes::QueueLayout;
using zkrecipes::RecipeKind;
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

bool is_of_kazoo(const std::string& layout) { return layout.starts_with("kazoo"); }

bool has_times_or_ids(RecipeKind kind) { return kind == RecipeKind::delay_queue || kind == RecipeKind::id_queue; }

/// As a time between 2004 and 2109 is written; nearly every one has a letter, and no decimal id has.
bool is_surely_a_time(std::string_view digits) {
  const bool in_range = digits.size() == 11 && digits[0] >= '1' && digits[0] <= '3';
  return in_range && digits.find_first_of("ABCDEF") != std::string_view::npos;
}

/// What was found are items with times, or so it seems: decimal ids look like them.
bool may_have_ids(const zkclient::Client& client, const QueueChoice& choice, const zkrecipes::Inspection& found,
                  const zkclient::CallOptions& call) {
  const Path path(choice.path);
  const Path folder = found.naming == zkrecipes::NodeNaming::own ? path / "items" : path;
  std::error_code gone;
  for (const std::string& name : client.children(folder, call, gone).names) {
    const std::size_t bar = name.find('|');
    if (bar == std::string::npos) continue;
    const std::string_view behind = std::string_view(name).substr(bar + 1);
    if (is_surely_a_time(behind.substr(0, behind.find('|')))) return false;
  }
  return true;
}

/// Taken for times, ids would wait for decades; taken for ids, items would be delivered before their time.
void refuse_to_guess(const zkclient::Client& client, const QueueChoice& choice, const zkrecipes::Inspection& found,
                     const zkclient::CallOptions& call) {
  if (!choice.changes || choice.kind || found.items == 0 || found.kind != RecipeKind::delay_queue) return;
  if (!may_have_ids(client, choice, found, call)) return;
  throw Failure(exit_usage, choice.path +
                                " has items with times, or with ids that look like times: --kind delay or "
                                "--kind id says which");
}

/// Items of two kinds at one path would not be seen by each other's consumers. Of kazoo's, all have priorities.
void refuse_another_kind(const zkclient::Client& client, const QueueChoice& choice, const zkrecipes::Inspection& found,
                         const zkclient::CallOptions& call) {
  if (!choice.kind || found.items == 0 || found.kind == *choice.kind) return;
  if (has_times_or_ids(*choice.kind) && has_times_or_ids(found.kind)) {
    if (choice.kind_is_named) return;
    if (found.kind == RecipeKind::delay_queue && may_have_ids(client, choice, found, call)) return;
  }
  if (found.kind != RecipeKind::queue)
    throw Failure(exit_usage, choice.path + " is of another kind: " + to_string(found.kind));
  const char* what = *choice.kind == RecipeKind::delay_queue ? "times"
                     : *choice.kind == RecipeKind::id_queue  ? "ids"
                                                             : "priorities";
  throw Failure(exit_usage, choice.path + " has items without " + what);
}

RecipeKind kind_of(const QueueChoice& choice, const zkrecipes::Inspection& found, const std::string& layout) {
  if (choice.kind) return *choice.kind;
  if (has_times_or_ids(found.kind)) return found.kind;
  const bool sorted = found.kind == RecipeKind::priority_queue || is_of_kazoo(layout);
  return sorted ? RecipeKind::priority_queue : RecipeKind::queue;
}

}  // namespace

AnyQueue::AnyQueue(const zkclient::Client& client, const QueueChoice& choice, const zkclient::CallOptions& call)
    : usual_dead_letters_(choice.path) {
  const Path path(choice.path);
  const zkrecipes::Inspection found = zkrecipes::inspect(client, path, call);
  refuse_another_kind(client, choice, found, call);
  refuse_to_guess(client, choice, found, call);
  layout_ = layout_word(client, choice, found, call);
  zkrecipes::QueueOptions options = choice.options;
  options.layout = layouts.at(layout_);
  const Style style = options.layout->style();
  knows_claims_ = style == Style::standard || style == Style::kazoo_locking;
  usual_dead_letters_ = style == Style::standard ? path / "dead" : Path(path.str() + "-dead");
  certain_ = found.items > 0 || is_of_kazoo(layout_) || choice.kind;
  switch (kind_of(choice, found, layout_)) {
    case RecipeKind::priority_queue: queue_.emplace(zkrecipes::PriorityQueue(client, path, std::move(options))); break;
    case RecipeKind::delay_queue: queue_.emplace(zkrecipes::DelayQueue(client, path, std::move(options))); break;
    case RecipeKind::id_queue: queue_.emplace(zkrecipes::IdQueue(client, path, std::move(options))); break;
    default: queue_.emplace(zkrecipes::Queue(client, path, std::move(options)));
  }
}

zkrecipes::QueueBase& AnyQueue::operator*() {
  return std::visit([](auto& queue) -> zkrecipes::QueueBase& { return queue; }, *queue_);
}

void AnyQueue::push(std::string_view item, const ItemTraits& traits) {
  if (auto* sorted = std::get_if<zkrecipes::PriorityQueue>(&*queue_))
    return sorted->push(item, traits.priority.value_or(0));
  if (auto* delayed = std::get_if<zkrecipes::DelayQueue>(&*queue_))
    return delayed->push(item, traits.not_before.value_or(std::chrono::system_clock::now()));
  if (auto* identified = std::get_if<zkrecipes::IdQueue>(&*queue_)) {
    if (traits.id) return identified->push(item, *traits.id);
    throw Failure(exit_usage, identified->path().str() + " has items with ids: --id");
  }
  std::get<zkrecipes::Queue>(*queue_).push(item);
}

std::size_t AnyQueue::remove(std::string_view id) { return std::get<zkrecipes::IdQueue>(*queue_).remove(id); }

}  // namespace zkr
