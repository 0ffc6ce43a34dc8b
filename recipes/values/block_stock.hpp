#pragma once

#include <cstdint>
#include <optional>

namespace zkrecipes::detail {

/// The ids at hand: those of the present block, and of the next one. A value; knows no server.
class BlockStock {
 public:
  explicit BlockStock(std::int64_t block) : half_(block / 2) {}

  /// nullopt: there is none.
  std::optional<std::int64_t> take();
  /// A block with the ids from `first` to `last`. There must be room for it: wants_more().
  void add(std::int64_t first, std::int64_t last);
  /// Half of the present block is used, and there is no next one.
  bool wants_more() const noexcept { return next_.left() == 0 && present_.left() <= half_; }

 private:
  struct Block {
    std::int64_t first = 1;
    std::int64_t last = 0;

    std::int64_t left() const noexcept { return last - first + 1; }
  };

  const std::int64_t half_;
  Block present_;
  Block next_;
};

}  // namespace zkrecipes::detail
