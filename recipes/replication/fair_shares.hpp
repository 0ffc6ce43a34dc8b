#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <zkclient/export.hpp>

/// How many replicas each host shall have. Pure, and in whole numbers: every machine gets the same.
namespace zkrecipes::detail {

struct ShareTaker {
  std::uint32_t weight = 1;  ///< At least 1.
  std::size_t rack = 0;      ///< From 0 on, without gaps.
};

struct FairShares {
  std::size_t replicas = 0;  ///< Of each partition: as many as were asked for, or as there are takers.
  std::size_t per_rack = 0;  ///< Of each partition, on one rack at most.
  struct Bounds {
    std::size_t low = 0;   ///< The share, rounded down.
    std::size_t high = 0;  ///< Rounded up.
  };
  std::vector<Bounds> of;  ///< For each taker.
};

/// By weight, as far as a taker or a rack can have that much. There is an assignment in which all have their shares.
ZKRECIPES_INTERNAL_API FairShares fair_shares(std::size_t partitions, std::size_t replicas,
                                              const std::vector<ShareTaker>& takers);

}  // namespace zkrecipes::detail
