#pragma once

#include <string>
#include <vector>

#include "recipes/detail/queue_core.hpp"

namespace zkrecipes::detail {

/// The transactions on one item, put together.
class QueueSteps {
 public:
  using Operations = std::vector<zkclient::Transaction::Operation>;
  QueueSteps(const ItemQueueSpec& spec, const ItemKey& key);

  /// Refused if somebody has claimed it: a claim of our own that comes and goes in the transaction.
  QueueSteps& exclude_claims();
  /// Takes the first of its items out, and the node with the last one.
  QueueSteps& remove_first(std::int32_t version, const std::vector<std::string>& items);
  QueueSteps& remove(std::int32_t version);
  /// `data` is what the item holds anyway: the write counts the claim.
  QueueSteps& claim(std::int32_t version, const std::string& data, const std::string& text);
  QueueSteps& check(std::int32_t version);
  QueueSteps& remove_claim();
  /// Makes the node again.
  QueueSteps& restore(const std::vector<std::string>& items, const std::string& reason);
  /// Undoes remove_first() where something was left.
  QueueSteps& restore_first(std::int32_t version, const std::vector<std::string>& items);
  /// Moves it to the dead letters.
  QueueSteps& bury(std::int32_t version, const std::string& data);

  bool excludes_claims() const noexcept { return excludes_claims_; }
  /// Whether operation `index` is about the item's node, and not one that makes a node elsewhere.
  bool about_item(std::size_t index) const;
  Operations take() const { return operations_; }

 private:
  const ItemQueueSpec& spec_;
  const ItemKey& key_;
  const std::string item_;
  const std::string claim_;
  Operations operations_;
  bool excludes_claims_ = false;
};

}  // namespace zkrecipes::detail
