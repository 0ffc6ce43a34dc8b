#include "recipes/detail/queue_decider.hpp"

#include <algorithm>

#include "recipes/detail/sequence.hpp"

namespace zkrecipes::detail {

QueueStep decide_queue(const std::vector<std::string>& children, std::string_view self,
                       const std::vector<std::string_view>& infixes) {
  const auto own = sequence_of(self, infixes);
  const bool present = std::find(children.begin(), children.end(), self) != children.end();
  if (!own || !present) return {QueueStep::Kind::vanished};

  const std::string* nearest = nullptr;
  std::int32_t nearest_sequence = 0;
  int lower = 0;
  for (const std::string& child : children) {
    const auto sequence = sequence_of(child, infixes);
    if (!sequence || !precedes(*sequence, *own)) continue;
    ++lower;
    if (nearest == nullptr || precedes(nearest_sequence, *sequence)) {
      nearest = &child;
      nearest_sequence = *sequence;
    }
  }
  if (nearest == nullptr) return {QueueStep::Kind::acquired};
  return {QueueStep::Kind::watch, *nearest, lower == 1};
}

}  // namespace zkrecipes::detail
