#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recipes/queues/item_format.hpp"

namespace zkrecipes::detail {

/// The order in which items are to be taken.
bool goes_before(const ItemKey& a, const ItemKey& b);

/// The items that a consumer knows of and may try to take, in the order in which they are to be taken. Pure: it decides
/// what is tried next, and knows neither servers nor clocks.
///
/// Consumers that all try the first items get in each other's way. So one that lost a race tries one of the next ones
/// instead, the more races it lost the further away, tries fewer at a time, and needs newer lists; one that lost none
/// comes back to the first. What it passed over stays in the list. It never passes over another priority.
///
/// Items that are not due are kept apart, and are no candidates until a caller says that their time has come. Those that
/// could not be taken for a reason of their own come behind all others.
class CandidateItems {
 public:
  static constexpr std::size_t widest = 512;  ///< Or a sixteenth of the list.

  /// Replaces the list by a new one; `claimed` (by any consumer) and held() ones are left out. `now_ms`: as
  /// ItemKey::due_ms.
  void replace(std::vector<ItemKey> in_order, const std::vector<std::string>& claimed, std::int64_t now_ms = 0);
  /// It is that late: what is due by then may be tried.
  void become_due(std::int64_t now_ms);
  /// When the first of those that are not due is due; nullopt if there are none.
  std::optional<std::int64_t> next_due() const noexcept;
  void clear();
  /// Puts an item back into its place.
  void insert(ItemKey key);

  /// The item to try next; it is removed from the list. `random` is any number.
  std::optional<ItemKey> next(std::uint32_t random);
  void won() noexcept;
  void lost_race() noexcept;
  /// How many of `count` items may be tried at a time: all, or a share like the one that it got of late.
  std::size_t at_once(std::size_t count) const noexcept;
  /// Of a list of `length`: after so many takes from it it is too old.
  std::size_t takes_until_old(std::size_t length) const noexcept;
  /// Among how many of the first items, all of one priority, it chooses. 1: there is no need to pass over any.
  std::size_t reach() const noexcept;
  /// No other consumer was faster for long: in order again.
  void calm() noexcept;

  /// An item that is being taken, or is claimed, by ourselves: not to be tried whatever a list says.
  void hold(const std::string& name) { held_.insert(name); }
  void let_go(const std::string& name) { held_.erase(name); }

  /// An item that could not be taken for a reason of its own: it comes last, also in lists to come, for as long as they
  /// have it.
  void put_last(const std::string& name) { unusable_.insert(name); }
  /// It could be taken after all.
  void put_in_order(const std::string& name) { unusable_.erase(name); }
  /// The names stand for other items.
  void put_all_in_order() { unusable_.clear(); }

  bool empty() const noexcept { return items_.empty() && last_.empty(); }
  std::size_t size() const noexcept { return items_.size() + last_.size(); }
  /// Without those that come last.
  const std::deque<ItemKey>& items() const noexcept { return items_; }

 private:
  std::deque<ItemKey> items_;
  std::deque<ItemKey> last_;
  std::deque<ItemKey> later_;  // Not due.
  std::set<std::string> held_;
  std::set<std::string> unusable_;
  std::size_t spread_ = 1;
  double success_ = 1;  // The part of the latest attempts that succeeded.
};

/// What a folder's Stat says about how it changed. The server counts creations and deletions of children together.
struct FolderChanges {
  std::uint32_t created = 0;  ///< Twice the number of children ever created, modulo 2^32.
  std::uint32_t deleted = 0;  ///< The same for those deleted.
};
constexpr FolderChanges folder_changes(std::int32_t children_version, std::int32_t children_count) noexcept {
  const auto both = static_cast<std::uint32_t>(children_version);
  const auto now = static_cast<std::uint32_t>(children_count);
  return {both + now, both - now};
}

}  // namespace zkrecipes::detail
