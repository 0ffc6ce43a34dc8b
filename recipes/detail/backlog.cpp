#include "recipes/detail/backlog.hpp"

#include <algorithm>

#include "recipes/detail/sequence.hpp"

namespace zkrecipes::detail {

bool goes_before(const ItemKey& a, const ItemKey& b) {
  return a.priority != b.priority ? a.priority < b.priority : precedes(a.sequence, b.sequence);
}

void Backlog::replace(std::vector<ItemKey> in_order, const std::vector<std::string>& claimed) {
  const std::set<std::string_view> taken(claimed.begin(), claimed.end());
  items_.clear();
  for (ItemKey& key : in_order) {
    if (!taken.contains(key.name) && !held_.contains(key.name)) items_.push_back(std::move(key));
  }
}

void Backlog::clear() {
  items_.clear();
  held_.clear();
  spread_ = 1;
}

void Backlog::insert(ItemKey key) {
  const auto place =
      std::find_if(items_.begin(), items_.end(), [&](const ItemKey& other) { return !goes_before(other, key); });
  if (place != items_.end() && place->name == key.name) return;
  items_.insert(place, std::move(key));
}

std::optional<ItemKey> Backlog::next(std::uint32_t random) {
  if (items_.empty()) return std::nullopt;
  const std::size_t reach = std::min(spread_, items_.size());
  std::size_t chosen = random % reach;
  while (items_[chosen].priority != items_.front().priority)
    --chosen;
  ItemKey key = std::move(items_[chosen]);
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(chosen));
  return key;
}

}  // namespace zkrecipes::detail
