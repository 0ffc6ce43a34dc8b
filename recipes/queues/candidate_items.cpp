#include "recipes/queues/candidate_items.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "recipes/kernel/sequence.hpp"

namespace zkrecipes::detail {

namespace {

// A list is read again after that many takes from it, or an eighth of it, so that items that have come back are seen.
constexpr std::size_t least_refresh = 256;
// Others take from it as well, and what they took is tried in vain: after that many, or a quarter of those among which
// it chooses, but not so often that reading a long one takes longer than what is saved.
constexpr std::size_t least_contended = 32;
constexpr double memory = 32;  // The attempts that success_ remembers.

}  // namespace

bool goes_before(const ItemKey& a, const ItemKey& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  return a.due_ms != b.due_ms ? a.due_ms < b.due_ms : precedes(a.sequence, b.sequence);
}

void CandidateItems::replace(std::vector<ItemKey> in_order, const std::vector<std::string>& claimed,
                             std::int64_t now_ms) {
  const std::set<std::string_view> taken(claimed.begin(), claimed.end());
  items_.clear();
  last_.clear();
  later_.clear();
  std::set<std::string> still_there;
  for (ItemKey& key : in_order) {
    if (unusable_.contains(key.name)) still_there.insert(key.name);
    if (!taken.contains(key.name) && !held_.contains(key.name)) later_.push_back(std::move(key));
  }
  unusable_ = std::move(still_there);
  become_due(now_ms);
}

void CandidateItems::become_due(std::int64_t now_ms) {
  while (!later_.empty() && later_.front().due_ms <= now_ms) {
    (unusable_.contains(later_.front().name) ? last_ : items_).push_back(std::move(later_.front()));
    later_.pop_front();
  }
}

std::optional<std::int64_t> CandidateItems::next_due() const noexcept {
  if (later_.empty()) return std::nullopt;
  return later_.front().due_ms;
}

void CandidateItems::clear() {
  items_.clear();
  last_.clear();
  later_.clear();
  held_.clear();
  unusable_.clear();
  calm();
}

void CandidateItems::insert(ItemKey key) {
  std::deque<ItemKey>& among = unusable_.contains(key.name) ? last_ : items_;
  const auto place =
      std::find_if(among.begin(), among.end(), [&](const ItemKey& other) { return !goes_before(other, key); });
  if (place != among.end() && place->name == key.name) return;
  among.insert(place, std::move(key));
}

void CandidateItems::won() noexcept {
  spread_ -= spread_ > 1 ? (spread_ + 7) / 8 : 0;
  success_ += (1 - success_) / memory;
}

void CandidateItems::lost_race() noexcept {
  spread_ = std::min(2 * spread_, std::max(widest, items_.size() / 16));
  success_ -= success_ / memory;
}

std::size_t CandidateItems::at_once(std::size_t count) const noexcept {
  // Four that try everything get a quarter each, four that try a third of it three fifths of what they try: squared, so
  // that fewer are tried in vain.
  const double share = success_ * success_ * static_cast<double>(count);
  return std::max<std::size_t>(static_cast<std::size_t>(std::llround(share)), 1);
}

std::size_t CandidateItems::takes_until_old(std::size_t length) const noexcept {
  const std::size_t alone = std::max(least_refresh, length / 8);
  return spread_ == 1 ? alone : std::max({least_contended, std::min(spread_, length) / 4, length / 64});
}

std::size_t CandidateItems::reach() const noexcept {
  if (items_.empty()) return std::min<std::size_t>(last_.size(), 1);
  const std::size_t reach = std::min(spread_, items_.size());
  if (reach <= 1) return reach;
  const auto other = std::partition_point(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(reach),
                                          [&](const ItemKey& key) { return key.priority == items_.front().priority; });
  return static_cast<std::size_t>(other - items_.begin());
}

void CandidateItems::calm() noexcept {
  spread_ = 1;
  success_ = 1;
}

std::optional<ItemKey> CandidateItems::next(std::uint32_t random) {
  if (empty()) return std::nullopt;
  std::deque<ItemKey>& among = items_.empty() ? last_ : items_;
  const std::size_t chosen = random % reach();
  ItemKey key = std::move(among[chosen]);
  among.erase(among.begin() + static_cast<std::ptrdiff_t>(chosen));
  return key;
}

}  // namespace zkrecipes::detail
