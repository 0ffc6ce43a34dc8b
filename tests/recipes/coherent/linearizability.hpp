#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace zkrecipes::testing {

/// What a client did to one item, and when by one clock. Values are numbers; `absent` is one of them.
struct RecordedOperation {
  enum Kind {
    read,    ///< It returned `value`.
    write,   ///< It set `value`, whatever there was.
    change,  ///< It set `value` because it found `expected`.
    refuse,  ///< It changed nothing because it found something else than `expected`.
  };
  static constexpr std::int64_t absent = -1;
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  Kind kind = read;
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< `never`: a write or change in doubt, applied at any time since `begin`, or not at all.
  std::int64_t value = absent;
  std::int64_t expected = absent;
};

/// Whether the operations of one item can be put into an order that respects which ended before which began, and in
/// which each one finds what the one before it has left. (Wing and Gong's search, which remembers where it has been.)
/// What keeps it short: a read or a refusal that fits now is taken now, since it changes nothing; an operation in doubt
/// is taken only before one that needs its value, since otherwise it may as well not have happened.
class LinearizabilityChecker {
 public:
  LinearizabilityChecker(std::vector<RecordedOperation> history, std::int64_t initial) : initial_(initial) {
    for (const RecordedOperation& one : history)
      (one.end == RecordedOperation::never ? doubtful_ : definite_).push_back(one);
    const auto by_begin = [](const auto& a, const auto& b) { return a.begin < b.begin; };
    std::sort(definite_.begin(), definite_.end(), by_begin);
  }

  bool linearizable() {
    Place start;
    start.value = initial_;
    std::vector<Place> open = {start};
    seen_.insert(start);
    while (!open.empty()) {
      const Place place = std::move(open.back());
      open.pop_back();
      furthest_ = std::max(furthest_, place.first);
      if (place.first == definite_.size()) return true;
      for (Place& next : successors(place)) {
        if (seen_.insert(next).second) open.push_back(std::move(next));
      }
    }
    return false;
  }
  /// After a search that failed: the earliest operation that no order got past.
  const RecordedOperation& culprit() const { return definite_[furthest_]; }

 private:
  using Indexes = std::vector<std::uint32_t>;  // Ascending.

  /// What is done, and the value after it.
  struct Place {
    std::size_t first = 0;  // All definite ones before it are done, it is not.
    Indexes later;          // Definite ones behind it that are.
    Indexes doubtful;       // Those that are.
    std::int64_t value = 0;

    friend auto operator<=>(const Place&, const Place&) = default;
  };

  static bool contains(const Indexes& all, std::size_t one) {
    return std::binary_search(all.begin(), all.end(), static_cast<std::uint32_t>(one));
  }
  static void insert(Indexes& all, std::size_t one) {
    const auto index = static_cast<std::uint32_t>(one);
    all.insert(std::lower_bound(all.begin(), all.end(), index), index);
  }
  static bool changes_nothing(const RecordedOperation& operation) {
    return operation.kind == RecordedOperation::read || operation.kind == RecordedOperation::refuse;
  }
  static std::optional<std::int64_t> applied(const RecordedOperation& operation, std::int64_t value) {
    switch (operation.kind) {
      case RecordedOperation::read: return operation.value == value ? std::optional(value) : std::nullopt;
      case RecordedOperation::write: return operation.value;
      case RecordedOperation::change:
        return operation.expected == value ? std::optional(operation.value) : std::nullopt;
      case RecordedOperation::refuse: return operation.expected != value ? std::optional(value) : std::nullopt;
    }
    return std::nullopt;
  }

  Place after(const Place& place, std::size_t definite, std::int64_t value) const {
    Place next = place;
    next.value = value;
    insert(next.later, definite);
    std::size_t done = 0;
    for (; done < next.later.size() && next.later[done] == next.first; ++done)
      ++next.first;
    next.later.erase(next.later.begin(), next.later.begin() + static_cast<std::ptrdiff_t>(done));
    return next;
  }
  /// The definite ones that can be next: nothing that ended is earlier.
  Indexes candidates(const Place& place, std::int64_t& horizon) const {
    horizon = RecordedOperation::never;
    Indexes found;
    for (std::size_t i = place.first; i < definite_.size() && definite_[i].begin <= horizon; ++i) {
      if (contains(place.later, i)) continue;
      horizon = std::min(horizon, definite_[i].end);
      found.push_back(static_cast<std::uint32_t>(i));
    }
    std::erase_if(found, [&](std::uint32_t i) { return definite_[i].begin > horizon; });
    return found;
  }
  /// Whether the one in doubt, done now, lets another one be next that could not be without it.
  bool is_wanted(const Place& place, std::int64_t value, const Indexes& next) const {
    const auto wants = [&](const RecordedOperation& one) {
      return one.kind != RecordedOperation::write && !applied(one, place.value) && applied(one, value);
    };
    if (std::any_of(next.begin(), next.end(), [&](std::uint32_t i) { return wants(definite_[i]); })) return true;
    for (std::size_t i = 0; i < doubtful_.size(); ++i) {
      if (!contains(place.doubtful, i) && wants(doubtful_[i])) return true;
    }
    return false;
  }
  /// The most promising one is the last.
  std::vector<Place> successors(const Place& place) const {
    std::int64_t horizon = 0;
    const Indexes next = candidates(place, horizon);
    for (const std::uint32_t i : next) {
      if (changes_nothing(definite_[i]) && applied(definite_[i], place.value)) return {after(place, i, place.value)};
    }
    std::vector<Place> found;
    for (std::size_t i = 0; i < doubtful_.size(); ++i) {
      if (contains(place.doubtful, i) || doubtful_[i].begin > horizon) continue;
      const auto value = applied(doubtful_[i], place.value);
      if (!value || !is_wanted(place, *value, next)) continue;
      Place with = place;
      insert(with.doubtful, i);
      with.value = *value;
      found.push_back(std::move(with));
    }
    for (auto i = next.rbegin(); i != next.rend(); ++i) {
      const auto value = applied(definite_[*i], place.value);
      if (value) found.push_back(after(place, *i, *value));
    }
    return found;
  }

  const std::int64_t initial_;
  std::vector<RecordedOperation> definite_;
  std::vector<RecordedOperation> doubtful_;
  std::set<Place> seen_;
  std::size_t furthest_ = 0;
};

}  // namespace zkrecipes::testing
