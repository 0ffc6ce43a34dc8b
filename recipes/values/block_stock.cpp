#include "recipes/values/block_stock.hpp"

#include <utility>

namespace zkrecipes::detail {

std::optional<std::int64_t> BlockStock::take() {
  if (present_.left() == 0) present_ = std::exchange(next_, {});
  if (present_.left() == 0) return std::nullopt;
  const std::int64_t id = present_.first;
  present_.left() == 1 ? void(present_ = {}) : void(++present_.first);  // The last one may be the greatest integer.
  return id;
}

void BlockStock::add(std::int64_t first, std::int64_t last) {
  (present_.left() == 0 ? present_ : next_) = {first, last};
}

}  // namespace zkrecipes::detail
