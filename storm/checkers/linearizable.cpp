#include "storm/checkers/linearizable.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace storm {
namespace {

using Indexes = std::vector<std::uint32_t>;  // Ascending.

bool contains(const Indexes& all, std::size_t one) {
  return std::binary_search(all.begin(), all.end(), static_cast<std::uint32_t>(one));
}
void insert(Indexes& all, std::size_t one) {
  const auto index = static_cast<std::uint32_t>(one);
  all.insert(std::lower_bound(all.begin(), all.end(), index), index);
}

/// The object.
struct Content {
  std::int64_t value = Operation::absent;
  std::int64_t version = 0;

  friend bool operator==(const Content&, const Content&) = default;
};

bool versions_match(const Operation& operation, const Content& now) {
  return operation.version == Operation::any_version || operation.version == now.version;
}
bool changes_nothing(const Operation& operation) {
  return operation.kind == Operation::read || operation.kind == Operation::refuse ||
         operation.kind == Operation::refuse_version;
}
bool has_versions(const Operation& operation) {
  return operation.kind == Operation::create || operation.kind == Operation::set || operation.kind == Operation::remove;
}
/// Needs a certain value.
std::optional<std::int64_t> wanted_by(const Operation& operation) {
  if (operation.kind == Operation::read) return operation.value;
  if (operation.kind == Operation::change) return operation.expected;
  return std::nullopt;
}
/// Leaves a certain value.
std::optional<std::int64_t> written_by(const Operation& operation) {
  if (operation.kind == Operation::remove) return Operation::absent;
  if (changes_nothing(operation) || operation.kind == Operation::add) return std::nullopt;
  return operation.value;
}

/// What is there afterwards; nullopt if it cannot be next.
std::optional<Content> applied(const Operation& operation, const Content& now) {
  const bool exists = now.value != Operation::absent;
  switch (operation.kind) {
    case Operation::read:
      if (operation.value != now.value || !versions_match(operation, now)) return std::nullopt;
      return now;
    case Operation::write: return Content{operation.value, now.version};
    case Operation::change:
      if (operation.expected != now.value) return std::nullopt;
      return Content{operation.value, now.version};
    case Operation::refuse:
      if (operation.expected == now.value) return std::nullopt;
      return now;
    case Operation::add: return Content{now.value + operation.value, now.version};
    case Operation::create:
      if (exists) return std::nullopt;
      return Content{operation.value, 0};
    case Operation::set:
      if (!exists || !versions_match(operation, now)) return std::nullopt;
      return Content{operation.value, now.version + 1};
    case Operation::remove:
      if (!exists || !versions_match(operation, now)) return std::nullopt;
      return Content{Operation::absent, 0};
    case Operation::refuse_version:
      if (!exists || operation.version == now.version) return std::nullopt;
      return now;
  }
  return std::nullopt;
}

/// What is done, and what is there after it.
struct Position {
  std::size_t first = 0;  // All that are certain before it are done, it is not.
  Indexes later;          // Certain ones behind it that are.
  Indexes doubtful;       // Those in doubt that are.
  Content now;

  friend bool operator==(const Position&, const Position&) = default;
};
struct HashOfPosition {
  std::size_t operator()(const Position& position) const {
    std::size_t hash = position.first;
    const auto mix = [&hash](std::size_t part) { hash = (hash ^ part) * 0x9E3779B97F4A7C15U + (hash >> 29U); };
    mix(static_cast<std::size_t>(position.now.value));
    mix(static_cast<std::size_t>(position.now.version));
    for (const Indexes* indexes : {&position.later, &position.doubtful}) {
      mix(indexes->size());
      for (const std::uint32_t one : *indexes)
        mix(one);
    }
    return hash;
  }
};

/// What keeps it short:
/// - What changes nothing and fits now is taken now.
/// - Those in doubt have no end. So one is taken only to let a certain one fit that does not fit yet; in any other
///   order, it can as well be taken later, or never.
/// - Of those in doubt that nobody can tell apart, the earliest is taken first.
/// - A value that only one has written does not come back. So it is not overwritten before all have read it.
/// - A number that only grows does not come back, either.
class Search {
 public:
  Search(const std::vector<Operation>& operations, std::int64_t initial, std::uint64_t most_steps)
      : most_steps_(most_steps) {
    for (const Operation& one : operations) {
      if (one.end != Operation::never) {
        certain_.push_back(one);
      } else if (!changes_nothing(one)) {
        doubtful_.push_back(one);
      }
    }
    const auto by_begin = [](const Operation& a, const Operation& b) { return a.begin < b.begin; };
    std::stable_sort(certain_.begin(), certain_.end(), by_begin);
    std::stable_sort(doubtful_.begin(), doubtful_.end(), by_begin);
    start_.now.value = initial;
    prepare();
  }

