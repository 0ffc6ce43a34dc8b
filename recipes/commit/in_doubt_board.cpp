#include "recipes/commit/in_doubt_board.hpp"

#include <utility>

namespace zkrecipes::detail {

void InDoubtBoard::put(InDoubtTransaction transaction) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[transaction.id];
  if (transaction.payload.empty()) transaction.payload = std::move(entry.transaction.payload);
  entry.transaction = std::move(transaction);
}

void InDoubtBoard::set_problem(const std::string& id, std::string problem, bool resolvable) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[id];
  entry.transaction.id = id;
  entry.transaction.problem = std::move(problem);
  entry.resolvable = resolvable;
}

void InDoubtBoard::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  entries_.erase(id);
}

std::vector<InDoubtTransaction> InDoubtBoard::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<InDoubtTransaction> all;
  all.reserve(entries_.size());
  for (const auto& [id, entry] : entries_)
    all.push_back(entry.transaction);
  return all;
}

bool InDoubtBoard::resolve(const std::string& id, bool commit) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.resolvable) return false;
  found->second.resolved = commit;
  return true;
}

std::optional<bool> InDoubtBoard::resolution(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? std::nullopt : found->second.resolved;
}

}  // namespace zkrecipes::detail
