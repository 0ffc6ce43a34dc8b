#include "recipes/values/number_decider.hpp"

#include <unordered_set>

namespace zkrecipes::detail {

std::optional<int> pick_number(const std::vector<std::string>& held, int count, int conflicts, std::uint64_t random) {
  const std::unordered_set<std::string> taken(held.begin(), held.end());
  std::vector<int> lowest;
  for (int number = 0; number < count && static_cast<int>(lowest.size()) <= conflicts; ++number) {
    if (!taken.contains(std::to_string(number))) lowest.push_back(number);
  }
  if (lowest.empty()) return std::nullopt;
  return lowest[random % lowest.size()];
}

}  // namespace zkrecipes::detail
