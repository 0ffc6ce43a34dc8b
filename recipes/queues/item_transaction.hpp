#pragma once

#include <string>
#include <vector>

#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes::detail {

/// The transactions on one item, put together.
class ItemTransaction {
 public:
  using Operations = std::vector<zkclient::Transaction::Operation>;
  ItemTransaction(const QueueSpec& spec, const ItemKey& key) : ItemTransaction(spec, key, spec.claim_path(key)) {}
  /// `claim`: where the claim's node stands.
  ItemTransaction(const QueueSpec& spec, const ItemKey& key, std::string claim);

  /// Refused if a consumer has claimed it in the folder of the claims: one of our own comes and goes in the transaction.
  ItemTransaction& exclude_claims();
  /// Takes the first of its items out, and the node with the last one.
  ItemTransaction& remove_first(std::int32_t version, const std::vector<std::string>& items);
  ItemTransaction& remove(std::int32_t version);
  /// `data` is what the item holds anyway: the write counts the claim.
  ItemTransaction& claim(std::int32_t version, const std::string& data, const std::string& text);
  ItemTransaction& check(std::int32_t version);
  ItemTransaction& remove_claim();
  /// Makes the node again.
  ItemTransaction& restore(const std::vector<std::string>& items, const std::string& reason);
  /// Undoes remove_first() where something was left.
  ItemTransaction& restore_first(std::int32_t version, const std::vector<std::string>& items);
  /// Moves it to the dead letters.
  ItemTransaction& bury(std::int32_t version, const std::string& data);

  bool excludes_claims() const noexcept { return excludes_claims_; }
  /// Whether operation `index` is about the item's node, and not one that makes a node elsewhere.
  bool about_item(std::size_t index) const;
  Operations take() const { return operations_; }

 private:
  const QueueSpec& spec_;
  const ItemKey& key_;
  const std::string item_;
  const std::string claim_;
  Operations operations_;
  bool excludes_claims_ = false;
};

}  // namespace zkrecipes::detail
