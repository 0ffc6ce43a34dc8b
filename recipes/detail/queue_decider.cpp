#include "recipes/detail/queue_decider.hpp"

#include <algorithm>

#include "recipes/detail/sequence.hpp"

namespace zkrecipes::detail {

std::vector<std::string_view> QueueNames::all() const {
  std::vector<std::string_view> both = exclusive;
  both.insert(both.end(), shared.begin(), shared.end());
  return both;
}

bool QueueNames::is_shared(std::string_view name) const { return sequence_of(name, shared).has_value(); }

QueueStep decide_queue(const std::vector<std::string>& children, std::string_view self, const QueueNames& names) {
  const std::vector<std::string_view> everybody = names.all();
  const auto own = sequence_of(self, everybody);
  const bool present = std::find(children.begin(), children.end(), self) != children.end();
  if (!own || !present) return {QueueStep::Kind::vanished};

  const bool shares = names.is_shared(self);
  const std::vector<std::string_view>& blocking = shares ? names.exclusive : everybody;
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
  if (nearest == nullptr) return {QueueStep::Kind::acquired};
  const bool replaceable = !shares && !names.shared.empty() && !names.is_shared(*nearest);
  return {QueueStep::Kind::watch, *nearest, lower == 1 && !replaceable};
}

}  // namespace zkrecipes::detail
