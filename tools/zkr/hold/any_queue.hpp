#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/inspect.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>

namespace zkr {

/// Which queue, and what is known of it.
struct QueueChoice {
  std::string path{};
  std::string layout{};  // "standard", "kazoo-locking", ...; "": that of the items there, else standard.
  std::optional<zkrecipes::RecipeKind> kind{};  // What it has to be; nothing: what the items there tell.
  /// Who runs us has named it. That decides where items could have times or ids, and look alike.
  bool kind_is_named = false;
  /// What is to be done depends on the kind, and cannot be undone: then a kind that the items do not tell for certain is
  /// refused.
  bool changes = false;
  zkrecipes::QueueOptions options{};  // Without a layout.
};

/// What is said of an item when it is pushed; at most one of these.
struct ItemTraits {
  std::optional<std::int32_t> priority{};
  std::optional<std::chrono::system_clock::time_point> not_before{};
  std::optional<std::string> id{};
};

/// A queue of any kind, of the layout that the choice names, or that the items there tell.
class AnyQueue {
 public:
  /// Looks at the path. Errors: zkclient::Error; Failure (exit_usage): its items are of another kind than was wanted, or
  /// may be of two kinds.
  AnyQueue(const zkclient::Client& client, const QueueChoice& choice, const zkclient::CallOptions& call = {});

  /// Something there has told the kind and the layout: as long as there are no items, either may come.
  bool is_certain() const { return certain_; }
  /// All who take items from it heed claims. (In a node of Curator's there may be several items, and a claim is of all.)
  bool knows_claims() const { return knows_claims_; }
  bool has_priorities() const { return std::holds_alternative<zkrecipes::PriorityQueue>(*queue_); }
  bool has_times() const { return std::holds_alternative<zkrecipes::DelayQueue>(*queue_); }
  bool has_ids() const { return std::holds_alternative<zkrecipes::IdQueue>(*queue_); }
  /// Where the dead letters are, unless they were put elsewhere.
  const zkclient::Path& usual_dead_letters() const { return usual_dead_letters_; }
  /// As QueueChoice::layout.
  const std::string& layout() const { return layout_; }
  zkrecipes::QueueBase& operator*();
  zkrecipes::QueueBase* operator->() { return &**this; }
  /// Errors: also Failure (exit_usage): the items there have ids, and this one has none.
  void push(std::string_view item, const ItemTraits& traits);
  /// The number of items that were removed. Only if has_ids().
  std::size_t remove(std::string_view id);

 private:
  using Queues = std::variant<zkrecipes::Queue, zkrecipes::PriorityQueue, zkrecipes::DelayQueue, zkrecipes::IdQueue>;

  bool knows_claims_ = false;
  bool certain_ = false;
  std::string layout_;
  zkclient::Path usual_dead_letters_;
  std::optional<Queues> queue_;  // There from the end of the constructor on.
};

}  // namespace zkr
