#include "recipes/queues/item_transaction.hpp"

#include <utility>

#include "recipes/kernel/waiter.hpp"

namespace zkrecipes::detail {

ItemTransaction::ItemTransaction(const QueueSpec& spec, const ItemKey& key, std::string claim)
    : spec_(spec), key_(key), item_(spec.item_path(key)), claim_(std::move(claim)) {}

ItemTransaction& ItemTransaction::exclude_claims() {
  operations_.emplace_back(Transaction::Create{Path(claim_), std::string(), CreateMode::ephemeral, spec_.acl});
  operations_.emplace_back(Transaction::Remove{Path(claim_), zkclient::any_version});
  excludes_claims_ = true;
  return *this;
}

ItemTransaction& ItemTransaction::remove_first(std::int32_t version, const std::vector<std::string>& items) {
  if (items.size() == 1) return remove(version);
  const std::vector<std::string> rest(items.begin() + 1, items.end());
  operations_.emplace_back(Transaction::Set{Path(item_), spec_.format.encode(rest), version});
  return *this;
}

ItemTransaction& ItemTransaction::remove(std::int32_t version) {
  operations_.emplace_back(Transaction::Remove{Path(item_), version});
  return *this;
}

ItemTransaction& ItemTransaction::claim(std::int32_t version, const std::string& data, const std::string& text) {
  operations_.emplace_back(Transaction::Set{Path(item_), data, version});
  operations_.emplace_back(Transaction::Create{Path(claim_), text, CreateMode::ephemeral, spec_.acl});
  return *this;
}

ItemTransaction& ItemTransaction::check(std::int32_t version) {
  operations_.emplace_back(Check{Path(item_), version});
  return *this;
}

ItemTransaction& ItemTransaction::remove_claim() {
  operations_.emplace_back(Transaction::Remove{Path(claim_), zkclient::any_version});
  return *this;
}

ItemTransaction& ItemTransaction::restore(const std::vector<std::string>& items, const std::string& reason) {
  operations_.emplace_back(
      Transaction::Create{Path(item_), spec_.format.encode(items, reason), CreateMode::persistent, spec_.acl});
  return *this;
}

ItemTransaction& ItemTransaction::restore_first(std::int32_t version, const std::vector<std::string>& items) {
  operations_.emplace_back(Transaction::Set{Path(item_), spec_.format.encode(items), version});
  return *this;
}

ItemTransaction& ItemTransaction::bury(std::int32_t version, const std::string& data) {
  operations_.emplace_back(Transaction::Create{Path(zk::child_path(spec_.dead_letters, spec_.format.name_again(key_))),
                                               data, CreateMode::persistent_sequential, spec_.acl});
  return remove(version);
}

bool ItemTransaction::about_item(std::size_t index) const {
  if (index >= operations_.size()) return false;
  if (const auto* set = std::get_if<Transaction::Set>(&operations_[index])) return set->path.str() == item_;
  if (const auto* check = std::get_if<Check>(&operations_[index])) return check->path.str() == item_;
  const auto* removed = std::get_if<Transaction::Remove>(&operations_[index]);
  return removed != nullptr && removed->path.str() == item_;
}

}  // namespace zkrecipes::detail
