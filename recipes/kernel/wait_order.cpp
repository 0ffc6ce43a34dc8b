#include "recipes/kernel/wait_order.hpp"

#include <algorithm>
#include <cstdint>

#include "recipes/kernel/sequence.hpp"

namespace zkrecipes::detail {
namespace {

/// Tells whether any of its numbers precedes another one, without a look at all of them. It agrees with precedes() also
/// where that goes round in a circle.
class SequenceSet {
 public:
  SequenceSet(const std::vector<std::string>& children, const std::vector<std::string_view>& infixes) {
    for (const std::string& child : children) {
      if (const auto sequence = sequence_of(child, infixes)) sorted_.push_back(static_cast<std::uint32_t>(*sequence));
    }
    std::sort(sorted_.begin(), sorted_.end());
  }

  bool any_precedes(std::int32_t sequence) const {
    if (sorted_.empty()) return false;
    // The numbers make a circle. Those that precede one are the half of it that ends right before that one.
    constexpr std::uint32_t half = std::uint32_t{1} << 31U;
    const std::uint32_t start = static_cast<std::uint32_t>(sequence) + half;
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), start);
    const std::uint32_t next = found != sorted_.end() ? *found : sorted_.front();
    return next - start < half;
  }

 private:
  std::vector<std::uint32_t> sorted_;
};

}  // namespace

std::vector<std::string_view> ContenderNames::all() const {
  std::vector<std::string_view> both = exclusive;
  both.insert(both.end(), shared.begin(), shared.end());
  return both;
}

bool ContenderNames::is_shared(std::string_view name) const { return sequence_of(name, shared).has_value(); }

WaitStep decide_wait(const std::vector<std::string>& children, std::string_view self, const ContenderNames& names) {
  const std::vector<std::string_view> contending = names.all();
  const auto own = sequence_of(self, contending);
  const bool present = std::find(children.begin(), children.end(), self) != children.end();
  if (!own || !present) return {WaitStep::Kind::vanished};

  const bool shares = names.is_shared(self);
  const std::vector<std::string_view>& blocking = shares ? names.exclusive : contending;
  const std::string* nearest = nullptr;
  std::int32_t nearest_sequence = 0;
  int lower = 0;
  for (const std::string& child : children) {
    const auto sequence = sequence_of(child, blocking);
    if (!sequence || !precedes(*sequence, *own)) continue;
    ++lower;
    if (nearest == nullptr || precedes(nearest_sequence, *sequence)) {
      nearest = &child;
      nearest_sequence = *sequence;
    }
  }
  if (nearest == nullptr) return {WaitStep::Kind::acquired};
  const bool replaceable = !shares && !names.shared.empty() && !names.is_shared(*nearest);
  return {WaitStep::Kind::watch, *nearest, lower == 1 && !replaceable};
}

std::vector<std::string> holders(const std::vector<std::string>& children, const ContenderNames& names) {
  const std::vector<std::string_view> contending = names.all();
  const SequenceSet all(children, contending);
  const SequenceSet exclusive(children, names.exclusive);
  std::vector<std::string> found;
  for (const std::string& child : children) {
    const auto own = sequence_of(child, contending);
    if (!own) continue;
    const SequenceSet& blocking = names.is_shared(child) ? exclusive : all;
    if (!blocking.any_precedes(*own)) found.push_back(child);
  }
  return found;
}

}  // namespace zkrecipes::detail
