#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>

namespace zkr {

/// Which queue, and what is known of it.
struct QueueChoice {
  std::string path{};
  std::string layout{};  // "standard", "kazoo-locking", ...; "": that of the items there, else standard.
  bool prioritized = false;
  zkrecipes::QueueOptions options{};  // Without a layout.
};

/// Either kind of queue, of the layout that the choice names, or that the items there tell.
class AnyQueue {
 public:
  /// Looks at the path. Errors: zkclient::Error; Failure (exit_usage): it has items without priorities, and they were
  /// wanted.
  AnyQueue(const zkclient::Client& client, const QueueChoice& choice, const zkclient::CallOptions& call = {});

  /// Something there has told the kind and the layout: as long as there are no items, either may come.
  bool is_certain() const { return certain_; }
  /// All who take items from it heed claims. (In a node of Curator's there may be several items, and a claim is of all.)
  bool knows_claims() const { return knows_claims_; }
  bool has_priorities() const { return sorted_.has_value(); }
  /// Where the dead letters are, unless they were put elsewhere.
  const zkclient::Path& usual_dead_letters() const { return usual_dead_letters_; }
  /// As QueueChoice::layout.
  const std::string& layout() const { return layout_; }
  zkrecipes::QueueBase& operator*() { return sorted_ ? static_cast<zkrecipes::QueueBase&>(*sorted_) : *plain_; }
  zkrecipes::QueueBase* operator->() { return &**this; }
  void push(std::string_view item, std::int32_t priority);

 private:
  std::optional<zkrecipes::Queue> plain_;
  std::optional<zkrecipes::PriorityQueue> sorted_;
  bool knows_claims_ = false;
  bool certain_ = false;
  std::string layout_;
  zkclient::Path usual_dead_letters_;
};

}  // namespace zkr