  LinearizabilityVerdict::Answer run() {
    std::vector<Position> open = {start_};
    seen_.insert(start_);
    while (!open.empty()) {
      if (++steps_ > most_steps_) return LinearizabilityVerdict::undecided;
      const Position position = std::move(open.back());
      open.pop_back();
      if (position.first == certain_.size()) return LinearizabilityVerdict::linearizable;
      for (Position& next : successors(position)) {
        if (seen_.insert(next).second) open.push_back(std::move(next));
      }
    }
    return LinearizabilityVerdict::refused;
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  void prepare() {
    std::unordered_map<std::int64_t, int> written = {{start_.now.value, 1}};
    std::set<std::int64_t> wanted;
    grows_ = true;
    const auto learn = [&](const Operation& one) {
      if (const auto value = written_by(one)) ++written[*value];
      if (const auto value = wanted_by(one)) wanted.insert(*value);
      if (one.kind == Operation::refuse) wanted.insert(one.expected);
      adds_ = adds_ || one.kind == Operation::add;
      const bool grows = (one.kind == Operation::add && one.value > 0) ||
                         (one.kind == Operation::change && one.value > one.expected) || one.kind == Operation::read;
      grows_ = grows_ && grows;
    };
    std::for_each(certain_.begin(), certain_.end(), learn);
    std::for_each(doubtful_.begin(), doubtful_.end(), learn);
    grows_ = grows_ && adds_;
    for (std::size_t i = 0; i < certain_.size() && !adds_; ++i) {
      const auto value = wanted_by(certain_[i]);
      if (value && written[*value] == 1) readers_[*value].push_back(static_cast<std::uint32_t>(i));
    }
    find_twins(wanted);
  }
  /// Which of those in doubt nobody can tell from an earlier one.
  void find_twins(const std::set<std::int64_t>& wanted) {
    std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>, std::uint32_t> last;
    for (std::size_t i = 0; i < doubtful_.size(); ++i) {
      Operation& one = doubtful_[i];
      constexpr std::int64_t unseen = std::numeric_limits<std::int64_t>::min();
      const bool has_value = one.kind != Operation::remove && one.kind != Operation::add;
      if (has_value && !adds_ && !wanted.contains(one.value)) one.value = unseen;
      const auto index = static_cast<std::uint32_t>(i);
      const auto [twin, alone] = last.try_emplace({one.kind, one.value, one.expected, one.version}, index);
      twin_.push_back(alone ? index : twin->second);
      twin->second = index;
    }
  }

  /// The certain ones that can be next: none that has ended is earlier.
  Indexes candidates(const Position& position, std::int64_t& horizon) const {
    horizon = Operation::never;
    Indexes found;
    for (std::size_t i = position.first; i < certain_.size() && certain_[i].begin <= horizon; ++i) {
      if (contains(position.later, i)) continue;
      horizon = std::min(horizon, certain_[i].end);
      found.push_back(static_cast<std::uint32_t>(i));
    }
    std::erase_if(found, [&](std::uint32_t i) { return certain_[i].begin > horizon; });
    return found;
  }
  Position after(const Position& position, std::size_t one, const Content& now) const {
    Position next = position;
    next.now = now;
    insert(next.later, one);
    std::size_t done = 0;
    for (; done < next.later.size() && next.later[done] == next.first; ++done)
      ++next.first;
    next.later.erase(next.later.begin(), next.later.begin() + static_cast<std::ptrdiff_t>(done));
    return next;
  }
  /// Somebody has yet to find what is there now, besides `but`.
  bool is_still_wanted(const Position& position, std::size_t but) const {
    const auto readers = readers_.find(position.now.value);
    if (readers == readers_.end()) return false;
    for (auto one = readers->second.rbegin(); one != readers->second.rend() && *one >= position.first; ++one) {
      if (*one != but && !contains(position.later, *one)) return true;
    }
    return false;
  }
  /// Somebody wants less than what only grows.
  bool is_too_late(const Position& position, const Indexes& next) const {
    return grows_ && std::any_of(next.begin(), next.end(), [&](std::uint32_t i) {
             return wanted_by(certain_[i]).value_or(position.now.value) < position.now.value;
           });
  }
  /// Whether one in doubt, done now, may be of use.
  bool is_of_use(const Position& position, const Operation& doubtful, const Content& then, const Indexes& next) const {
    if (has_versions(doubtful)) return true;  // Versions count, too.
    if (adds_) {
      return !grows_ || std::any_of(next.begin(), next.end(), [&](std::uint32_t i) {
        return wanted_by(certain_[i]).value_or(then.value) >= then.value;
      });
    }
    const auto is_let = [&](const Operation& one) { return !applied(one, position.now) && applied(one, then); };
    if (std::any_of(next.begin(), next.end(), [&](std::uint32_t i) { return is_let(certain_[i]); })) return true;
    for (std::size_t i = 0; i < doubtful_.size(); ++i) {
      if (!contains(position.doubtful, i) && is_let(doubtful_[i])) return true;
    }
    return false;
  }
  void try_doubtful(const Position& position, const Indexes& next, std::int64_t horizon,
                    std::vector<Position>& found) const {
    if (is_still_wanted(position, certain_.size())) return;
    for (std::size_t i = 0; i < doubtful_.size() && doubtful_[i].begin <= horizon; ++i) {
      const auto then = applied(doubtful_[i], position.now);
      if (!then || contains(position.doubtful, i)) continue;
      const bool twin_first = twin_[i] != i && !contains(position.doubtful, twin_[i]);
      if (twin_first || !is_of_use(position, doubtful_[i], *then, next)) continue;
      Position with = position;
      insert(with.doubtful, i);
      with.now = *then;
      found.push_back(std::move(with));
    }
  }
  /// The most promising one is the last.
  std::vector<Position> successors(const Position& position) const {
    std::int64_t horizon = 0;
    const Indexes next = candidates(position, horizon);
    if (is_too_late(position, next)) return {};
    bool all_fit = true;
    for (const std::uint32_t i : next) {
      const auto then = applied(certain_[i], position.now);
      if (then && changes_nothing(certain_[i])) return {after(position, i, *then)};
      all_fit = all_fit && then && certain_[i].kind != Operation::add;
    }
    std::vector<Position> found;
    if (!all_fit) try_doubtful(position, next, horizon, found);
    for (auto i = next.rbegin(); i != next.rend(); ++i) {
      const auto then = applied(certain_[*i], position.now);
      if (then && !is_still_wanted(position, *i)) found.push_back(after(position, *i, *then));
    }
    return found;
  }

  const std::uint64_t most_steps_;
  std::vector<Operation> certain_;
  std::vector<Operation> doubtful_;
  Indexes twin_;                                       // By one in doubt: the last one before it that is the same.
  std::unordered_map<std::int64_t, Indexes> readers_;  // Certain ones, by a value that is written once.
  bool adds_ = false;
  bool grows_ = false;  // By additions.
  Position start_;
  std::unordered_set<Position, HashOfPosition> seen_;
  std::uint64_t steps_ = 0;
};

/// What had happened by `now`: nobody knew yet how what was going on would end.
std::vector<Operation> prefix_of(const std::vector<Operation>& operations, std::int64_t now) {
  std::vector<Operation> prefix;
  for (Operation one : operations) {
    if (one.begin > now) continue;
    if (one.end > now) one.end = Operation::never;
    prefix.push_back(one);
  }
  return prefix;
}

/// The end of the first operation that has no place.
Operation find_culprit(const std::vector<Operation>& operations, std::int64_t initial, std::uint64_t most_steps) {
  std::vector<Operation> by_end;
  for (const Operation& one : operations) {
    if (one.end != Operation::never) by_end.push_back(one);
  }
  std::stable_sort(by_end.begin(), by_end.end(), [](const auto& a, const auto& b) { return a.end < b.end; });
  std::size_t good = 0;  // So many ends are explained.
  std::size_t bad = by_end.size();
  while (good + 1 < bad) {
    const std::size_t middle = good + (bad - good) / 2;
    Search search(prefix_of(operations, by_end[middle - 1].end), initial, most_steps);
    (search.run() == LinearizabilityVerdict::refused ? bad : good) = middle;
  }
  return bad == 0 ? Operation() : by_end[bad - 1];
}

}  // namespace

LinearizabilityVerdict judge_operations(const std::vector<Operation>& operations, std::int64_t initial,
                                        std::uint64_t most_steps) {
  Search search(operations, initial, most_steps);
  LinearizabilityVerdict verdict;
  verdict.answer = search.run();
  verdict.steps = search.steps();
  if (verdict.answer == LinearizabilityVerdict::refused)
    verdict.culprit = find_culprit(operations, initial, most_steps);
  return verdict;
}

std::string to_string(const Operation& operation) {
  const auto number = [](std::int64_t one) { return one == Operation::absent ? "nothing" : std::to_string(one); };
  const auto version = [&] {
    return operation.version == Operation::any_version ? std::string()
                                                       : " (version " + std::to_string(operation.version) + ")";
  };
  std::string text;
  switch (operation.kind) {
    case Operation::read: text = "read " + number(operation.value) + version(); break;
    case Operation::write: text = "write " + number(operation.value); break;
    case Operation::change: text = "change " + number(operation.expected) + " to " + number(operation.value); break;
    case Operation::refuse: text = "refusal of " + number(operation.expected); break;
    case Operation::add: text = "addition of " + std::to_string(operation.value); break;
    case Operation::create: text = "creation of " + number(operation.value); break;
    case Operation::set: text = "set " + number(operation.value) + version(); break;
    case Operation::remove: text = "removal" + version(); break;
    case Operation::refuse_version: text = "refusal of" + version(); break;
  }
  return text + " from " + std::to_string(operation.begin) + " to " +
         (operation.end == Operation::never ? "?" : std::to_string(operation.end));
}

}  // namespace storm
